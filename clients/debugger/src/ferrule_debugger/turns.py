"""One thread at a time has the debugger; the others run until they need it. One at a time uses the terminal."""

import contextlib
import os
import sys
import threading

# Whether another thread may run between any two instructions of this one.
WITHOUT_GIL = not getattr(sys, "_is_gil_enabled", lambda: True)()

_turn = threading.RLock()


def mine():
    """A context manager: wait until no other thread has the debugger."""
    return _turn


class Terminal:
    """The terminal is used by the thread that has the debugger, and is lent while that evaluates what was typed."""

    def __init__(self):
        self._changed = threading.Condition()
        self._user = None       # the id of the thread that uses it
        self._borrowers = 0     # how many threads wait to borrow it

    @contextlib.contextmanager
    def used(self, borrowed=False):
        """Wait until no other thread uses it. `borrowed`: without having the debugger, so it must be lent."""
        if self._user == threading.get_ident():
            yield
            return
        self._take(borrowed)
        try:
            yield
        finally:
            self._leave()

    @contextlib.contextmanager
    def lent(self):
        """Others may borrow it meanwhile, and those that wait for it at the end come first."""
        if self._user != threading.get_ident():
            yield
            return
        self._leave()
        try:
            yield
        finally:
            while self._user != threading.get_ident():
                with contextlib.suppress(KeyboardInterrupt):
                    self._take(False)

    def _take(self, borrowed):
        with self._changed:
            self._borrowers += borrowed
            try:
                self._changed.wait_for(lambda: self._user is None and (borrowed or not self._borrowers))
            finally:
                self._borrowers -= borrowed
            self._user = threading.get_ident()

    def _leave(self):
        with self._changed:
            if self._user == threading.get_ident():
                self._user = None
                self._changed.notify_all()

    def renew(self):
        """In a child process: its users are not there."""
        self.__init__()


terminal = Terminal()


def _renew():
    # The thread that had it is not there in a child process.
    global _turn
    _turn = threading.RLock()
    terminal.renew()


os.register_at_fork(after_in_child=_renew)
