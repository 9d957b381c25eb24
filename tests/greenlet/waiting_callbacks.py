"""Hooks and callbacks that wait in a greenlet while their hook is removed, or their thread or the interpreter ends.

A hook, its user data and that of a watch live until each callback of it that is under way has returned; one that never returns keeps
them for ever. Run by run.py with an interpreter that has greenlet and frame hooks, with the extensions of tests/c on its path.
"""

import _thread
import contextlib
import gc
import operator
import signal
import sys
import threading
import weakref

import datahooks
import greenlet

from showing import check_equal, framehook, run, show_all

KINDS = ("returned", "raised", "yielded", "resumed", "dropped")


def waits():
    greenlet.getcurrent().parent.switch()


def leaf():
    return "leaf"


def fails():
    raise KeyError


def generator():
    yield 1
    yield 2


def drop():
    made = generator()
    next(made)
    del made
    gc.collect()


def try_to_fail():
    with contextlib.suppress(KeyError):
        fails()


# What is called, and whose frame is watched, so that a callback of the kind is under way.
CALLS = {
    "returned": (leaf, leaf),
    "raised": (try_to_fail, fails),
    "yielded": (lambda: list(generator()), generator),
    "resumed": (lambda: list(generator()), generator),
    "dropped": (drop, generator),
}


# The events of the same frame after the callback has returned.
LATER = {(kind, end): [] for kind in KINDS for end in ("returns", "fails")}
LATER["resumed", "returns"] = ["yielded", "resumed", "yielded", "resumed", "returned"]
LATER["yielded", "returns"] = ["resumed", "yielded", "resumed", "returned"]
LATER["resumed", "fails"] = ["raised"]
LATER["yielded", "fails"] = ["resumed", "raised"]


class Events(Exception):
    pass


class Callback:
    """A callback that waits in its greenlet, at the first event of its kind.

    `end` is how it ends then: it "returns" or "fails".
    """

    def __init__(self, kind, end="returns"):
        self.kind, self.end, self.kinds, self.waited, self.continued = kind, end, [], 0, 0

    def __call__(self, kind):
        self.kinds.append(kind)
        if kind != self.kind or self.waited:
            return
        self.waited += 1
        self.parent = greenlet.getcurrent().parent
        self.parent.switch("waits")
        self.continued += 1
        gc.collect()
        if self.end == "fails":
            raise Events


class HookOfPython:
    """A hook whose callable and data are watched with weak references."""

    name = "Python"

    class Callable:
        def __init__(self, code, callback):
            self.code, self.callback = code, callback

        def __call__(self, view):
            if view.code is not self.code:
                return framehook.DISABLE
            data = HookOfPython.Data()
            self.data = weakref.ref(data)
            callback = self.callback
            view.watch(lambda event: callback(event.kind), data, yields=True, resumes=True)

    class Data:
        pass

    def __init__(self, function, callback, **options):
        hook = self.Callable(function.__code__, callback)
        self.reference, self.get_data = weakref.ref(hook), lambda: getattr(self.reference(), "data", lambda: None)()
        self.handle = framehook.add(hook, **options)

    def is_alive(self):
        gc.collect()
        return self.reference() is not None

    def remember(self):
        self.data = self.reference().data

    def data_is_alive(self):
        gc.collect()
        return self.data() is not None

    def over(self):
        """It is gone, and so is what it has watched with."""
        check_equal((self.is_alive(), self.data_is_alive()), (False, False))


class HookOfC:
    name = "C"

    def __init__(self, function, callback, this_thread=False):
        datahooks.take_frames(), datahooks.take_hooks(), datahooks.take_early()
        self.freed = 0
        self.handle = datahooks.add(function.__code__, 0, events=7, flags=2 if this_thread else 0,
                                    on_event=lambda kind: callback(KINDS[kind]))

    def is_alive(self):
        gc.collect()
        self.freed += datahooks.take_hooks()[1]
        return self.freed == 0

    def remember(self):
        pass

    def data_is_alive(self):
        # The data of a frame cannot be read while it is in use: take_early() and `late` show whether it was freed too soon.
        return True

    def over(self):
        check_equal(self.is_alive(), False)
        frames = datahooks.take_frames()
        check_equal(({frame[2:] for frame in frames}, self.freed, datahooks.take_early()), ({(1, 0)}, 1, 0))


HOOKS = (HookOfPython, HookOfC)


def in_thread(work):
    failed = []

    def body():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    del thread
    gc.collect()
    if failed:
        raise failed[0]


@contextlib.contextmanager
def unraisable():
    """What is reported and not raised meanwhile."""
    reports = []
    before, sys.unraisablehook = sys.unraisablehook, lambda report: reports.append(repr(report.exc_value))
    try:
        yield reports
    finally:
        sys.unraisablehook = before


def park(call):
    """A greenlet in which a callback waits that the call has begun, and what becomes of it: "over", or what it raises."""
    outcomes = []

    def body():
        try:
            call()
            outcomes.append("over")
        except Events:
            outcomes.append("failed")
        return outcomes[0]

    waiting = greenlet.greenlet(body)
    check_equal(waiting.switch(), "waits")
    return waiting, outcomes


# --- The hook is removed. ------------------------------------------------------------------------------------------------------------------

def a_removed_hook_lives_until_its_callback_has_returned():
    for api in HOOKS:
        for kind in KINDS:
            for end in "returns", "fails":
                call, function = CALLS[kind]
                callback = Callback(kind, end)
                hook = api(function, callback)
                with unraisable() as reports:
                    waiting, outcomes = park(call)
                    hook.remember()
                    framehook.remove(hook.handle)
                    check_equal((hook.is_alive(), hook.data_is_alive()), (True, True))
                    leaf(), list(generator())
                    waiting.switch()
                fails_there = end == "fails" and kind != "dropped"
                check_equal((api.name, kind, outcomes, len(reports)),
                            (api.name, kind, ["failed" if fails_there else "over"], int(end == "fails" and kind == "dropped")))
                check_equal((callback.waited, callback.continued, callback.kinds[-1]), (1, 1, kind))
                del waiting
                hook.over()


def several_callbacks_of_a_removed_hook_continue_in_any_order():
    for api in HOOKS:
        for order in (0, 1, 2), (2, 0, 1), (1, 2, 0):
            callbacks = []

            def delivered(kind):
                callback = Callback("returned")
                callbacks.append(callback)
                callback(kind)

            hook = api(leaf, delivered)
            waiting = [park(leaf)[0] for _ in range(3)]
            hook.remember()
            framehook.remove(hook.handle)
            for number in order:
                check_equal(hook.is_alive(), True)
                waiting[number].switch()
            del waiting
            check_equal([callback.continued for callback in callbacks], [1] * 3)
            hook.over()


def a_callback_whose_greenlet_is_killed_gives_its_hook_up():
    for api in HOOKS:
        for kind in KINDS:
            call, function = CALLS[kind]
            hook = api(function, Callback(kind))
            with unraisable():
                waiting, outcomes = park(call)
                hook.remember()
                framehook.remove(hook.handle)
                check_equal(hook.is_alive(), True)
                del waiting         # GreenletExit is raised in the callback
                gc.collect()
            hook.over()


# --- The thread ends. ---------------------------------------------------------------------------------------------------------------------

def callbacks_continue_where_their_thread_ends():
    """Whether the watch that lets them continue is older than theirs or not, and whether their hook was removed or not."""
    for api in HOOKS:
        for kind in KINDS:
            for end in "returns", "fails":
                for removed in True, False:
                    for this_thread in False, True:
                        call, function = CALLS[kind]
                        callback = Callback(kind, end)
                        kept = []

                        def work():
                            # The older watch first: the other one's greenlet is in a list by then.
                            later = []

                            def delivered(event):
                                if event.kind == "dropped":
                                    later[0].parent = greenlet.getcurrent()
                                    later[0].switch()

                            def hook_late(view):
                                if view.code is not waits.__code__:
                                    return framehook.DISABLE
                                view.watch(delivered)

                            late = framehook.add(hook_late)
                            parked = greenlet.greenlet(waits)
                            parked.switch()
                            hook = api(function, callback, this_thread=this_thread)
                            waiting, outcomes = park(call)
                            later.append(waiting)
                            hook.remember()
                            if removed:
                                framehook.remove(hook.handle)
                                check_equal(hook.is_alive(), True)
                            kept.extend((hook, waiting, outcomes, parked, late))

                        with unraisable():
                            in_thread(work)
                        hook, waiting, outcomes, parked, late = kept
                        about = api.name, kind, end, removed, this_thread
                        check_equal((about, callback.continued, waiting.dead), (about, 1, True))
                        # Later events are reported as usual, unless the hook was removed; one of a thread is removed with that, before or after.
                        if not this_thread:
                            later = LATER[kind, end] if not removed else []
                            check_equal((about, callback.kinds[callback.kinds.index(kind) + 1:]), (about, later))
                        framehook.remove(late)
                        if not removed and not this_thread:
                            # Later events of the frame are reported as usual; the hook is there.
                            framehook.remove(hook.handle)
                        kept.clear()
                        del waiting, parked
                        gc.collect()
                        hook.over()
                        check_equal(framehook.hooks(), [])


def callbacks_that_never_continue_keep_their_hook():
    """As an abandoned stack keeps all that it holds."""
    for api in HOOKS:
        for kind in KINDS:
            for removed in True, False:
                call, function = CALLS[kind]
                callback = Callback(kind)
                kept = []

                def work():
                    hook = api(function, callback)
                    waiting, outcomes = park(call)
                    hook.remember()
                    if removed:
                        framehook.remove(hook.handle)
                    kept.extend((hook, waiting))

                with unraisable():
                    in_thread(work)
                    hook = kept[0]
                    if not removed:
                        framehook.remove(hook.handle)
                    # Not dropped: its callback has not returned.
                    check_equal(callback.kinds[-1], kind)
                    kept.clear()
                    gc.collect()
                    check_equal((api.name, kind, callback.kinds[-1]), (api.name, kind, kind))
                    if api is HookOfC:
                        check_equal(datahooks.take_early(), 0)
                        check_equal(max([frame[3] for frame in datahooks.take_frames()], default=0), 0)
                    check_equal((leaf(), list(generator())), ("leaf", [1, 2]))


def a_hook_that_waits_is_gone_from_the_list_where_its_thread_ends():
    for this_thread in False, True:
        alive, kept = [], []

        class Hook:
            def __call__(self, view):
                if view.code is leaf.__code__:
                    greenlet.getcurrent().parent.switch("waits")

        def work():
            hook = Hook()
            alive.append(weakref.ref(hook))
            kept.append(framehook.add(hook, this_thread=this_thread))
            waiting = greenlet.greenlet(leaf)
            check_equal(waiting.switch(), "waits")
            kept.append(waiting)

        in_thread(work)
        if not this_thread:
            framehook.remove(kept[0])
        check_equal(framehook.hooks(), [])
        check_equal(leaf(), "leaf")
        kept.clear()
        gc.collect()
        check_equal((leaf(), framehook.hooks()), ("leaf", []))


def a_hook_of_one_thread_that_waits_continues_as_its_thread_ends():
    """The dispatch of a hook is under way which the end of the thread has removed."""
    for answer in None, "watch", "result", "error":
        seen, kept = [], []

        class Hook:
            def __call__(self, view):
                if view.code is not leaf.__code__:
                    return
                greenlet.getcurrent().parent.switch("waits")
                seen.append(len(framehook.hooks()))
                gc.collect()
                if answer == "watch":
                    view.watch(lambda event: seen.append(event.kind))
                elif answer == "result":
                    return view.result("a result")
                elif answer == "error":
                    raise Events

        class GoesOn:
            """Is freed with the thread's own data, and lets the other one continue."""

            def __del__(self):
                try:
                    seen.append(kept[1].switch())
                except Events:
                    seen.append("failed")
                except greenlet.error:
                    seen.append("cannot switch")

        local = threading.local()

        def work():
            hook = Hook()
            kept.append(weakref.ref(hook))
            framehook.add(hook, this_thread=True)
            waiting = greenlet.greenlet(leaf)
            check_equal(waiting.switch(), "waits")
            kept.append(waiting)
            local.last = GoesOn()

        in_thread(work)
        del kept[1:]
        gc.collect()
        check_equal((len(seen) > 0, framehook.hooks()), (True, []))
        check_equal(leaf(), "leaf")


def a_signal_that_waits_while_a_hook_does_is_handled_once():
    handled = []

    def hook(view):
        if view.code is leaf.__code__ and not waited:
            waited.append(1)
            greenlet.getcurrent().parent.switch("waits")

    def interrupted():
        # C, which handles nothing between the two.
        return list(map(operator.call, (_thread.interrupt_main, leaf)))[1]

    def busy():
        for _ in range(10):
            pass

    before = signal.signal(signal.SIGINT, lambda number, frame: handled.append(frame.f_code.co_name))
    try:
        for may_continue in True, False:
            waited = []
            with framehook.hook(hook):
                waiting = greenlet.greenlet(interrupted)
                check_equal(waiting.switch(), "waits")
                # It may wait until the hook has returned; another one is handled at once, and both are the same signal.
                _thread.interrupt_main()
                busy()
                check_equal(len(handled) in (1, 2), True)
                count = len(handled)
                if may_continue:
                    check_equal(waiting.switch(), "leaf")
                del waiting
                gc.collect()
                busy()
                check_equal(len(handled), count)
            _thread.interrupt_main()
            busy()
            check_equal(len(handled), count + 1)
            handled.clear()
    finally:
        signal.signal(signal.SIGINT, before)


def threads_end_while_hundreds_of_callbacks_wait():
    kept, ends = [], []

    def work():
        main = greenlet.getcurrent()

        def delivered(event):
            main.switch("waits")
            ends.append(event.kind)

        def hook(view):
            if view.code not in (leaf.__code__, generator.__code__):
                return framehook.DISABLE
            view.watch(delivered, None, yields=True, resumes=True)

        handle = framehook.add(hook)
        for number in range(200):
            one = greenlet.greenlet(leaf if number % 2 else lambda: list(generator()))
            check_equal(one.switch(), "waits")
            kept.append(one)
        framehook.remove(handle)
        for one in kept[::3]:
            while not one.dead:
                one.switch()

    for _ in range(3):
        in_thread(work)
        kept.clear()
        gc.collect()
    check_equal((len(ends) > 100, leaf()), (True, "leaf"))


SHOWN = (
    a_removed_hook_lives_until_its_callback_has_returned, several_callbacks_of_a_removed_hook_continue_in_any_order,
    a_callback_whose_greenlet_is_killed_gives_its_hook_up, callbacks_continue_where_their_thread_ends,
    callbacks_that_never_continue_keep_their_hook, a_hook_that_waits_is_gone_from_the_list_where_its_thread_ends,
    a_hook_of_one_thread_that_waits_continues_as_its_thread_ends,
    a_signal_that_waits_while_a_hook_does_is_handled_once,
    threads_end_while_hundreds_of_callbacks_wait,
)


def main():
    return 1 if show_all(SHOWN) else 0


run(main)
