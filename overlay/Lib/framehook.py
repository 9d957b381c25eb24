"""Frame hooks: look at a Python function before it runs, and let it run other code.

A hook is a callable.  It is asked when a frame is about to run for the first
time, gets a view of that frame, and answers with one of three things:

    None        no change; ask again at the next call
    SETTLED     no change; never ask again about this code object
    a code object   run this instead, with the same arguments

Here is a hook that counts how often each function is called:

    import collections, framehook

    calls = collections.Counter()

    def count(view):
        calls[view.code.co_qualname] += 1

    with framehook.hook(count):
        sorted(["b", "a"], key=lambda word: word.upper())

    print(calls)        # Counter({'<lambda>': 2})

Answer SETTLED whenever you can.  A function about which every hook has settled
runs as fast as one that no hook ever saw; a Python hook that is asked costs
some hundred nanoseconds each time.

Several hooks work side by side: they are asked in the order in which they were
added, and each sees the code that the one before has chosen.  While a hook runs,
the frames that it starts in its thread are not offered to any hook.  A hook that
raises makes the call fail with that exception.  A code object that cannot stand
in for the original (other parameters, other free variables, another kind of
function) makes it fail with IncompatibleCodeError.

The view has the attributes `code`, `function`, `globals`, `builtins` and
`argument_names`, and the methods `argument(index_or_name)` and `arguments()`.
It is good until the hook returns.

Hooks belong to one interpreter, and are asked in all its threads.  Wherever a
function here takes a `hook`, that is the callable, the handle that add()
returned, or the object that hook() made.
"""

import sys
import weakref
from collections import namedtuple
from collections.abc import ItemsView, Mapping, MutableMapping, ValuesView
from contextlib import ContextDecorator
from functools import partial
from types import CodeType

try:
    from _framecore import (
        SETTLED, FrameEvent, FrameView, HookBlock, IncompatibleCodeError, Suspension, add_frame_hook, call_original,
        call_outside, clear_frame_hooks, enable_frame_hook, enable_frame_hook_for_code, enable_frame_hook_in_thread,
        frame_hook_id, frame_hook_obstacle, frame_hooks, never_offer, remove_frame_hook)
except ImportError:
    raise ImportError(
        "framehook needs an interpreter that has frame hooks: a Ferrule, built with its Rust "
        f"frame core. This one is {sys.executable or 'another'} ({sys.version.split()[0]}).",
        name="framehook") from None

__all__ = [
    "SETTLED", "CodeMap", "FrameEvent", "FrameView", "HookInfo", "IncompatibleCodeError",
    "add", "can_stand_in", "clear", "disable", "disable_for_code", "disable_in_thread", "disabled",
    "disabled_for_code", "disabled_in_thread", "enable", "enable_for_code",
    "enable_in_thread", "hook", "hooks", "obstacle", "original", "outside", "remove", "version",
]

# The edition of the interface, as PyUnstable_FrameHook_Version() says.
version = 2


def __dir__():
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


HookInfo = namedtuple("HookInfo", "order name handle hook enabled calls replacements errors seconds")
HookInfo.__doc__ = """One installed hook, as hooks() reports it."""
HookInfo.order.__doc__ = "its place among the hooks, from 0: the one at 0 is asked first"
HookInfo.name.__doc__ = "the name that it was added with"
HookInfo.handle.__doc__ = "the number that add() returned"
HookInfo.hook.__doc__ = "the callable; None for a hook written in C"
HookInfo.enabled.__doc__ = "whether it is asked at all"
HookInfo.calls.__doc__ = "how often it was asked"
HookInfo.replacements.__doc__ = "how often it answered with other code"
HookInfo.errors.__doc__ = "how often it failed"
HookInfo.seconds.__doc__ = "how long it has run in all; 0 for a hook in C that is not to be timed"


def add(callable, name=None, *, first=False, before=None, behind=None, this_thread=False, visible=False):
    """Install a hook and return its handle.

    Its `name` is for hooks() and messages; the callable's own is the default.
    It comes behind the hooks that are there, unless it is to be the `first` of
    them, or right `before` or `behind` one of them.  With `this_thread` it is called
    for frames of the calling thread only, and is removed when that ends.  Trace,
    profile and monitoring functions do not see the Python code that it runs, unless
    it is `visible`.

    ValueError: this very object is installed already, or the hook that it is to
    come before or behind is not.
    RuntimeError: there are 1,024 hooks.
    Raises the audit event framehook.add with the name, before anything is changed.

    Every function is offered again at its next call, also where other hooks
    have settled; those are not asked again.
    """
    manner = _manner(first, before, behind, this_thread, visible)
    if isinstance(callable, _Hook):
        if manner == _ORDINARY:
            manner = callable._manner
        callable, name = callable.callable, name or callable.name
    return add_frame_hook(callable, name, *manner)


_ORDINARY = 0, 0, False, False


def _manner(first, before, behind, this_thread, visible):
    """How a hook is installed, as add_frame_hook() takes it: place, neighbour, this_thread, visible."""
    if bool(first) + (before is not None) + (behind is not None) > 1:
        raise TypeError("a hook is placed first, or before another one, or behind one")
    place, other = 1 if first else 0, 0
    if before is not None:
        place, other = 2, before
    elif behind is not None:
        place, other = 3, behind
    if isinstance(other, _Hook):
        other = other.callable
    return place, other, bool(this_thread), bool(visible)


def remove(hook):
    """Remove a hook.  ValueError: it is not installed."""
    remove_frame_hook(hook.callable if isinstance(hook, _Hook) else hook)


def clear():
    """Remove all hooks, also those of others."""
    clear_frame_hooks()


def hooks():
    """What is installed, as a list of HookInfo in the order of asking."""
    return [_info(told) for told in frame_hooks()]


class hook(HookBlock, ContextDecorator):
    """A hook that is installed for the time of a `with` block or of a call.

        with framehook.hook(callable):
            ...                         # callable is asked here

        @framehook.hook(callable)       # and here while function() runs
        def function(): ...

        @framehook.hook                 # makes the hook itself such an object
        def my_hook(view): ...
        with my_hook: ...

    Where it is to come among the others, and the rest, is said as to add().

    It is installed in all threads of the interpreter, not only where the block
    is, unless it is for `this_thread`.  Blocks may be nested, and overlap in several threads: the hook is
    installed by the first that begins and removed by the last that ends.  Where
    somebody has removed it meanwhile, the end of a block does nothing, and the
    next block that begins installs it again.  A generator function or coroutine
    that is decorated has its hook for the call that makes the generator only;
    use `with` inside it instead.
    """

    def __init__(self, callable, name=None, *, first=False, before=None, behind=None, this_thread=False, visible=False):
        self.callable = callable
        self.name = name
        self._manner = _manner(first, before, behind, this_thread, visible)

    def __repr__(self):
        handle = self._handle
        state = "not installed" if handle is None else f"handle {handle}"
        return f"<framehook.hook of {self.callable!r}, {state}>"

    @property
    def handle(self):
        """The hook's handle.  ValueError: it is not installed now."""
        handle = self._handle
        if handle is None:
            raise ValueError(f"{self.callable!r} is not installed as a frame hook")
        return handle

    @property
    def info(self):
        """The HookInfo; after the block, as it was at its end.  None: there is none."""
        handle = self._handle
        now = next((info for info in hooks() if info.handle == handle), None)
        return now or (self._last and _info(self._last))

    _manner = _ORDINARY
    _last = None        # what the end of a block tells


_Hook = hook


def enable(hook):
    """Ask a hook again that disable() has silenced."""
    enable_frame_hook(_handle_of(hook), True)


def disable(hook):
    """Do not ask a hook any more.  It keeps its place, and what it has settled."""
    enable_frame_hook(_handle_of(hook), False)


def enable_in_thread(hook):
    """Take a disable_in_thread() in this thread back."""
    enable_frame_hook_in_thread(_handle_of(hook), True)


def disable_in_thread(hook):
    """Do not ask a hook about frames of this thread."""
    enable_frame_hook_in_thread(_handle_of(hook), False)


def enable_for_code(hook, code):
    """Ask a hook about a code object again, although it has settled.

    `code` is a code object, or a function or method that has one.
    """
    enable_frame_hook_for_code(_handle_of(hook), _code_of(code), True)


def disable_for_code(hook, code):
    """Settle a code object for a hook: it is not asked about it any more.

    `code` is a code object, or a function or method that has one.
    """
    enable_frame_hook_for_code(_handle_of(hook), _code_of(code), False)


def disabled(hook):
    """A context manager: the hook is not asked, in any thread, until the block ends.

    Blocks nest, also those of other threads.  After the last of them the hook is
    asked as before, unless disable() was called.
    """
    return Suspension(_handle_of(hook), False, None)


def disabled_in_thread(hook):
    """A context manager: the hook is not called in this thread until the block ends.

    Where the block ends in another thread, the hook is called in the first one
    again.  An object that is entered in several threads leaves the calling one's
    block, if there is one, and else the last one.
    """
    return Suspension(_handle_of(hook), True, None)


def disabled_for_code(hook, *codes):
    """A context manager: the hook is not asked about these until the block ends.

    Blocks nest.  After the last of them the hook is asked as before: not about
    what it has settled.  TypeError: one of them has no code; none is switched off.
    """
    return Suspension(_handle_of(hook), False, tuple(map(_code_of, codes)))


def obstacle(code, other):
    """Why `other` could not run in the place of `code`, as a str.  None: it could.

    Both are code objects, or functions or methods that have one.
    """
    return frame_hook_obstacle(_code_of(code), _code_of(other))


def can_stand_in(code, other):
    """Whether `other` could run in the place of `code`; obstacle() says why not."""
    return obstacle(code, other) is None


def original(function, *, below=False):
    """A callable that calls `function`, and asks no hook about the frame of the call.

    For replacements that give up: the function's own code runs.  With `below` no
    hook is asked about the frames below it either.  What is no Python function is
    called as ever.
    """
    if not callable(function):
        raise TypeError(f"a function is expected, not {type(function).__name__}")
    return partial(call_original, below, function)


def outside(function):
    """A callable that calls `function` from within a hook as though the hook did not run.

    For hooks that run code of others, as a compiler does: hooks are asked about the
    frames of the call as about any, this hook among them.  The view cannot be read
    meanwhile.  Elsewhere than in a hook it is a call like any other.
    """
    if not callable(function):
        raise TypeError(f"a function is expected, not {type(function).__name__}")
    return partial(call_outside, function)


class _CodeReference(weakref.ref):
    """A weak reference to a code object that knows under which key it stands."""

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
    """A mapping from code objects, by identity, that a code object leaves when it dies.

    A value that leads to its own key, as a function leads to its code, keeps the
    entry as long as the map is there: keep a weak reference to it, or what is of
    interest of it, or put the value into the function's own __dict__ instead.

    Equal code objects are two keys, and two maps are equal that have the same keys
    with equal values.  A key may be given as a function or method that has it; what
    has none is a TypeError.  Threads may use a map at once, as they may a dict.
    Who goes over it sees what was in it at the beginning, and still lives.
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
        # An entry stays behind where its code has died and there was no memory or stack to take it out.
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


def _info(told):
    return HookInfo(told["order"], told["name"], told["id"], told["hook"], told["enabled"], told["calls"],
                    told["replacements"], told["errors"], told["nanoseconds"] / 1e9)


def _handle_of(hook):
    if isinstance(hook, int) and not isinstance(hook, bool):
        return hook
    if isinstance(hook, _Hook):
        hook = hook.callable
    return frame_hook_id(hook)


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


# No hook is asked about the code of this module: nobody wants to see how hooks are added and removed.
for _code in [*_code_below(sys._getframe().f_code), HookInfo.__new__.__code__]:
    never_offer(_code)
del _code
