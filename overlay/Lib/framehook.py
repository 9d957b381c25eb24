"""Frame hooks: call a function before the first instruction of each Python frame.

A hook is a callable.  It is called with a view of the frame, and returns one of

    None                    the frame runs unchanged
    DISABLE                 the same, and the hook is disabled for this code object
    a function or its code  this runs instead, with the same arguments

A hook that counts calls:

    import collections, framehook

    calls = collections.Counter()

    def count(view):
        calls[view.code.co_qualname] += 1

    with framehook.hook(count):
        sorted(["b", "a"], key=lambda name: name.upper())

    print(calls)        # Counter({'<lambda>': 2})

One that prints how each call ends:

    def trace(view):
        view.watch(print)

The view has the attributes `code`, `function`, `globals`, `builtins`, `locals`,
`free_variables`, `argument_names` and `caller`, and the methods
`argument(index_or_name)` and `arguments()` to read the frame; `watch(callback)`
has events of it delivered; `result(value)` ends the call with a value; with
`exclude_callees()` and `only_callees()` the hook is called for some frames only
until this one is left.  It expires when the hook returns.

Return DISABLE whenever you can.  A function for which all hooks are disabled
runs as fast as without hooks; a call of a hook in Python costs some hundred
nanoseconds.

Several hooks work side by side.  They are called in order, and each sees the
code that the one before has chosen.  No hook is called for the frames that start
in this thread while a hook or a callback runs.  A hook that raises makes the
call fail with that exception.  Code with other parameters, other free variables,
or of another kind of function fails the call with IncompatibleCodeError.

Hooks belong to one interpreter, and are called in all its threads.  Disabling a
hook for a code object is for all threads.  Wherever a function here takes a
`hook`, that is the callable, the id that add() returned, or the object that
hook() made.  Wherever it takes `code`, a function or method will do.
"""

import sys
import weakref
from collections import namedtuple
from collections.abc import ItemsView, Mapping, MutableMapping, ValuesView
from contextlib import ContextDecorator
from functools import partial
from types import CodeType

try:
    import _framecore as _core
except ImportError:
    try:
        # The distribution framehook has it beside this file.
        from framehook import _monitoring as _core
    except ImportError:
        raise ImportError(
            "framehook needs an interpreter that has frame hooks, a Ferrule built with its Rust frame core, or the "
            "distribution framehook (pip install framehook) and a CPython with sys.monitoring, 3.12 or newer. "
            f"This one is {sys.executable or 'another'} ({sys.version.split()[0]}).",
            name="framehook") from None

DISABLE = _core.DISABLE
Disable = _core.Disable
FrameEvent = _core.FrameEvent
FrameView = _core.FrameView
IncompatibleCodeError = _core.IncompatibleCodeError

__all__ = [
    "DISABLE", "CodeMap", "Disable", "FrameEvent", "FrameView", "HookInfo", "IncompatibleCodeError", "NotSupported",
    "add", "clear", "disable", "disable_for_code", "disable_in_thread", "disabled", "disabled_for_code",
    "disabled_in_thread", "enable", "enable_for_code", "enable_in_thread", "hook", "hooks",
    "incompatibility", "reentrant", "remove", "supports", "unhooked", "version",
]

# As PyUnstable_FrameHook_Version() returns it.
version = 1


# What hooks may be unable to do on another interpreter than Ferrule.
_FEATURES = ("creation", "dropped", "function", "replace", "result")
# Those that are missing here, each with the reason.
_missing = getattr(_core, "MISSING", {})


class NotSupported(NotImplementedError):
    """Raised where a hook uses what this interpreter cannot do; supports() tells beforehand."""


def supports(feature):
    """Whether hooks can do this on the running interpreter.  On Ferrule they can do all of it.

        "creation"      they are called when a generator is made, not when it first runs
        "dropped"       an event is delivered when a suspended generator is closed or released
        "function"      view.function is the function that was called
        "replace"       a hook may return code that runs instead
        "result"        view.result(value) ends the call

    ValueError: there is no such feature.
    """
    if feature not in _FEATURES:
        raise ValueError(f"frame hooks have no feature {feature!r}; there are {', '.join(_FEATURES)}")
    return feature not in _missing


if _missing:
    _core.raise_as(NotSupported)


def __dir__():
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


HookInfo = namedtuple("HookInfo", "order name id hook enabled calls replacements errors seconds")
HookInfo.__doc__ = """One installed hook, as hooks() reports it."""
HookInfo.order.__doc__ = "its position among the hooks; the one at 0 is called first"
HookInfo.name.__doc__ = "the name that it was added with"
HookInfo.id.__doc__ = "the number that add() returned"
HookInfo.hook.__doc__ = "the callable; None for a hook written in C"
HookInfo.enabled.__doc__ = "whether it is enabled at all"
HookInfo.calls.__doc__ = "how often it was called"
HookInfo.replacements.__doc__ = "how often it replaced code"
HookInfo.errors.__doc__ = "how often it failed"
HookInfo.seconds.__doc__ = "how long it has run in all; 0 for a hook in C without the flag TIMED"


def add(callable, name=None, *, first=False, before=None, after=None, this_thread=False, visible=False):
    """Install a hook and return its id.

    Its `name` is for hooks() and messages; the callable's own is the default.
    It is called after the hooks that are installed, unless it is to be the `first`
    of them, or right `before` or `after` one of them.  With `this_thread` it is
    called for frames of the calling thread only, and is removed when that ends.
    Trace, profile and monitoring functions do not see the Python code that it runs,
    unless it is `visible`.

    ValueError: this very object is installed already, or the hook of `before` or
    `after` is not.
    RuntimeError: there are 1,024 hooks.
    Raises the audit event framehook.add with the name, before anything is changed.

    Hooks are called again at the next call of every function, except those that
    are disabled for it.
    """
    manner = _manner(first, before, after, this_thread, visible)
    if isinstance(callable, _Hook):
        if manner == _ORDINARY:
            manner = callable._manner
        callable, name = callable.callable, name or callable.name
    # Not `*manner`: that is a list, and without the GIL CPython 3.13 releases the items of one that cannot be made twice.
    position, other, this_thread, visible = manner
    return _core.add_frame_hook(callable, name, position, other, this_thread, visible)


_ORDINARY = 0, 0, False, False


def _manner(first, before, after, this_thread, visible):
    """How a hook is installed, as add_frame_hook() takes it: position, neighbour, this_thread, visible."""
    if bool(first) + (before is not None) + (after is not None) > 1:
        raise TypeError("give one of first, before and after")
    position, other = 1 if first else 0, 0
    if before is not None:
        position, other = 2, before
    elif after is not None:
        position, other = 3, after
    if isinstance(other, _Hook):
        other = other.callable
    return position, other, bool(this_thread), bool(visible)


def remove(hook):
    """Remove a hook.  ValueError: it is not installed."""
    _core.remove_frame_hook(hook.callable if isinstance(hook, _Hook) else hook)


def clear():
    """Remove all hooks, also those of others."""
    _core.clear_frame_hooks()


def hooks():
    """A list of HookInfo, in the order in which hooks are called."""
    return [_info(facts) for facts in _core.frame_hooks()]


class hook(_core.HookBlock, ContextDecorator):
    """A hook that is installed for the time of a `with` block or of a call.

        with framehook.hook(callable):
            ...                         # callable is called here

        @framehook.hook(callable)       # and here while function() runs
        def function(): ...

        @framehook.hook                 # makes the hook itself such an object
        def my_hook(view): ...
        with my_hook: ...

    Other arguments are those of add().

    It is installed in all threads of the interpreter, not only where the block
    is, unless it is for `this_thread`.  Blocks may be nested, and overlap in several
    threads: the hook is installed by the first that begins and removed by the last
    that ends.  If the hook was removed meanwhile, the end of a block does nothing,
    and the next block that begins installs it again.  A generator function or
    coroutine that is decorated has its hook for the call that makes the generator
    only; use `with` inside it instead.
    """

    def __init__(self, callable, name=None, *, first=False, before=None, after=None, this_thread=False, visible=False):
        self.callable = callable
        self.name = name
        self._manner = _manner(first, before, after, this_thread, visible)

    def __repr__(self):
        state = "not installed" if self._id is None else f"id {self._id}"
        return f"<framehook.hook of {self.callable!r}, {state}>"

    @property
    def id(self):
        """The hook's id.  ValueError: it is not installed now."""
        number = self._id
        if number is None:
            raise ValueError(f"{self.callable!r} is not installed as a frame hook")
        return number

    @property
    def info(self):
        """The HookInfo; after the block, as it was at its end.  None: there is none."""
        number = self._id
        now = next((info for info in hooks() if info.id == number), None)
        return now or (self._last and _info(self._last))

    _manner = _ORDINARY
    _last = None        # facts about the hook at the end of a block


_Hook = hook


def enable(hook):
    """Enable a hook that disable() has disabled."""
    _core.enable_frame_hook(_id_of(hook), True)


def disable(hook):
    """Disable a hook.  It keeps its position, and the code for which it is disabled."""
    _core.enable_frame_hook(_id_of(hook), False)


def enable_in_thread(hook):
    """Enable a hook that disable_in_thread() has disabled in this thread."""
    _core.enable_frame_hook_in_thread(_id_of(hook), True)


def disable_in_thread(hook):
    """Disable a hook in this thread."""
    _core.enable_frame_hook_in_thread(_id_of(hook), False)


def enable_for_code(hook, code):
    """Enable a hook for a code object for which it is disabled."""
    _core.enable_frame_hook_for_code(_id_of(hook), _code_of(code), True)


def disable_for_code(hook, code):
    """Disable a hook for a code object, in all threads, as the answer DISABLE does."""
    _core.enable_frame_hook_for_code(_id_of(hook), _code_of(code), False)


def disabled(hook):
    """A context manager: the hook is disabled, in all threads, until the block ends.

    Blocks nest, also those of other threads.  After the last of them the hook is
    as before, unless disable() was called.
    """
    return _core.Suspension(_id_of(hook), False, None)


def disabled_in_thread(hook):
    """A context manager: the hook is disabled in this thread until the block ends.

    If the block ends in another thread, the hook is enabled in the first one
    again.  An object that is entered in several threads leaves the calling one's
    block, if there is one, and otherwise the last one.
    """
    return _core.Suspension(_id_of(hook), True, None)


def disabled_for_code(hook, *codes):
    """A context manager: the hook is disabled for these until the block ends.

    Blocks nest.  After the last of them the hook is as before: disabled for the
    code for which it returned DISABLE.  TypeError: one of them has no code; the
    hook is disabled for none.
    """
    return _core.Suspension(_id_of(hook), False, tuple(map(_code_of, codes)))


def incompatibility(code, other):
    """Why a frame of `code` cannot run `other` instead, as a str.  None: it can."""
    return _core.incompatibility(_code_of(code), _code_of(other))


def unhooked(function, *, callees=False):
    """A callable that calls `function` without calling hooks for the frame of the call.

    For replacements that give up: the function's own code runs.  With `callees` no
    hook is called for its callees either.  Other callables are called as usual.
    """
    if not callable(function):
        raise TypeError(f"a function is expected, not {type(function).__name__}")
    return partial(_core.call_unhooked, callees, function)


def reentrant(function):
    """A callable that calls `function` from within a hook as if the hook did not run.

    For hooks that run code of others, as a compiler does: hooks are called for the
    frames of the call, this one among them.  The view cannot be used meanwhile.
    Outside of a hook it is a plain call.
    """
    if not callable(function):
        raise TypeError(f"a function is expected, not {type(function).__name__}")
    return partial(_core.call_reentrant, function)


class _CodeReference(weakref.ref):
    """A weak reference to a code object that knows its key in the dict."""

    __slots__ = ("key",)


class _CodeItems(ItemsView):
    def __iter__(self):
        # Each key is kept as long as its value is looked at.
        return ((code, value) for reference, value in self._mapping._all() if (code := reference()) is not None)


class _CodeValues(ValuesView):
    def __iter__(self):
        return (value for _, value in _CodeItems(self._mapping))

    def __contains__(self, value):
        return any(one is value or one == value for one in self)


class CodeMap(MutableMapping):
    """A mapping with weak keys: code objects, compared by identity.

    A value that refers to its own key, as a function refers to its code, keeps the
    entry as long as the map lives: store a weak reference to it, or store the value
    in the function's own __dict__ instead.

    Equal code objects are two keys; two maps with the same keys and equal values are
    equal.  A key may be given as a function or method; what has no code is a
    TypeError.  Threads may use a map at once, as they may a dict.  Iteration yields
    the entries that were there at its beginning and whose keys still live.
    """

    __slots__ = ("_entries", "_forget", "__weakref__")

    def __init__(self, entries=()):
        # What threads do at once are single steps of this dict.
        self._entries = {}      # id of the code -> reference to the code, value

        def forget(reference, this=weakref.ref(self)):
            if (this := this()) is not None and (entry := this._entries.get(reference.key)) is not None:
                # Another code object may have the address, and the entry, by now.
                if entry[0] is reference:
                    this._entries.pop(reference.key, None)

        self._forget = forget
        self.update(entries)

    def _entry(self, code, value):
        reference = _CodeReference(code, self._forget)
        reference.key = id(code)
        return reference, value

    def _all(self):
        return list(self._entries.values())

    def __getitem__(self, code):
        key = _code_of(code)
        entry = self._entries.get(id(key))
        if entry is None or entry[0]() is not key:
            _checked(code)
            raise KeyError(code)
        return entry[1]

    def __setitem__(self, code, value):
        code = _checked(code)
        self._entries[id(code)] = self._entry(code, value)

    def __delitem__(self, code):
        self.pop(code)

    def __iter__(self):
        return (code for code, _ in _CodeItems(self))

    def __len__(self):
        return len(self._entries)

    def items(self):
        return _CodeItems(self)

    def values(self):
        return _CodeValues(self)

    def pop(self, code, *default):
        if len(default) > 1:
            raise TypeError(f"pop expected at most 2 arguments, got {len(default) + 1}")
        key = _checked(code)
        entry = self._entries.pop(id(key), None)
        # An entry remains where its code was freed and there was no memory or stack to take it out.
        if entry is not None and entry[0]() is key:
            return entry[1]
        if default:
            return default[0]
        raise KeyError(code)

    def popitem(self):
        while True:
            _, (reference, value) = self._entries.popitem()
            if (code := reference()) is not None:
                return code, value

    def setdefault(self, code, default=None):
        code = _checked(code)
        new = self._entry(code, default)
        while (entry := self._entries.setdefault(id(code), new))[0]() is not code:
            self._forget(entry[0])
        return entry[1]

    def clear(self):
        self._entries.clear()

    def update(self, entries=(), /):
        super().update(entries.items() if isinstance(entries, Mapping) else entries)

    def __eq__(self, other):
        if not isinstance(other, CodeMap):
            return NotImplemented
        return self._by_identity() == other._by_identity()

    def _by_identity(self):
        # The code is kept, so that no other one gets its address.
        return {id(code): (code, value) for code, value in self.items()}

    def __copy__(self):
        return CodeMap(self)

    def __deepcopy__(self, memo):
        from copy import deepcopy

        copied = memo[id(self)] = CodeMap()
        for code, value in self.items():
            copied[code] = deepcopy(value, memo)
        return copied

    def __repr__(self):
        return f"<framehook.CodeMap of {len(self)} code objects>"


def _info(facts):
    return HookInfo(facts["order"], facts["name"], facts["id"], facts["hook"], facts["enabled"], facts["calls"],
                    facts["replacements"], facts["errors"], facts["nanoseconds"] / 1e9)


def _id_of(hook):
    if isinstance(hook, int) and not isinstance(hook, bool):
        return hook
    if isinstance(hook, _Hook):
        hook = hook.callable
    return _core.frame_hook_id(hook)


def _code_of(code):
    # A bound method has its function's attributes.
    return getattr(code, "__code__", code)


def _checked(code):
    found = _code_of(code)
    if not isinstance(found, CodeType):
        raise TypeError(f"a code object is expected, or a function or method that has one, not {type(code).__name__}")
    return found


def _code_below(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from _code_below(constant)


# No hook is called for the code of this module.
for _code in [*_code_below(sys._getframe().f_code), HookInfo.__new__.__code__]:
    _core.never_dispatch(_code)
del _code
