"""What framehook needs of Ferrule's module _framecore, over sys.monitoring.

The entry callback of a hook is called by PY_START, which is a global event; a code object for which all hooks are
disabled gets sys.monitoring.DISABLE. The other events are local ones of code objects with watched frames, but for
PY_UNWIND and PY_THROW, which are global from the first watch on.

A monitoring callback gets no frame, and sys._getframe(1) is the one that it is called for. What is kept for a frame is
found by the id of its frame object, which lives as long as the frame does. Of a generator nothing else is kept: a
reference to its frame would keep its locals when it is released.

No lock is held while hooks run, and each change of a list or dict is one step, so that signal handlers, destructors and
other threads may change hooks at any time.
"""

import atexit
import gc
import os
import sys
from _thread import RLock, _local, get_ident
from contextlib import nullcontext
from functools import partial
from itertools import count
from operator import index
from time import perf_counter_ns
from types import AsyncGeneratorType, BuiltinMethodType, CodeType, CoroutineType, FunctionType, GeneratorType, MethodType
from weakref import ref

from framehook._views import (
    DISABLE, EXCLUDE_CALLEES, MISSING, NAME, ON_EXIT, ON_RESUME, ON_YIELD, ONLY_CALLEES_EVERYWHERE, Disable, FrameEvent, FrameView,
    IncompatibleCodeError, not_supported, raise_as)

if not hasattr(sys, "monitoring"):
    raise ImportError("sys.monitoring is needed, which CPython has since 3.12")

monitoring = sys.monitoring
events = monitoring.events
get_frame = sys._getframe
call_tracing = sys.call_tracing
is_callable = callable

# That of optimizers first, which no other tool takes: the callbacks of higher ids are called first, so hooks before tools, as on
# Ferrule. Those of profilers, coverage and debuggers last.
TOOL = "".join(NAME)         # a string of its own: its identity tells whether an id is this module's
TOOL_IDS = (5, 4, 3, 2, 1, 0)
MOST_HOOKS = 1024
LAST, FIRST, BEFORE, AFTER = range(4)
# By the kinds of events. One that is thrown in is a resumption.
REQUESTED = {"returned": ON_EXIT, "raised": ON_EXIT, "yielded": ON_YIELD, "resumed": ON_RESUME, "thrown": ON_RESUME}
GENERATORS = 0x20 | 0x80 | 0x200        # co_flags: generator, coroutine, asynchronous generator
CODE_OF = {GeneratorType: "gi_code", CoroutineType: "cr_code", AsyncGeneratorType: "ag_code"}

STARTS, RETURNS, YIELDS, RESUMES = events.PY_START, events.PY_RETURN, events.PY_YIELD, events.PY_RESUME
WATCHING = events.PY_START | events.PY_UNWIND | events.PY_THROW
set_traceback = BaseException.__dict__["__traceback__"].__set__
set_context = BaseException.__dict__["__context__"].__set__


# ---- hooks, code objects and watched frames --------------------------------------

class Hook:
    """An installed hook."""

    __slots__ = ("alone", "blocks", "calls", "callable", "errors", "id", "name", "nanoseconds", "off", "only_in", "removed", "threads",
                 "visible")

    def __init__(self, callable, name, only_in, visible):
        self.callable, self.name, self.only_in, self.visible = callable, name, only_in, visible
        self.id = next(hook_ids)
        self.calls = self.errors = self.nanoseconds = 0
        self.removed = self.off = False
        self.blocks = [0]   # how many blocks are in progress in which it is disabled
        self.threads = {}   # number of a thread -> whether it is disabled there, and how many such blocks are in progress
        self.alone = []     # scopes in force with `everywhere`

    def is_for_here(self):
        disabled = self.threads.get(here.number)
        return (self.only_in is None or self.only_in == here.number) and not (disabled and any(disabled))

    def leave_thread(self, thread):
        """A thread is at its end."""
        self.threads.pop(thread, None)
        if self.only_in == thread:
            uninstall(self)


class Code:
    """What is known about a code object, as long as that lives."""

    __slots__ = ("code", "events", "live", "never", "off", "paused")

    def __init__(self, code):
        key = id(code)

        def forget(_):
            codes.pop(key, None)

        self.code = ref(code, forget)
        self.never = False
        self.off = set()        # the hooks that are disabled for it, by their ids
        self.paused = {}        # the same, with the number of blocks in progress
        self.events = 0         # local events
        self.live = 0           # watched frames


class Record:
    """What is kept for a frame."""

    __slots__ = ("begun", "frame", "generator", "known", "scopes", "watches", "yielded")

    def __init__(self, known):
        self.known = known          # its code
        self.watches = []           # (hook, callback, data, events, arguments, caller)
        self.scopes = ()            # (hook, kind)
        self.begun = ()             # scopes in force, which are in the list of a stack
        self.yielded = ()           # the watches to which the last yield was delivered
        self.frame = None           # but of a generator


class Scope:
    __slots__ = ("hook", "kind", "stack")


hooks = []              # in order
hook_ids = count(1)
thread_numbers = count(1)
codes = {}              # id of a code object -> Code
records = {}            # id of a frame object -> Record
tool = None             # the tool id, while there are hooks
global_events = 0
silenced = False        # some code object got sys.monitoring.DISABLE
closed = False          # the interpreter ends
busy = False            # start_or_stop() is under way
purge_at = 1_000        # so many records of generators

scopes_in_force = []    # Scope
unhooked_calls = []     # of calls in progress, their codes or None
unhooked_generators = {}    # id of a frame object -> weak reference to a generator that was made by an unhooked call
visible_calls = []      # hooks whose callbacks run and are visible

own_globals = globals()


def exclusive():
    """The lock for changes of more than one step. At the interpreter's end a daemon thread may hold it for ever."""
    return NO_LOCK if sys.is_finalizing() else lock


# A with statement enters and leaves it without a moment in which a signal handler could raise.
lock = RLock()
NO_LOCK = nullcontext()
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
# What changes have left. It is released without the lock, as destructors may wait for threads that change hooks too.
garbage = []


def known(code):
    """What is known about a code object; a new entry if nothing is."""
    found = codes.get(id(code))
    if found is None:
        found = codes.setdefault(id(code), Code(code))
    if found.code() is not code:        # another one had the address
        found = codes[id(code)] = Code(code)
    return found


class PerThread(_local):
    """What a thread has."""

    def __init__(self):
        self.number = next(thread_numbers)  # which no other thread has, now or later
        self.stack = []                     # its scopes, the innermost last, apart from those of greenlets
        self.end = ThreadEnd(self.number)   # is released when the thread ends


class ThreadEnd:
    __slots__ = ("hooks", "thread")

    def __init__(self, thread):
        self.thread, self.hooks = thread, []

    def __del__(self, is_finalizing=sys.is_finalizing):
        if self.hooks and not is_finalizing():
            ending.append(get_ident())
            while self.hooks:
                self.hooks.pop().leave_thread(self.thread)
            ending.remove(get_ident())


ending = []             # identifiers of threads at their end, which remove hooks; what such a thread has is made anew if it is needed
here = PerThread()
stacks = {}             # id of a greenlet -> a weak reference to it, its scopes


def stack_here():
    """The scopes of the current stack: the thread's, or a greenlet's."""
    module = sys.modules.get("greenlet")
    get_current = getattr(module, "getcurrent", None)
    if get_current is None:
        return here.stack
    current = get_current()
    if current.parent is None:      # the thread itself
        return here.stack
    found = stacks.get(id(current))
    if found is None or found[0]() is not current:
        key = id(current)

        def forget(_):
            stacks.pop(key, None)
        found = stacks[key] = ref(current, forget), []
    return found[1]


def begin_scopes(record):
    record.begun = []
    for hook, kind in record.scopes:
        begin_scope(record.begun, hook, kind)


def begin_scope(begun, hook, kind):
    scope = Scope()
    scope.hook, scope.kind, scope.stack = hook, kind, stack_here()
    scope.stack.append(scope)
    scopes_in_force.append(scope)
    begun.append(scope)
    if kind == ONLY_CALLEES_EVERYWHERE:
        hook.alone.append(scope)


def end_scopes(begun):
    while begun:
        scope = begun.pop()
        for list_ in (scope.stack, scopes_in_force, *([scope.hook.alone] if scope.kind == ONLY_CALLEES_EVERYWHERE else [])):
            if list_[-1:] == [scope]:
                list_.pop()
            else:
                list_.remove(scope)


def excluded():
    """A function that tells whether scopes exclude a hook here."""
    stack = stack_here()
    if any(scope.hook is None for scope in stack):
        return lambda hook: True

    def is_excluded(hook):
        for scope in reversed(stack):
            if scope.hook is hook:
                return scope.kind == EXCLUDE_CALLEES
        return bool(hook.alone)
    return is_excluded


# ---- events ----------------------------------------------------------------------

def dispatch_around(frame):
    """The frame of this module in which a hook or its callback is called that a frame is a callee of; None: there is none, or a
    re-entrant call between them."""
    while frame is not None:
        if frame.f_globals is own_globals:
            if frame.f_code is call_reentrant.__code__:
                return None
            if frame.f_code is on_start.__code__ or frame.f_code is on_event.__code__:
                return frame
        frame = frame.f_back
    return None


def call_visible(hook, function, argument):
    """Call a hook or a callback of it so that trace functions and tools see what it does."""
    visible_calls.append(hook)
    try:
        return call_tracing(function, (argument,))
    finally:
        visible_calls.remove(hook)


def on_start(code, offset):
    found = codes.get(id(code))
    if found is not None:
        if found.code() is not code:
            found = None
        elif found.never:
            return monitoring.DISABLE
    frame = get_frame(1)
    key = id(frame)
    if records and (stale := records.get(key)) is not None:
        forget_record(key, stale)       # a generator's that was released
    if unhooked_calls and is_unhooked(frame, code) or unhooked_generators and unhooked_generators.pop(key, None):
        return None
    if visible_calls and dispatch_around(frame.f_back):
        return None
    is_excluded = excluded() if scopes_in_force else None
    record = None
    for hook in tuple(hooks):
        if (hook.removed or hook.off or hook.blocks[0]
                or found is not None and (hook.id in found.off or found.paused.get(hook.id))
                or (hook.threads or hook.only_in is not None) and not hook.is_for_here()
                or is_excluded is not None and is_excluded(hook)):
            continue
        view = new_view(FrameView)
        view._frame, view._thread, view._watch, view._scope = frame, get_ident(), None, 0
        hook.calls += 1
        begin = perf_counter_ns()
        try:
            answer = call_visible(hook, hook.callable, view) if hook.visible else hook.callable(view)
            if answer is not None:
                if answer is DISABLE:
                    found = known(code)
                    found.off.add(hook.id)
                else:
                    refuse(hook, code, answer)
        except BaseException as error:
            hook.errors += 1
            if record is not None:
                begin_record(key, frame, record)        # the exception is an event of it
            set_traceback(error, outside(error.__traceback__))
            raise
        finally:
            view._frame = None
            hook.nanoseconds += perf_counter_ns() - begin
        if view._watch is not None or view._scope:
            if record is None:
                record = Record(found or known(code))
            if view._watch is not None:
                record.watches.append((hook, *view._watch))
            if view._scope:
                record.scopes = (*record.scopes, (hook, view._scope))
    if record is not None:
        if not begin_record(key, frame, record):
            return None
        if record.scopes:
            begin_scopes(record)
        if code.co_flags & GENERATORS and (error := deliver(record, "resumed", None)) is not None:
            context, traceback = error.__context__, error.__traceback__
            try:
                raise error
            finally:
                set_context(error, context)
                set_traceback(error, traceback)
                del error
    elif hooks and found is not None and found.off and not found.live and not any(
            hook.id not in found.off and not hook.off for hook in hooks):
        return silence(found, code)
    return None


new_view, new_event = object.__new__, tuple.__new__


def refuse(hook, code, answer):
    """An answer is no None and no DISABLE."""
    chosen = answer.__func__ if type(answer) is MethodType else answer
    chosen = chosen.__code__ if type(chosen) is FunctionType else chosen
    if type(chosen) is not CodeType:
        raise TypeError(f"frame hook {hook.name} returned neither None nor framehook.DISABLE nor a function or code object, but an "
                        f"object of type {type(answer).__name__}")
    if chosen is not code:
        raise not_supported("replace")


def silence(found, code):
    """All hooks are disabled for a code object, and none of its frames is watched."""
    global silenced
    silenced = True
    if found.events:
        found.events = 0
        monitoring.set_local_events(tool, code, 0)
    return monitoring.DISABLE


def begin_record(key, frame, record):
    """Keep what hooks have requested for a frame, and have its events. False: there are no hooks any more."""
    global global_events
    found = record.known
    code = frame.f_code
    wanted = found.events | RETURNS
    if code.co_flags & GENERATORS:
        for _, _, _, requested, _, _ in record.watches:
            if requested & ON_YIELD:
                wanted |= YIELDS
            if requested & ON_RESUME:
                wanted |= RESUMES
        if record.scopes:
            wanted |= YIELDS | RESUMES
        if hasattr(frame, "f_generator"):       # since 3.14
            def forget(_):
                if records.get(key) is record:
                    forget_record(key, record)
            record.generator = ref(frame.f_generator, forget)
        elif len(records) >= purge_at:
            purge()
    else:
        record.frame = frame
    found.live += 1
    records[key] = record
    if global_events == WATCHING and found.events == wanted:
        return True
    with exclusive():
        if tool is None:        # no hook is left, so none has events
            forget_record(key, record)
            return False
        if global_events != WATCHING:
            global_events = WATCHING
            monitoring.set_events(tool, WATCHING)
        if found.events != wanted:
            found.events = wanted
            monitoring.set_local_events(tool, code, wanted)
    return True


def forget_record(key, record):
    records.pop(key, None)
    record.known.live -= 1
    if record.begun:
        end_scopes(record.begun)


def purge():
    """Forget generators that were released: nothing else tells of them."""
    global purge_at
    if gc.get_freeze_count():
        return      # the collector does not show all
    alive = set()
    for thing in gc.get_objects():
        attribute = CODE_OF.get(type(thing))
        if attribute and (found := codes.get(id(getattr(thing, attribute)))) is not None and found.live:
            alive.add(id(getattr(thing, attribute.replace("code", "frame"))))
    for key, record in list(records.items()):
        if record.frame is None and key not in alive:
            forget_record(key, record)
    purge_at = max(1_000, 2 * len(records))


def on_event(kind, code, offset, value=None):
    """The callback of all events but PY_START."""
    frame = get_frame(1)
    key = id(frame)
    record = records.get(key)
    if record is None or record.known.code() is not code:
        return
    # It ends as if there were no reference to it here.
    del frame
    if kind == "returned" or kind == "raised":
        forget_record(key, record)
    elif record.scopes and kind != "yielded":
        begin_scopes(record)
    error = deliver(record, kind, value)
    if error is not None:
        if kind == "yielded":       # the exception is thrown in, and those that know of the yield see it resumed
            error = deliver(record, "thrown", error, only=record.yielded) or error
        context, traceback = error.__context__, error.__traceback__
        try:
            raise error
        finally:
            # As the callback has left it: no frame of this module is in its traceback.
            set_context(error, context)
            set_traceback(error, traceback)
            del error, value
    if kind == "yielded" and record.begun:
        end_scopes(record.begun)


def deliver(record, kind, value, only=None):
    """Call the callbacks, those of the last hook first. If one raises, that is an exception for those before, and no yield any more.
    Returns the last exception."""
    error = None
    code = record.known.code()
    if kind == "yielded":
        record.yielded = ()
    for watch in only if only is not None else reversed(record.watches):
        hook, callback, data, requested, arguments, caller = watch
        if kind == "yielded":
            record.yielded = (*record.yielded, watch)
        if hook.removed or not requested & REQUESTED[kind]:
            continue
        event = new_event(FrameEvent, ("resumed", None, code, data) if kind == "thrown" else (kind, value, code, data))
        if arguments is not None:
            vars(event)["arguments"] = arguments
        if caller is not None:
            vars(event)["caller"] = caller
        begin = perf_counter_ns()
        try:
            if kind == "raised" or kind == "thrown":
                during(value, hook, callback, event)
            elif hook.visible:
                call_visible(hook, callback, event)
            else:
                callback(event)
        except BaseException as raised:
            hook.errors += 1
            set_traceback(raised, outside(raised.__traceback__))
            error = raised
            if code.co_flags & GENERATORS and isinstance(raised, (StopIteration, StopAsyncIteration)):
                error = RuntimeError("a frame hook's callback for a generator raised StopIteration")
                error.__cause__ = error.__context__ = raised
            if kind == "yielded":
                break
            value = error
            kind = "raised" if kind == "returned" else "thrown" if kind == "resumed" else kind
        finally:
            hook.nanoseconds += perf_counter_ns() - begin
    try:
        return error
    finally:
        del error, value


def outside(traceback):
    """Without its first entries, of frames of this module."""
    while traceback is not None and traceback.tb_frame.f_globals is own_globals:
        traceback = traceback.tb_next
    return traceback


def during(exception, hook, callback, event):
    """Call a callback as within an except clause, and leave no trace of that in the exception."""
    traceback, context = exception.__traceback__, exception.__context__
    try:
        raise exception
    except BaseException:
        set_traceback(exception, traceback)
        set_context(exception, context)
        if hook.visible:
            call_visible(hook, callback, event)
        else:
            callback(event)
    finally:
        del exception, traceback, context, event


EVENT_CALLBACKS = {
    events.PY_START: on_start,
    events.PY_RETURN: partial(on_event, "returned"),
    events.PY_UNWIND: partial(on_event, "raised"),
    events.PY_YIELD: partial(on_event, "yielded"),
    events.PY_RESUME: partial(on_event, "resumed"),
    events.PY_THROW: partial(on_event, "thrown"),
}


# ---- the tool --------------------------------------------------------------------

def start_or_stop():
    """Have a tool id if there are hooks, and none otherwise."""
    global busy
    with exclusive():
        if busy:
            return      # the interrupted call continues until the events are set
        busy = True
        try:
            while bool(hooks) != (tool is not None):
                if hooks:
                    start()
                else:
                    stop()
        finally:
            busy = False


def start():
    global tool, global_events
    for number in TOOL_IDS:
        try:
            monitoring.use_tool_id(number, TOOL)
        except ValueError:
            # Ours may be left from a change that a signal handler has interrupted.
            if monitoring.get_tool(number) is not TOOL:
                continue
        break
    else:
        taken = ", ".join(str(monitoring.get_tool(number)) for number in sorted(TOOL_IDS))
        raise RuntimeError(f"sys.monitoring has no tool id left for frame hooks; these have them: {taken}")
    for event, callback in EVENT_CALLBACKS.items():
        monitoring.register_callback(number, event, callback)
    monitoring.set_events(number, STARTS)
    tool, global_events = number, STARTS


def stop():
    global tool, global_events, silenced
    number, tool = tool, None
    if monitoring.get_tool(number) is TOOL:     # not freed meanwhile
        monitoring.set_events(number, 0)
        for event in EVENT_CALLBACKS:
            monitoring.register_callback(number, event, None)
        for found in list(codes.values()):
            if found.events and (code := found.code()) is not None:
                monitoring.set_local_events(number, code, 0)
        monitoring.free_tool_id(number)
    global_events = 0
    # The next tool with this id would not get what is disabled.
    restart()
    for key, record in list(records.items()):
        garbage.append(record)
        forget_record(key, record)
    for key, found in list(codes.items()):
        if not found.never:
            codes.pop(key, None)


def end():
    """The interpreter ends. Its monitoring would keep the callbacks, and with them all hooks, until nothing works any more."""
    global closed
    closed = True
    for hook in tuple(hooks):
        uninstall(hook)


atexit.register(end)


def restart():
    """Call hooks again for code that got sys.monitoring.DISABLE."""
    global silenced
    if silenced:
        silenced = False
        monitoring.restart_events()


def install(callable, name, position, neighbour, this_thread, visible):
    if closed:
        raise RuntimeError("frame hooks cannot be added while the interpreter ends")
    if this_thread and get_ident() in ending:
        raise RuntimeError("this thread is at its end, and takes no frame hooks of its own any more")
    hook = Hook(callable, name, here.number if this_thread else None, visible)
    with exclusive():
        if installed(callable) is not None:
            raise ValueError("this frame hook is installed already")
        if len(hooks) >= MOST_HOOKS:
            raise RuntimeError(f"{MOST_HOOKS} frame hooks are installed, and no more can be: remove one first")
        at = {LAST: len(hooks), FIRST: 0}.get(position)
        if at is None:
            at = next((at for at, other in enumerate(hooks) if other.id == neighbour), None)
            if at is None:
                raise ValueError("the hook that this one is to be placed beside is not installed")
            at += position == AFTER
        if this_thread:
            here.end.hooks.append(hook)
        hooks.insert(at, hook)
        try:
            restart()
            start_or_stop()
        except BaseException:
            hooks.remove(hook)
            raise
    return hook


def uninstall(hook):
    with exclusive():
        detach(hook)
    garbage.clear()


def detach(hook):
    with exclusive():
        hook.removed = True
        garbage.append(hook)
        if hook in hooks:
            hooks.remove(hook)
        for found in list(codes.values()):
            found.off.discard(hook.id)
            found.paused.pop(hook.id, None)
        start_or_stop()


# ---- the functions of _framecore -------------------------------------------------

UNKNOWN = "this frame hook is not installed"


def hook_of(number):
    """The hook with an id."""
    if isinstance(number, bool):
        raise ValueError(UNKNOWN)
    number = index(number)
    for hook in hooks:
        if hook.id == number:
            return hook
    raise ValueError(UNKNOWN)


def installed(callable):
    """The hook with this callable. Each look at a method makes an object of its own."""
    for hook in hooks:
        own = hook.callable
        if own is callable or type(own) is type(callable) in (MethodType, BuiltinMethodType) and (
                own.__self__ is callable.__self__ and own == callable):
            return hook
    return None


def frame_hook_id(hook, /):
    """Return the id of a frame hook that is given by itself."""
    if (found := installed(hook)) is not None:
        return found.id
    if not hasattr(type(hook), "__index__") or isinstance(hook, bool):
        raise ValueError(UNKNOWN)
    return index(hook)


def checked(callable, name, position):
    """The name of a hook that is to be added, which is audited."""
    if not is_callable(callable):
        raise TypeError(f"a frame hook must be callable, not {type(callable).__name__}")
    if name is None:
        name = getattr(callable, "__qualname__", None)
        if not isinstance(name, str):
            name = repr(callable)
    if not isinstance(name, str):
        raise TypeError(f"the name of a frame hook is a str, not {type(name).__name__}")
    if "\0" in name:
        raise ValueError("the name of a frame hook has no NUL in it")
    name.encode()       # UnicodeEncodeError
    if index(position) not in (LAST, FIRST, BEFORE, AFTER):
        raise ValueError("unknown position for a frame hook")
    return name


def add_frame_hook(hook, name=None, *manner):
    """Install a frame hook, and return its id."""
    if len(manner) not in (0, 4):
        raise TypeError("wrong number of arguments")
    position, other, this_thread, visible = manner or (LAST, 0, False, False)
    name = checked(hook, name, position)
    other = frame_hook_id(other)
    sys.audit("framehook.add", name)
    return install(hook, name, position, other, bool(this_thread), bool(visible)).id


def remove_frame_hook(hook, /):
    """Remove a frame hook, given by itself or by its id."""
    uninstall(hook_of(frame_hook_id(hook)))


def clear_frame_hooks():
    """Remove every frame hook of the interpreter."""
    for hook in tuple(hooks):
        uninstall(hook)


def describe(hook, order):
    enabled = not (hook.off or hook.blocks[0])
    return {"order": order, "id": hook.id, "name": hook.name, "hook": hook.callable, "enabled": enabled, "calls": hook.calls,
            "replacements": 0, "errors": hook.errors, "nanoseconds": hook.nanoseconds}


def frame_hooks():
    """Return a new list with a dict for each frame hook, in order."""
    return [describe(hook, order) for order, hook in enumerate(tuple(hooks))]


def enable_frame_hook(id, on, /):
    """Enable or disable a hook."""
    hook_of(id).off = not on
    if on:
        restart()


def thread_switch(hook):
    """Whether the hook is disabled in the calling thread, and in how many blocks."""
    if hook not in here.end.hooks:
        here.end.hooks.append(hook)
    return hook.threads.setdefault(here.number, [False, 0])


def enable_frame_hook_in_thread(id, on, /):
    """Enable or disable a hook in the calling thread."""
    thread_switch(hook_of(id))[0] = not on


def code_object(code):
    if type(code) is not CodeType:
        raise TypeError(f"a code object, or a function that has one, is expected, not {type(code).__name__}")
    return code


def enable_frame_hook_for_code(id, code, on, /):
    """Enable or disable a hook for a code object."""
    hook = hook_of(id)
    found = known(code_object(code))
    if not on:
        found.off.add(hook.id)
    elif hook.id in found.off:
        found.off.discard(hook.id)
        restart()


def never_dispatch(code, /):
    """Call no hook for a code object, now and later."""
    known(code_object(code)).never = True


def incompatibility(code, other, /):
    """Return why other code cannot run in the place of some code; None: it can."""
    return None if code_object(code) is code_object(other) else MISSING["replace"]


def call_reentrant(callable, /, *args, **kwargs):
    """Call a callable from within a callback of a hook as if the callback did not run."""
    dispatch = dispatch_around(get_frame(1))
    if dispatch is None:
        return callable(*args, **kwargs)
    view = dispatch.f_locals.get("view")
    frame = view and view._frame
    try:
        if view:
            view._frame = None      # it cannot be read meanwhile
        return call_tracing(partial(callable, *args, **kwargs), ())
    finally:
        if view:
            view._frame = frame


def call_unhooked(callees, callable, /, *args, **kwargs):
    """Call a function, and dispatch no hook for its frame; nor for its callees, if callees is true."""
    function = callable.__func__ if type(callable) is MethodType else callable
    code = function.__code__ if type(function) is FunctionType else None
    begun = []
    if callees:
        begin_scope(begun, None, EXCLUDE_CALLEES)
    unhooked_calls.append(code)
    try:
        made = callable(*args, **kwargs)
        attribute = CODE_OF.get(type(made))
        if attribute is not None and getattr(made, attribute) is code:
            key = id(getattr(made, attribute.replace("code", "frame")))
            unhooked_generators[key] = ref(made, lambda _: unhooked_generators.pop(key, None))
        return made
    finally:
        unhooked_calls.remove(code)
        end_scopes(begun)


def is_unhooked(frame, code):
    """Whether this is the frame of an unhooked call."""
    caller = frame.f_back
    return caller is not None and caller.f_code is call_unhooked.__code__ and caller.f_locals["code"] is code


# ---- blocks ----------------------------------------------------------------------

class HookBlock:
    """What framehook.hook is made of: blocks that install self.callable, with the name self.name."""

    _installed = None       # the hook
    _blocks = 0             # that are in progress

    def __enter__(self):
        """Install the hook, if no block of this object has it installed."""
        position, other, this_thread, visible = self._manner
        name = checked(self.callable, self.name, position)
        other = frame_hook_id(other)
        sys.audit("framehook.add", name)
        with exclusive():
            if self._id is None:
                self._installed = install(self.callable, name, position, other, this_thread, visible)
                self._blocks = 0
            self._blocks += 1
        return self

    def __exit__(self, exc_type, exc, traceback, /):
        """Remove the hook, if this is the last block of this object."""
        with exclusive():
            hook = self._installed
            if self._id is None:
                return
            self._blocks -= 1
            if not self._blocks:
                self._last = describe(hook, hooks.index(hook))
                detach(hook)
        garbage.clear()

    @property
    def _id(self):
        """The id of the hook that a block has installed, or None."""
        hook = self._installed
        return None if hook is None or hook.removed else hook.id


class Suspension:
    """Blocks in which a frame hook is disabled: in the calling thread only if in_thread is true, and for the code objects
    of a tuple only unless codes is None."""

    __slots__ = ("_began_in", "_codes", "_id", "_in_thread")

    def __init__(self, id, in_thread, codes, /):
        if isinstance(id, bool):
            raise ValueError(UNKNOWN)
        if codes is not None:
            if not isinstance(codes, tuple):
                raise TypeError("a tuple of code objects is expected")
            for code in codes:
                code_object(code)
        self._id, self._in_thread, self._codes = index(id), bool(in_thread), codes
        self._began_in = []

    def __enter__(self):
        """Begin a block in which the hook is disabled."""
        hook = hook_of(self._id)
        with exclusive():
            switches = self._switches(hook, here.number)
            self._began_in.append(here.number)
            done = 0
            try:
                for counts, key in switches:
                    counts[key] += 1
                    done += 1
            except BaseException:
                for counts, key in switches[:done]:
                    counts[key] -= 1
                self._began_in.pop()
                raise

    def __exit__(self, exc_type, exc, traceback, /):
        """End such a block."""
        with exclusive():
            if not self._began_in:
                return
            thread = here.number
            if thread in self._began_in:
                self._began_in.reverse()
                self._began_in.remove(thread)
                self._began_in.reverse()
            else:
                thread = self._began_in.pop()
            hook = next((hook for hook in hooks if hook.id == self._id), None)
            for counts, key in self._switches(hook, thread) if hook is not None else ():
                counts[key] -= 1

    def _switches(self, hook, thread):
        """Where the blocks in progress are counted: pairs of a mapping or list, and a key or index of it."""
        if self._codes is not None:
            found = [(known(code).paused, hook.id) for code in self._codes]
            for counts, key in found:
                counts.setdefault(key, 0)
            return found
        if self._in_thread:
            if thread == here.number:
                thread_switch(hook)
            return [(hook.threads[thread], 1)] if thread in hook.threads else []
        return [(hook.blocks, 0)]


# What framehook takes from here beside the functions.
__all__ = ["DISABLE", "MISSING", "Disable", "FrameEvent", "FrameView", "IncompatibleCodeError", "raise_as"]


def code_below(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_below(constant)


for one in (*code_below(get_frame().f_code), FrameEvent.__new__.__code__):
    never_dispatch(one)
del one
