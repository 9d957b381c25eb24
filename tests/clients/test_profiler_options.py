"""C functions, samples, timelines and tasks."""

import asyncio
import gc
import json
import os
import sys
import threading
import time
import unittest

import profiler_programs
from profiler_support import PROGRAMS, ProfilerTestCase, load, times_from_a_timer


def setUpModule():
    load()


class Builtins(ProfilerTestCase):
    maxDiff = None

    def counted(self, name, profiler):
        return json.loads(self.run_python(PROGRAMS, name, profiler, "builtins").stdout)

    def test_counts_are_those_of_cprofile(self):
        for program in profiler_programs.PROGRAMS:
            if program is profiler_programs.asyncio_tasks:
                continue        # it waits for as long as the machine takes
            with self.subTest(program.__name__):
                self.assertEqual(self.counted(program.__name__, "ferrule"),
                                 self.counted(program.__name__, "cProfile"))

    def test_an_exception_of_a_c_function(self):
        with self.profiler.profile(builtins=True) as profile:
            with self.assertRaises(ValueError):
                [].index(1)
        index, = profile.result.find("<method 'index' of 'list' objects>")
        self.assertEqual((index.kind, index.calls, index.raised), ("builtin", 1, 1))

    def test_another_tool_is_named(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "another tool")
        self.addCleanup(monitoring.free_tool_id, monitoring.PROFILER_ID)
        with self.assertRaisesRegex(RuntimeError, "another profiler, another tool"):
            self.profiler.start(builtins=True)
        with self.profiler.profile():
            pass

    def test_objects_live_as_long_as_alone(self):
        died = []

        class Dies(list):
            def __del__(self):
                died.append(1)

        def use():
            append = Dies().append
            append(1)

        with self.profiler.profile(builtins=True) as profile:
            use()
            use()
            gc.collect()
            self.assertEqual(len(died), 2)
        self.assertTrue(profile.result.find("<method 'append' of 'list' objects>"))

    def test_what_the_profiler_calls_is_not_in_it(self):
        with self.profiler.profile(builtins=True) as profile:
            abs(1)
        self.assertEqual([f.name for f in profile.result.functions.values()],
                         ["<built-in method builtins.abs>"])

    def test_nothing_is_left_of_it(self):
        with self.profiler.profile(builtins=True):
            len("")
        self.assertIsNone(sys.monitoring.get_tool(sys.monitoring.PROFILER_ID))


@unittest.skipIf(times_from_a_timer(), "there are times from a timer")
class NoSamples(ProfilerTestCase):
    def test_it_is_said(self):
        with self.assertRaisesRegex(self.profiler.ProfilerError, "times from a timer need the GIL"):
            self.profiler.start(sample=True)
        with self.profiler.profile(count=True) as profile:
            profiler_programs.recursion()
        self.assertEqual(profile.result.find("fib")[0].calls, 1219)


@unittest.skipUnless(times_from_a_timer(), "there are no times from a timer")
class Samples(ProfilerTestCase):
    def test_counts_are_exact_and_times_go_to_who_runs(self):
        waiting = threading.Event()

        def busy():
            # Until a thread has looked.
            while not any("busy" in str(path) for path in seen()):
                profiler_programs.recursion()

        def seen():
            names = profile._sampler.kept
            return [[code.co_name for code in list(names.values())]]

        def sleeper():
            waiting.wait()

        thread = threading.Thread(target=sleeper)
        with self.profiler.profile(sample=0.001) as profile:
            thread.start()
            busy()
            profiler_programs.recursion()
            waiting.set()
            thread.join()
        result = profile.result
        fib, = result.find("fib")
        self.assertEqual(fib.calls % 1219, 0)
        self.assertGreaterEqual(fib.calls, 1219)
        self.assertGreater(result.find("busy")[0].total, 0)
        self.assertEqual(result.find("sleeper")[0].calls, 1)
        for function in result.functions.values():
            self.assertLessEqual(function.own, function.total)

    def test_threads_of_other_interpreters_are_left_alone(self):
        try:
            import _interpreters
        except ImportError:
            self.skipTest("no subinterpreters here")
        other = _interpreters.create()
        self.addCleanup(_interpreters.destroy, other)

        def elsewhere():
            _interpreters.exec(other, "def inside(): pass\nfor _ in range(300_000): inside()")

        def busy():
            while thread.is_alive():
                profiler_programs.recursion()

        thread = threading.Thread(target=elsewhere)
        with self.profiler.profile(sample=0.0005) as profile:
            thread.start()
            busy()
        self.assertEqual(profile.result.find("inside"), [])
        self.assertGreater(profile.result.find("busy")[0].total, 0)
        self.assertGreater(profile.result.find("elsewhere")[0].own, 0)

    def test_interpreters_come_and_go(self):
        self.profile_program("""
import threading
try:
    import _interpreters
except ImportError:
    raise SystemExit
def use():
    for _ in range(5):
        other = _interpreters.create()
        _interpreters.exec(other, "def f(n): return n and f(n - 1)\\nfor _ in range(500): f(50)")
        _interpreters.destroy(other)
threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads:
    thread.start()
use()
for thread in threads:
    thread.join()
""", "--sample")

    def test_audit_hooks_see_nothing_of_it(self):
        done, _ = self.profile_program("""
import sys, time
seen = set()
sys.addaudithook(lambda event, args: seen.add(event))
time.sleep(0.1)
print("sys._current_frames" in seen)
""", "--sample")
        self.assertEqual(done.stdout, "False\n")

    def test_no_thread_can_be_started(self):
        import ferrule_profiler._ticker as ticker

        def refuse(*args):
            raise RuntimeError("can't start new thread")

        start, ticker.start_new_thread = ticker.start_new_thread, refuse
        try:
            with self.assertRaisesRegex(RuntimeError, "can't start"):
                self.profiler.start(sample=True)
        finally:
            ticker.start_new_thread = start
        with self.profiler.profile(sample=True) as profile:
            profiler_programs.recursion()
        self.assertEqual(profile.result.find("fib")[0].calls, 1219)

    def test_what_does_not_go_together(self):
        for options in ({"trace": -1}, {"sample": -0.1}, {"arguments": True}):
            with self.assertRaises(ValueError):
                self.profiler.Profile(**options)
        for options in ({"builtins": True}, {"trace": 10}):
            for mode in ("count", "sample"):
                with self.assertRaises(ValueError):
                    self.profiler.Profile(**{mode: True}, **options)


class Timelines(ProfilerTestCase):
    def timeline(self, source, *options):
        path = os.path.join(self.directory(), "trace.json")
        self.profile_program(source, "--trace", path, *options)
        with open(path) as file:
            return json.load(file)["traceEvents"]

    def test_it_has_each_call_within_its_caller(self):
        events = self.timeline("""
import threading
def outer(): inner(); inner()
def inner(): return list(steps())
def steps(): yield 1
outer()
thread = threading.Thread(target=outer, name="other")
thread.start()
thread.join()
""")
        names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(sorted(names.values()), ["MainThread", "other"])
        spans = [event for event in events if event["ph"] == "X"]
        for thread in names:
            def named(name):
                return [(e["ts"], e["ts"] + e["dur"]) for e in spans
                        if e["name"] == name and e["tid"] == thread]
            (begin, end), = named("outer")
            self.assertEqual((len(named("inner")), len(named("steps"))), (2, 4))
            for inner in named("inner"):
                self.assertTrue(begin <= inner[0] <= inner[1] <= end)

    def test_the_buffer_has_an_end(self):
        events = self.timeline("""
def step(n): pass
for n in range(10_000): step(n)
def last(): pass
last()
""", "--trace-events", "100")
        names = [event["name"] for event in events if event["ph"] == "X"]
        self.assertLessEqual(len(names), 100)
        self.assertIn("last", names)

    def test_the_last_seconds(self):
        events = self.timeline("""
import time
def early(): pass
def late(): pass
early()
time.sleep(0.3)
late()
""", "--trace-seconds", "0.2")
        names = {event["name"] for event in events if event["ph"] == "X"}
        self.assertIn("late", names)
        self.assertNotIn("early", names)


    def test_arguments_and_tasks_on_request(self):
        source = """
import asyncio
class Thing:
    def __repr__(self): raise SystemExit("not to be called")
    def method(self, a, b=2.5, *rest, key=None, **more): pass
def long(text, data, number, many): pass
def numbers(n):
    yield from range(n)
async def job(n):
    step(n)
    await asyncio.sleep(0)
    step(-n)
def step(n): pass
async def main():
    await asyncio.gather(*(asyncio.create_task(job(n), name=f"job {n}") for n in (1, 2)))
Thing().method("x", True, *[1, 2], key={}, more=Thing)
long("y" * 100, b"z" * 100, 10 ** 5000, list(range(100)))
list(numbers(1))
asyncio.run(main())
"""
        shown = {}
        for event in self.timeline(source, "--trace-arguments"):
            if event["ph"] == "X":
                shown.setdefault(event["name"], []).append(event["args"])
        method, = shown["Thing.method"]
        self.assertEqual(method["arguments"], "self=<Thing>, a='x', b=True, key=<dict of 0>, "
                         "rest=<tuple of 2>, more=<dict of 1>")
        self.assertEqual(shown["long"][0]["arguments"],
                         f"text='{'y' * 40}'..., data=b'{'z' * 40}'..., number=<int>, "
                         "many=<list of 100>")
        self.assertEqual({args["arguments"] for args in shown["numbers"]}, {"n=1"})
        self.assertEqual(sorted((args["task"], args["arguments"]) for args in shown["step"]),
                         [("job 1", "n=-1"), ("job 1", "n=1"), ("job 2", "n=-2"), ("job 2", "n=2")])
        for event in self.timeline(source):
            self.assertNotIn("arguments", event.get("args", {}))


class Tasks(ProfilerTestCase):
    def test_a_task_that_begins_as_it_is_made_has_its_name(self):
        async def job():
            await asyncio.sleep(0)

        async def main():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            await asyncio.gather(*[asyncio.create_task(job(), name=f"job {n}") for n in (1, 2)])

        with self.profiler.profile() as profile:
            asyncio.run(main())
        runs = {task.name: task.runs for task in profile.result.tasks}
        self.assertEqual((runs["job 1"], runs["job 2"]), (2, 2))

    def test_each_has_its_own_time(self):
        async def work(seconds):
            for _ in range(3):
                await step(seconds)

        async def step(seconds):
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
            await asyncio.sleep(0)

        async def main():
            await asyncio.gather(*(asyncio.create_task(work(n * 0.01), name=f"job {n}")
                                   for n in range(1, 3)))

        with self.profiler.profile() as profile:
            asyncio.run(main())
        result = profile.result
        tasks = {task.name: task for task in result.tasks}
        self.assertEqual([tasks[f"job {n}"].runs for n in (1, 2)], [4, 4])
        self.assertGreater(tasks["job 1"].seconds, 0.03)
        self.assertGreater(tasks["job 2"].seconds, 0.06)
        jobs = tasks["job 1"].seconds + tasks["job 2"].seconds
        self.assertAlmostEqual(jobs, result.find("work")[0].total, delta=1e-4)

    def test_many_tasks_do_not_take_more_and_more(self):
        async def nothing():
            pass

        async def main():
            for _ in range(3000):
                await asyncio.create_task(nothing())

        with self.profiler.profile() as profile:
            asyncio.run(main())
        result = profile.result
        self.assertLess(len(result.tasks), 1100)
        self.assertEqual(result.find("nothing")[0].runs, 3000)
        self.assertGreaterEqual(sum(task.runs for task in result.tasks), 3000)


if __name__ == "__main__":
    unittest.main()
