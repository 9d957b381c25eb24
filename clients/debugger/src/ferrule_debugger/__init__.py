"""pdb without its price: breakpoints touch only the code objects that contain them.

    python -m ferrule_debugger script.py
    PYTHONBREAKPOINT=ferrule_debugger.set_trace python script.py
    import ferrule_debugger; ferrule_debugger.install()     # for breakpoint() and all of pdb
"""

import pdb as _pdb

from .base import Bdb
from .debugger import Pdb, set_trace
from .finding import HOOKS_MISSING as _HOOKS_MISSING

__all__ = ["Bdb", "Pdb", "install", "missing", "set_trace", "uninstall"]

_stock = _pdb.Pdb


def install():
    """Have breakpoint(), pdb.set_trace() and the rest of pdb use this debugger."""
    _pdb.Pdb = Pdb


def uninstall():
    """Take install() back."""
    _pdb.Pdb = _stock


def missing():
    """What this interpreter lacks, as a str. None: nothing.

    Without frame hooks the debugger works all the same: the first start of each code object is an
    event of sys.monitoring.
    """
    return _HOOKS_MISSING
