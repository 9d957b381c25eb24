"""Greenlets: each has calls of its own, and does not run while another one does."""

import sys
from _thread import get_ident


class Greenlets:
    """Reports switches to the profile in the thread that has started it, if greenlet is there.

    greenlet has one trace function for each thread. One that is set already is called as before.
    Until that thread imports greenlet, this is one of the finders of `sys.meta_path`, which finds
    nothing. In other threads switches are seen from the calls that end: counts are
    exact, and times go to the greenlet that was seen last.
    """

    def __init__(self, core):
        self.core = core
        self.greenlet = None
        self.before = None
        self.stopped = False

    def start(self):
        self.thread = get_ident()
        if "greenlet" in sys.modules:
            self.imported(sys.modules["greenlet"])
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != "greenlet" or get_ident() != self.thread:
            return None
        for finder in sys.meta_path:
            spec = finder is not self and finder.find_spec(name, path, target)
            if spec:
                self.report_switches_of(spec.loader)
                return spec
        return None

    def report_switches_of(self, loader):
        """Has imported() called when the loader has executed its module."""
        execute = getattr(loader, "exec_module", None)
        # A namespace has no loader, and a class is that of other modules too: greenlet stays unseen.
        if execute is None or isinstance(loader, type):
            return

        def exec_module(module):
            del loader.exec_module      # one of a zip file has more modules
            execute(module)
            if not self.stopped and self.greenlet is None:
                self.leave_finders()
                self.imported(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass        # one without attributes of its own

    def imported(self, greenlet):
        if hasattr(greenlet, "settrace") and hasattr(greenlet, "gettrace"):
            self.greenlet = greenlet
            self.before = greenlet.settrace(self.switched)

    def leave_finders(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

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
        self.leave_finders()
        if self.greenlet is not None and self.greenlet.gettrace() == self.switched:
            self.greenlet.settrace(self.before)
