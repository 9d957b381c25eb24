"""Greenlets that switch in watched frames, and in their callbacks.

Run by run.py with an interpreter that has greenlet and frame hooks.
"""

import gc
import random
import threading

import greenlet

from showing import check_equal, framehook, run, show_all


def leaf():
    return "leaf"


def waits(own_data="waits"):
    """Switches to the greenlet that has made this one, and returns what comes back."""
    return greenlet.getcurrent().parent.switch(own_data)


def counts():
    yield waits(1)
    yield waits(2)


def plain():
    yield 1
    yield 2


def recurse(n):
    if n == 0:
        return waits()
    leaf()
    found = recurse(n - 1)
    leaf()
    return found


LIMITS = {
    "exclude_callees": lambda view: view.exclude_callees(),
    "only_callees": lambda view: view.only_callees(),
    "only_callees_everywhere": lambda view: view.only_callees(everywhere=True),
}


class Watching:
    """A hook that watches the frames of some functions."""

    def __init__(self, *functions, on_event=None, limit=None):
        self.codes, self.events, self.entries = [f.__code__ for f in functions], [], []
        self.on_event, self.limit = on_event, limit

    def __call__(self, view):
        if view.code not in self.codes:
            return framehook.DISABLE
        self.entries.append(view.code.co_name)
        view.watch(self.delivered, None, yields=True, resumes=True)
        if self.limit and view.code is self.codes[0]:
            LIMITS[self.limit](view)

    def delivered(self, event):
        self.events.append(f"{event.code.co_name} {event.kind}")
        if self.on_event:
            self.on_event(event)

    def take(self):
        events, self.events = self.events, []
        return events


def errors_of(*attempts):
    """What each of them complains about."""
    found = []
    for attempt in attempts:
        try:
            found.append(attempt())
        except (ValueError, RuntimeError) as error:
            found.append(str(error))
    return found


# --- What is shown. ------------------------------------------------------------------------------

def the_exit_event_of_a_frame_that_waits_comes_when_it_has_returned():
    watching = Watching(leaf, waits)
    with framehook.hook(watching):
        waiting = greenlet.greenlet(waits)
        check_equal(waiting.switch(5), 5)
        leaf()
        check_equal(watching.take(), ["leaf returned"])
        check_equal(waiting.switch(7), 7)
        check_equal(watching.take(), ["waits returned"])


def a_frame_that_is_never_resumed_ends_with_its_greenlet():
    watching = Watching(waits, recurse)
    with framehook.hook(watching):
        waiting = greenlet.greenlet(recurse)
        waiting.switch(3)
        del waiting
        gc.collect()
        check_equal(watching.take(), ["waits raised"] + ["recurse raised"] * 4)
        waiting = greenlet.greenlet(waits)
        waiting.switch()
        try:
            waiting.throw(KeyError)
        except KeyError:
            check_equal(watching.take(), ["waits raised"])


def a_callback_may_wait_in_its_greenlet():
    main = greenlet.getcurrent()

    def on_event(event):
        if greenlet.getcurrent() is not main:
            main.switch("waits in the callback")

    watching = Watching(leaf, on_event=on_event)
    with framehook.hook(watching):
        waiting = [greenlet.greenlet(leaf) for _ in range(3)]
        for one in waiting:
            check_equal(one.switch(), "waits in the callback")
            check_equal(leaf(), "leaf")
        for one in waiting[1::-1]:
            check_equal(one.switch(), "leaf")
        check_equal(watching.take(), ["leaf returned"] * 6)
        del waiting, one        # and one is never resumed
        gc.collect()
        check_equal((leaf(), watching.take()), ("leaf", ["leaf returned"]))


def a_generator_is_not_resumed_while_a_callback_waits():
    main = greenlet.getcurrent()
    for kind in ("resumed", "yielded"):
        watching = Watching(plain, on_event=lambda event: event.kind == kind and main.switch(kind))
        with framehook.hook(watching):
            generator = plain()
            waiting = greenlet.greenlet(lambda: next(generator))
            check_equal(waiting.switch(), kind)
            check_equal(errors_of(lambda: next(generator), generator.close,
                                  lambda: generator.throw(KeyError)),
                        ["generator already executing"] * 3)
            check_equal(waiting.switch(), 1)
            watching.on_event = None
            check_equal(list(generator), [2])
            check_equal(watching.take(), ["plain resumed", "plain yielded"] * 2
                        + ["plain resumed", "plain returned"])


def a_greenlet_that_dies_in_a_callback_fails_its_call():
    main = greenlet.getcurrent()
    for kind, expected in (("resumed", ["resumed", "raised"]),
                           ("yielded", ["resumed", "yielded", "resumed", "raised"])):
        watching = Watching(plain, on_event=lambda event: event.kind == kind and main.switch(kind))
        with framehook.hook(watching):
            generator = plain()
            waiting = greenlet.greenlet(lambda: next(generator))
            check_equal(waiting.switch(), kind)
            watching.on_event = None
            del waiting
            gc.collect()
            check_equal(watching.take(), [f"plain {one}" for one in expected])
            check_equal(list(generator), [])


def a_generator_is_resumed_in_another_greenlet_than_it_began_in():
    watching = Watching(counts, waits)
    with framehook.hook(watching):
        generator = counts()
        first = greenlet.greenlet(lambda: next(generator))
        check_equal(first.switch(), 1)
        check_equal(errors_of(lambda: next(generator)), ["generator already executing"])
        check_equal(first.switch("one"), "one")
        second = greenlet.greenlet(lambda: next(generator))
        check_equal(second.switch(), 2)
        check_equal(second.switch("two"), "two")
        check_equal(list(generator), [])
    check_equal(watching.take(), ["counts resumed", "waits returned", "counts yielded"] * 2
                + ["counts resumed", "counts returned"])


def a_scope_holds_in_its_greenlet_and_while_it_waits():
    for limit, expected in (
            ("exclude_callees", ["recurse", "leaf", "leaf"]),
            ("only_callees", ["recurse", "leaf", "recurse", "leaf", "leaf", "leaf"]),
            ("only_callees_everywhere", ["recurse", "leaf", "recurse", "leaf", "leaf"])):
        watching = Watching(recurse, leaf, limit=limit)
        with framehook.hook(watching):
            waiting = greenlet.greenlet(recurse)
            waiting.switch(1)
            leaf()      # on another stack: the hook is called unless it has the scope ONLY_CALLEES on all stacks
            waiting.switch()
            leaf()
            check_equal(watching.entries, expected)
        # A greenlet that is freed in the middle leaves no scope in force.
        watching = Watching(recurse, leaf, limit=limit)
        with framehook.hook(watching):
            waiting = greenlet.greenlet(recurse)
            waiting.switch(0)
            del waiting
            gc.collect()
            leaf()
            check_equal(watching.entries, ["recurse", "leaf"])


def scopes_of_many_greenlets_that_wait_are_each_ones_own():
    for limit in "exclude_callees", "only_callees":
        watching = Watching(recurse, leaf, limit=limit)
        with framehook.hook(watching):
            waiting = [greenlet.greenlet(recurse) for _ in range(6)]
            for one in waiting:
                one.switch(0)
            watching.entries.clear()
            leaf()
            greenlet.greenlet(leaf).switch()
            check_equal((limit, watching.entries), (limit, ["leaf", "leaf"]))
            for number in 3, 0, 5:
                watching.entries.clear()
                waiting[number].switch()
                leaf()
                check_equal(watching.entries, ["leaf"])
            # They go in the middle of the others.
            del waiting[1], one
            gc.collect()
            watching.entries.clear()
            leaf()
            check_equal(watching.entries, ["leaf"])


def a_generator_takes_its_scope_to_the_greenlet_that_resumes_it():
    def steps():
        leaf()
        yield waits(1)
        leaf()
        yield waits(2)

    for limit, below in (("exclude_callees", []), ("only_callees", ["leaf"]), ("only_callees_everywhere", ["leaf"])):
        watching = Watching(steps, leaf, limit=limit)
        with framehook.hook(watching):
            generator = steps()
            for number in 1, 2:
                running = greenlet.greenlet(lambda: next(generator))
                watching.entries.clear()
                check_equal(running.switch(), number)
                check_equal((limit, watching.entries), (limit, below))
                # It runs in that greenlet, which waits: here nothing of it holds, unless it is for everywhere.
                watching.entries.clear()
                leaf()
                greenlet.greenlet(leaf).switch()
                check_equal((limit, watching.entries), (limit, [] if limit == "only_callees_everywhere" else ["leaf", "leaf"]))
                running.switch(number)
                # It is suspended.
                watching.entries.clear()
                leaf()
                check_equal((limit, watching.entries), (limit, ["leaf"]))
            del generator, running


def a_scope_for_all_threads_ends_with_the_greenlet_that_dies():
    for die in "collected", "thrown", "thread":
        watching = Watching(recurse, leaf, limit="only_callees_everywhere")
        with framehook.hook(watching):
            def begin():
                kept.append(greenlet.greenlet(recurse))
                kept[0].switch(2)

            kept = []
            if die == "thread":
                thread = threading.Thread(target=begin)
                thread.start()
                thread.join()
                # Its frames never end: they are dropped with the thread.
                watching.entries.clear()
                leaf()
                check_equal(watching.entries, ["leaf"])
                kept.clear()
            else:
                begin()
                watching.entries.clear()
                leaf()
                check_equal(watching.entries, [])
                if die == "thrown":
                    try:
                        kept[0].throw(KeyError)
                    except KeyError:
                        pass
                kept.clear()
            gc.collect()
            watching.entries.clear()
            leaf()
            check_equal((die, watching.entries), (die, ["leaf"]))


def scopes_of_two_greenlets_that_end_in_another_order():
    for limits in (("exclude_callees", "only_callees"), ("only_callees_everywhere", "exclude_callees"),
                   ("only_callees_everywhere",) * 2, ("exclude_callees",) * 2):
        hooks = [Watching(recurse, leaf, limit=limit) for limit in limits]
        with framehook.hook(hooks[0]), framehook.hook(hooks[1]):
            first, second = greenlet.greenlet(recurse), greenlet.greenlet(recurse)
            first.switch(0), second.switch(0)
            first.switch(), second.switch()
            for hook in hooks:
                hook.entries.clear()
            leaf()
            check_equal([hook.entries for hook in hooks], [["leaf"], ["leaf"]])


def a_thread_that_ends_drops_the_frames_of_its_greenlets():
    watching, kept = Watching(waits), []

    def work():
        for _ in range(3):
            kept.append(greenlet.greenlet(waits))
            kept[-1].switch()

    with framehook.hook(watching):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        check_equal(watching.take(), ["waits dropped"] * 3)
        kept.clear()
        gc.collect()
        leaf()
        check_equal(watching.take(), [])


def a_greenlet_is_resumed_in_the_dropped_event_of_its_frame():
    for may_continue, expected in ((lambda one: one.switch(2), "2"), (lambda one: one.throw(ValueError), "ValueError()")):
        for function in (waits, counts):
            kept, found = [], []

            def body():
                try:
                    found.append(repr(waits() if function is waits else list(function())))
                except ValueError as error:
                    found.append(repr(error))

            def on_event(event):
                if event.kind == "dropped":
                    may_continue(kept.pop())

            def work():
                kept.append(greenlet.greenlet(body))
                kept[-1].switch()

            watching = Watching(function, on_event=on_event)
            with framehook.hook(watching):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
                first = [f"{function.__name__} resumed"] * (function is counts)
                check_equal(watching.take(), [*first, f"{function.__name__} dropped"])
                gc.collect()
                check_equal(watching.take(), [])
            # The generator waits once more, and its greenlet dies with the thread.
            check_equal(found, [] if function is counts and expected == "2" else [expected])


def each_frame_ends_once_whichever_greenlet_continues():
    ends, chance = [], random.Random(22)

    def delivered(event):
        if event.kind in ("returned", "raised", "dropped"):
            ends[event.data] += 1

    def hook(view):
        if view.code in (recurse.__code__, leaf.__code__, waits.__code__):
            ends.append(0)
            view.watch(delivered, len(ends) - 1)
        return None

    with framehook.hook(hook):
        waiting = []
        for _ in range(2_000):
            step = chance.random()
            if step < 0.5 or not waiting:
                waiting.append(greenlet.greenlet(recurse))
                waiting[-1].switch(chance.randint(0, 60))
            elif step < 0.8:
                waiting.pop(chance.randrange(len(waiting))).switch()
            else:
                del waiting[chance.randrange(len(waiting))]
        waiting.clear()
        gc.collect()
    check_equal((set(ends), len(ends) > 50_000), ({1}, True))


SHOWN = (
    the_exit_event_of_a_frame_that_waits_comes_when_it_has_returned,
    a_frame_that_is_never_resumed_ends_with_its_greenlet,
    a_callback_may_wait_in_its_greenlet,
    a_generator_is_not_resumed_while_a_callback_waits,
    a_greenlet_that_dies_in_a_callback_fails_its_call,
    a_generator_is_resumed_in_another_greenlet_than_it_began_in,
    a_scope_holds_in_its_greenlet_and_while_it_waits,
    scopes_of_many_greenlets_that_wait_are_each_ones_own,
    a_generator_takes_its_scope_to_the_greenlet_that_resumes_it,
    a_scope_for_all_threads_ends_with_the_greenlet_that_dies,
    scopes_of_two_greenlets_that_end_in_another_order,
    a_thread_that_ends_drops_the_frames_of_its_greenlets,
    a_greenlet_is_resumed_in_the_dropped_event_of_its_frame,
    each_frame_ends_once_whichever_greenlet_continues,
)


def main():
    failed = show_all(SHOWN)
    # The program ends while a frame that is watched waits, and its exit code shows how.
    global left_behind
    framehook.add(Watching(waits))
    left_behind = greenlet.greenlet(waits)
    left_behind.switch()
    return 1 if failed else 0


run(main)
