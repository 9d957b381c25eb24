"""Events of sys.monitoring, and what a debugger makes of them."""

import bdb
import sys

from . import breakpoints
from .events import DISABLE
from .per_thread import RUNNING, STEPPING, WATCHING
from .session import session
from .turns import WITHOUT_GIL

_getframe = sys._getframe
_entries = session.events.entries
_E = sys.monitoring.events


def _line_at(code, offset):
    for start, end, line in code.co_lines():
        if start <= offset < end:
            return line
    return None


class AtEvents:
    """The part of a debugger that is called at events of code with breakpoints or with a watch."""

    def callbacks(self):
        """What is called at which event, while this debugger is in force."""
        return {
            _E.LINE: self._at_line, _E.JUMP: self._at_jump, _E.PY_RETURN: self._at_return,
            _E.PY_YIELD: self._at_yield, _E.PY_UNWIND: self._at_unwind, _E.RAISE: self._at_raise,
            _E.STOP_ITERATION: self._at_raise,
        }

    def _at_line(self, code, line):
        here = self._here
        key = id(code)
        entry = _entries.get(key)
        if entry is None:
            return None
        if here.mode is not RUNNING or here.passed is not None:
            frame = _getframe(1)
            passed, here.passed = here.passed, None
            if passed == (frame, frame.f_lasti) or (
                    here.mode is STEPPING and self._is_traced(frame)):
                return None
            if here.mode is WATCHING and frame in here.watched:
                self.trace_dispatch(frame, "line", None)
                return None
        place = entry.lines.get(line)
        if place is not None:
            frame = _getframe(1)
            stop = breakpoints.effective(place, frame, line)
            if stop is not None:
                here.found = frame, *stop
                try:
                    self.trace_dispatch(frame, "line", None)
                finally:
                    here.found = None
            return None
        if WITHOUT_GIL:
            return None
        # The line may be wanted by now. Nothing is called from here on, so no other thread comes in
        # between this look and the end of the event.
        if key in _entries:
            entry = _entries[key]
            if line not in entry.lines and not entry.watchers:
                return DISABLE
        return None

    def _at_jump(self, code, offset, destination):
        # A loop on a single line has no other event for its next round.
        if destination > offset:
            return DISABLE
        line = _line_at(code, destination)
        if line is None or line != _line_at(code, offset):
            return DISABLE
        entry = _entries.get(id(code))
        if entry is None or not (entry.watchers or line in entry.lines):
            return None
        frame = _getframe(1)
        here = self._here
        if here.mode is STEPPING and self._is_traced(frame):
            return None
        if (here.mode is WATCHING and frame in here.watched) or (
                line in entry.lines and self._found_at(frame, entry.lines[line], line)):
            self.trace_dispatch(frame, "line", None)
            here.found = None
        return None

    def _found_at(self, frame, place, line):
        stop = breakpoints.effective(place, frame, line)
        if stop is not None:
            self._here.found = frame, *stop
        return stop is not None

    def _at_return(self, code, offset, value):
        frame = _getframe(1)
        here = self._here
        if here.mode is WATCHING and frame in here.watched:
            self.trace_dispatch(frame, "return", value)
            if here.mode is WATCHING and frame is self.stopframe and (
                    frame.f_code.co_flags & bdb.GENERATOR_AND_COROUTINE_FLAGS):
                # Its end is an exception in whoever has resumed it, and that is where it stops.
                self._watch([frame for frame in (frame, frame.f_back) if frame is not None])

    def _at_yield(self, code, offset, value):
        frame = _getframe(1)
        if self._here.mode is WATCHING and frame in self._here.watched:
            self.trace_dispatch(frame, "return", value)

    def _at_unwind(self, code, offset, exception):
        frame = _getframe(1)
        if self._here.mode is WATCHING and frame in self._here.watched:
            self.trace_dispatch(frame, "return", None)

    def _at_raise(self, code, offset, exception):
        frame = _getframe(1)
        if self._here.mode is WATCHING and frame in self._here.watched:
            self.trace_dispatch(frame, "exception",
                                (type(exception), exception, exception.__traceback__))
