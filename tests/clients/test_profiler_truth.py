"""The profiler's counts equal cProfile's, and its times add up."""

import gc
import json
import sys
import threading
import time

import profiler_programs
from profiler_support import PROGRAMS, ProfilerTestCase, load

# Who calls these depends on when an object dies. CPython reports that a frame has returned before
# its variables die, and the exit callback is called afterwards.
OF_DESTRUCTION = ("__del__", "_remove")

setUpModule = load


class AgainstCProfile(ProfilerTestCase):
    maxDiff = None

    def counted(self, name, profiler):
        return json.loads(self.run_python(PROGRAMS, name, profiler).stdout)

    def test_counts_callers_and_recursion_are_the_same(self):
        for program in profiler_programs.PROGRAMS:
            name = program.__name__
            with self.subTest(name):
                theirs = self.counted(name, "cProfile")
                ours = self.counted(name, "ferrule")
                self.assertGreater(len(theirs), 1)
                for function in theirs:
                    if function.startswith(OF_DESTRUCTION):
                        theirs[function] = theirs[function][:2]
                        ours[function] = ours[function][:2]
                self.assertEqual(ours, theirs)


def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Stopwatch:
    """The seconds spent in its blocks."""

    seconds = 0

    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, *exception):
        self.seconds += time.perf_counter() - self.began


class Times(ProfilerTestCase):
    """What is measured lies between two other measurements: one within, one around."""

    def between(self, within, measured, around):
        self.assertGreaterEqual(measured * 1.02, within.seconds)
        self.assertLessEqual(measured, around.seconds * 1.02)

    def test_the_parts_make_the_whole(self):
        within, around = Stopwatch(), Stopwatch()

        def outer():
            with within:
                for _ in range(5):
                    inner()
                    work(0.01)

        def inner():
            work(0.02)

        with self.profiler.profile() as profile:
            with around:
                outer()
        result = profile.result
        (outer_,), (inner_,), (work_,) = map(result.find, ("outer", "inner", "work"))
        self.between(within, outer_.total, around)
        below = [function for function in result.functions.values()
                 if function.name != "__exit__" or function.calls == 1]
        self.assertAlmostEqual(sum(f.own for f in below) / outer_.total, 1, delta=0.02)
        edges = {result.functions[edge.caller].name: edge for edge in result.edges
                 if result.functions[edge.callee] is work_}
        self.assertEqual(edges["inner"].calls, 5)
        self.assertAlmostEqual(edges["inner"].total + edges["outer"].total, work_.total,
                               delta=1e-6)

    def test_no_function_has_more_of_its_own_than_in_all(self):
        with self.profiler.profile() as profile:
            for program in profiler_programs.PROGRAMS:
                program()
        result = profile.result
        self.assertGreater(len(result.functions), 30)
        for function in result.functions.values():
            # Rounded down twice.
            self.assertLessEqual(function.own, function.total + 1e-7, function)
            self.assertGreaterEqual(function.runs, function.recursive)
        paths = sum(own for thread in result.threads for _, _, own in thread.paths)
        self.assertAlmostEqual(paths, result.seconds, delta=1e-5)
        runs = sum(runs for thread in result.threads for _, runs, _ in thread.paths)
        self.assertEqual(runs, sum(function.runs for function in result.functions.values()))

    def test_recursion_counts_once(self):
        within, around = Stopwatch(), Stopwatch()

        def down(n):
            work(0.002)
            if n:
                down(n - 1)

        def start():
            with within:
                down(20)

        with self.profiler.profile() as profile, around:
            start()
        down_, = profile.result.find("down")
        self.assertEqual((down_.calls, down_.recursive), (21, 20))
        self.between(Stopwatch(), down_.total, within)
        self.between(within, profile.result.find("start")[0].total, around)

    def test_a_generator_takes_the_time_that_it_runs(self):
        within, waiting, around = Stopwatch(), Stopwatch(), Stopwatch()

        def slow():
            for _ in range(3):
                with within:
                    work(0.01)
                yield

        def wait():
            for _ in slow():
                with waiting:
                    time.sleep(0.05)

        with self.profiler.profile() as profile, around:
            wait()
        slow_, = profile.result.find("slow")
        self.assertEqual((slow_.calls, slow_.runs), (1, 4))
        around.seconds -= waiting.seconds
        self.between(within, slow_.total, around)

    def test_a_coroutine_takes_the_time_that_it_runs(self):
        import asyncio
        within, around = Stopwatch(), Stopwatch()

        async def sleeper():
            with within:
                work(0.01)
            await asyncio.sleep(0.05)
            with within:
                work(0.01)

        async def main():
            for _ in range(4):
                await sleeper()

        with self.profiler.profile() as profile, around:
            asyncio.run(main())
        sleeper_, = profile.result.find("sleeper")
        self.assertEqual((sleeper_.calls, sleeper_.runs), (4, 8))
        around.seconds -= 0.2
        self.between(within, sleeper_.total, around)


class Attacks(ProfilerTestCase):
    def test_started_deep_in_a_stack_and_stopped_elsewhere(self):
        def leaf():
            pass

        def down(n):
            if n:
                down(n - 1)
            else:
                self.profiler.start()
            leaf()

        def stop_deep(n):
            return stop_deep(n - 1) if n else self.profiler.stop()

        down(20)
        profile = stop_deep(10)
        leaf()
        result = profile.result
        self.assertEqual(result.find("leaf")[0].calls, 21)
        self.assertEqual(result.find("down"), [])
        self.assertEqual(result.find("stop_deep")[0].calls, 11)
        self.assertEqual(result.find("stop_deep")[0].recursive, 10)

    def test_generators_that_begin_before_and_end_afterwards(self):
        def numbers():
            yield from range(10)

        early = numbers()
        next(early)
        with self.profiler.profile() as profile:
            next(early)
            late = numbers()
            next(late)
            next(late)
        list(early), list(late)
        numbers_, = profile.result.find("numbers")
        self.assertEqual((numbers_.calls, numbers_.runs), (1, 2))

    def test_a_generator_that_is_resumed_in_another_thread(self):
        def numbers():
            for i in range(100):
                yield i

        with self.profiler.profile() as profile:
            generator = numbers()
            for _ in range(5):
                next(generator)
                thread = threading.Thread(target=next, args=(generator,))
                thread.start()
                thread.join()
            generator.close()
        numbers_, = profile.result.find("numbers")
        self.assertEqual(numbers_.calls, 1)
        self.assertIn(numbers_.runs, (10, 11))      # closing may run it once more

    def test_an_exception_through_many_frames(self):
        def down(n):
            if n == 0:
                raise ValueError
            down(n - 1)

        with self.profiler.profile() as profile:
            for _ in range(10):
                with self.assertRaises(ValueError):
                    down(100)
        down_, = profile.result.find("down")
        self.assertEqual((down_.calls, down_.raised), (1010, 1010))
        self.assertLessEqual(down_.own, down_.total)

    def test_replaced_code_has_its_own_name(self):
        def function():
            pass

        def other():
            pass

        with self.profiler.profile() as profile:
            function()
            function.__code__ = other.__code__
            function()
            function()
        self.assertEqual([profile.result.find(name)[0].calls for name in ("function", "other")],
                         [1, 2])

    def test_code_that_dies_keeps_its_name_and_addresses_are_not_mixed_up(self):
        with self.profiler.profile() as profile:
            for n in range(200):
                namespace = {}
                exec(f"def made_{n % 50}(): pass", namespace)
                namespace[f"made_{n % 50}"]()
                del namespace
                gc.collect(0)
        result = profile.result
        for n in range(50):
            self.assertEqual(sum(f.calls for f in result.find(f"made_{n}")), 4)

    def test_a_destructor_that_runs_calls(self):
        class Dying:
            def __del__(self):
                called()

        def called():
            gc.collect()

        with self.profiler.profile() as profile:
            for _ in range(10):
                cycle = Dying()
                cycle.me = cycle
                del cycle
            gc.collect()
        self.assertEqual(profile.result.find("called")[0].calls, 10)

    def test_a_recursion_100_000_deep(self):
        def down(n):
            return n and down(n - 1)

        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(110_000)
        with self.profiler.profile() as profile:
            down(100_000)
        self.assertEqual(profile.result.find("down")[0].calls, 100_001)

    def test_many_ways_through_two_functions(self):
        def rec(n, shape):
            if n:
                rec_other(n - 1, shape) if shape & 1 << n else rec(n - 1, shape)

        def rec_other(n, shape):
            rec(n, shape)

        with self.profiler.profile() as profile:
            for shape in range(2000):
                rec(12, shape)
        result = profile.result
        rec_, other = result.find("rec")[0], result.find("rec_other")[0]
        expected = sum(bin(shape >> 1 & 0xfff).count("1") for shape in range(2000))
        self.assertEqual(other.calls, expected)
        self.assertEqual(rec_.calls, 2000 * 13)
        self.assertAlmostEqual(rec_.total, result.seconds, delta=0.02 * result.seconds)


class CountsAlone(ProfilerTestCase):
    def test_every_start_is_counted(self):
        with self.profiler.profile(count=True) as profile:
            profiler_programs.recursion()
        counted = profile.result
        with self.profiler.profile() as profile:
            profiler_programs.recursion()
        timed = profile.result
        for name in ("fib", "even", "odd", "ackermann", "recursion"):
            self.assertEqual(counted.find(name)[0].calls, timed.find(name)[0].calls)
            self.assertEqual(counted.find(name)[0].total, 0)
