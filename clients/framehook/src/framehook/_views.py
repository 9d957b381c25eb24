"""What hooks see of a frame: its view, and its events."""

from _thread import get_ident
from collections import namedtuple
from operator import index

NAME = "framehook"
DISPATCH = f"{NAME}._monitoring"        # its frames call hooks, and are the callers of none
EXCLUDE_CALLEES, ONLY_CALLEES, ONLY_CALLEES_EVERYWHERE = 1, 2, 3
ON_EXIT, ON_YIELD, ON_RESUME = 1, 2, 4
OPTIMIZED, VARARGS, VARKEYWORDS = 0x1, 0x4, 0x8

is_callable = callable

# Features of framehook that there are not, each with the reason.
MISSING = {
    "creation": "sys.monitoring has no event for the creation of a generator",
    "dropped": "sys.monitoring has no event for a generator that is closed or released while suspended",
    "function": "CPython does not tell which function a frame belongs to",
    "replace": "a frame that sys.monitoring reports has its code already",
    "result": "sys.monitoring cannot end a call with a value",
}


def raise_as(kind):
    """Set framehook.NotSupported."""
    global NotSupported
    NotSupported = kind


def not_supported(feature):
    return NotSupported(f"not on this interpreter: {MISSING[feature]} (framehook.supports({feature!r}) is False)")


class Disable:
    """The type of framehook.DISABLE, the answer that disables a frame hook for a code object."""

    __slots__ = ()
    __module__ = NAME

    def __new__(cls):
        raise TypeError("cannot create 'framehook.Disable' instances")

    def __repr__(self):
        return "framehook.DISABLE"

    def __reduce__(self):
        return "DISABLE"


DISABLE = object.__new__(Disable)


class IncompatibleCodeError(ValueError):
    """A frame hook returned code that cannot run instead of the frame's."""

    __module__ = NAME


class FrameEvent(namedtuple("FrameEvent", "kind value code data")):
    """An event of a frame that a hook watches."""

    __module__ = NAME

    @property
    def arguments(self):
        """with watch(arguments=True): a dict of the arguments as they were on entry"""
        return vars(self).get("arguments")

    @property
    def caller(self):
        """with watch(caller=True): code and line of the caller, as FrameView.caller"""
        return vars(self).get("caller")


FrameEvent.kind.__doc__ = "'returned', 'raised', 'yielded' or 'resumed'"
FrameEvent.value.__doc__ = "the value returned or yielded, or the exception; otherwise None"
FrameEvent.code.__doc__ = "the code object that ran"
FrameEvent.data.__doc__ = "the data given to watch()"


class FrameView:
    """A frame before its first instruction. It can be used until the hook returns."""

    __slots__ = ("_frame", "_scope", "_thread", "_watch")
    __module__ = NAME

    def __new__(cls):
        raise TypeError("cannot create 'framehook.FrameView' instances")

    def _read(self):
        if self._thread != get_ident():
            raise RuntimeError("this view of a frame belongs to another thread: the one whose hook was given it")
        if (frame := self._frame) is None:
            raise RuntimeError("this view of a frame has expired: it can be used until the hook returns")
        return frame

    @property
    def code(self):
        """The code object that is to run."""
        return self._read().f_code

    @property
    def function(self):
        """The function that was called. NotSupported: it is not known here."""
        self._read()
        raise not_supported("function")

    @property
    def globals(self):
        """The frame's globals."""
        return self._read().f_globals

    @property
    def builtins(self):
        """The frame's builtins."""
        return self._read().f_builtins

    @property
    def argument_names(self):
        """The names of the parameters, in the order of argument()."""
        return parameters(self._read().f_code)

    @property
    def free_variables(self):
        """A new dict of the free variables by name, without those that are unset."""
        frame = self._read()
        return values(frame, frame.f_code.co_freevars)

    @property
    def locals(self):
        """The mapping with the locals of a module, a class body or exec(); otherwise None."""
        frame = self._read()
        return None if frame.f_code.co_flags & OPTIMIZED else frame.f_locals

    @property
    def caller(self):
        """Code object and line of the calling frame; (None, -1) if no Python code has called."""
        return caller_of(self._read())

    def argument(self, key, /):
        """Return the argument of that number or parameter name."""
        if hasattr(type(key), "__index__"):
            number = index(key)
            names = parameters(self._read().f_code)
            if not 0 <= number < len(names):
                raise IndexError("the code has no parameter of that number")
            key = names[number]
        elif not isinstance(key, str):
            raise TypeError("the name of a parameter is a str")
        elif (key := str.__str__(key)) not in parameters(self._read().f_code):
            raise KeyError(key)
        found = values(self._read(), (key,))
        if key not in found:
            raise UnboundLocalError(f"parameter '{key}' has no value any more: its cell was emptied")
        return found[key]

    def arguments(self, /):
        """Return a new dict of all arguments by parameter name."""
        frame = self._read()
        return values(frame, parameters(frame.f_code))

    def watch(self, /, callback, data=None, *, yields=False, resumes=False, arguments=False, caller=False):
        """Have callback(event) called when the frame returns or raises; with yields and resumes also when it is
        suspended and resumed. event.data is data. With arguments, event.arguments is a dict of the arguments as they
        are now; with caller, event.caller is self.caller."""
        if not is_callable(callback):
            raise TypeError("the callback of watch() must be callable")
        requested = ON_EXIT
        if yields:
            requested |= ON_YIELD
        if resumes:
            requested |= ON_RESUME
        watch = callback, data, requested, self.arguments() if arguments else None, self.caller if caller else None
        self._read()
        if self._watch is not None:
            raise RuntimeError("this hook watches the frame already: watch() is called once")
        self._watch = watch

    def result(self, value, /):
        """Have the call return value. NotSupported: that cannot be done here."""
        self._read()
        raise not_supported("result")

    def exclude_callees(self, /):
        """Do not call the hook for callees of this frame on this stack, until it is left."""
        self._set_scope(EXCLUDE_CALLEES)

    def only_callees(self, /, *, everywhere=False):
        """Call the hook for callees of this frame, until it is left, even if a scope around it
        excludes them. With everywhere, and in no other thread or greenlet."""
        self._set_scope(ONLY_CALLEES_EVERYWHERE if everywhere else ONLY_CALLEES)

    def _set_scope(self, kind):
        self._read()
        if self._scope:
            raise RuntimeError("this hook has given the frame a scope already: exclude_callees() or only_callees() is called once")
        self._scope = kind


def parameters(code):
    """The names of the parameters, *args and **kwargs included."""
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[:count + bool(code.co_flags & VARARGS) + bool(code.co_flags & VARKEYWORDS)]


def values(frame, names):
    """A new dict of those local variables of these names that have a value."""
    if not names:
        return {}
    found = frame.f_locals
    return {name: found[name] for name in names if name in found}


def caller_of(frame):
    frame = frame.f_back
    while frame is not None and frame.f_globals.get("__name__") == DISPATCH:
        frame = frame.f_back
    return (None, -1) if frame is None else (frame.f_code, frame.f_lineno)
