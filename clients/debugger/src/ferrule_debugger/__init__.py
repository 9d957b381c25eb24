"""pdb without its price: breakpoints touch only the code objects that contain them.

    python -m ferrule_debugger script.py
    PYTHONBREAKPOINT=ferrule_debugger.set_trace python script.py
    import ferrule_debugger as pdb
    import ferrule_debugger; ferrule_debugger.install()     # for breakpoint() and all of pdb
"""

import pdb as _pdb
import sys as _sys
from pdb import help

from .base import Bdb
from .debugger import Pdb, set_trace, set_trace_async
from .finding import HOOKS_MISSING as _HOOKS_MISSING

__all__ = ["Bdb", "Pdb", "help", "install", "missing", "pm", "post_mortem", "run", "runcall", "runctx",
           "runeval", "set_trace", "set_trace_async", "uninstall"]

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


# --- The functions of pdb, for `import ferrule_debugger as pdb`. ------------------------------------


def run(statement, globals=None, locals=None):
    """Debug a statement, a str or a code object; as exec() runs it."""
    Pdb().run(statement, globals, locals)


def runctx(statement, globals, locals):
    """run() with both namespaces."""
    run(statement, globals, locals)


def runeval(expression, globals=None, locals=None):
    """Debug an expression, and return its value."""
    return Pdb().runeval(expression, globals, locals)


def runcall(*args, **kwds):
    """Debug a call of a function, and return its value."""
    return Pdb().runcall(*args, **kwds)


def post_mortem(t=None):
    """Look at an exception, or at a traceback; at the exception that is being handled by default."""
    if t is None:
        t = _sys.exception()
    if t is None or (isinstance(t, BaseException) and t.__traceback__ is None):
        raise ValueError("there is no traceback to look at")
    debugger = Pdb()
    debugger.reset()
    debugger.interaction(None, t)


def pm():
    """Look at the exception that has ended the last statement of an interactive interpreter."""
    post_mortem(_sys.last_exc)
