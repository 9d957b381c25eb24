"""Frames that hooks watch, while callbacks and hooks change hooks, code, frames and memory."""

import contextlib
import gc
import sys
import unittest
import weakref

from support import framehook, needs_hooks, use_extensions
from test_hook_watching import Watcher

use_extensions()
import framehooks


def leaf(n=1):
    return n


def calls_leaf():
    return leaf()


def recurse(n):
    return n and recurse(n - 1)


def counts(n):
    try:
        for i in range(n):
            yield leaf(i)
    finally:
        leaf(n)


def fails():
    raise KeyError("k")


class Waits:
    def __await__(self):
        yield leaf()


async def coroutine():
    await Waits()
    return 3


def finish(made):
    """What a coroutine returns."""
    try:
        while True:
            made.send(None)
    except StopIteration as stop:
        return stop.value


def program():
    """Every way in which a frame of the functions above ends."""
    results = [recurse(3), list(counts(2)), finish(coroutine())]
    for end in (lambda generator: generator.close(), lambda generator: None,
                lambda generator: generator.throw(KeyError)):
        generator = counts(3)
        next(generator)
        with contextlib.suppress(KeyError):
            end(generator)
        del generator
    with contextlib.suppress(KeyError):
        fails()
    counts(1)
    return results


ALL = (leaf, recurse, counts, fails, coroutine)


def ends(kinds):
    return sum(kind in ("returned", "raised", "dropped") for kind in kinds)


class HookCleared(unittest.TestCase):
    def setUp(self):
        self.assertEqual(framehook.hooks(), [])
        self.addCleanup(framehook.clear)


@needs_hooks
class HooksThatChange(HookCleared):
    def test_hooks_that_callbacks_add_get_events_of_later_frames(self):
        late = []

        def add(event):
            late.append(Watcher(leaf))
            framehook.add(late[-1])

        with framehook.hook(Watcher(leaf, on_event=add)):
            for _ in range(5):
                leaf()
        self.assertEqual([watcher.kinds() for watcher in late],
                         [["returned"] * n for n in (4, 3, 2, 1, 0)])

    def test_each_callback_removes_a_hook_that_another_has_added(self):
        added = []

        def add(event):
            added.append(framehook.add(Watcher(leaf)))

        def remove(event):
            if added:
                framehook.remove(added.pop(0))

        first, second = Watcher(leaf, on_event=add), Watcher(leaf, on_event=remove)
        with framehook.hook(first), framehook.hook(second):
            for _ in range(300):
                leaf()
            self.assertEqual(len(framehook.hooks()), 2 + len(added))
        self.assertEqual((first.kinds(), second.kinds()), (["returned"] * 300,) * 2)
        self.assertLess(len(added), 3)

    def test_a_hook_that_removes_itself_in_its_callback_gets_no_more_events(self):
        watcher = Watcher(counts, leaf, on_event=lambda event: framehook.remove(watcher))
        others = Watcher(counts)
        with framehook.hook(others):
            framehook.add(watcher)
            self.assertEqual(list(counts(2)), [0, 1])
        self.assertEqual(watcher.kinds(), ["resumed"])
        self.assertEqual(ends(others.kinds()), 1)

    def test_the_first_callback_removes_all_and_no_other_runs(self):
        for function in (leaf, fails):
            before = Watcher(function)
            watcher = Watcher(function, on_event=lambda event: framehook.clear())
            framehook.add(before)
            framehook.add(watcher)
            with contextlib.suppress(KeyError):
                function()
            self.assertEqual((ends(watcher.kinds()), before.kinds()), (1, []))

    def test_a_hook_added_while_a_generator_is_suspended_gets_no_event_of_it(self):
        early, late = Watcher(counts), Watcher(counts, leaf)
        with framehook.hook(early):
            generator = counts(3)
            next(generator)
            with framehook.hook(late):
                next(generator)
            self.assertEqual(list(generator), [2])
        self.assertEqual(late.taken(), [("returned", 1)])
        self.assertEqual(early.kinds(), ["resumed", "yielded"] * 3 + ["resumed", "returned"])

    def test_a_hook_that_is_added_again_gets_no_event_of_what_it_watched_before(self):
        watcher = Watcher(counts)
        with framehook.hook(watcher):
            generator = counts(3)
            next(generator)
        with framehook.hook(watcher):
            self.assertEqual(list(generator), [1, 2])
        self.assertEqual(watcher.kinds(), ["resumed", "yielded"])

    def test_a_hook_is_freed_with_the_last_generator_that_it_watches(self):
        class Hook:
            def __call__(self, view):
                if view.code is counts.__code__:
                    view.watch(self.delivered)

            def delivered(self, event):
                delivered.append(event.kind)

        delivered, hook = [], Hook()
        alive = weakref.ref(hook)
        framehook.add(hook)
        generators = [counts(3) for _ in range(3)]
        next(generators[0]), next(generators[1])
        framehook.remove(hook)
        del hook
        for end in (lambda generator: list(generator), lambda generator: generator.close(),
                    lambda generator: None):
            self.assertIsNotNone(alive())
            end(generators.pop(0))
        gc.collect()
        self.assertEqual((delivered, alive()), ([], None))

    def test_a_slot_that_is_used_again_gets_no_event_of_the_frames_before(self):
        second = Watcher(leaf, calls_leaf)

        def swaps():
            framehook.remove(first)
            framehook.add(second)
            return calls_leaf()

        first = Watcher(swaps, leaf, calls_leaf)
        framehook.add(first)
        swaps()
        self.assertEqual((first.kinds(), second.kinds()), ([], ["returned", "returned"]))


@needs_hooks
class UnhookedCalls(HookCleared):
    def entries_and_exits(self, inside, **options):
        """Names of functions for which a hook was called, which calls something at an entry, or at an exit."""
        entries = []

        def hook(view):
            if view.code in (leaf.__code__, calls_leaf.__code__):
                entries.append(view.code.co_name)
                if "entries" in options:
                    options["entries"]()
                if "delivered" in options:
                    view.watch(lambda event: options["delivered"]())

        with framehook.hook(hook):
            inside()
        return entries

    def test_called_from_a_hook_or_a_callback_is_a_call_like_another(self):
        results = []

        def use():
            results.append(framehook.unhooked(leaf)(2))
            results.append(framehook.unhooked(calls_leaf, callees=True)())
            with contextlib.suppress(KeyError):
                framehook.unhooked(fails)()

        for when in ("entries", "delivered"):
            names = self.entries_and_exits(lambda: (calls_leaf(), leaf()), **{when: use})
            self.assertEqual(names, ["calls_leaf", "leaf", "leaf"], when)
            self.assertEqual(results, [2, 1] * 3)
            results.clear()

    def test_in_a_callback_affects_nothing_after_it(self):
        generators = []

        def use():
            generator = framehook.unhooked(counts, callees=True)(2)
            next(generator)
            generators.append(generator)

        names = self.entries_and_exits(lambda: (leaf(), calls_leaf()), delivered=use)
        self.assertEqual(names, ["leaf", "calls_leaf", "leaf"])
        self.assertEqual([list(generator) for generator in generators], [[1]] * 3)

    def test_leaves_out_what_is_below_a_call_of_c_on_request(self):
        def sort(below):
            return framehook.unhooked(sorted, callees=below)([2, 1], key=leaf)

        self.assertEqual(self.entries_and_exits(lambda: sort(False)), ["leaf", "leaf"])
        self.assertEqual(self.entries_and_exits(lambda: sort(True)), [])

    def test_affects_nothing_after_a_call_that_has_failed_or_is_suspended(self):
        def use():
            with contextlib.suppress(KeyError):
                framehook.unhooked(fails, callees=True)()
            leaf()
            generator = framehook.unhooked(counts, callees=True)(2)
            leaf()
            return list(generator)

        # The generator runs after the call that has made it.
        self.assertEqual(self.entries_and_exits(use), ["leaf"] * 5)


@needs_hooks
class Surroundings(HookCleared):
    def run_watched(self, count=1):
        watchers = [Watcher(*ALL) for _ in range(count)]
        with contextlib.ExitStack() as stack:
            for watcher in watchers:
                stack.enter_context(framehook.hook(watcher))
            results = program()
        return results, [watcher.taken() for watcher in watchers]

    def test_a_collection_in_each_hook_and_callback_changes_nothing(self):
        expected = self.run_watched(2)

        class Collecting(Watcher):
            def __call__(self, view):
                gc.collect(0)
                return super().__call__(view)

        watchers = [Collecting(*ALL, on_event=lambda event: gc.collect()) for _ in range(2)]
        with framehook.hook(watchers[0]), framehook.hook(watchers[1]):
            results = program()
        self.assertEqual((results, [watcher.taken() for watcher in watchers]), expected)

    def test_a_collection_in_a_callback_frees_cycles_through_data_and_generators(self):
        class Data:
            pass

        words = []

        def hook(view):
            if view.code is counts.__code__:
                data = Data()
                data.itself = data
                words.append(weakref.ref(data))
                view.watch(lambda event: gc.collect(), data, yields=True, resumes=True)

        with framehook.hook(hook):
            for _ in range(5):
                cycle = [counts(3)]
                next(cycle[0])
                cycle.append(cycle)
                del cycle
            gc.collect()
        gc.collect()
        self.assertEqual([data() for data in words], [None] * 5)

    def test_the_collector_frees_cycles_through_events(self):
        class Kept:
            pass

        def returns(value):
            return value

        def raises(value):
            raise KeyError(value)

        alive = []

        def run(function, data):
            kept = Kept()
            alive.append(weakref.ref(kept))

            def hook(view):
                if view.code is function.__code__:
                    # The event leads to what keeps it: as a value, an exception or a word.
                    view.watch(lambda event: setattr(kept, "event", event), data and kept)

            with framehook.hook(hook), contextlib.suppress(KeyError):
                function(None if data else kept)

        for function in (returns, raises):
            for data in (False, True):
                run(function, data)
        gc.collect()
        self.assertEqual([kept() for kept in alive], [None] * 4)

    def test_an_evaluator_changes_no_event(self):
        expected = self.run_watched(2)
        framehooks.set_evaluator("pass")
        try:
            self.assertEqual(self.run_watched(2), expected)
        finally:
            framehooks.set_evaluator(None)

    def test_an_evaluator_that_comes_and_goes_with_each_event_does_no_harm(self):
        on = []

        def turn(event):
            framehooks.set_evaluator(None if on else "pass")
            on.clear() if on else on.append(True)

        expected = self.run_watched(1)
        watcher = Watcher(*ALL, on_event=turn)
        try:
            with framehook.hook(watcher):
                results = program()
        finally:
            framehooks.set_evaluator(None)
        self.assertEqual((results, [watcher.taken()]), expected)

    def test_a_callback_that_fails_under_an_evaluator_fails_the_call(self):
        def complain(event):
            raise RuntimeError(event.kind)

        for evaluator in (None, "pass"):
            framehooks.set_evaluator(evaluator)
            others = Watcher(leaf, fails, counts)
            try:
                with framehook.hook(others), framehook.hook(
                        Watcher(leaf, fails, counts, on_event=complain)):
                    for function in (leaf, fails, lambda: next(counts(1))):
                        self.assertRaises(RuntimeError, function)
            finally:
                framehooks.set_evaluator(None)
            self.assertEqual(others.kinds(), ["raised", "raised", "resumed", "raised"], evaluator)

    def test_generators_that_run_copies_of_their_code_have_events(self):
        copy = counts.__code__.replace(co_stacksize=counts.__code__.co_stacksize + 40)

        def replace(view):
            return copy if view.code is counts.__code__ else None

        watcher = Watcher(counts)
        with framehook.hook(watcher), framehook.hook(replace):
            self.assertEqual(list(counts(2)), [0, 1])
            generator = counts(3)
            next(generator)
            self.assertIs(generator.gi_code, copy)
            generator.close()
        self.assertEqual(watcher.kinds(), ["resumed", "yielded", "resumed", "yielded", "resumed",
                                           "returned", "resumed", "yielded", "resumed", "raised"])

    def test_a_function_that_is_given_other_code_leaves_its_generators_as_they_are(self):
        def own():
            yield 1
            yield 2

        watcher = Watcher(own)
        with framehook.hook(watcher):
            generator = own()
            next(generator)
            own.__code__ = own.__code__.replace()
            self.assertEqual(list(generator), [2])
            # Other code, though an equal one: watchers compare by equality.
            self.assertEqual(list(own()), [1, 2])
        self.assertEqual(ends(watcher.kinds()), 2)

    def test_locals_are_read_and_written_as_ever(self):
        def reads():
            value = 1
            yield locals()
            exec("value = 2")
            frame = sys._getframe()
            frame.f_locals["value"] = 7
            frame.f_locals["new"] = 8
            yield value, sorted(frame.f_locals), eval("value"), frame.f_locals["new"]

        expected = list(reads())
        self.assertEqual(expected, [{"value": 1}, (7, ["frame", "new", "value"], 7, 8)])
        watcher = Watcher(reads)
        with framehook.hook(watcher):
            self.assertEqual(list(reads()), expected)
        self.assertEqual(ends(watcher.kinds()), 1)

    def test_a_frame_is_cleared_where_cpython_allows_it(self):
        def says(frame):
            try:
                frame.clear()
            except RuntimeError as error:
                return str(error)

        found = []
        watcher = Watcher(counts, on_event=lambda event: event.kind == "yielded" and found.append(
            says(generator.gi_frame)))
        with framehook.hook(watcher):
            generator = counts(1)
            frame = generator.gi_frame
            next(generator)
            found.append(says(frame))
            generator.close()
            found.append(says(frame))
            del frame
            generator = None
        self.assertEqual(found, ["cannot clear an executing frame",
                                 "cannot clear a suspended frame", None])
        self.assertEqual(watcher.kinds(), ["resumed", "yielded", "resumed", "raised"])

    def test_walks_in_a_callback_find_the_caller_and_not_the_frame(self):
        def names():
            found, frame = [], sys._getframe(2)
            while frame.f_code.co_name != "test":
                found.append(frame.f_code.co_name)
                frame = frame.f_back
            return found

        def advance(generator):
            return next(generator)

        walks = []

        def test():
            calls_leaf()
            advance(counts(1))

        watcher = Watcher(counts, leaf, on_event=lambda event: walks.append(names()))
        with framehook.hook(watcher):
            test()
        self.assertEqual(walks[:4], [["delivered", "calls_leaf"], ["delivered", "advance"],
                                     ["delivered", "counts", "advance"], ["delivered", "advance"]])
