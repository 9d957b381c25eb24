"""One tool of sys.monitoring: which events of which code objects it gets."""

import sys
import threading
import weakref
from collections import deque
from functools import partial

from . import turns

monitoring = sys.monitoring
DISABLE = monitoring.DISABLE

_E = monitoring.events
BREAKS = _E.LINE | _E.JUMP
WATCH = _E.LINE | _E.JUMP | _E.PY_RETURN | _E.PY_YIELD | _E.STOP_ITERATION
# Exceptions have no events that belong to one code object.
WATCH_EVERYWHERE = _E.RAISE | _E.PY_UNWIND
FIND_EVERYWHERE = _E.PY_START | _E.PY_RESUME

NAME = "ferrule_debugger"
# Other debuggers use DEBUGGER_ID, coverage and profilers their own.
TOOL_IDS = (4, 3, monitoring.DEBUGGER_ID, monitoring.OPTIMIZER_ID, monitoring.PROFILER_ID)


def _set_anew(tool, code, events):
    """Set the events of a code object, also where they were disabled.

    What was disabled comes back only after it was taken away. No thread may run the code meanwhile,
    so both is done by one call in C, which keeps the GIL. Without the GIL no line is disabled.
    """
    steps = (events,) if turns.WITHOUT_GIL else (0, events)
    deque(map(partial(monitoring.set_local_events, tool, code), steps), maxlen=0)


class _Entry:
    """What is wanted of one code object."""

    __slots__ = ("reference", "lines", "watchers")

    def __init__(self, reference):
        self.reference = reference
        self.lines = {}         # line with a breakpoint -> where its breakpoints are listed
        self.watchers = 0       # of all code objects


class Events:
    """The tool. Its events are set for code objects that have a breakpoint or are watched."""

    def __init__(self):
        self.tool = None
        self.entries = {}       # id of the code -> _Entry
        self._lock = threading.RLock()
        self.watchers = 0       # of all code objects
        self._finding = False

    def start(self):
        """Take a tool id. False: all are in use."""
        for tool in TOOL_IDS:
            if monitoring.get_tool(tool) is None:
                try:
                    monitoring.use_tool_id(tool, NAME)
                except ValueError:
                    continue
                self.tool = tool
                return True
        return False

    def renew_lock(self):
        self._lock = threading.RLock()

    def stop(self):
        """Take back all events, and the tool id."""
        with self._lock:
            if self.tool is None:
                return
            for entry in list(self.entries.values()):
                if (code := entry.reference()) is not None:
                    monitoring.set_local_events(self.tool, code, 0)
            self.entries.clear()
            self.watchers, self._finding = 0, False
            monitoring.set_events(self.tool, 0)
            for event in (_E.LINE, _E.JUMP, _E.PY_RETURN, _E.PY_YIELD, _E.STOP_ITERATION, _E.RAISE,
                          _E.PY_UNWIND, _E.PY_START, _E.PY_RESUME):
                monitoring.register_callback(self.tool, event, None)
            monitoring.free_tool_id(self.tool)
            self.tool = None

    def call(self, callbacks):
        """Call these functions: {event: function}."""
        for event, function in callbacks.items():
            monitoring.register_callback(self.tool, event, function)

    def set_lines(self, code, lines):
        """Stop at these lines of a code object, and at no others."""
        with self._lock:
            entry = self.entries.get(id(code))
            if self.tool is None or (entry is None and not lines):
                return
            entry = entry or self._entry(code)
            if entry.lines != lines:
                entry.lines = lines
                self._apply(code, entry)

    def watch(self, code):
        """Tell of all that happens in this code object, until as many calls of unwatch()."""
        with self._lock:
            if self.tool is None:
                return
            entry = self.entries.get(id(code)) or self._entry(code)
            entry.watchers += 1
            self._apply(code, entry)
            self.watchers += 1
            self._everywhere()

    def unwatch(self, code):
        with self._lock:
            entry = self.entries.get(id(code))
            if self.tool is None or entry is None or not entry.watchers:
                return
            entry.watchers -= 1
            self._apply(code, entry)
            self.watchers -= 1
            self._everywhere()

    def find(self, on):
        """Tell of the first start and the first resumption of each code object, or do not."""
        with self._lock:
            if self.tool is not None:
                self._finding = on
                self._everywhere()

    def _entry(self, code):
        key, entries = id(code), self.entries

        def forget(reference):
            entry = entries.get(key)
            if entry is not None and entry.reference is reference:
                del entries[key]

        entry = entries[key] = _Entry(weakref.ref(code, forget))
        return entry

    def _apply(self, code, entry):
        events = WATCH if entry.watchers else BREAKS if entry.lines else 0
        if not events:
            monitoring.set_local_events(self.tool, code, 0)
            self.entries.pop(id(code), None)
            return
        if self.needs_start(code):
            events |= _E.PY_START
            if self._finding:
                monitoring.restart_events()     # it is disabled for what has run
        _set_anew(self.tool, code, events)

    def needs_start(self, code):
        """Whether the start of a code object has to stay an event.

        Where all of a function is on one line, CPython 3.13 tells of that line only while it tells
        of the start: its instruction must not be specialized.
        """
        entry = self.entries.get(id(code))
        return entry is not None and code.co_firstlineno in entry.lines

    def _everywhere(self):
        events = WATCH_EVERYWHERE if self.watchers else 0
        if self._finding:
            events |= FIND_EVERYWHERE
        if monitoring.get_events(self.tool) != events:
            monitoring.set_events(self.tool, events)
