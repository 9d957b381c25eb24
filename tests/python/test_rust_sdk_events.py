"""The crate framehook: events, scopes, results, positions, and calls around hooks."""

import gc
import sys

from test.support import get_c_recursion_limit

from rust_sdk_support import HookTestCase, load, new_function, ten
from support import in_many_threads, in_new_thread

rust_hook = cases = None


def setUpModule():
    global rust_hook, cases
    rust_hook, cases = load()


class Watching(HookTestCase):
    def test_the_exit_event_of_each_call_has_its_data(self):
        f = new_function("def f(x):\n if x: return x\n raise KeyError(x)")
        guard = cases.install("watch", f, None)
        f(1)
        with self.assertRaises(KeyError):
            f(0)
        self.assertEqual(guard.seen(), ["1: f returned 1", "2: f raised KeyError(0)"])
        guard.remove()

    def test_a_generator_has_events_in_all_its_states(self):
        f = new_function("def f(n):\n for i in range(n): yield i")
        guard = cases.install("watch all", f, None)
        self.assertEqual(list(f(1)), [0])
        generator = f(2)
        next(generator)
        del generator
        gc.collect()
        self.assertEqual(guard.seen(), [
            "1: f resumed", "1: f yielded 0", "1: f resumed", "1: f returned None",
            "2: f resumed", "2: f yielded 0", "2: f dropped"])
        guard.remove()

    def test_each_watchs_data_is_dropped_once_however_the_frame_ends(self):
        f = new_function("def f(x):\n yield x\n yield 1 / x")
        before = cases.dropped_data()
        guard = cases.install("watch", f, None)
        list(f(1))
        with self.assertRaises(ZeroDivisionError):
            list(f(0))
        for end in (lambda one: one.close(), lambda one: next(one), lambda one: None):
            end(f(1))
        in_new_thread(lambda: list(f(1)))
        gc.collect()
        self.assertEqual(cases.dropped_data(), before + 6)
        guard.remove()

    def test_a_hook_removed_while_frames_run_gets_no_event_and_lives_until_they_end(self):
        f = new_function("def f():\n yield 1")
        words, dropped = cases.dropped_data(), cases.dropped()
        for way in ("remove", "drop_detached"):
            guard = cases.install("exit panics", f, None)
            generators = [f() for _ in range(3)]
            for generator in generators:
                next(generator)
            getattr(guard, way)()
            for generator in generators:
                self.assertEqual(list(generator), [])
            f()    # calls a retired hook, which removes itself
            del generator, generators
            gc.collect()
        self.assertEqual((cases.dropped_data(), cases.dropped()), (words + 6, dropped + 2))

    def test_a_panic_in_an_exit_callback_fails_the_call(self):
        f = new_function("def f(): return 1")
        words = cases.dropped_data()
        guard = cases.install("exit panics", f, None)
        with self.assertRaisesRegex(RuntimeError, '^frame hook "exit panics" panicked: delivered$'):
            f()
        guard.remove()
        self.assertEqual(cases.dropped_data(), words + 1)

    def test_an_exception_in_an_exit_callback_fails_the_call_and_has_the_raised_one_as_context(self):
        f = new_function("def f(x): return 1 / x")
        guard = cases.install("exit raises", f, ValueError("delivered"))
        for argument in (1, 0):
            with self.assertRaisesRegex(ValueError, "delivered") as caught:
                f(argument)
        self.assertIsInstance(caught.exception.__context__, ZeroDivisionError)
        guard.remove()

    def test_an_exit_callback_may_call_python_and_try_to_resume(self):
        f = new_function("def f():\n yield 1\n yield 2")
        said = []

        def callback(text):
            said.append(text.split()[2])
            try:
                next(generator)
            except (ValueError, StopIteration) as error:
                said.append(type(error).__name__)

        guard = cases.install("exit calls", f, callback)
        generator = f()
        self.assertEqual(list(generator), [1, 2])
        self.assertEqual(said[:4], ["resumed", "ValueError", "yielded", "ValueError"])
        guard.remove()

    def test_data_that_runs_python_or_panics_when_it_is_dropped(self):
        f = new_function("def f(): return 1")
        numbers = []
        guard = cases.install("data calls", f, numbers.append)
        f(), f()
        guard.remove()
        self.assertEqual(numbers, [1, 2])
        guard = cases.install("data panics", f, None)
        self.assertEqual(f(), 1)
        guard.remove()

    def test_references_are_exact(self):
        f, value = new_function("def f(x): return x"), object()
        before = sys.getrefcount(value), sys.getrefcount(f.__code__)
        guard = cases.install("watch", f, value)
        for _ in range(100):
            f(value)
        guard.remove()
        del guard
        self.assertEqual((sys.getrefcount(value), sys.getrefcount(f.__code__)), before)

    def test_numbers_come_back_as_they_were(self):
        f = new_function("def f(): pass")
        guard = cases.watch_numbers(f)
        for _ in range(5):
            f()
        self.assertEqual(guard.seen(), [0, 1, 2, 3, 4])
        del guard

    def test_threads_watch_at_once(self):
        f = new_function("def f(): return 1")
        guard = cases.install("watch", f, None)
        in_many_threads(4, lambda: [f() for _ in range(500)])
        self.assertEqual(len(guard.seen()), 2000)
        guard.remove()

    def test_the_timer_of_the_example(self):
        f = new_function("def f(x): return 1 / x")
        timer = rust_hook.time_calls(f)
        f(1)
        with self.assertRaises(ZeroDivisionError):
            f(0)
        seconds, raised = timer.seconds()
        self.assertGreater(seconds, 0)
        self.assertEqual(raised, 1)
        del timer


class Answering(HookTestCase):
    def test_a_result_replaces_the_call(self):
        f, value = new_function("def f(): raise KeyError"), object()
        guard = cases.install("result", f, value)
        self.assertIs(f(), value)
        guard.remove()
        self.assertRaises(KeyError, f)

    def test_scopes(self):
        inner = new_function("def f(n): return n and f(n - 1)")
        inner.__globals__["f"] = inner
        guard = cases.install("excludes callees", inner, None)
        inner(5)
        self.assertEqual(guard.entries(), 1)
        inner(5)
        self.assertEqual(guard.entries(), 2)
        guard.remove()
        guard = cases.install("only callees", inner, None)
        inner(5)
        inner(5)
        self.assertEqual(guard.entries(), 12)
        guard.remove()

    def test_an_unhooked_call_is_not_dispatched(self):
        f = new_function("def f(a, b=2, *, c=3): return a, b, c")
        guard = cases.install("result", f, None)
        self.assertIsNone(f(1))
        self.assertEqual(cases.call_unhooked(f, False, 1), (1, 2, 3))
        self.assertEqual(cases.call_unhooked(f, True, 1, c=5, b=4), (1, 4, 5))
        self.assertRaises(TypeError, cases.call_unhooked, f, False)
        self.assertEqual(cases.call_unhooked(len, False, [1]), 1)
        guard.remove()

    def test_a_hook_makes_a_reentrant_call(self):
        f = new_function("def f(): return 1")
        seen = []
        leaf = new_function("def leaf(n): return n", "leaf")
        helper = new_function("def helper(n): seen.append(leaf(n))", "helper", leaf=leaf, seen=seen)
        listening = cases.Listening(f.__code__, helper)
        listening.entries()
        f()
        # f; and helper and leaf, of the call that the hook has made.
        self.assertEqual((listening.entries(), seen), (3, [1]))
        listening.entries()
        helper(2)
        entries = listening.entries()
        self.assertEqual(entries, 2)

    def test_an_error_of_a_reentrant_call_is_the_hooks(self):
        f = new_function("def f(): return 1")
        listening = cases.Listening(f.__code__, lambda n: 1 // (n - 1))
        self.assertRaises(ZeroDivisionError, f)
        listening.listen(False, False)
        self.assertEqual(f(), 1)

    def test_a_hook_without_an_entry_callback_is_not_called(self):
        f = new_function("def f(): return 1")
        listening = cases.Listening(f.__code__, int)
        f()
        self.assertGreater(listening.entries(), 0)
        listening.listen(False, False)
        for _ in range(10):
            f()
        listening.listen(True, False)
        self.assertLess(listening.entries(), 3)
        f()
        self.assertGreater(listening.entries(), 0)

    def test_one_that_panics_listens(self):
        f = new_function("def f(): return 1")
        listening = cases.Listening(f.__code__, int)
        listening.entries()
        listening.listen(False, True)
        self.assertEqual(f(), 1)
        listening.listen(True, False)
        self.assertGreater(listening.entries(), 0)

    def test_one_that_does_not_listen_can_be_dropped_elsewhere(self):
        f = new_function("def f(): return 1")
        listening = cases.Listening(f.__code__, int)
        listening.listen(False, False)
        del listening
        gc.collect()
        self.assertEqual((f(), f()), (1, 1))

    def test_incompatibility(self):
        f, g = new_function("def f(x): return x"), new_function("def f(y): return y")
        self.assertIsNone(cases.reason_against(f, f))
        self.assertIsInstance(cases.reason_against(f, g), str)

    def test_placing(self):
        import framehook
        f = new_function("def f(): pass")
        first = cases.install("pass", f, None, name="a")
        cases_of = lambda: [hook.name for hook in framehook.hooks()]
        guards = [first, cases.install("pass", f, None, name="b", first=True),
                  cases.install("pass", f, None, name="c", before=first.id()),
                  cases.install("pass", f, None, name="d", after=first.id(), timed=True)]
        self.assertEqual(cases_of(), ["b", "c", "a", "d"])
        self.assertRaises(ValueError, cases.install, "pass", f, None, before=1 << 40)
        self.assertRaises(ValueError, cases.install, "pass", f, None, name="zero \0 byte")
        for guard in guards:
            guard.remove()

    def test_one_thread_alone(self):
        f = new_function("def f(): pass")
        guard = cases.install("pass", f, None, this_thread=True, visible=True)
        f()
        in_new_thread(f)
        self.assertEqual(guard.entries(), 1)
        guard.remove()

    def test_reading_more_of_the_frame(self):
        make = new_function("def f(y):\n def inner(x): return x, y\n return inner")
        inner = make(7)
        guard = cases.install("read more", inner, None)
        line = sys._getframe().f_lineno + 1
        inner(1)
        self.assertEqual(guard.seen(), ["free={'y': 7}", "locals=false",
                                        f"caller=test_reading_more_of_the_frame:{line}"])
        guard.remove()

    def test_an_exception_that_cannot_be_made_is_a_panic(self):
        guard = cases.install("raise badly", ten, None)
        with self.assertRaisesRegex(RuntimeError, "panicked: no arguments"):
            ten()
        guard.remove()


def call_again(levels):
    """Calls itself through C until no level is left; counts them in a list."""
    levels[0] += 1
    next(map(call_again, [levels]))


class LimitOfCRecursion(HookTestCase):
    def setUp(self):
        super().setUp()
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(100_000)
        self.addCleanup(sys.setrecursionlimit, limit)
        self.depth()    # specialized calls take a level less

    def depth(self):
        count = [0]
        self.assertRaises(RecursionError, call_again, count)
        return count[0]

    def test_so_many_levels_while_the_value_lives(self):
        depths, outside = [], self.depth()
        _, before, inner = cases.call_with_levels(lambda: depths.append(self.depth()), 500, 1_500)
        # What the call of this takes is in both.
        self.assertEqual(inner, 500)
        all_levels = get_c_recursion_limit()
        self.assertTrue(all_levels - 100 < before <= all_levels, (before, all_levels))
        self.assertAlmostEqual(depths[0] / depths[1], 3, delta=0.1)
        self.assertEqual(self.depth(), outside)

    def test_put_back_where_the_call_fails(self):
        outside = self.depth()
        for levels, inner in ((500, 1_500), (1_500, 500), (20, 20), (0, 0), (-1, 2_000)):
            with self.subTest(levels), self.assertRaises((ZeroDivisionError, RecursionError)):
                cases.call_with_levels(lambda: 1 / 0, levels, inner)
            self.assertEqual(self.depth(), outside)
