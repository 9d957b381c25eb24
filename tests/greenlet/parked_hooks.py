"""Hooks that switch greenlets: what is under way in one greenlet is nothing to the others.

Run by run.py with an interpreter that has greenlet and frame hooks, with the extensions of tests/c on its path.
"""

import gc
import re
import sys
import threading
import weakref

import framehooks
import greenlet

from showing import check_equal, framehook, run, show_all

DEPTH = 3_000


def f(a):
    return "ran", a


def stand_in(a):
    return "replaced", a


class Argument(str):
    """One that can be referred to weakly."""


def switch_back(data):
    """To the greenlet that has made this one."""
    greenlet.getcurrent().parent.switch(data)


class Entries:
    """A hook that writes down what f is called with, and parks its greenlet where that is "park".

    `answers` has what the hook answers about an argument.
    """

    def __init__(self, **answers):
        self.arguments, self.answers = [], answers

    def __call__(self, view):
        if view.code is not f.__code__:
            return framehook.DISABLE
        argument = view.argument(0)
        self.arguments.append(argument)
        if isinstance(argument, str) and argument.startswith("park"):
            switch_back("parked")
            # The view is still good, and shows the same frame.
            check_equal(view.argument("a"), argument)
        answer = self.answers.get(argument)
        if answer is not None:
            return answer
        return None

    def take(self):
        taken, self.arguments = self.arguments, []
        return taken


class InC:
    """The same with the C interface; the frame is the one for which the hook of this greenlet was called."""

    def __init__(self, entries):
        self.entries = entries

    def __enter__(self):
        self.handle = framehooks.add_extended(self, None)
        return self

    def __call__(self):
        if framehooks.get_code() is f.__code__:
            argument = framehooks.argument(0)
            self.entries.arguments.append(argument)
            if argument == "park":
                switch_back("parked")
            return self.entries.answers.get(argument)

    def __exit__(self, *exception):
        framehooks.remove(self.handle)


APIS = {"Python": lambda entries: framehook.hook(entries), "C": InC}


def park(argument="park"):
    """A greenlet that waits within a hook that was called for f."""
    parked = greenlet.greenlet(lambda: f(argument))
    check_equal(parked.switch(), "parked")
    return parked


# --- What is shown. ------------------------------------------------------------------------------------------------

def a_parked_hook_silences_no_other_greenlet():
    for name, api in APIS.items():
        entries = Entries()
        with api(entries):
            f(0)
            parked = park()
            for n in range(3):
                f(n)
            other = greenlet.greenlet(lambda: f("in another greenlet"))
            other.switch()
            check_equal(entries.take(), [0, "park", 0, 1, 2, "in another greenlet"])
            check_equal(parked.switch(), ("ran", "park"))
            f("after")
            check_equal(entries.take(), ["after"])


def many_hooks_are_parked_and_continue_in_any_order():
    names = [f"park {n}" for n in range(20)]
    entries = Entries(**{name: stand_in.__code__ for name in names[::2]})
    with framehook.hook(entries):
        parked = {name: park(name) for name in names}
        f("between")
        for name in names[::3] + names[1::3] + names[2::3]:
            check_equal(parked[name].switch(), ("replaced" if name in entries.answers else "ran", name))
            f(name[-1])
        check_equal(len(entries.take()), 2 * len(names) + 1)


def what_a_parked_hook_calls_is_not_dispatched():
    entries = []

    def inner():
        switch_back("in inner")
        helper()

    def helper():
        entries.append("helper ran")

    def hook(view):
        for function in (f, inner, helper):
            if view.code is function.__code__:
                entries.append(function.__name__)
                if function is f and view.argument(0) == "park":
                    inner()

    with framehook.hook(hook):
        parked = greenlet.greenlet(lambda: f("park"))
        check_equal(parked.switch(), "in inner")
        # The same functions are offered here, and not there.
        helper()
        check_equal(entries, ["f", "helper", "helper ran"])
        del entries[:]
        check_equal(parked.switch(), ("ran", "park"))
        check_equal(entries, ["helper ran"])


def a_greenlet_started_within_a_hook_has_a_stack_of_its_own():
    entries = []

    def start():
        entries.append("started")
        f("in the new greenlet")
        hub_of_the_hook.switch("switched back")
        f("later")

    def hook(view):
        nonlocal hub_of_the_hook
        if view.code is f.__code__:
            argument = view.argument(0)
            entries.append(argument)
            if argument == "start":
                hub_of_the_hook = greenlet.getcurrent()
                started.append(greenlet.greenlet(start))
                entries.append(started[0].switch())

    hub_of_the_hook, started = None, []
    with framehook.hook(hook):
        check_equal(f("start"), ("ran", "start"))
        # Its frames have no frame below them that is offered.
        check_equal(entries, ["start", "started", "in the new greenlet", "switched back"])
        started[0].switch()
        check_equal(entries[4:], ["later"])
        check_equal(f("after"), ("ran", "after"))
        check_equal(entries[5:], ["after"])


def a_hook_that_never_continues_is_freed_with_its_greenlet():
    for name, api in APIS.items():
        entries, argument = Entries(), Argument("park")
        reference = weakref.ref(argument)
        with api(entries):
            parked = park(argument)
            del argument
            f(1)
            entries.take()
            del parked          # greenlet raises GreenletExit in it
            gc.collect()
            check_equal(reference(), None)
            f(2)
            check_equal(entries.take(), [2])


def a_hook_may_be_removed_while_it_is_parked():
    for answer in (None, stand_in.__code__):
        entries = Entries(park=answer)
        with framehook.hook(entries):
            parked = park()
        f("not called")
        check_equal(entries.take(), ["park"])
        check_equal(parked.switch()[1], "park")
        other = Entries()
        with framehook.hook(other):
            f("entries")
        check_equal((entries.take(), other.take()), ([], ["entries"]))


def a_parked_hook_that_fails_fails_its_own_call():
    class Refused(Exception):
        pass

    entries = Entries()
    with framehook.hook(entries):
        parked = park()
        f(1)
        try:
            parked.throw(Refused)
        except Refused:
            pass
        else:
            raise AssertionError("it did not fail")
        f(2)
        check_equal((parked.dead, entries.take()), (True, ["park", 1, 2]))


def no_walk_finds_the_frame_of_a_parked_hook():
    def names_back(frame):
        names = []
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        return names

    def caller(argument):
        return f(argument)

    kept = []
    entries = Entries(park=stand_in.__code__)
    with framehook.hook(entries):
        parked = greenlet.greenlet(caller)
        check_equal(parked.switch("park"), "parked")
        check_equal(names_back(parked.gr_frame), ["switch_back", "__call__", "caller"])
        frame = parked.gr_frame
        while frame is not None:
            kept.append(frame)
            frame = frame.f_back
        check_equal(parked.switch(), ("replaced", "park"))
    check_equal([frame.f_code.co_name for frame in kept], ["switch_back", "__call__", "caller"])
    check_equal(kept[-1].f_locals, {"argument": "park"})


def a_deep_recursion_beside_a_parked_hook():
    def down(n):
        if n:
            return down(n - 1) + 1
        f("at the bottom")
        return 0

    copy = down.__code__.replace(co_stacksize=down.__code__.co_stacksize + 3)
    count = 0

    def copying(view):
        nonlocal count
        if view.code is down.__code__:
            count += 1
            return copy

    entries = Entries()
    with framehook.hook(entries), framehook.hook(copying):
        for where in ("the hub", "a greenlet"):
            parked = [park() for _ in range(10)]
            run = down if where == "the hub" else greenlet.greenlet(down).switch
            check_equal(run(DEPTH), DEPTH)
            check_equal((count, entries.take()), (DEPTH + 1, ["park"] * 10 + ["at the bottom"]))
            count = 0
            for one in parked:
                check_equal(one.switch(), ("ran", "park"))


def a_hook_parked_deep_in_a_greenlet():
    def down(n):
        return down(n - 1) + 1 if n else int(f("park")[0] == "ran")

    entries = Entries()
    with framehook.hook(entries):
        deep = greenlet.greenlet(down)
        check_equal(deep.switch(DEPTH), "parked")
        f("here")
        check_equal(deep.switch(), DEPTH + 1)
        check_equal(entries.take(), ["park", "here"])


def a_thread_may_end_while_hooks_are_parked_in_it():
    entries, kept = Entries(), []
    with framehook.hook(entries):
        thread = threading.Thread(target=lambda: kept.extend((park(), park(), f("in the thread"))))
        thread.start()
        thread.join()
        f("here")
        kept.clear()
        gc.collect()
        f("and here")
        check_equal(entries.take(), ["park", "park", "in the thread", "here", "and here"])


def said_once(say):
    """Says it, or records that it was said already."""
    try:
        say()
    except RuntimeError as error:
        check_equal("already" in str(error), True)


def below_other_frames(say, depth=60):
    """Call `say` at many depths of the C stack: what the parked hook had there is another greenlet's now."""
    say()
    if depth:
        re.sub("a", lambda match: below_other_frames(say, depth - 1) or "", "a")


def called_from_c(argument):
    """f's value. The frame for which the hook is called was called from C."""
    return list(map(f, [argument]))[0]


def a_parked_hook_answers_what_another_greenlet_says_through_its_view():
    views, delivered = [], []

    def hook(view):
        if view.code is f.__code__:
            views.append(view)
            switch_back("parked")
        return None

    def parks():
        parked = greenlet.greenlet(called_from_c)
        check_equal(parked.switch("park"), "parked")
        return parked, views.pop()

    with framehook.hook(hook):
        parked, view = parks()
        below_other_frames(lambda: said_once(lambda: view.result(["said elsewhere"])))
        check_equal(parked.switch(), ["said elsewhere"])

        parked, view = parks()
        view.watch(delivered.append, "a word")
        below_other_frames(lambda: said_once(view.exclude_callees))
        check_equal(parked.switch(), ("ran", "park"))
        check_equal([(event.kind, event.value) for event in delivered], [("returned", ("ran", "park"))])

        # Nothing takes what was said.
        parked, view = parks()
        value = Argument("said, and not taken")
        reference = weakref.ref(value)
        view.result(value)
        del value, parked
        gc.collect()
        check_equal(reference(), None)


def what_another_greenlet_reads_through_the_view_of_a_parked_hook():
    views = []

    def hook(view):
        if view.code is f.__code__:
            views.append((view, view.caller))
            switch_back("parked")
            check_equal(view.caller, views[0][1])

    with framehook.hook(hook):
        for call in called_from_c, f:
            parked = greenlet.greenlet(call)
            parked.switch("park")
            view, _ = views[0]

            def read(view=view):
                check_equal((view.code, view.function, view.arguments()), (f.__code__, f, {"a": "park"}))
                try:
                    view.caller
                except RuntimeError as error:
                    check_equal("another greenlet" in str(error), True)
                else:
                    raise AssertionError("the stack of another greenlet was read")

            below_other_frames(read)
            # So it is in a greenlet that the hook's own has begun.
            greenlet.greenlet(read).switch()
            check_equal(parked.switch(), ("ran", "park"))
            views.clear()


SHOWN = (
    a_parked_hook_silences_no_other_greenlet, many_hooks_are_parked_and_continue_in_any_order,
    what_a_parked_hook_calls_is_not_dispatched, a_greenlet_started_within_a_hook_has_a_stack_of_its_own,
    a_hook_that_never_continues_is_freed_with_its_greenlet, a_hook_may_be_removed_while_it_is_parked,
    a_parked_hook_that_fails_fails_its_own_call, no_walk_finds_the_frame_of_a_parked_hook,
    a_deep_recursion_beside_a_parked_hook, a_hook_parked_deep_in_a_greenlet,
    a_thread_may_end_while_hooks_are_parked_in_it, a_parked_hook_answers_what_another_greenlet_says_through_its_view,
    what_another_greenlet_reads_through_the_view_of_a_parked_hook,
)


def main():
    sys.setrecursionlimit(DEPTH + 1_000)
    failed = show_all(SHOWN)
    # The program ends while a hook is parked, and its exit code shows how.
    global left_behind
    framehook.add(Entries())
    left_behind = park()
    return 1 if failed else 0


run(main)
