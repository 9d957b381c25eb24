"""One thread at a time has the debugger; the others run until they need it."""

import os
import sys
import threading

# Whether another thread may run between any two instructions of this one.
WITHOUT_GIL = not getattr(sys, "_is_gil_enabled", lambda: True)()

_turn = threading.RLock()


def mine():
    """A context manager: wait until no other thread has the debugger."""
    return _turn


def _renew():
    # The thread that had it is not there in a child process.
    global _turn
    _turn = threading.RLock()


os.register_at_fork(after_in_child=_renew)
