"""Something to be done every few seconds, in a thread that the program does not notice.

The thread and its locks are those of the interpreter itself, whatever the program makes of
threading, and threading does not list the thread.
"""

import sys
from _thread import allocate_lock, start_new_thread


def _taken():
    lock = allocate_lock()
    lock.acquire()
    return lock


class Ticker:
    """Calls a function each `interval` seconds, from start() to stop().

    `leave_out` is called first, in the new thread: it keeps the profile away from it.
    """

    def __init__(self, interval, function, leave_out):
        self.interval = interval
        self.function = function
        self.leave_out = leave_out
        self.stopping = self.ended = None

    def start(self):
        stopping, ended = _taken(), _taken()
        start_new_thread(self._run, (stopping, ended))
        self.stopping, self.ended = stopping, ended

    def stop(self):
        """Wait until the last call is over."""
        stopping, self.stopping = self.stopping, None
        if stopping is None:
            return
        stopping.release()
        # At its end the interpreter lets no other thread run.
        if not sys.is_finalizing():
            self.ended.acquire()

    def after_fork(self):
        """The thread is not there in the child."""
        if self.stopping is not None:
            self.start()

    def _run(self, stopping, ended):
        try:
            self.leave_out()
            while not stopping.acquire(timeout=self.interval):
                self.function()
        finally:
            ended.release()
