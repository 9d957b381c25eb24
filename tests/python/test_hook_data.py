"""Frame hooks in C: the data of each watched frame is freed once, also where each allocation fails."""

import contextlib
import gc
import itertools
import sys
import threading
import unittest

from support import attempt, framecore, in_a_child, in_many_threads, in_new_thread, needs_failing_allocations, needs_hooks, use_extensions

use_extensions()
import datahooks

ERROR, PASS, REPLACE, DISABLE, RESULT = range(-1, 4)
ON_EXIT, ON_YIELD, ON_RESUME = 1, 2, 4
EVERYTHING = ON_EXIT | ON_YIELD | ON_RESUME
EXCLUDE_CALLEES, ONLY_CALLEES, ONLY_CALLEES_EVERYWHERE = 1, 2, 3
RETURNED, RAISED, YIELDED, RESUMED, DROPPED = range(5)


def function(a=1):
    return a


def other(a=1):
    b = c = d = a
    return b, c, d


def generator(a=1):
    yield a
    yield a


def other_generator(a=1):
    b = a
    yield b, a


async def coroutine(a=1):
    return a


def use(made):
    """What comes out of a call, a generator or coroutine run to its end."""
    if hasattr(made, "__next__"):
        return list(made)
    try:
        made.send(None)
    except AttributeError:
        return made
    except StopIteration as stop:
        return stop.value


def run():
    return use(function())


def run_generator():
    return use(generator())


def stop_generator():
    made = generator()
    next(made)
    made.close()


def throw_into_generator():
    made = generator()
    next(made)
    try:
        made.throw(KeyError)
    except KeyError:
        pass


def run_coroutine():
    return use(coroutine())


# name: (how it is called, code, other code, the events of a call besides its exit)
CALLS = {
    "function": (run, function, other, 0),
    "generator": (run_generator, generator, other_generator, 5),
    "closed": (stop_generator, generator, other_generator, 2),
    "thrown": (throw_into_generator, generator, other_generator, 3),
    "coroutine": (run_coroutine, coroutine, None, 1),
}
SETUPS = {
    "all events": dict(verdict=PASS, events=EVERYTHING),
    "limited": dict(verdict=PASS, scope=EXCLUDE_CALLEES),
    "watched and limited": dict(verdict=PASS, events=EVERYTHING, scope=ONLY_CALLEES),
    "disabled": dict(verdict=DISABLE, events=EVERYTHING),
    "result": dict(verdict=RESULT, events=ON_EXIT, object=[]),
    "replaced": dict(verdict=REPLACE, events=EVERYTHING),
}


def makes_sense(setup, call, replacement):
    if setup == "replaced":
        return replacement is not None
    # A call that has a value makes no generator, to be closed or thrown into.
    return setup != "result" or call not in ("closed", "thrown")


@needs_hooks
class DataOfFrames(unittest.TestCase):
    def setUp(self):
        self.assertEqual((datahooks.take_frames(), datahooks.take_hooks(), datahooks.take_early()), ([], (0, 0), 0))
        self.addCleanup(lambda: self.assertEqual(datahooks.take_early(), 0))
        self.addCleanup(datahooks.take_hooks)
        self.addCleanup(datahooks.take_frames)
        self.addCleanup(framecore.clear_frame_hooks)

    def arguments(self, setup, replacement):
        arguments = dict(SETUPS[setup])
        if setup == "replaced":
            arguments["object"] = replacement.__code__
        return arguments

    def each(self):
        for name, (call, code, replacement, others) in CALLS.items():
            for setup in SETUPS:
                if makes_sense(setup, name, replacement):
                    yield (f"{setup}, {name}", call, code.__code__,
                           self.arguments(setup, replacement), others)

    def test_each_is_freed_once_after_one_exit_event(self):
        for name, call, code, arguments, others in self.each():
            with self.subTest(name):
                handle = datahooks.add(code, **arguments)
                results = [repr(call()) for _ in range(3)]
                datahooks.remove(handle)
                self.assertEqual(len(set(results)), 1, results)
                found = datahooks.take_frames()
                self.assertEqual(datahooks.take_hooks(), (1, 1))
                self.assertEqual(len(found), 1 if arguments["verdict"] == DISABLE else 3)
                self.assertEqual({frame[2:] for frame in found}, {(1, 0)})
                self.assertEqual({frame[0] for frame in found}, {int("events" in arguments)})
                if arguments.get("events") == EVERYTHING and arguments["verdict"] != REPLACE:
                    self.assertEqual({frame[1] for frame in found}, {others})

    def test_that_of_a_failed_call_is_freed_after_its_exit_event_if_the_frame_was_watched(self):
        for verdict, arguments, ends in (
                (ERROR, dict(events=ON_EXIT), None),
                (PASS, dict(events=8), 0),              # no such event
                (PASS, dict(scope=4), 0),
                (RESULT, dict(events=ON_EXIT), 1),          # no value
                (DISABLE, dict(events=ON_EXIT, object=1), 1),
                (REPLACE, dict(events=ON_EXIT, object=1), 1),
                (REPLACE, dict(scope=EXCLUDE_CALLEES, object=generator.__code__), 0),
                (17, dict(events=ON_EXIT, scope=ONLY_CALLEES), 1)):
            with self.subTest(verdict=verdict, **arguments):
                handle = datahooks.add(function.__code__, verdict, **arguments)
                with self.assertRaises((ValueError, TypeError, SystemError)):
                    function()
                datahooks.remove(handle)
                # The answer is ignored where the verdict is ERROR: the data is still the hook's.
                freed = 0 if ends is None else 1
                self.assertEqual(datahooks.take_frames(), [(ends or 0, 0, freed, 0)])
                self.assertEqual(datahooks.take_hooks(), (1, 1))

    def test_where_a_callback_fails_they_are_freed_once(self):
        for kind, call in ((RETURNED, run), (RAISED, throw_into_generator),
                           (YIELDED, run_generator), (RESUMED, run_generator),
                           (DROPPED, lambda: generator().close())):
            code = function.__code__ if kind == RETURNED else generator.__code__
            handle = datahooks.add(code, PASS, events=EVERYTHING, scope=EXCLUDE_CALLEES, fails=kind)
            hook, sys.unraisablehook = sys.unraisablehook, lambda report: None
            try:
                with self.subTest(kind), contextlib.suppress(ValueError):
                    call()
            finally:
                sys.unraisablehook = hook
            datahooks.remove(handle)
            (frame,) = datahooks.take_frames()
            self.assertEqual((frame[0], frame[2:]), (1, (1, 0)), kind)
            self.assertEqual(datahooks.take_hooks(), (1, 1))

    def test_each_answer_that_is_no_error_has_its_data_freed_once(self):
        """Whatever the verdict, the object, the events, the scope, and whether an exception is set."""
        for verdict, events, scope, object_, raises in itertools.product(
                (ERROR, PASS, REPLACE, DISABLE, RESULT, 17, -2),
                (0, ON_EXIT, ON_YIELD, ON_RESUME, EVERYTHING, 8, ON_EXIT | 1 << 30),
                (0, EXCLUDE_CALLEES, ONLY_CALLEES, ONLY_CALLEES_EVERYWHERE, 4, 1 << 31),
                ((), 5, other.__code__, generator.__code__), (False, True)):
            arguments = dict(events=events, scope=scope, raises=raises)
            if object_ != ():
                arguments["object"] = object_
            handle = datahooks.add(function.__code__, verdict, **arguments)
            try:
                outcome = function()
            except (ValueError, TypeError, SystemError) as error:
                outcome = error
            datahooks.remove(handle)
            found = verdict, arguments, outcome, datahooks.take_frames(), datahooks.take_hooks()
            if raises and verdict != ERROR:
                self.assertEqual(str(outcome), "the hook fails", found)
            (ends, others, freed, late), = found[3]
            self.assertEqual((freed, late, others), (int(verdict != ERROR and bool(events or scope)), 0, 0), found)
            # The exit event is delivered once.
            self.assertLessEqual(ends, int(events != 0), found)
            self.assertEqual(found[4], (1, 1), found)

    def test_an_exception_beside_an_answer_is_the_failure_of_the_call(self):
        for name, call, code, arguments, _ in self.each():
            with self.subTest(name):
                handle = datahooks.add(code, raises=True, **arguments)
                for _ in range(3):
                    with self.assertRaisesRegex(ValueError, "the hook fails"):
                        call()
                datahooks.remove(handle)
                self.assertEqual({frame[2:] for frame in datahooks.take_frames()}, {(1, 0)})
                self.assertEqual(datahooks.take_hooks(), (1, 1))

    def test_user_data_is_freed_with_the_hook_and_data_with_its_frame(self):
        handle = datahooks.add(generator.__code__, PASS, events=ON_EXIT)
        first, second = generator(), generator()
        next(first)
        datahooks.remove(handle)
        self.assertEqual(datahooks.take_hooks(), (1, 1))
        for made in (first, second):
            list(made)
        del first, second, made
        gc.collect()
        self.assertEqual(datahooks.take_hooks(), (0, 0))
        self.assertEqual(datahooks.take_frames(), [(0, 0, 1, 0)] * 2)

    def each_event(self):
        """Calls with an event of each kind: (kind, call, function)."""
        def drop():
            made = generator()
            next(made)
            del made
            gc.collect()

        yield RETURNED, run, function
        yield RETURNED, run_generator, generator
        yield RETURNED, run_coroutine, coroutine
        yield RAISED, throw_into_generator, generator
        yield YIELDED, run_generator, generator
        yield RESUMED, run_generator, generator
        yield DROPPED, drop, generator

    def test_a_hook_removed_by_its_callback_lives_until_that_has_returned(self):
        for kind, call, watched in self.each_event():
            with self.subTest(kind, watched=watched.__name__):
                counts = []

                def on_event(event):
                    if event == kind and not counts:
                        datahooks.remove(handle)
                        gc.collect()
                        counts.append(datahooks.take_hooks())

                handle = datahooks.add(watched.__code__, PASS, events=EVERYTHING, on_event=on_event)
                call()
                gc.collect()
                self.assertEqual((counts, datahooks.take_hooks()), ([(1, 0)], (0, 1)))
                self.assertEqual({frame[2:] for frame in datahooks.take_frames()}, {(1, 0)})

    def test_a_hook_removed_in_another_thread_lives_until_its_callback_has_returned(self):
        for kind, call, watched in self.each_event():
            with self.subTest(kind, watched=watched.__name__):
                delivered, may_continue, first = threading.Event(), threading.Event(), []

                def on_event(event):
                    if event == kind and not first:
                        first.append(event)
                        delivered.set()
                        may_continue.wait(60)

                handle = datahooks.add(watched.__code__, PASS, events=EVERYTHING, on_event=on_event)
                thread = threading.Thread(target=call)
                thread.start()
                delivered.wait(60)
                datahooks.remove(handle)
                gc.collect()
                self.assertEqual(datahooks.take_hooks(), (1, 0))
                may_continue.set()
                thread.join()
                gc.collect()
                self.assertEqual(datahooks.take_hooks(), (0, 1))
                self.assertEqual({frame[2:] for frame in datahooks.take_frames()}, {(1, 0)})

    def test_a_hook_removed_in_its_entry_callback_lives_until_that_has_returned(self):
        for elsewhere in False, True:
            counts = []

            def on_entry():
                if elsewhere:
                    in_new_thread(datahooks.remove, handle)
                else:
                    datahooks.remove(handle)
                gc.collect()
                counts.append(datahooks.take_hooks())

            handle = datahooks.add(function.__code__, PASS, events=EVERYTHING, on_entry=on_entry)
            self.assertEqual(run(), 1)
            gc.collect()
            self.assertEqual((counts, datahooks.take_hooks()), ([(1, 0)], (0, 1)))
            self.assertEqual([frame[2:] for frame in datahooks.take_frames()], [(1, 0)])

    def test_a_hook_removed_while_two_of_its_callbacks_run_lives_until_the_last(self):
        """One within the other: what a callback calls outside is watched too."""
        counts = []

        def on_event(event):
            counts.append(datahooks.take_hooks())
            if len(counts) == 1:
                outside()
            elif len(counts) == 2:
                datahooks.remove(handle)
            counts.append(datahooks.take_hooks())

        import framehook
        outside = framehook.reentrant(function)
        handle = datahooks.add(function.__code__, PASS, events=EVERYTHING, on_event=on_event)
        run()
        gc.collect()
        self.assertEqual((counts, datahooks.take_hooks()), ([(1, 0), (0, 0), (0, 0), (0, 0)], (0, 1)))
        self.assertEqual([frame[2:] for frame in datahooks.take_frames()], [(1, 0)] * 2)

    def test_an_unhooked_call_has_no_data(self):
        handle = datahooks.add(function.__code__, PASS, events=ON_EXIT)
        for below in (False, True):
            self.assertEqual(datahooks.call_unhooked(below, function, 5), 5)
            self.assertEqual(datahooks.call_unhooked(below, run), 1)
        datahooks.remove(handle)
        self.assertEqual(datahooks.take_frames(), [(1, 0, 1, 0)])
        self.assertEqual(datahooks.take_hooks(), (1, 1))

    def test_threads_free_each_once(self):
        handles = [datahooks.add(made.__code__, PASS, events=EVERYTHING, scope=EXCLUDE_CALLEES)
                   for made in (function, generator)]

        def work():
            for _ in range(200):
                run(), run_generator(), stop_generator()

        in_many_threads(4, work)
        for handle in handles:
            datahooks.remove(handle)
        found = datahooks.take_frames()
        self.assertEqual(len(found), 4 * 200 * 3)
        self.assertEqual({(frame[0], *frame[2:]) for frame in found}, {(1, 1, 0)})
        self.assertEqual(datahooks.take_hooks(), (2, 2))

    @needs_failing_allocations
    @in_a_child
    def test_each_allocation_fails_once(self):
        for name, call, code, arguments, _ in self.each():
            with self.subTest(name):
                self.let_each_allocation_fail(call, code, arguments)

    def let_each_allocation_fail(self, call, code, arguments):
        def operation():
            datahooks.add(code, **arguments)
            datahooks.add(code, PASS, events=EVERYTHING)
            return call()

        failures = succeeded = 0
        for number in range(1, 400):
            outcome = attempt(number, operation)
            framecore.clear_frame_hooks()
            gc.collect()
            installed, freed = datahooks.take_hooks()
            self.assertEqual(installed, freed, number)
            found = datahooks.take_frames()
            self.assertLessEqual({frame[2:] for frame in found}, {(1, 0)}, number)
            # Once a frame is watched, its exit event is delivered, whatever fails afterwards.
            self.assertLessEqual({frame[0] for frame in found}, {0, 1}, number)
            failures += outcome is MemoryError
            succeeded = succeeded + 1 if outcome is not MemoryError else 0
            if succeeded > 25:
                break
        self.assertGreater(failures, 3)
        self.assertGreater(succeeded, 25)

    @needs_failing_allocations
    @in_a_child
    def test_watches_of_a_deep_recursion_fail_one_at_a_time(self):
        def recurse(n):
            return n and recurse(n - 1)

        handle = datahooks.add(recurse.__code__, PASS, events=ON_EXIT, scope=EXCLUDE_CALLEES)
        second = datahooks.add(recurse.__code__, PASS, events=ON_EXIT)
        deep = lambda: recurse(100)
        # CPython needs memory to instrument code, once.
        deep()
        datahooks.take_frames()
        failed = 0
        for number in range(1, 200):
            outcome = attempt(number, deep)
            found = datahooks.take_frames()
            self.assertEqual({frame[2:] for frame in found}, {(1, 0)})
            # A hook that could not watch gets no event; all before it do.
            ends = [frame[0] for frame in found]
            self.assertEqual((set(ends) - {0, 1}, ends.count(0)),
                             (set(), int(outcome is MemoryError)))
            failed += outcome is MemoryError
        self.assertGreater(failed, 10)
        datahooks.remove(handle)
        datahooks.remove(second)

    @needs_failing_allocations
    @in_a_child
    def test_an_unhooked_call_without_memory_fails_or_is_unhooked(self):
        handle = datahooks.add(function.__code__, PASS, events=ON_EXIT)
        failed = 0
        for number in range(60):
            for below in (False, True):
                outcome = attempt(number, lambda: datahooks.call_unhooked(below, function, run))
                failed += outcome is MemoryError
                self.assertIn(outcome, (run, MemoryError))
            self.assertEqual(datahooks.take_frames(), [])
            run()       # is dispatched again
            self.assertEqual(datahooks.take_frames(), [(1, 0, 1, 0)])
        datahooks.remove(handle)
        self.assertGreater(failed, 0)
