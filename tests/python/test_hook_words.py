"""Frame hooks, second edition, in C: the word of each frame that is watched is freed once.

That holds where each allocation fails, too.
"""

import contextlib
import gc
import itertools
import sys
import threading
import unittest

from support import attempt, framecore, in_a_child, needs_failing_allocations, needs_hooks, use_extensions

use_extensions()
import wordhooks

ERROR, PASS, REPLACE, DISABLE, RESULT = range(-1, 4)
LEAVE, YIELD, RESUME = 1, 2, 4
EVERYTHING = LEAVE | YIELD | RESUME
NOT_BELOW, ONLY_BELOW, ONLY_BELOW_EVERYWHERE = 1, 2, 3
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


# name: (how it is called, code, other code, what a call is told of besides its end)
CALLS = {
    "function": (run, function, other, 0),
    "generator": (run_generator, generator, other_generator, 5),
    "closed": (stop_generator, generator, other_generator, 2),
    "thrown": (throw_into_generator, generator, other_generator, 3),
    "coroutine": (run_coroutine, coroutine, None, 1),
}
SETUPS = {
    "told of all": dict(verdict=PASS, tell=EVERYTHING),
    "limited": dict(verdict=PASS, extent=NOT_BELOW),
    "told and limited": dict(verdict=PASS, tell=EVERYTHING, extent=ONLY_BELOW),
    "settled": dict(verdict=DISABLE, tell=EVERYTHING),
    "result": dict(verdict=RESULT, tell=LEAVE, object=[]),
    "replaced": dict(verdict=REPLACE, tell=EVERYTHING),
}


def makes_sense(setup, call, replacement):
    if setup == "replaced":
        return replacement is not None
    # A call that has a value makes no generator, to be closed or thrown into.
    return setup != "result" or call not in ("closed", "thrown")


@needs_hooks
class Words(unittest.TestCase):
    def setUp(self):
        self.assertEqual((wordhooks.take_words(), wordhooks.take_data(), wordhooks.take_early()), ([], (0, 0), 0))
        self.addCleanup(lambda: self.assertEqual(wordhooks.take_early(), 0))
        self.addCleanup(wordhooks.take_data)
        self.addCleanup(wordhooks.take_words)
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

    def test_each_is_freed_once_and_told_of_one_end(self):
        for name, call, code, arguments, others in self.each():
            with self.subTest(name):
                handle = wordhooks.add(code, **arguments)
                results = [repr(call()) for _ in range(3)]
                wordhooks.remove(handle)
                self.assertEqual(len(set(results)), 1, results)
                found = wordhooks.take_words()
                self.assertEqual(wordhooks.take_data(), (1, 1))
                self.assertEqual(len(found), 1 if arguments["verdict"] == DISABLE else 3)
                self.assertEqual({word[2:] for word in found}, {(1, 0)})
                self.assertEqual({word[0] for word in found}, {int("tell" in arguments)})
                if arguments.get("tell") == EVERYTHING and arguments["verdict"] != REPLACE:
                    self.assertEqual({word[1] for word in found}, {others})

    def test_of_a_failed_call_is_freed_and_told_if_the_frame_was_watched(self):
        for verdict, arguments, ends in (
                (ERROR, dict(tell=LEAVE), None),
                (PASS, dict(tell=8), 0),                # nothing can be told of that
                (PASS, dict(extent=4), 0),
                (RESULT, dict(tell=LEAVE), 1),          # no value
                (DISABLE, dict(tell=LEAVE, object=1), 1),
                (REPLACE, dict(tell=LEAVE, object=1), 1),
                (REPLACE, dict(extent=NOT_BELOW, object=generator.__code__), 0),
                (17, dict(tell=LEAVE, extent=ONLY_BELOW), 1)):
            with self.subTest(verdict=verdict, **arguments):
                handle = wordhooks.add(function.__code__, verdict, **arguments)
                with self.assertRaises((ValueError, TypeError, SystemError)):
                    function()
                wordhooks.remove(handle)
                # Nothing counts of an answer that is an error: the word is still the hook's.
                freed = 0 if ends is None else 1
                self.assertEqual(wordhooks.take_words(), [(ends or 0, 0, freed, 0)])
                self.assertEqual(wordhooks.take_data(), (1, 1))

    def test_where_a_callback_fails_they_are_freed_once(self):
        for kind, call in ((RETURNED, run), (RAISED, throw_into_generator),
                           (YIELDED, run_generator), (RESUMED, run_generator),
                           (DROPPED, lambda: generator().close())):
            code = function.__code__ if kind == RETURNED else generator.__code__
            handle = wordhooks.add(code, PASS, tell=EVERYTHING, extent=NOT_BELOW, fails=kind)
            hook, sys.unraisablehook = sys.unraisablehook, lambda report: None
            try:
                with self.subTest(kind), contextlib.suppress(ValueError):
                    call()
            finally:
                sys.unraisablehook = hook
            wordhooks.remove(handle)
            (word,) = wordhooks.take_words()
            self.assertEqual((word[0], word[2:]), (1, (1, 0)), kind)
            self.assertEqual(wordhooks.take_data(), (1, 1))

    def test_each_answer_that_is_no_error_has_its_word_freed_once(self):
        """Whatever the verdict, the object, what is to be told, the extent, and an exception that is set."""
        for verdict, tell, extent, object_, raises in itertools.product(
                (ERROR, PASS, REPLACE, DISABLE, RESULT, 17, -2),
                (0, LEAVE, YIELD, RESUME, EVERYTHING, 8, LEAVE | 1 << 30),
                (0, NOT_BELOW, ONLY_BELOW, ONLY_BELOW_EVERYWHERE, 4, 1 << 31),
                ((), 5, other.__code__, generator.__code__), (False, True)):
            arguments = dict(tell=tell, extent=extent, raises=raises)
            if object_ != ():
                arguments["object"] = object_
            handle = wordhooks.add(function.__code__, verdict, **arguments)
            try:
                outcome = function()
            except (ValueError, TypeError, SystemError) as error:
                outcome = error
            wordhooks.remove(handle)
            found = verdict, arguments, outcome, wordhooks.take_words(), wordhooks.take_data()
            if raises and verdict != ERROR:
                self.assertEqual(str(outcome), "the hook fails", found)
            (ends, others, freed, late), = found[3]
            self.assertEqual((freed, late, others), (int(verdict != ERROR and bool(tell or extent)), 0, 0), found)
            # Who is told, is told once.
            self.assertLessEqual(ends, int(tell != 0), found)
            self.assertEqual(found[4], (1, 1), found)

    def test_an_exception_beside_an_answer_is_the_failure_of_the_call(self):
        for name, call, code, arguments, _ in self.each():
            with self.subTest(name):
                handle = wordhooks.add(code, raises=True, **arguments)
                for _ in range(3):
                    with self.assertRaisesRegex(ValueError, "the hook fails"):
                        call()
                wordhooks.remove(handle)
                self.assertEqual({word[2:] for word in wordhooks.take_words()}, {(1, 0)})
                self.assertEqual(wordhooks.take_data(), (1, 1))

    def test_the_data_of_a_hook_goes_with_the_hook_and_words_with_their_frames(self):
        handle = wordhooks.add(generator.__code__, PASS, tell=LEAVE)
        first, second = generator(), generator()
        next(first)
        wordhooks.remove(handle)
        self.assertEqual(wordhooks.take_data(), (1, 1))
        for made in (first, second):
            list(made)
        del first, second, made
        gc.collect()
        self.assertEqual(wordhooks.take_data(), (0, 0))
        self.assertEqual(wordhooks.take_words(), [(0, 0, 1, 0)] * 2)

    def each_way_to_be_told(self):
        """Calls in which a callback of each kind is under way: (kind, call, function)."""
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
        for kind, call, watched in self.each_way_to_be_told():
            with self.subTest(kind, watched=watched.__name__):
                counts = []

                def told(event):
                    if event == kind and not counts:
                        wordhooks.remove(handle)
                        gc.collect()
                        counts.append(wordhooks.take_data())

                handle = wordhooks.add(watched.__code__, PASS, tell=EVERYTHING, when_told=told)
                call()
                gc.collect()
                self.assertEqual((counts, wordhooks.take_data()), ([(1, 0)], (0, 1)))
                self.assertEqual({word[2:] for word in wordhooks.take_words()}, {(1, 0)})

    def test_a_hook_removed_in_another_thread_lives_until_its_callback_has_returned(self):
        for kind, call, watched in self.each_way_to_be_told():
            with self.subTest(kind, watched=watched.__name__):
                told_of, goes_on, first = threading.Event(), threading.Event(), []

                def told(event):
                    if event == kind and not first:
                        first.append(event)
                        told_of.set()
                        goes_on.wait(60)

                handle = wordhooks.add(watched.__code__, PASS, tell=EVERYTHING, when_told=told)
                thread = threading.Thread(target=call)
                thread.start()
                told_of.wait(60)
                wordhooks.remove(handle)
                gc.collect()
                self.assertEqual(wordhooks.take_data(), (1, 0))
                goes_on.set()
                thread.join()
                gc.collect()
                self.assertEqual(wordhooks.take_data(), (0, 1))
                self.assertEqual({word[2:] for word in wordhooks.take_words()}, {(1, 0)})

    def test_a_hook_removed_while_it_is_asked_lives_until_it_has_answered(self):
        for elsewhere in False, True:
            counts = []

            def asked():
                if elsewhere:
                    thread = threading.Thread(target=wordhooks.remove, args=(handle,))
                    thread.start()
                    thread.join()
                else:
                    wordhooks.remove(handle)
                gc.collect()
                counts.append(wordhooks.take_data())

            handle = wordhooks.add(function.__code__, PASS, tell=EVERYTHING, when_asked=asked)
            self.assertEqual(run(), 1)
            gc.collect()
            self.assertEqual((counts, wordhooks.take_data()), ([(1, 0)], (0, 1)))
            self.assertEqual([word[2:] for word in wordhooks.take_words()], [(1, 0)])

    def test_a_hook_removed_while_two_of_its_callbacks_are_under_way_lives_until_the_last(self):
        """One within the other: what a callback calls outside is watched too."""
        counts = []

        def told(event):
            counts.append(wordhooks.take_data())
            if len(counts) == 1:
                outside()
            elif len(counts) == 2:
                wordhooks.remove(handle)
            counts.append(wordhooks.take_data())

        import framehook
        outside = framehook.reentrant(function)
        handle = wordhooks.add(function.__code__, PASS, tell=EVERYTHING, when_told=told)
        run()
        gc.collect()
        self.assertEqual((counts, wordhooks.take_data()), ([(1, 0), (0, 0), (0, 0), (0, 0)], (0, 1)))
        self.assertEqual([word[2:] for word in wordhooks.take_words()], [(1, 0)] * 2)

    def test_the_original_has_no_word(self):
        handle = wordhooks.add(function.__code__, PASS, tell=LEAVE)
        for below in (False, True):
            self.assertEqual(wordhooks.original(below, function, 5), 5)
            self.assertEqual(wordhooks.original(below, run), 1)
        wordhooks.remove(handle)
        self.assertEqual(wordhooks.take_words(), [(1, 0, 1, 0)])
        self.assertEqual(wordhooks.take_data(), (1, 1))

    def test_threads_free_each_once(self):
        handles = [wordhooks.add(made.__code__, PASS, tell=EVERYTHING, extent=NOT_BELOW)
                   for made in (function, generator)]

        def work():
            for _ in range(200):
                run(), run_generator(), stop_generator()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for handle in handles:
            wordhooks.remove(handle)
        found = wordhooks.take_words()
        self.assertEqual(len(found), 4 * 200 * 3)
        self.assertEqual({(word[0], *word[2:]) for word in found}, {(1, 1, 0)})
        self.assertEqual(wordhooks.take_data(), (2, 2))

    @needs_failing_allocations
    @in_a_child
    def test_each_allocation_fails_once(self):
        for name, call, code, arguments, _ in self.each():
            with self.subTest(name):
                self.let_each_allocation_fail(call, code, arguments)

    def let_each_allocation_fail(self, call, code, arguments):
        def operation():
            wordhooks.add(code, **arguments)
            wordhooks.add(code, PASS, tell=EVERYTHING)
            return call()

        failures = succeeded = 0
        for number in range(1, 400):
            outcome = attempt(number, operation)
            framecore.clear_frame_hooks()
            gc.collect()
            installed, freed = wordhooks.take_data()
            self.assertEqual(installed, freed, number)
            found = wordhooks.take_words()
            self.assertLessEqual({word[2:] for word in found}, {(1, 0)}, number)
            # Once a frame is watched, its end is told, whatever fails afterwards.
            self.assertLessEqual({word[0] for word in found}, {0, 1}, number)
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

        handle = wordhooks.add(recurse.__code__, PASS, tell=LEAVE, extent=NOT_BELOW)
        second = wordhooks.add(recurse.__code__, PASS, tell=LEAVE)
        failed = 0
        for number in range(1, 200):
            outcome = attempt(number, lambda: recurse(100))
            found = wordhooks.take_words()
            self.assertEqual({word[2:] for word in found}, {(1, 0)})
            # The hook that could not watch is told nothing; all that came before are.
            ends = [word[0] for word in found]
            self.assertEqual((set(ends) - {0, 1}, ends.count(0)),
                             (set(), int(outcome is MemoryError)))
            failed += outcome is MemoryError
        self.assertGreater(failed, 10)
        wordhooks.remove(handle)
        wordhooks.remove(second)

    @needs_failing_allocations
    @in_a_child
    def test_the_original_fails_or_spares_without_memory(self):
        handle = wordhooks.add(function.__code__, PASS, tell=LEAVE)
        failed = 0
        for number in range(60):
            for below in (False, True):
                outcome = attempt(number, lambda: wordhooks.original(below, function, run))
                failed += outcome is MemoryError
                self.assertIn(outcome, (run, MemoryError))
            self.assertEqual(wordhooks.take_words(), [])
            run()       # and is asked about again
            self.assertEqual(wordhooks.take_words(), [(1, 0, 1, 0)])
        wordhooks.remove(handle)
        self.assertGreater(failed, 0)


if __name__ == "__main__":
    unittest.main()
