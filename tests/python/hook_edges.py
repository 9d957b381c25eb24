"""Edges through which a hook, a watch, or anything else of frame hooks refers to something, and a cycle through each."""

import contextlib
import types
import weakref

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None


@types.coroutine
def waits():
    yield


def generator_function(_=None):
    yield 1
    yield 2


def delegating_function(_=None):
    yield from [1, 2]


async def coroutine_function(_=None):
    await waits()


async def asynchronous_generator_function(_=None):
    yield 1


async def waiting_asynchronous_generator_function(_=None):
    await waits()
    yield 1


def not_begun(made):
    return made


def begun(made):
    """A generator or coroutine that has run to where it is suspended first."""
    (made if hasattr(made, "send") else made.__anext__()).send(None)
    return made


def begun_to_yield(made):
    with contextlib.suppress(StopIteration):
        made.__anext__().send(None)
    return made


# name: (function, how far one that it makes has run)
KINDS = {
    "generator": (generator_function, begun),
    "generator that has not begun": (generator_function, not_begun),
    "generator that delegates": (delegating_function, begun),
    "coroutine": (coroutine_function, begun),
    "coroutine that has not begun": (coroutine_function, not_begun),
    "asynchronous generator": (asynchronous_generator_function, begun_to_yield),
    "asynchronous generator that waits": (waiting_asynchronous_generator_function, begun),
    "asynchronous generator that has not begun": (asynchronous_generator_function, not_begun),
}


class Thing:
    """What refers to anything, and to which a weak reference can be made."""


class Hook:
    """A hook that watches what a function makes, with what it is given for that."""

    def __init__(self, function, on_event=None, data=None, answer=None):
        # Not the function: it is the module's, but the hook is to lead to nothing else.
        self.code, self.on_event, self.data, self.answer = function.__code__, on_event or ignore, data, answer

    def __call__(self, view):
        if view.code is self.code:
            view.watch(self.on_event, self.data, yields=True, resumes=True)
            return self.answer
        return framehook.DISABLE


def ignore(event):
    pass


def run_nothing():
    pass


def while_installed(hook, function, run):
    with framehook.hook(hook):
        return run(function())


# --- The edges: each makes a cycle, and returns a weak reference to what is in it. -----------------------------------

def callback(function, run):
    thing = Thing()
    thing.on_event = types.MethodType(lambda thing, event: None, thing)
    hook = Hook(function, thing.on_event)
    thing.made = while_installed(hook, function, run)
    # Nothing leads there but the watch.
    hook.on_event = None
    del thing.on_event
    return weakref.ref(thing)


def data(function, run):
    thing = Thing()
    hook = Hook(function, data=thing)
    thing.made = while_installed(hook, function, run)
    hook.data = None
    return weakref.ref(thing)


def arguments_of_a_watch(function, run):
    """The dict is kept by the watch alone: by its frame no argument leads to it."""
    thing = Thing()
    box = [thing]

    def hook(view):
        if view.code is not function.__code__:
            return framehook.DISABLE
        view.watch(ignore, arguments=True, caller=True)

    with framehook.hook(hook):
        thing.made = run(function(box))
    return weakref.ref(thing)


def callable_of_a_removed_hook(function, run):
    hook = Hook(function)
    hook.made = while_installed(hook, function, run)
    return weakref.ref(hook)


def callable_of_a_removed_hook_that_is_a_method(function, run):
    thing = Thing()
    hook = Hook(function)
    thing.hook = types.MethodType(lambda thing, view: hook(view), thing)
    thing.made = while_installed(thing.hook, function, run)
    del thing.hook
    return weakref.ref(thing)


def callable_of_each_of_two_removed_hooks(function, run):
    """The cycle goes through both: what is in the one leads to what the other watches."""
    first, second = Hook(function), Hook(function)
    with framehook.hook(first):
        second.made = run(function())
    with framehook.hook(second):
        first.made = run(function())
    return weakref.ref(first)


def callable_of_a_hook_removed_by_its_handle(function, run):
    hook = Hook(function)
    handle = framehook.add(hook)
    hook.made = run(function())
    framehook.remove(handle)
    return weakref.ref(hook)


def callable_of_a_hook_that_was_cleared(function, run):
    hook = Hook(function)
    framehook.add(hook, this_thread=True)
    hook.made = run(function())
    framehook.clear()
    return weakref.ref(hook)


def what_keeps_the_replacement(function, run):
    hook = Hook(function, answer=function.__code__.replace(co_name="stand_in"))
    hook.made = while_installed(hook, function, run)
    return weakref.ref(hook)


def hook_object(function, run):
    hook = Hook(function)
    block = framehook.hook(hook)
    with block:
        made = run(function())
    # From the generator to the callable, and from that through the object to the generator.
    hook.block, block.made = block, made
    return weakref.ref(hook)


def hook_object_alone(function, run):
    hook = Hook(function)
    hook.block = framehook.hook(hook, "a name")
    with hook.block:
        run(function())
    return weakref.ref(hook)


def map_of_code(function, run):
    thing = Thing()
    thing.codes = framehook.CodeMap({function: thing})
    hook = Hook(function, data=thing.codes)
    thing.made = while_installed(hook, function, run)
    hook.data = None
    return weakref.ref(thing)


def map_of_code_whose_value_leads_to_its_key(function, run):
    """Such an entry stays as long as the map, and no longer."""
    thing = Thing()
    thing.function = types.FunctionType(function.__code__.replace(), globals(), argdefs=(None,))
    thing.codes = framehook.CodeMap({thing.function: thing})
    hook = Hook(thing.function, data=thing.codes)
    thing.made = while_installed(hook, thing.function, run)
    hook.data = None
    return weakref.ref(thing)


def block_in_which_a_generator_is_suspended(function, run):
    hook = Hook(function)

    def suspends(hook):
        with framehook.disabled(hook), framehook.disabled_in_thread(hook), framehook.disabled_for_code(hook, function):
            yield

    with framehook.hook(hook):
        hook.made = run(function())
        hook.suspended = suspends(hook)
        next(hook.suspended)
    return weakref.ref(hook)


def block_for_code(function, run):
    thing = Thing()
    hook = Hook(function, data=thing)
    with framehook.hook(hook):
        thing.made = run(function())
        thing.blocks = [framehook.disabled(hook), framehook.disabled_in_thread(hook),
                        framehook.disabled_for_code(hook, function)]
        for block in thing.blocks:
            with block:
                pass
    hook.data = None
    return weakref.ref(thing)


def kept_view(function, run):
    class Keeps(Hook):
        def __call__(self, view):
            answer = super().__call__(view)
            if answer is None:
                self.view = view
            return answer

    hook = Keeps(function)
    hook.made = while_installed(hook, function, run)
    return weakref.ref(hook)


def kept_view_of_a_hook_that_has_failed(function, run):
    """What was said through it has not been taken."""
    thing = Thing()

    def hook(view):
        if view.code is function.__code__:
            view.watch(types.MethodType(lambda thing, event: None, thing), thing, yields=True, resumes=True)
            thing.view = view
            raise KeyError
        return framehook.DISABLE

    with framehook.hook(hook), contextlib.suppress(KeyError):
        function()
    return weakref.ref(thing)


def kept_event(function, run):
    thing = Thing()
    hook = Hook(function, lambda event: setattr(event.data, "event", event), thing)
    made = while_installed(hook, function, run)
    if not hasattr(thing, "event"):     # nothing has happened to it, except that it goes
        with framehook.hook(hook):
            made = function()
            made.close() if hasattr(made, "close") else None
            del made
    hook.data = None
    return weakref.ref(thing)


def value_of_a_kept_event(function, run):
    def gives(thing):
        yield thing

    thing = Thing()
    hook = Hook(gives, lambda event: event.value and setattr(event.value, "event", event))
    with framehook.hook(hook):
        thing.made = gives(thing)
        next(thing.made)
    return weakref.ref(thing)


def error_of_a_callback(function, run):
    """Its traceback leads to the callback's frame."""
    thing = Thing()

    def on_event(event):
        raise ValueError(event)

    hook = Hook(function, on_event, thing)
    with framehook.hook(hook):
        try:
            made = run(function())
            if hasattr(made, "throw"):
                made.throw(KeyError)
            else:
                made.athrow(KeyError).send(None)
        except (ValueError, KeyError, RuntimeError) as error:
            thing.error, thing.made = error, made if "made" in locals() else None
    hook.data = None
    return weakref.ref(thing)


def unhooked_call(function, run):
    thing = Thing()
    hook = Hook(function, data=thing)
    thing.made = while_installed(hook, function, run)
    hook.data = None
    thing.original = framehook.unhooked(types.MethodType(lambda thing: None, thing))
    thing.original()
    return weakref.ref(thing)


def call_reentrant(function, run):
    """The callback of the watch is one."""
    thing = Thing()
    hook = Hook(function, framehook.reentrant(types.MethodType(lambda thing, event: None, thing)))
    thing.made = while_installed(hook, function, run)
    hook.on_event = None
    return weakref.ref(thing)


def watches_of_two_hooks(function, run):
    """One generator has both watches; the cycle goes through the second of each kind of edge."""
    thing = Thing()
    first, second = Hook(function), Hook(function, data=thing)
    with framehook.hook(first), framehook.hook(second):
        second.made = thing.made = run(function())
    return weakref.ref(thing)


def what_the_generator_holds(function, run):
    """The argument of a generator that waits leads to its hook."""
    thing = Thing()
    thing.hook = hook = Hook(function)
    thing.made = while_installed(hook, lambda: function(thing), run)
    return weakref.ref(thing)


EDGES = (
    callback, data, callable_of_a_removed_hook, callable_of_a_removed_hook_that_is_a_method,
    callable_of_each_of_two_removed_hooks, callable_of_a_hook_removed_by_its_handle, callable_of_a_hook_that_was_cleared,
    what_keeps_the_replacement, hook_object, hook_object_alone, map_of_code, map_of_code_whose_value_leads_to_its_key,
    block_in_which_a_generator_is_suspended, block_for_code, kept_view, kept_view_of_a_hook_that_has_failed, kept_event,
    value_of_a_kept_event, arguments_of_a_watch, error_of_a_callback, unhooked_call, call_reentrant, watches_of_two_hooks,
    what_the_generator_holds,
)
