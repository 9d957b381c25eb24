"""The crate framehook: modules load, and hooks in safe Rust count, replace, read and fail.

Without frame hooks in the interpreter, the tests check only that the modules load and say so.
"""

import gc
import sys
import threading
import unittest
import weakref

from rust_sdk_support import HookTestCase, load, new_function, ten
from support import FREE_THREADED, ProgramTestCase, about_stock, in_many_threads, needs_framecore

rust_hook = cases = None


def setUpModule():
    global rust_hook, cases
    rust_hook, cases = load()


class Loading(ProgramTestCase):
    """What holds with and without frame hooks."""

    def test_the_modules_load_and_name_their_functions(self):
        self.assertEqual(rust_hook.__doc__, "Frame hooks, written in Rust.")
        self.assertEqual({name for name in dir(rust_hook) if not name.startswith("__")},
                         {"CallCounter", "CallTimer", "CodeReplacement", "count_calls", "replace",
                          "time_calls", "version"})
        self.assertEqual(rust_hook.count_calls.__text_signature__, "()")

    @about_stock
    def test_stock_has_no_hooks_and_says_so(self):
        self.assertEqual(rust_hook.version(), 0)
        for install in (rust_hook.count_calls, lambda: rust_hook.replace(ten, ten)):
            with self.assertRaisesRegex(RuntimeError,
                                        "no frame hooks .PyUnstable_FrameHook_Version is missing"):
                install()
        dropped = cases.dropped()
        with self.assertRaisesRegex(RuntimeError, "no frame hooks"):
            cases.install("pass", ten, None)
        self.assertEqual(cases.dropped(), dropped + 1)

    @needs_framecore
    def test_ferrule_has_hooks(self):
        self.assertEqual(rust_hook.version(), 1)

    def test_wrong_arguments_raise_type_error(self):
        for call in (lambda: rust_hook.version(1), lambda: rust_hook.replace(ten, len),
                     lambda: rust_hook.CallCounter(), lambda: rust_hook.version(key=1)):
            with self.assertRaises(TypeError):
                call()


class Counting(HookTestCase):
    def test_each_start_of_each_code_object_is_counted(self):
        f, g = new_function("def f(): pass"), new_function("def g(): pass", "g")
        f()
        counter = rust_hook.count_calls()
        for _ in range(100):
            f()
        for _ in range(3):
            g()
        self.assertEqual(counter.calls(f), 100)
        self.assertEqual(counter.calls(g.__code__), 3)
        self.assertEqual(counter.calls(new_function("def f(): pass")), 0)
        del counter

    def test_recursion_generators_and_comprehensions_count_once_a_start(self):
        recurse = new_function("def recurse(n): return n and recurse(n - 1)", "recurse")
        generate = new_function("def generate():\n yield 1\n yield 2", "generate")
        counter = rust_hook.count_calls()
        recurse(40)
        self.assertEqual(list(generate()), [1, 2])
        self.assertEqual(counter.calls(recurse), 41)
        self.assertEqual(counter.calls(generate), 1)
        del counter

    def test_two_counters_count_for_themselves(self):
        f = new_function("def f(): pass")
        first = rust_hook.count_calls()
        f()
        second = rust_hook.count_calls()
        f()
        del first
        f()
        self.assertEqual(second.calls(f), 2)
        del second

    def test_nothing_is_counted_after_the_counter_is_gone(self):
        f = new_function("def f(): pass")
        references = sys.getrefcount(f.__code__)
        counter = rust_hook.count_calls()
        f()
        # The counter keeps the code objects that it has counted.
        self.assertEqual(sys.getrefcount(f.__code__), references + 1)
        del counter
        f()
        self.assertEqual(sys.getrefcount(f.__code__), references)

    @unittest.skipIf(
        FREE_THREADED,
        "the free-threaded 3.13 makes code objects immortal once it has had a second thread")
    def test_code_objects_die_with_the_counter_and_not_before(self):
        counter = rust_hook.count_calls()
        f = new_function("def f(): pass")
        f()
        code = weakref.ref(f.__code__)
        del f
        gc.collect()
        self.assertIsNotNone(code())
        del counter
        gc.collect()
        self.assertIsNone(code())

    def test_threads_count_together(self):
        f = new_function("def f(): pass")
        counter = rust_hook.count_calls()
        ready = threading.Barrier(4)

        def work():
            ready.wait()
            for _ in range(5000):
                f()

        in_many_threads(4, work)
        self.assertEqual(counter.calls(f), 20000)
        self.assertEqual(counter.calls(work), 4)
        del counter


class Replacing(HookTestCase):
    def test_calls_of_the_old_code_run_the_new_one(self):
        old = new_function("def f(a, b=2): return a, b")
        new = new_function(
            "def f(a, b=None):\n x = y = z = a + b\n return [lambda: x, x, y, z][1:]")
        replacement = rust_hook.replace(old, new)
        for _ in range(50):
            # The old function still has its own defaults.
            self.assertEqual(old(1), [3, 3, 3])
            self.assertEqual(old(b=1, a=1), [2, 2, 2])
        del replacement
        self.assertEqual(old(1), (1, 2))

    def test_references_are_exact(self):
        old, new = new_function("def f(x): return x"), new_function("def f(x): return [x]")
        counts = [sys.getrefcount(function.__code__) for function in (old, new)]
        argument = object()
        before = sys.getrefcount(argument)
        replacement = rust_hook.replace(old, new)
        for _ in range(100):
            self.assertIs(old(argument)[0], argument)
        del replacement
        self.assertEqual(sys.getrefcount(argument), before)
        self.assertEqual([sys.getrefcount(function.__code__) for function in (old, new)], counts)

    def test_code_that_cannot_stand_in_is_refused(self):
        import _framecore
        old, new = new_function("def f(x): return x"), new_function("def f(y): return y")
        replacement = rust_hook.replace(old, new)
        with self.assertRaises(_framecore.IncompatibleCodeError):
            old(1)
        del replacement
        self.assertEqual(old(1), 1)

    def test_a_later_hook_sees_what_an_earlier_one_chose(self):
        a = new_function("def f(): return 'a'")
        b = new_function("def f(): return 'b'")
        c = new_function("def f(): return 'c'")
        first = rust_hook.replace(a, b)
        second = rust_hook.replace(b, c)
        self.assertEqual((a(), b(), c()), ("c", "c", "c"))
        del first
        self.assertEqual((a(), b()), ("a", "c"))
        del second

    def test_other_code_is_disabled_after_its_first_start(self):
        other = new_function("def f(): pass")
        replacement = rust_hook.replace(ten, ten)
        other()
        calls = self.calls_of("replacement")
        for _ in range(100):
            other()
        # The hook is called only for code that starts for the first time now.
        self.assertLess(self.calls_of("replacement") - calls, 10)
        del replacement

    def calls_of(self, name):
        import _framecore
        hook, = [hook for hook in _framecore.frame_hooks() if hook["name"] == name]
        return hook["calls"]


class Reading(HookTestCase):
    def test_a_hook_reads_code_function_names_and_arguments(self):
        f = new_function("\ndef f(a, /, b, *rest, c, **more): return a", __name__="somewhere")
        guard = cases.install("read", f, None)
        f(1, [2], 3, c=4, d=5)
        self.assertEqual(guard.seen(), [
            "f", "f.py", "2", "f", "somewhere", "<built-in function len>",
            "a=1", "b=[2]", "c=4", "rest=(3,)", "more={'d': 5}"])
        guard.remove()

    def test_reading_what_is_not_there_fails_the_call(self):
        f = new_function("def f(x): return x")
        for kind, error in (("read too far", IndexError), ("read no name", KeyError)):
            guard = cases.install(kind, f, None)
            self.assertRaises(error, f, 1)
            guard.remove()
        self.assertEqual(f(1), 1)


class Failing(HookTestCase):
    def test_a_panic_is_a_runtime_error_that_names_the_hook(self):
        f = new_function("def f(): return 1")
        guard = cases.install("panic", f, None)
        for _ in range(3):
            with self.assertRaisesRegex(RuntimeError, '^frame hook "panic" panicked: f starts$'):
                f()
        self.assertEqual(guard.entries(), 3)
        guard.remove()
        self.assertEqual(f(), 1)

    def test_the_exception_that_a_hook_raises_is_the_one_that_is_caught(self):
        f = new_function("def f(): return 1")
        for error in (KeyError("key"), KeyboardInterrupt(), StopIteration(5)):
            guard = cases.install("raise", f, error)
            with self.assertRaises(type(error)) as caught:
                f()
            self.assertIs(caught.exception, error)
            guard.remove()
        guard = cases.install("raise", f, ValueError)
        # PyO3 makes an exception of a class.
        self.assertRaises(ValueError, f)
        guard.remove()

    def test_a_hook_may_call_python_whose_frames_are_not_dispatched(self):
        f, other = new_function("def f(): return 1"), new_function("def f(): return 2")
        counter = rust_hook.count_calls()
        names = []

        def callback(name):
            names.append(name)
            return other if len(names) == 2 else None

        guard = cases.install("call", f, callback)
        self.assertEqual([f(), f(), f()], [1, 2, 1])
        self.assertEqual(names, ["f"] * 3)
        self.assertEqual(counter.calls(callback), 0)
        guard.remove()
        callback = lambda name: 1 / 0
        guard = cases.install("call", f, callback)
        self.assertRaises(ZeroDivisionError, f)
        guard.remove()
        del counter

    def test_a_panic_in_a_hooks_destructor_does_no_harm(self):
        dropped = cases.dropped()
        guard = cases.install("panic when dropped", ten, None)
        self.assertEqual(ten(), 10)
        with self.assertRaises(ZeroDivisionError):
            try:
                1 / 0
            finally:
                del guard
        self.assertEqual(cases.dropped(), dropped + 1)
        self.assertEqual(ten(), 10)
