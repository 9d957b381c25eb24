"""One tool of sys.monitoring: which events of which code objects it gets."""

import sys
import threading
import weakref
from bdb import GENERATOR_AND_COROUTINE_FLAGS
from collections import deque
from functools import partial

from . import turns

monitoring = sys.monitoring
DISABLE = monitoring.DISABLE

_E = monitoring.events
BREAKS = _E.LINE | _E.JUMP
WATCH_LINES = BREAKS | _E.STOP_ITERATION
WATCH_END = _E.PY_RETURN
# From which line on a watch of a code object needs events: a number, or one of these.
INSTRUCTIONS, ALL_LINES, NO_LINES = -1, 0, sys.maxsize
# Exceptions have no events that belong to one code object.
WATCH_EVERYWHERE = _E.RAISE | _E.PY_UNWIND
# What catches need.
CATCH_RAISED, CATCH_UNCAUGHT = _E.RAISE, _E.PY_UNWIND
# Where threads are to be interrupted: left by an exception, stopped, or kept waiting.
INTERRUPT_EVERYWHERE = _E.LINE | _E.JUMP | _E.RAISE
FIND_EVERYWHERE = _E.PY_START | _E.PY_RESUME

NAME = "ferrule_debugger"
# Other debuggers use DEBUGGER_ID, coverage and profilers their own.
TOOL_IDS = (4, 3, monitoring.DEBUGGER_ID, monitoring.OPTIMIZER_ID, monitoring.PROFILER_ID)


def _set_anew(tool, code, events):
    """Set the events of a code object, also where they were disabled.

    Events that were disabled are reported again only after they were removed. No thread may run the code meanwhile,
    so both is done by one call in C, which keeps the GIL. Without the GIL no line is disabled.

    At the end of a LINE event CPython executes the instruction that it has kept for that line, and
    changes it only while there are LINE events. If they end, the instruction's other events would be lost.
    """
    steps = (events | _E.LINE, events) if turns.WITHOUT_GIL else (0, events | _E.LINE, events)
    deque(map(partial(monitoring.set_local_events, tool, code), steps), maxlen=0)


class _Entry:
    """What is wanted of one code object."""

    __slots__ = ("reference", "lines", "watches", "first", "events", "needs_hook")

    def __init__(self, code, reference):
        self.reference = reference
        self.lines = {}         # line with a breakpoint -> where its breakpoints are listed
        self.watches = []       # from which line on, for each frame that is watched
        self.first = NO_LINES   # the least of these
        self.events = 0         # that were set for it
        self.disabled(code)

    def disabled(self, code):
        """The frame hook is disabled for the code object, or may be."""
        self.needs_hook = not code.co_flags & GENERATOR_AND_COROUTINE_FLAGS


class Events:
    """The tool. Its events are set for code objects that have a breakpoint or are watched."""

    def __init__(self):
        self.tool = None
        self.entries = {}       # id of the code -> _Entry
        self._lock = threading.RLock()
        self.watches = 0        # of all code objects, those that are paused too
        self._finding = False
        self.interrupting = False
        self.catching = 0       # events of catches
        self._callbacks = {}    # event -> function
        self._lost = False      # the tool id was, since the last mend()
        self._set_everywhere = 0        # the events of all code that were set last

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
            if self._keep_tool():
                for entry in list(self.entries.values()):
                    if (code := entry.reference()) is not None:
                        monitoring.set_local_events(self.tool, code, 0)
                monitoring.set_events(self.tool, 0)
                self._call_no_more()
                monitoring.free_tool_id(self.tool)
            self._forget_all()

    def _forget_all(self):
        self.entries.clear()
        self._callbacks.clear()
        self.watches, self._finding, self.interrupting, self.catching, self.tool = 0, False, False, 0, None
        self._set_everywhere = 0

    def call(self, callbacks):
        """Call these functions: {event: function}."""
        self._callbacks.update(callbacks)
        if self.tool is not None:
            for event, function in callbacks.items():
                monitoring.register_callback(self.tool, event, function)

    def _call_no_more(self):
        for event, function in self._callbacks.items():
            other = monitoring.register_callback(self.tool, event, None)
            if other not in (None, function):
                monitoring.register_callback(self.tool, event, other)

    def _keep_tool(self):
        """Take the tool id again where the program has freed it. False: there is none."""
        if self.tool is None or monitoring.get_tool(self.tool) == NAME:
            return self.tool is not None
        self._lost = True
        self._call_no_more()
        if not self.start():
            self._forget_all()
            return False
        self.call(self._callbacks)
        for entry in list(self.entries.values()):
            if (code := entry.reference()) is not None:
                self._apply(code, entry)
        self._everywhere()
        return True

    def mend(self):
        """Take the tool id and the events again that the program has taken. False: none were."""
        with self._lock:
            self._keep_tool()
            lost, self._lost = self._lost, False
            if self.tool is None:
                return lost
            for entry in list(self.entries.values()):
                code = entry.reference()
                if code is not None and monitoring.get_local_events(self.tool, code) != entry.events:
                    self._apply(code, entry)
                    lost = True
            return self._everywhere() or lost

    def in_place(self):
        """Whether the tool id and all events are those that were set last, and no frame hook has to be enabled for code that is watched."""
        tool = self.tool
        if tool is None or self._lost or monitoring.get_tool(tool) != NAME or monitoring.get_events(tool) != self._set_everywhere:
            return False
        for entry in list(self.entries.values()):
            code = entry.reference()
            if code is not None and (
                    monitoring.get_local_events(tool, code) != entry.events or (entry.needs_hook and entry.watches)):
                return False
        return True

    def set_lines(self, code, lines):
        """Stop at these lines of a code object, and at no others."""
        with self._lock:
            entry = self.entries.get(id(code))
            if (entry is None and not lines) or not self._keep_tool():
                return
            entry = entry or self._entry(code)
            if entry.lines != lines:
                entry.lines = lines
                self._apply(code, entry)

    def watch(self, code, first):
        """Report ends of this code object's frames, and its lines from `first` on, until unwatch()."""
        with self._lock:
            if self._keep_tool():
                self.watches += 1
                self.resume(code, first)
                if self.watches == 1:
                    self._everywhere()

    def unwatch(self, code, first, paused):
        with self._lock:
            if (paused or self.pause(code, first)) and self.watches:
                self.watches -= 1
                if not self.watches:
                    self._everywhere()

    def pause(self, code, first):
        """End a watch for now. False: there is none, or no tool any more."""
        with self._lock:
            entry = self.entries.get(id(code))
            if entry is None or first not in entry.watches or not self._keep_tool():
                return False
            entry.watches.remove(first)
            self._apply_watches(code, entry)
            return True

    def resume(self, code, first):
        with self._lock:
            if self._keep_tool():
                entry = self.entries.get(id(code)) or self._entry(code)
                entry.watches.append(first)
                self._apply_watches(code, entry)

    def find(self, on):
        """Report the first start and the first resumption of each code object, or stop it."""
        with self._lock:
            if self._keep_tool():
                self._finding = on
                self._everywhere()

    def interrupt(self, on):
        """Report each line of all threads, or stop it."""
        with self._lock:
            if on != self.interrupting and self._keep_tool():
                self.interrupting = on
                if on:      # lines that were disabled are reported too
                    for entry in list(self.entries.values()):
                        if (code := entry.reference()) is not None:
                            self._apply(code, entry)
                self._everywhere()

    def catch(self, events):
        """Report exceptions of all code: CATCH_RAISED, CATCH_UNCAUGHT, both, or none."""
        with self._lock:
            if events != self.catching and self._keep_tool():
                self.catching = events
                self._everywhere()

    def _entry(self, code):
        key, entries = id(code), self.entries

        def forget(reference):
            entry = entries.get(key)
            if entry is not None and entry.reference is reference:
                del entries[key]

        entry = entries[key] = _Entry(code, weakref.ref(code, forget))
        return entry

    def _wanted(self, code, entry):
        events = BREAKS if entry.lines else 0
        if entry.watches:
            events |= WATCH_END
        if entry.first != NO_LINES:
            events |= WATCH_LINES
        if entry.first == INSTRUCTIONS:
            events |= _E.INSTRUCTION
        return events | _E.PY_START if events and self.needs_start(code) else events

    def _apply_watches(self, code, entry):
        """Set the events for other watches of a code object, unless they are set, and no line that is wanted may be disabled."""
        before, entry.first = entry.first, min(entry.watches, default=NO_LINES)
        if entry.first < before or self._wanted(code, entry) != entry.events:
            self._apply(code, entry)

    def _apply(self, code, entry):
        events = entry.events = self._wanted(code, entry)
        if not events:
            monitoring.set_local_events(self.tool, code, 0)
            self.entries.pop(id(code), None)
            return
        if events & _E.PY_START and self._finding:
            monitoring.restart_events()     # it is disabled for what has run
        _set_anew(self.tool, code, events)

    def needs_start(self, code):
        """Whether the start of a code object has to stay an event.

        Where all of a function is on one line, CPython 3.13 reports that line only while it reports
        of the start: its instruction must not be specialized.
        """
        entry = self.entries.get(id(code))
        return entry is not None and code.co_firstlineno in entry.lines

    def _everywhere(self):
        """Set the events of all code. False: they were set."""
        events = self.catching | (WATCH_EVERYWHERE if self.watches else 0)
        if self._finding:
            events |= FIND_EVERYWHERE
        if self.interrupting:
            events |= INTERRUPT_EVERYWHERE
        self._set_everywhere = events
        if monitoring.get_events(self.tool) == events:
            return False
        monitoring.set_events(self.tool, events)
        return True
