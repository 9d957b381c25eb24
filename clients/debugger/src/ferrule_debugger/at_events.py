"""Events of sys.monitoring, and which debugger they are for.

Breakpoints are those of the debugger in force. A step is of the debugger that began it, in the
thread where it did.
"""

import _opcode
import sys
import threading

from . import breakpoints
from .catching import is_library
from .events import CATCH_RAISED, CATCH_UNCAUGHT, DISABLE, INSTRUCTIONS
from .others import wait_while_held
from .session import session
from .turns import WITHOUT_GIL

_getframe = sys._getframe
_entries = session.events.entries
_E = sys.monitoring.events


def _may_be_compiled():
    try:
        _opcode.get_executor(_may_be_compiled.__code__, 0)
    except RuntimeError:
        return False
    except ValueError:      # this one is not
        pass
    return True


# Whether CPython's second tier compiles loops. Where such code comes to a line with an event, CPython
# 3.13 still takes the line for the one of the jump, and loses the event if they are the same. It
# compiles no loop whose jump has an event.
MAY_BE_COMPILED = _may_be_compiled()


class _Thread(threading.local):
    stepper = None      # the debugger that steps in this thread, or has only just ended a step
    serves = False      # whether it is one of the debugger's own
    missed = None       # id of an exception that a callee had no room to stop for
    raises = None       # an exception that its next instruction raises


thread = _Thread()


def _line_at(code, offset):
    for start, end, line in code.co_lines():
        if start <= offset < end:
            return line
    return None


def _interrupt():
    """Do what was typed at another thread's prompt: wait, stop, or leave this thread by an exception."""
    frame = _getframe(2)
    while frame.f_globals is globals():
        frame = frame.f_back
    if frame.f_globals.get("__package__") != __package__:
        if not is_library(frame.f_code):    # it may have a lock that another thread needs
            wait_while_held()
        session.raise_here()
        session.stop_here(frame)


def _at_line(code, line):
    if session.events.interrupting:
        _interrupt()
    key = id(code)
    entry = _entries.get(key)
    if entry is None:
        return None
    stepper = thread.stepper
    if stepper is not None and stepper.at_step(_getframe(1), line):
        return None
    place = entry.lines.get(line)
    if place is not None:
        _stop_at(place, _getframe(1), line)
        return None
    if WITHOUT_GIL or session.events.interrupting:
        return None
    # The line may be wanted by now. Nothing is called from here on, so no other thread comes in
    # between this look and the end of the event.
    if key in _entries:
        entry = _entries[key]
        if line not in entry.lines and line < entry.first:
            return DISABLE
    return None


def _stop_at(place, frame, line):
    if thread.serves:
        return
    stop = breakpoints.effective(place, frame, line)
    owner = session.owner
    if stop is not None and owner is not None:
        owner.stop_at(frame, *stop)


def _at_jump(code, offset, destination):
    try:
        return _looked_at_jump(code, offset, destination)
    except BaseException as error:
        # CPython 3.13 finds no handler in the frame for what a callback of a jump raises: it looks for one at a wrong instruction.
        if not session.at_next_instruction(code):
            raise
        thread.raises = error
        return None


def _looked_at_jump(code, offset, destination):
    keep = DISABLE
    if session.events.interrupting:
        _interrupt()
        keep = None
    # A loop on a single line has no other event for its next round.
    if destination > offset:
        return keep
    line = _line_at(code, destination)
    if line is None or line != _line_at(code, offset):
        return None if MAY_BE_COMPILED else keep
    entry = _entries.get(id(code))
    if entry is None:
        return None
    frame = _getframe(2)
    stepper = thread.stepper
    if (stepper is None or not stepper.at_step(frame, line)) and line in entry.lines:
        _stop_at(entry.lines[line], frame, line)
    return None


def _watcher(frame):
    stepper = thread.stepper
    return stepper if stepper is not None and stepper.watches(frame) else None


def _at_return(code, offset, value):
    frame = _getframe(1)
    if (watcher := _watcher(frame)) is not None:
        watcher.at_end(frame, value, True)


def _at_unwind(code, offset, exception):
    frame = _getframe(1)
    if (watcher := _watcher(frame)) is not None:
        watcher.at_end(frame, None, False)
    if session.events.catching & CATCH_UNCAUGHT and (owner := session.owner) is not None:
        owner.at_uncaught(frame, exception)


def _at_raise(code, offset, exception):
    if session.events.interrupting:
        _interrupt()
    frame = _getframe(1)
    # Near the limit of recursion, a call that is not needed may be the one that fails.
    if session.events.watches and (watcher := _watcher(frame)) is not None:
        watcher.at_exception(frame, exception)
    if session.events.catching & CATCH_RAISED and (owner := session.owner) is not None:
        missed, thread.missed = thread.missed, None
        try:
            if owner.at_raised(frame, exception, missed == id(exception)):
                return
        except RecursionError:
            pass
        thread.missed = id(exception)


def _at_stop_iteration(code, offset, exception):
    if session.events.interrupting:
        _interrupt()
    frame = _getframe(1)
    if (watcher := _watcher(frame)) is not None:
        watcher.at_exception(frame, exception)


def _at_instruction(code, offset):
    error, thread.raises = thread.raises, None
    if error is not None:
        session.events.unwatch(code, INSTRUCTIONS, False)
        session.end_if_idle()
        raise error
    frame = _getframe(1)
    if (watcher := _watcher(frame)) is not None:
        watcher.at_instruction(frame)


def _at_start(view):
    """A frame hook was called. True: it should be called for this code object again."""
    stepper, entry = thread.stepper, _entries.get(id(view.code))
    if entry is None:
        return False
    again = bool(entry.watches) and (stepper is None or stepper.at_start(view))
    if not again:
        entry.disabled(view.code)
    return again


session.at_start = _at_start
session.callbacks = {
    _E.LINE: _at_line, _E.JUMP: _at_jump, _E.PY_RETURN: _at_return, _E.PY_UNWIND: _at_unwind,
    _E.RAISE: _at_raise, _E.STOP_ITERATION: _at_stop_iteration, _E.INSTRUCTION: _at_instruction,
}
