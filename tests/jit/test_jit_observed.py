"""Functions that a tool observes for long: the interpreter has them until the tool has ended."""

import contextlib
import ctypes
import dis
import gc
import itertools
import sys
import threading
import unittest

from jit_support import Case, ClosureCase, define, load

TOOL = 4


def setUpModule():
    load()


@contextlib.contextmanager
def set_by(setter):
    """A function for tracing or profiling that does nothing."""
    setter(lambda frame, event, argument: None)
    try:
        yield
    finally:
        setter(None)


def tracer():
    return set_by(sys.settrace)


def profiler():
    return set_by(sys.setprofile)


@contextlib.contextmanager
def monitoring(start, stop):
    events = sys.monitoring.events
    sys.monitoring.use_tool_id(TOOL, "test")
    sys.monitoring.register_callback(TOOL, events.PY_START, lambda code, offset: None)
    try:
        start(events.PY_START)
        yield
        stop()
    finally:
        sys.monitoring.free_tool_id(TOOL)


@contextlib.contextmanager
def hook():
    import framehook
    installed = framehook.add(lambda view: None)
    try:
        yield
    finally:
        framehook.remove(installed)


@contextlib.contextmanager
def evaluator():
    import _testinternalcapi
    _testinternalcapi.set_eval_frame_record([])
    try:
        yield
    finally:
        _testinternalcapi.set_eval_frame_default()


def observers(function):
    """Each kind of observer, as a context manager that can be used once, by name."""
    tools = sys.monitoring
    return {
        "tracer": tracer(),
        "profiler": profiler(),
        "monitoring": monitoring(lambda events: tools.set_events(TOOL, events), lambda: tools.set_events(TOOL, 0)),
        "monitoring of the code": monitoring(lambda events: tools.set_local_events(TOOL, function.__code__, events),
                                             lambda: tools.set_local_events(TOOL, function.__code__, 0)),
        "hook": hook(),
        "evaluator": evaluator(),
    }


FIB = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)"
# A function that is left to the interpreter was observed in so many calls: fewer than fib(15) takes.
MOST = 512


class Observed(Case):
    def entered(self, function):
        return self.jit.stats(function).get("entered", 0)

    def new(self):
        """A recursive function that is not compiled yet."""
        return define(FIB).fib

    def hot(self):
        """One that is."""
        fib = self.new()
        for _ in range(3):
            fib(10)
        self.assertTrue(self.jit.stats(fib)["versions"], self.jit.explain(fib))
        before = self.entered(fib)
        fib(10)
        self.assertEqual(self.entered(fib), before + 1)
        return fib

    def is_called_in_compiled_code(self, fib):
        before = self.entered(fib)
        self.assertEqual([fib(15) for _ in range(4)], [610] * 4)
        self.assertGreaterEqual(self.entered(fib), before + 3)
        self.assertFalse(self.jit.stats(fib)["rests"])

    def is_left(self, fib, *observed_by):
        """Calls of the function by the interpreter do not enter compiled code; its call sites are specialized for its bytecode."""
        before = self.entered(fib)
        self.assertEqual([fib(15) for _ in range(4)], [610] * 4)
        self.assertEqual(self.entered(fib), before)
        self.assertTrue(self.jit.stats(fib)["rests"])
        names = {instruction.opname for instruction in dis.get_instructions(fib, adaptive=True)}
        # An evaluator has forbidden that, and events of calls have their own instruction.
        if "evaluator" not in observed_by and "INSTRUMENTED_CALL" not in names:
            self.assertTrue(names & {"CALL_PY_EXACT_ARGS", "CALL_PY_GENERAL"}, names)

    def entries_of(self, function, *arguments):
        """In 50 calls."""
        before = self.entered(function)
        for _ in range(50):
            function(*arguments)
        return self.entered(function) - before

    def test_a_callee_that_has_not_run_since(self):
        made = define("""
            def rare(n):
                return n + 1
            def caller(n, k):
                total = 0
                for i in range(n):
                    total += i
                    if i == k:
                        total = rare(total)
                return total
        """)
        for _ in range(6):
            made.caller(3000, 5)
        self.assertEqual(self.entries_of(made.caller, 20, -1), 50)
        with hook():
            made.caller(5, 2)
        self.assertGreaterEqual(self.entries_of(made.caller, 20, -1), 49)

    def test_pending_work_is_no_tool(self):
        wake = ctypes.pythonapi.PyThreadState_SetAsyncExc       # with NULL: work is pending, and there is none
        wake.argtypes = ctypes.c_ulong, ctypes.c_void_p
        fib = self.hot()
        list(map(fib, map(wake, itertools.repeat(threading.get_ident(), MOST + 100), itertools.repeat(None))))
        self.assertFalse(self.jit.stats(fib)["rests"])
        self.assertEqual(self.entries_of(fib, 5), 50)

    def test_functions_of_one_code_object_are_taken_together(self):
        make = define("def make(k):\n    def f(n): return k if n < 2 else f(n - 1) + f(n - 2)\n    return f\n").make
        one, two = make(1), make(2)
        for function in (one, two):
            self.jit.compile_at_next_call(function)
            function(5)
            self.assertEqual(self.entries_of(function, 5), 50)
        with profiler():
            for function in (one, two):
                for _ in range(MOST + 100):
                    function(1)
        make(3)(3)      # it gets the callback
        for function in (one, two):
            self.assertGreaterEqual(self.entries_of(function, 5), 49)

    def test_a_function_that_has_ended_meanwhile(self):
        make = define("def make(k):\n    def f(n): return k if n < 2 else f(n - 1) + f(n - 2)\n    return f\n").make
        one = make(1)
        self.jit.compile_at_next_call(one)
        one(5)
        with profiler():
            for _ in range(MOST + 100):
                one(1)
        del one
        gc.collect()
        two = make(2)
        two(3)
        self.assertEqual(two(5), 16)

    def test_compiled_before(self):
        for name in observers(self.new()):
            with self.subTest(name):
                fib = self.hot()
                for _ in range(2):
                    with observers(fib)[name]:
                        self.is_left(fib, name)
                    self.is_called_in_compiled_code(fib)

    def test_hot_while_it_is_observed(self):
        for name in observers(self.new()):
            with self.subTest(name):
                fib = self.new()
                with observers(fib)[name]:
                    self.is_left(fib, name)
                    self.assertEqual(self.entered(fib), 0)
                self.is_called_in_compiled_code(fib)

    def test_known_before_and_hot_after(self):
        for name in observers(self.new()):
            with self.subTest(name):
                fib = self.new()
                fib(2)
                with observers(fib)[name]:
                    fib(3)
                self.assertEqual(self.entered(fib), 0)
                fib(15)
                self.is_called_in_compiled_code(fib)

    def test_observed_for_a_moment(self):
        for name in observers(self.new()):
            with self.subTest(name):
                fib = self.hot()
                for _ in range(40):
                    with observers(fib)[name]:
                        fib(5)
                        self.assertFalse(self.jit.stats(fib)["rests"])
                    fib(5)
                    before = self.entered(fib)
                    fib(5)
                    self.assertEqual(self.entered(fib), before + 1)

    def test_one_observer_after_the_other_and_within(self):
        names = list(observers(self.new()))
        fib = self.hot()
        for outer in names:
            for inner in names:
                if outer == inner or {outer, inner} == {"monitoring", "monitoring of the code"}:
                    continue    # the end of one ends both
                with self.subTest(outer=outer, inner=inner), observers(fib)[outer]:
                    fib(15)
                    with observers(fib)[inner]:
                        self.is_left(fib, outer, inner)
                    self.is_left(fib, outer)
                self.is_called_in_compiled_code(fib)

    def test_a_hook_that_is_disabled(self):
        import framehook
        fib = self.hot()
        installed = framehook.add(lambda view: None)
        try:
            self.is_left(fib)
            framehook.disable(installed)
            self.is_called_in_compiled_code(fib)
            framehook.enable(installed)
            self.is_left(fib)
            with framehook.disabled(installed):
                self.is_called_in_compiled_code(fib)
            self.is_left(fib)
        finally:
            framehook.remove(installed)
        self.is_called_in_compiled_code(fib)

    def test_a_function_with_a_loop(self):
        made = define("""
            def f(n):
                total = 0
                for i in range(n):
                    total += i
                return total
        """).f
        self.compiled(made, 10)
        for name in observers(made):
            with self.subTest(name):
                with observers(made)[name]:
                    for _ in range(2 * MOST):
                        made(3)
                    self.assertTrue(self.jit.stats(made)["rests"])
                    before = self.entered(made)
                    self.assertEqual(made(3), 3)
                    self.assertEqual(self.entered(made), before)
                # Its loop gets hot again: turns are counted over all calls.
                for _ in range(400):
                    made(3)
                self.assertGreater(self.entered(made), before)
                self.assertEqual(self.entries_of(made, 3), 50)
                self.assertFalse(self.jit.stats(made)["rests"])

    def test_a_function_whose_running_loop_is_not_entered(self):
        """It stores in a cell, which only the function as a whole does."""
        made = define("""
            def make():
                last = 0
                def store(x):
                    nonlocal last
                    last = x
                    return x
                def f(n):
                    total = 0
                    for i in range(n):
                        total += store(i)
                    return total
                return f
        """).make()
        self.compiled(made, 10)
        with tracer():
            for _ in range(2 * MOST):
                made(3)
            self.assertTrue(self.jit.stats(made)["rests"])
        for _ in range(400):
            self.assertEqual(made(3), 3)
        before = self.entered(made)
        made(3)
        self.assertEqual(self.entered(made), before + 1, self.jit.explain(made))

    def test_functions_that_call_each_other(self):
        space = define("""
            def even(n): return True if n == 0 else odd(n - 1)
            def odd(n): return False if n == 0 else even(n - 1)
        """)
        for _ in range(10):
            space.even(40)
        self.assertTrue(self.jit.stats(space.even)["versions"])
        for name in observers(space.even):
            with self.subTest(name):
                with observers(space.even)[name]:
                    for _ in range(40):
                        self.assertTrue(space.even(40))
                for _ in range(2):
                    space.even(40)
                before = self.entered(space.even)
                space.even(40)
                self.assertEqual(self.entered(space.even), before + 1)

    def test_disabled_and_enabled_meanwhile(self):
        fib = self.hot()
        with tracer():
            self.is_left(fib)
            self.jit.disable()
            self.assertEqual(fib(15), 610)
        self.assertEqual(fib(15), 610)
        before = self.entered(fib)
        self.jit.enable()
        fib(15)
        with tracer():
            fib(15)
            self.jit.disable()
            self.jit.enable()
            fib(15)
        fib(15)
        self.assertGreater(self.entered(fib), before)
        self.is_called_in_compiled_code(fib)

    def test_requested_while_it_is_observed(self):
        fib = self.hot()
        with tracer():
            self.is_left(fib)
            self.jit.compile_at_next_call(fib)
            self.assertEqual(fib(15), 610)
        self.is_called_in_compiled_code(fib)

    def test_other_code_meanwhile(self):
        fib = self.hot()
        with tracer():
            self.is_left(fib)
            fib.__code__ = (lambda n: -n).__code__
            self.assertEqual(fib(15), -15)
        self.assertEqual([fib(n) for n in range(100)], [-n for n in range(100)])

    def test_a_tracer_of_another_thread(self):
        fib = self.hot()
        begins, ends = threading.Event(), threading.Event()

        def other():
            with tracer():
                begins.set()
                ends.wait()
        thread = threading.Thread(target=other)
        thread.start()
        begins.wait()
        self.is_left(fib)
        ends.set()
        thread.join()
        self.is_called_in_compiled_code(fib)

    def test_threads_that_call_it_while_tools_come_and_go(self):
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-6)
        fib = self.hot()
        results, done = set(), threading.Event()

        def work():
            while not done.is_set():
                results.add(fib(12))
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            for observer in observers(fib).values():
                with observer:
                    fib(14)
                fib(14)
        done.set()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {144})
        sys.setswitchinterval(interval)
        self.is_called_in_compiled_code(fib)

    def test_a_generator_that_calls_it(self):
        fib = self.hot()

        def generator():
            while True:
                yield fib(15)
        made = generator()
        next(made)
        with tracer():
            for _ in range(4):
                next(made)
            self.assertTrue(self.jit.stats(fib)["rests"])
        self.assertEqual(next(made), 610)
        self.is_called_in_compiled_code(fib)

    def test_it_says_so(self):
        fib = self.hot()
        text = "observed by a tool for long: interpreted until that has ended"
        self.assertNotIn(text, self.jit.explain(fib))
        with tracer():
            fib(15)
            self.assertIn(text, self.jit.explain(fib))
        fib(15)
        self.assertNotIn(text, self.jit.explain(fib))


class ObservedClosures(ClosureCase):
    def test_functions_with_the_same_code(self):
        make = define("""
            def make(k):
                def f(n): return k if n < 2 else f(n - 1) + f(n - 2)
                return f
        """).make
        one, two = make(1), make(2)
        for function in (one, two):
            self.compiled(function, 5)
        with tracer():
            for function in (one, two, one, two):
                function(15)
        self.assertEqual((one(10), two(10)), (89, 2 * 89))
        before = self.jit.stats(one)["entered"]
        self.assertEqual((one(10), one(10)), (89, 89))
        self.assertGreater(self.jit.stats(one)["entered"], before)


if __name__ == "__main__":
    unittest.main()
