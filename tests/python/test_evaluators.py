"""PEP 523: an evaluator sees every frame that starts, wherever it starts, and may come and go at any time."""

import dis
import os
import sys
import sysconfig
import textwrap
import threading
import traceback
import unittest

from support import (ON_STOCK, ProgramTestCase, in_new_thread, make_recursion, needs_framecore, recursion_limit,
                     use_extensions)

use_extensions()
import evaluators

# More than the specializing interpreter needs, with its backing off after failures.
WARM_UP = 200
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
DEBUG = hasattr(sys, "gettotalrefcount")
# Each frame under an evaluator takes C stack, which a debug build allows little of.
DEEP = 150 if DEBUG else 1_500


class EvaluatorTestCase(unittest.TestCase):
    def setUp(self):
        self.addCleanup(evaluators.record_into, None)
        self.addCleanup(evaluators.set, "default")
        if not ON_STOCK:
            self.addCleanup(evaluators.allow_specialization, False)


def warm_up(run):
    for _ in range(WARM_UP):
        run()


# --- Every way for a frame to start. Each scenario returns a function, and the frames that start when it is called.

def functions():
    def seen(a, b=2):
        return a + b

    def seen_keywords(a, *, key):
        return a - key

    def seen_star(*args, **kwargs):
        return args, sorted(kwargs)

    def run():
        pair, named = (1, 5), {"a": 1}
        return [seen(1), seen(1, 3), seen(b=1, a=2), seen(*pair), seen(**named),
                seen_keywords(3, key=1), seen_star(1, 2, x=3), seen_star()]
    return run, ["seen"] * 5 + ["seen_keywords"] + ["seen_star"] * 2


def closures():
    count = 0

    def seen():
        nonlocal count
        count = (count + 1) % 2
        return lambda seen_argument: seen_argument

    def run():
        return [seen()(7), seen()(8)]
    return run, ["seen", "<lambda>"] * 2


def methods():
    class Thing:
        def seen(self, a):
            return a

        def seen_default(self, a=3):
            return a

        @classmethod
        def seen_class(cls):
            return cls.__name__

        @staticmethod
        def seen_static(a):
            return a

    thing = Thing()
    bound, bound_default = thing.seen, thing.seen_default

    def run():
        return [thing.seen(1), bound(2), thing.seen_default(), bound_default(), thing.seen_class(),
                thing.seen_static(4)]
    return run, ["seen", "seen", "seen_default", "seen_default", "seen_class", "seen_static"]


def attributes():
    class Thing:
        @property
        def seen(self):
            return 5

    class Overridden:
        def __getattribute__(self, name):
            return name

    class Fallback:
        def __getattr__(self, name):
            return name * 2

    thing, overridden, fallback = Thing(), Overridden(), Fallback()

    def run():
        return [thing.seen, overridden.x, fallback.y]
    return run, ["seen", "__getattribute__", "__getattr__"]


def special_methods():
    class Thing:
        def __getitem__(self, index):
            return index

        def __call__(self):
            return "called"

        def __add__(self, other):
            return other

        def __eq__(self, other):
            return True

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return True

    thing = Thing()

    def run():
        with thing:
            raise KeyError
        return [thing[1], thing(), thing + 2, thing == 3]
    return run, ["__enter__", "__exit__", "__getitem__", "__call__", "__add__", "__eq__"]


def generators():
    def seen(n):
        yield from range(n)

    def seen_loop(n):
        for i in range(n):
            yield i

    def run():
        result = []
        for i in seen_loop(3):
            result.append(i)
        result += [i * 2 for i in seen(2)]
        return result
    # Making a generator starts a frame; then each resumption is one, the last of which finds the end.
    return run, ["seen_loop"] * (1 + 4) + ["seen"] * (1 + 3)


def delegation():
    def seen_inner():
        got = yield 1
        return got

    def seen_outer():
        return (yield from seen_inner())

    def run():
        generator = seen_outer()
        result = [generator.send(None)]
        try:
            generator.send("sent")
        except StopIteration as stop:
            result.append(stop.value)
        return result
    return run, ["seen_outer", "seen_outer", "seen_inner", "seen_inner", "seen_outer", "seen_inner"]


def coroutines():
    class Once:
        def __await__(self):
            yield "pause"
            return 3

    async def seen_inner():
        return await Once()

    async def seen_outer():
        return 1 + await seen_inner()

    def run():
        coroutine = seen_outer()
        result = [coroutine.send(None)]
        try:
            coroutine.send(None)
        except StopIteration as stop:
            result.append(stop.value)
        return result
    return run, ["seen_outer", "seen_outer", "seen_inner", "seen_inner", "__await__", "__await__",
                 "seen_outer", "seen_inner", "__await__"]


def from_c():
    def seen(value):
        return -value

    def run():
        return [sorted([1, 2, 3], key=seen), list(map(seen, [4, 5])), max([6, 7], key=seen)]
    return run, ["seen"] * 7


def exceptions():
    def seen_raises():
        raise KeyError("seen")

    def seen_passes_on():
        return seen_raises()

    def seen_generator():
        yield 1
        raise ValueError("end")

    def run():
        result = []
        try:
            seen_passes_on()
        except KeyError as error:
            result.append([frame.name for frame in traceback.extract_tb(error.__traceback__)][1:])
        try:
            for i in seen_generator():
                result.append(i)
        except ValueError as error:
            result.append([frame.name for frame in traceback.extract_tb(error.__traceback__)][1:])
        return result
    return run, ["seen_passes_on", "seen_raises"] + ["seen_generator"] * 3


def class_bodies():
    def run():
        class seen:
            value = [i for i in range(3)]
        return seen.value
    return run, ["seen"]


def inits():
    class Plain:
        def __init__(self, a):
            self.a = a

    class Derived(Plain):
        def __init__(self, a):
            super().__init__(a)
            self.b = a

    class Failing:
        def __init__(self):
            raise KeyError

    class Wrong:
        def __init__(self):
            return 3

    def run():
        result = [Plain(1).a, Derived(2).b]
        for broken in (Failing, Wrong):
            try:
                broken()
            except (KeyError, TypeError) as error:
                result.append(repr(error))
        return result
    return run, ["__init__"] * 5


SCENARIOS = (functions, closures, methods, attributes, special_methods, generators, delegation, coroutines, from_c,
             exceptions, class_bodies)
INTERESTING = ("__init__", "__getitem__", "__call__", "__add__", "__eq__", "__enter__", "__exit__", "__getattr__",
               "__getattribute__", "__await__", "<lambda>")


def frames_of(run):
    """The result of run(), and the frames that `record`, which is set, sees start meanwhile."""
    codes = []
    evaluators.record_into(codes)
    try:
        result = run()
    finally:
        evaluators.record_into(None)
    return result, [code.co_name for code in codes if code.co_filename == __file__
                    and (code.co_name.startswith("seen") or code.co_name in INTERESTING)]


class EveryFrame(EvaluatorTestCase):
    maxDiff = None

    def check(self, scenario, *, warm_without, warm_with, allow=False):
        run, expected = scenario()
        plain = run()
        if warm_without:
            warm_up(run)
        if allow:
            evaluators.allow_specialization(True)
        evaluators.set("record")
        if warm_with:
            warm_up(run)
        result, frames = frames_of(run)
        evaluators.set("default")
        if allow:
            evaluators.allow_specialization(False)
        self.assertEqual(result, plain)
        self.assertEqual(run(), plain)
        return frames, expected

    def check_all(self, **how):
        for scenario in SCENARIOS:
            with self.subTest(scenario.__name__):
                frames, expected = self.check(scenario, **how)
                self.assertEqual(frames, expected)

    def test_of_code_that_never_ran_is_seen_once(self):
        self.check_all(warm_without=False, warm_with=False)

    def test_of_code_that_was_warmed_up_before_is_seen_once(self):
        self.check_all(warm_without=True, warm_with=False)

    def test_of_code_that_is_warmed_up_under_the_evaluator_is_seen_once(self):
        self.check_all(warm_without=False, warm_with=True)

    def test_is_seen_once_however_warm(self):
        self.check_all(warm_without=True, warm_with=True)

    @needs_framecore
    def test_of_specialized_code_is_seen_once_by_an_evaluator_that_allows_it(self):
        for without in (False, True):
            for under in (False, True):
                self.check_all(warm_without=without, warm_with=under, allow=True)

    def test_init_is_seen_before_warm_up(self):
        frames, expected = self.check(inits, warm_without=False, warm_with=False)
        self.assertEqual(frames, expected)

    def test_init_is_seen_after_warm_up(self):
        # Stock's specialized instruction for classes does not look for an evaluator, so that it loses every __init__
        # of a class that was called a few times, before or after the evaluator was set. What it calls in turn, here
        # super().__init__, it sees.
        ways = [dict(warm_without=without, warm_with=under, allow=allow)
                for without, under in ((True, False), (False, True), (True, True))
                for allow in ((False,) if ON_STOCK else (False, True))]
        for way in ways:
            with self.subTest(**way):
                frames, expected = self.check(inits, **way)
                if ON_STOCK and not FREE_THREADED:
                    self.assertLess(len(frames), len(expected))
                else:
                    self.assertEqual(frames, expected)

    def test_a_thrown_exception_resumes_a_generator_through_the_evaluator(self):
        def seen():
            try:
                yield 1
            except KeyError:
                yield 2

        evaluators.set("count")
        evaluators.take_count()
        generator = seen()
        self.assertEqual(next(generator), 1)
        self.assertEqual(generator.throw(KeyError), 2)
        generator.close()
        self.assertEqual(evaluators.take_count(), 4)

    def test_is_seen_with_settrace_and_setprofile(self):
        run, expected = functions()
        for setter in (sys.settrace, sys.setprofile):
            calls = []

            def trace(frame, event, argument):
                if event == "call":
                    calls.append(frame.f_code.co_name)

            warm_up(run)
            evaluators.set("record")
            setter(trace)
            try:
                _, frames = frames_of(run)
            finally:
                setter(None)
            evaluators.set("default")
            self.assertEqual(frames, expected)
            self.assertEqual([name for name in calls if name.startswith("seen")], expected)


def specialized(function):
    """The names of the specialized instructions in a function."""
    return {instruction.opname for instruction in dis.get_instructions(function, adaptive=True)}


@unittest.skipIf(FREE_THREADED, "3.13's free-threaded build specializes nothing")
class Specialization(EvaluatorTestCase):
    def make_caller(self):
        class Thing:
            def __init__(self):
                pass

            @property
            def total(self):
                return 1

            def __getitem__(self, index):
                return index

        def callee(a):
            return a

        def items():
            yield 1

        def caller(thing=Thing()):
            callee(1)
            for _ in items():
                pass
            return thing.total + thing[1]
        # Code that never ran: else it would still be specialized from the test before.
        caller.__code__ = caller.__code__.replace()
        return caller

    NAMES = {"CALL_PY_EXACT_ARGS", "FOR_ITER_GEN", "LOAD_ATTR_PROPERTY", "BINARY_SUBSCR_GETITEM"}

    def test_goes_on_without_an_evaluator(self):
        caller = self.make_caller()
        warm_up(caller)
        self.assertLessEqual(self.NAMES, specialized(caller))

    def test_is_off_under_an_evaluator(self):
        caller = self.make_caller()
        evaluators.set("pass")
        warm_up(caller)
        self.assertEqual(self.NAMES & specialized(caller), set())
        evaluators.set("default")
        warm_up(caller)
        self.assertLessEqual(self.NAMES, specialized(caller))

    @needs_framecore
    def test_goes_on_under_an_evaluator_that_allows_it(self):
        caller = self.make_caller()
        evaluators.set("pass")
        evaluators.allow_specialization(True)
        warm_up(caller)
        self.assertLessEqual(self.NAMES, specialized(caller))

    @needs_framecore
    def test_what_was_specialized_before_stays_under_an_evaluator_that_allows_it(self):
        caller = self.make_caller()
        warm_up(caller)
        before = [instruction.opname for instruction in dis.get_instructions(caller, adaptive=True)]
        evaluators.allow_specialization(True)
        evaluators.set("pass")
        warm_up(caller)
        self.assertEqual([instruction.opname for instruction in dis.get_instructions(caller, adaptive=True)], before)


class SettingAndGetting(EvaluatorTestCase):
    def test_none_is_the_default_evaluator(self):
        self.assertEqual(evaluators.get(), "default")
        evaluators.set("pass")
        self.assertEqual(evaluators.get(), "pass")
        evaluators.set("default")
        self.assertEqual(evaluators.get(), "default")
        evaluators.set("pass")
        evaluators.set("null")
        self.assertEqual(evaluators.get(), "default")

    def test_a_running_frame_stays_with_the_evaluator_that_started_it(self):
        def seen():
            evaluators.set("default")
            return "done"

        evaluators.set("answer")
        self.assertEqual(seen(), 42)
        self.assertEqual(seen(), "done")

    @needs_framecore
    def test_specialization_is_enabled_unless_an_evaluator_forbids_it(self):
        self.assertEqual(evaluators.specialization_enabled(), 1)
        evaluators.set("pass")
        self.assertEqual(evaluators.specialization_enabled(), 0)
        evaluators.allow_specialization(True)
        self.assertEqual(evaluators.specialization_enabled(), 1)
        # The permission belongs to the interpreter: it outlives the evaluator.
        evaluators.set("default")
        evaluators.set("count")
        self.assertEqual(evaluators.specialization_enabled(), 1)
        evaluators.allow_specialization(False)
        self.assertEqual(evaluators.specialization_enabled(), 0)
        evaluators.set("default")
        self.assertEqual(evaluators.specialization_enabled(), 1)

    @unittest.skipUnless(ON_STOCK, "Ferrule has the function")
    def test_stock_cannot_allow_specialization(self):
        self.assertRaises(NotImplementedError, evaluators.allow_specialization, True)

    def test_changes_count_as_rare_events(self):
        import _testinternalcapi
        _testinternalcapi.reset_rare_event_counters()
        events = []
        for name in ("pass", "pass", "count", "default", "default"):
            evaluators.set(name)
            events.append(_testinternalcapi.get_rare_event_counters()["set_eval_frame_func"])
        self.assertEqual(events, [1, 1, 2, 3, 3])


class Answers(EvaluatorTestCase):
    """An evaluator that does not just run the frame; warm or not, for each kind of frame."""

    def both(self, run):
        for warm in (False, True):
            if warm:
                warm_up(run)
            for allow in ((False,) if ON_STOCK else (False, True)):
                if allow:
                    evaluators.allow_specialization(True)
                yield
        if not ON_STOCK:
            evaluators.allow_specialization(False)

    def test_an_evaluator_may_return_something_else(self):
        class Thing:
            @property
            def seen(self):
                return 1

        def seen():
            return 1

        thing = Thing()

        def run():
            return seen(), thing.seen, [seen() for _ in range(2)]

        for _ in self.both(run):
            evaluators.set("answer")
            result = run()
            evaluators.set("default")
            self.assertEqual(result, (42, 42, [42, 42]))

    def raises(self, run, message, names):
        found = None
        try:
            run()
        except LookupError as error:
            self.assertEqual(str(error), message)
            found = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        self.assertEqual(found, ["raises", *names])

    def test_an_evaluator_may_raise_before_the_first_instruction(self):
        def seen():
            raise AssertionError("it ran")

        def run():
            try:
                seen()
            except ZeroDivisionError:
                pass

        def harmless():
            pass

        def warm():
            harmless()

        for _ in self.both(warm):
            evaluators.set("raise_before")
            self.raises(run, "before", ["run", "seen"])
            evaluators.set("default")

    def test_an_evaluator_may_raise_after_the_last_instruction(self):
        def seen():
            return 1

        def run():
            return seen()

        for _ in self.both(run):
            evaluators.set("raise_after")
            self.raises(run, "after", ["run"])
            evaluators.set("default")

    def test_an_exception_from_an_evaluator_can_be_caught(self):
        def seen(n):
            return n

        def run():
            caught = 0
            for n in range(5):
                try:
                    seen(n)
                except LookupError:
                    caught += 1
            return caught

        for _ in self.both(run):
            for name in ("raise_before", "raise_after"):
                evaluators.set(name)
                caught = run()
                evaluators.set("default")
                self.assertEqual(caught, 5)
            self.assertEqual(run(), 0)

    def test_an_evaluator_may_raise_when_a_generator_is_resumed(self):
        def seen():
            yield 1
            yield 2

        def run(generator):
            result = []
            for i in generator:
                result.append(i)
            return result

        for _ in self.both(lambda: run(seen())):
            generator = seen()
            evaluators.set("raise_before")
            with self.assertRaisesRegex(LookupError, "before"):
                run(generator)
            evaluators.set("default")
            self.assertEqual(list(generator), [])

    def test_arguments_die_when_they_would_without_an_evaluator(self):
        events = []

        class Argument:
            def __del__(self):
                events.append("gone")

        def callee(argument):
            del argument
            events.append("deleted")

        def run():
            callee(Argument())

        warm_up(run)
        events.clear()
        run()
        plain, events[:] = events[:], []
        self.assertEqual(plain, ["gone", "deleted"])
        if ON_STOCK:
            # The caller's stack keeps a reference until the call is over.
            plain = ["deleted", "gone"]
        for allow in ((False,) if ON_STOCK else (False, True)):
            if allow:
                evaluators.allow_specialization(True)
            evaluators.set("pass")
            run()
            evaluators.set("default")
            self.assertEqual(events, plain)
            events.clear()

    def test_a_function_can_replace_the_evaluator_that_runs_it(self):
        def seen():
            return 1

        def switch():
            return seen() + seen()

        def run():
            evaluators.set("switch")
            evaluators.take_count()
            result = switch(), evaluators.get(), evaluators.take_count()
            evaluators.set("default")
            return result

        for _ in range(WARM_UP):
            self.assertEqual(run(), (2, "count", 2))


class Depth(EvaluatorTestCase):
    def test_recursion_is_right_at_every_edge_of_a_chunk(self):
        def at_every_depth(recurse, depths):
            return [recurse(depth, lambda: depth) for depth in depths]

        for local_count, step in ((10, 1), (300, 1), (3_000, 7)):
            recurse = make_recursion(local_count)
            depths = range(0, min(DEEP, 300), step)
            for allow in ((False,) if ON_STOCK else (False, True)):
                if allow:
                    evaluators.allow_specialization(True)
                evaluators.set("pass")
                found = in_new_thread(at_every_depth, recurse, depths)
                evaluators.set("default")
                self.assertEqual(found, list(depths))

    def test_deep_recursion_comes_back(self):
        recurse = make_recursion(10)
        with recursion_limit(DEEP + 100):
            for name in ("pass", "count"):
                evaluators.set(name)
                self.assertEqual(in_new_thread(recurse, DEEP, lambda: "bottom"), "bottom")

    def test_endless_recursion_is_an_exception(self):
        class Thing:
            def __init__(self):
                Thing()

            @property
            def total(self):
                return self.total

        def function():
            return function()

        def generator():
            yield from generator()

        thing = Thing.__new__(Thing)
        for run in (Thing, function, lambda: thing.total, lambda: list(generator())):
            for allow in ((False,) if ON_STOCK else (False, True)):
                if allow:
                    evaluators.allow_specialization(True)
                for _ in range(3):
                    evaluators.set("pass")
                    with self.assertRaises(RecursionError):
                        in_new_thread(run)
                    evaluators.set("default")


class Threads(EvaluatorTestCase):
    def test_each_thread_is_seen(self):
        def seen():
            return 1

        def body():
            for _ in range(1_000):
                seen()

        evaluators.set("count")
        evaluators.take_count()
        threads = [threading.Thread(target=body) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(evaluators.take_count(), 4_000)

    def test_evaluators_come_and_go_while_threads_run(self):
        class Thing:
            def __init__(self, value):
                self.value = value

            @property
            def total(self):
                return self.value

        def items(n):
            for i in range(n):
                yield i

        def body():
            try:
                while not stop:
                    if Thing(3).total + sum(i for i in items(4)) != 9:
                        wrong.append("result")
            except BaseException as error:
                wrong.append(error)

        stop, wrong = [], []
        threads = [threading.Thread(target=body) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(300):
                evaluators.set(("pass", "count", "default", "switch")[turn % 4])
                if not ON_STOCK:
                    evaluators.allow_specialization(turn % 3 == 0)
        finally:
            stop.append(True)
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])


PREAMBLE = textwrap.dedent("""
    import sys, os
    from support import ON_STOCK, use_extensions
    use_extensions()
    import evaluators
""")


def perf_trampoline_works():
    return sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1


class EvaluatorProgram(ProgramTestCase):
    def program(self, source, *arguments):
        return self.assert_program_succeeds(PREAMBLE + textwrap.dedent(source), *arguments,
                                            environment={"FERRULE_TESTS_ON_STOCK": "1" if ON_STOCK else ""})


class Programs(EvaluatorProgram):
    def test_the_end_of_an_interpreter_runs_under_the_evaluator(self):
        printed = self.program("""
            import atexit
            def seen(): return 1
            class Late:
                def __del__(self):
                    seen(); seen()
                    os.write(1, b"late %d\\n" % evaluators.take_count())
            late = Late()
            atexit.register(seen)
            for _ in range(200): seen()
            evaluators.set("count")
        """)
        self.assertEqual(printed, "late 3\n")

    def test_each_interpreter_has_its_own(self):
        for configuration in ("legacy", "isolated"):
            printed = self.program(f"""
                import _interpreters
                def seen(): return 1
                child = _interpreters.create("{configuration}")
                script = '''if True:
                    import sys
                    sys.path[:] = {{path!r}}
                    import evaluators
                    def seen(): return 1
                    for _ in range(200): seen()
                    print(evaluators.get(), flush=True)
                    evaluators.take_count()
                    evaluators.set("count")
                    for _ in range(7): seen()
                    print(evaluators.take_count(), flush=True)
                '''.format(path=sys.path)
                evaluators.take_count()
                evaluators.set("count")
                print(_interpreters.run_string(child, script))
                print(evaluators.take_count())
                seen()
                print(evaluators.take_count(), evaluators.get())
                evaluators.set("default")
                print(_interpreters.run_string(child, "print(evaluators.get(), flush=True); seen(); "
                                                      "print(evaluators.take_count(), flush=True)"))
                _interpreters.destroy(child)
                seen()
                print(evaluators.take_count())
            """)
            with self.subTest(configuration):
                self.assertEqual(printed.split(),
                                 ["default", "7", "None", "0", "1", "count", "count", "1", "None", "0"])

    def test_interpreters_with_their_own_gil_evaluate_at_once(self):
        printed = self.program("""
            import _interpreters, threading
            script = '''if True:
                import sys
                sys.path[:] = {path!r}
                import evaluators
                def seen(): return 1
                evaluators.take_count()
                for turn in range(50):
                    evaluators.set("count")
                    for _ in range(100): seen()
                    evaluators.set("default")
                    for _ in range(100): seen()
                assert evaluators.take_count() == 5000
            '''.format(path=sys.path)
            children = [_interpreters.create("isolated") for _ in range(3)]
            failures = []
            def body(child):
                failure = _interpreters.run_string(child, script)
                if failure is not None: failures.append(failure)
            threads = [threading.Thread(target=body, args=(child,)) for child in children]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert not failures, failures[0].formatted
            for child in children: _interpreters.destroy(child)
            print("ok")
        """)
        self.assertEqual(printed, "ok\n")

    def test_an_interpreter_ends_with_its_evaluator_set(self):
        printed = self.program("""
            import _interpreters
            for _ in range(5):
                child = _interpreters.create("isolated")
                assert _interpreters.run_string(child, '''if True:
                    import sys
                    sys.path[:] = {path!r}
                    import evaluators
                    class Late:
                        def __del__(self): print("late", evaluators.get(), flush=True)
                    late = Late()
                    evaluators.set("pass")
                '''.format(path=sys.path)) is None
                _interpreters.destroy(child)
        """)
        self.assertEqual(printed, "late pass\n" * 5)


@unittest.skipUnless(perf_trampoline_works(), "no perf trampoline on this platform")
class PerfTrampoline(EvaluatorProgram):
    """It shows in the perf map: a function gets an entry when it first runs through the trampoline."""

    MAP = textwrap.dedent("""
        def mapped(name):
            with open(f"/tmp/perf-{os.getpid()}.map") as file:
                return any(f"py::{name}:" in line for line in file)
        def make(name):
            space = {}
            exec(f"def {name}(): return seen()", {"seen": seen}, space)
            return space[name]
        def seen(): return 1
        import atexit
        atexit.register(lambda: os.unlink(f"/tmp/perf-{os.getpid()}.map"))
        for _ in range(200): seen()
        def counted(function):
            evaluators.take_count()
            assert function() == 1
            return evaluators.take_count()
    """)

    def program(self, source, *arguments):
        return super().program(self.MAP + textwrap.dedent(source), *arguments)

    def test_comes_after_an_evaluator(self):
        printed = self.program("""
            evaluators.set("count")
            try:
                sys.activate_stack_trampoline("perf")
            except RuntimeError:
                sys.exit(print("refused"))
            first = make("first")
            print(counted(first), mapped("first"), sys.is_stack_trampoline_active())
            evaluators.set("default")
            second = make("second")
            print(counted(second), mapped("second"), sys.is_stack_trampoline_active())
            sys.deactivate_stack_trampoline()
            third = make("third")
            print(counted(third), mapped("third"), sys.is_stack_trampoline_active())
        """)
        # Stock refuses, though its documentation does not say so.
        self.assertEqual(printed.splitlines(), ["refused"] if ON_STOCK else
                         ["1 True True", "0 True True", "0 False False"])

    def test_comes_before_an_evaluator(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            first = make("first")
            print(counted(first), mapped("first"), sys.is_stack_trampoline_active())
            evaluators.set("count")
            second = make("second")
            print(counted(second), mapped("second"), sys.is_stack_trampoline_active())
            if ON_STOCK:
                sys.exit()
            sys.deactivate_stack_trampoline()
            third = make("third")
            print(counted(third), mapped("third"), sys.is_stack_trampoline_active(), evaluators.get())
            evaluators.set("default")
            print(counted(third), evaluators.get())
        """)
        # On stock an evaluator puts the trampoline out of action.
        self.assertEqual(printed.splitlines(), ["0 True True", "1 False False"] if ON_STOCK else
                         ["0 True True", "1 True True", "1 False False count", "0 default"])

    @needs_framecore
    def test_both_see_every_kind_of_frame(self):
        printed = self.program("""
            evaluators.allow_specialization(len(sys.argv) > 1)
            class Thing:
                def __init__(self): seen()
                @property
                def total(self): return seen()
                def __getitem__(self, index): return seen()
            def items():
                yield seen()
            def run():
                thing = Thing()
                return thing.total + thing[1] + sum(items()) + [i for i in items()][0]
            for _ in range(200): run()
            sys.activate_stack_trampoline("perf")
            evaluators.set("count")
            evaluators.take_count()
            assert run() == 4
            print(evaluators.take_count(), [name for name in ("Thing.__init__", "Thing.total", "Thing.__getitem__",
                                                              "items", "run", "seen") if not mapped(name)])
            for _ in range(200): run()
            print(evaluators.take_count())
        """)
        self.assertEqual(printed, "5 []\n1000\n")

    @needs_framecore
    def test_what_is_got_is_the_evaluator_alone(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            print(evaluators.get())
            evaluators.set("pass")
            print(evaluators.get())
            evaluators.set("default")
            print(evaluators.get(), sys.is_stack_trampoline_active())
        """)
        self.assertEqual(printed, "default\npass\ndefault True\n")

    @needs_framecore
    def test_an_exception_goes_through_both(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            for name in ("raise_before", "raise_after"):
                evaluators.set(name)
                for _ in range(200):
                    try:
                        seen()
                    except LookupError as error:
                        message = str(error)
                evaluators.set("default")
                print(message, seen())
        """)
        self.assertEqual(printed, "before 1\nafter 1\n")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    @needs_framecore
    def test_a_forked_child_goes_on_with_both(self):
        printed = self.program("""
            sys.activate_stack_trampoline("perf")
            evaluators.set("count")
            if os.fork() == 0:
                print(counted(make("child")), sys.is_stack_trampoline_active(), evaluators.get(), flush=True)
                os._exit(0)
            os.wait()
            print(counted(make("parent")), sys.is_stack_trampoline_active(), mapped("parent"))
        """)
        self.assertEqual(printed, "1 True count\n1 True True\n")


if __name__ == "__main__":
    unittest.main()
