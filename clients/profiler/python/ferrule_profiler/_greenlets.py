"""Greenlets: each has calls of its own, and does not run while another one does."""

import sys


class Greenlets:
    """Tells the profile of switches in the thread that has started it, if greenlet is there.

    greenlet has one trace function for each thread. One that is set already is called as before.
    Where greenlet is imported later, or in other threads, switches are seen from the calls that
    end: counts are exact, and times go to the greenlet that was seen last.
    """

    def __init__(self, core):
        self.core = core
        self.greenlet = sys.modules.get("greenlet")
        self.before = None
        self.stopped = False

    def start(self):
        if self.greenlet is not None:
            self.before = self.greenlet.settrace(self.switched)

    def switched(self, event, args):
        if self.stopped:
            self.stop()     # by another thread, which cannot set this one's trace function
        elif event in ("switch", "throw"):
            origin, target = args
            self.core.switch(id(origin), id(target))
        if self.before is not None:
            self.before(event, args)

    def stop(self):
        self.stopped = True
        if self.greenlet is not None and self.greenlet.gettrace() == self.switched:
            self.greenlet.settrace(self.before)
