"""Finding code objects when they first run."""

import gc
import sys
import types

from . import turns

try:
    import framehook
except ImportError as error:
    framehook, HOOKS_MISSING = None, str(error)
else:
    HOOKS_MISSING = None

# The program may need the memory and the stack. ValueError: it has freed the tool id just now, in
# another thread.
_PASSING = MemoryError, RecursionError, ValueError
_RESUMABLE = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def _may_read_all_stacks():
    """Not without the GIL, as they change. Nor where there are other interpreters' stacks."""
    return not turns.WITHOUT_GIL and is_only_interpreter()


def is_only_interpreter():
    """Whether there is no other interpreter: the objects of its frames would be freed where they were not made."""
    try:
        import _interpreters
    except ImportError:
        return False
    return len(_interpreters.list_all()) == 1


def code_on_the_stacks():
    """The code objects that are running: no event reports calls that have begun.

    In some processes only those of the calling thread.
    """
    frames = list(sys._current_frames().values()) if _may_read_all_stacks() else [sys._getframe()]
    codes = {}
    while frames:       # at the end it holds no frame, above all not this one
        frame = frames.pop()
        while frame is not None:
            codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back
    return codes.values()


def code_of_suspended():
    """The code objects of generators and coroutines that wait: they have begun already."""
    resumable = set(_RESUMABLE)
    for each in gc.get_objects():
        if type(each) in resumable:
            code = getattr(each, "gi_code", None) or getattr(each, "cr_code", None) or (
                getattr(each, "ag_code", None))
            if code is not None:
                yield code


def code_of_functions():
    """The code objects of all functions."""
    return [each.__code__ for each in gc.get_objects() if type(each) is types.FunctionType]


class HookFinder:
    """A frame hook is called once for each code object."""

    def __init__(self, found, at_start):
        self._found = found
        self._at_start = at_start
        self._block = framehook.hook(self._on_entry, "ferrule_debugger")
        self._handle = None

    def start(self):
        self._block.__enter__()
        self._handle = self._block.id
        for code in [*code_on_the_stacks(), *code_of_suspended()]:
            self._found(code)

    def stop(self):
        self._block.__exit__(None, None, None)

    def is_called(self):
        """Whether it is installed."""
        try:
            return self._block.id == self._handle
        except ValueError:
            return False        # all hooks were cleared

    def at_next_start(self, code):
        try:
            framehook.enable_for_code(self._handle, code)
        except ValueError:
            pass        # all hooks were cleared

    def in_place(self):
        """Whether it is called after all others: then it sees the code that they have chosen.

        None: it is not called at all, since all hooks were cleared.
        """
        installed = framehook.hooks()
        for info in installed:
            # A hook that is visible to debuggers may have breakpoints, and no hook is called for it.
            code = getattr(info.hook, "__code__", None)
            if isinstance(code, types.CodeType) and info.id != self._handle:
                self._found(code)
        places = [info.id for info in installed]
        if self._handle not in places:
            return None
        return places[-1] == self._handle

    def _on_entry(self, view):
        try:
            self._found(view.code)
            if self._at_start(view):
                return None
        except _PASSING:
            return None         # the program continues: call it again
        return framehook.DISABLE


class EventFinder:
    """Where there are no frame hooks: events that are disabled where they have happened once."""

    def __init__(self, found, events):
        self._found = found
        self._events = events

    def start(self):
        names = sys.monitoring.events
        self._events.call({names.PY_START: self._seen, names.PY_RESUME: self._seen})
        self._events.find(True)
        # What was disabled for an earlier session may be so still.
        sys.monitoring.restart_events()
        for code in code_on_the_stacks():
            self._found(code)

    def stop(self):
        self._events.find(False)

    def at_next_start(self, code):
        """Events do not tell when one frame ends without an event for each end."""

    def is_called(self):
        """Events need no hook."""
        return True

    def in_place(self):
        """Events are of the code that runs, whether a hook has chosen it or not."""
        return True

    def _seen(self, code, offset):
        try:
            self._found(code)
        except _PASSING:
            return None
        return None if self._events.needs_start(code) else sys.monitoring.DISABLE


def finder(found, at_start, events):
    """What finds code here; started."""
    if framehook is not None:
        hooks = HookFinder(found, at_start)
        try:
            hooks.start()
            return hooks
        except RuntimeError:
            pass        # there are as many hooks as there may be
    by_events = EventFinder(found, events)
    by_events.start()
    return by_events
