"""`await` at the prompt of `await set_trace_async()`, as in CPython 3.14.

That is a coroutine, which stops for the one that awaits it. It can be suspended, which no event can: what is typed at
the prompt ends the stop, is awaited, and the next stop follows.
"""

import ast
import inspect
import sys
import types

from .events import INSTRUCTIONS
from .per_thread import Watched

NOT_HERE = "await works only at the prompt of `await ferrule_debugger.set_trace_async()`: no other stop can be suspended"


class Directly:
    """Awaits a coroutine, whose end is no event in the frame that awaits it: that is a step less."""

    def __init__(self, coroutine):
        self._coroutine = coroutine

    def __await__(self):
        return self._coroutine.__await__()


class Awaited:
    """What was typed."""

    def __init__(self, code, frame, variables, in_frame):
        names = frame.f_globals
        if any(isinstance(constant, types.CodeType) for constant in code.co_consts):
            names = names | dict(variables)     # inner functions find no names in `variables`
        self.coroutine = eval(code, names, variables)
        self.in_frame = in_frame        # it was typed in the frame that the debugger has stopped in


def stop(debugger, frame):
    """Stop at the next instruction, which is one of this function, as if it were one of `frame`.

    By an event, since the prompt would stop at breakpoints without. Where no tool id is free, `frame` is traced.
    """
    debugger.stop_at_instruction(Watched(sys._getframe(), INSTRUCTIONS, frame))


def compiled(source):
    """The code of an expression or statements that await something. None: they do not, or they are not complete."""
    if "await" not in source and "async" not in source:
        return None
    for kind in ("eval", "exec"):
        try:
            code = compile(source, "<stdin>", kind, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
        except Exception:
            continue        # pdb reports it
        return code if code.co_flags & inspect.CO_COROUTINE else None
    return None


def wake_loop():
    """Have asyncio's loop of this thread run: nothing stops in the call of C in which it waits."""
    asyncio = sys.modules.get("asyncio")
    try:
        loop = asyncio and asyncio.get_running_loop()
    except (AttributeError, RuntimeError):
        return
    if loop:
        loop.call_soon_threadsafe(int)


def is_of_prompt(error):
    """Whether an exception is that of what was typed, and not one that the task is left by."""
    asyncio = sys.modules.get("asyncio")
    if asyncio and isinstance(error, asyncio.CancelledError):
        try:
            return not asyncio.current_task().cancelling()
        except (AttributeError, RuntimeError):      # it is the task of another library
            return False
    return isinstance(error, Exception)
