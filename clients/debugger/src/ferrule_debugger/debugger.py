"""The debugger with prompt: pdb.Pdb on ferrule_debugger.Bdb."""

import pdb
import sys
import threading

from .base import Bdb
from .session import session


class Pdb(pdb.Pdb, Bdb):
    """pdb.Pdb without its price."""

    _last_thread = None

    def interaction(self, frame, tb_or_exc):
        thread = threading.current_thread()
        if self._last_thread not in (None, thread):
            self.message(f"[{thread.name}]")
        self._last_thread = thread
        session.mend()
        while session.losses:
            self.message(f"*** {session.losses.pop()}")
        super().interaction(frame, tb_or_exc)

    def do_debug(self, arg):
        """debug code

        Enter a recursive debugger that steps through the code
        argument (which is an arbitrary expression or statement to be
        executed in the current environment).
        """
        theirs, pdb.Pdb = pdb.Pdb, type(self)       # it is made by that name
        try:
            return super().do_debug(arg)
        finally:
            pdb.Pdb = theirs

    complete_debug = pdb.Pdb.complete_debug


def set_trace(*, header=None):
    """Stop in the calling function and give a prompt; what breakpoint() calls."""
    debugger = Pdb()
    if header is not None:
        debugger.message(header)
    debugger.set_trace(sys._getframe().f_back)
