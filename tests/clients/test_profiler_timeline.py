"""Timelines, and the tasks of asyncio."""

import asyncio
import json
import os
import threading
import time

import profiler_programs
from profiler_support import ProfilerTestCase, load

setUpModule = load


def nanoseconds(microseconds):
    return round(microseconds * 1000)


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
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(sorted(names.values()), ["MainThread", "other"])
        spans = [event for event in events if event["ph"] == "X"]
        for thread in names:
            def named(name):
                return [(nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"])) for e in spans
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

    def test_calls_that_began_before_the_buffer(self):
        path = os.path.join(self.directory(), "trace.json")
        done, _ = self.profile_program("""
def leaf(n): return n
def phase(n):
    for i in range(n): leaf(i)
def main():
    phase(3000)
    phase(2000)
main()
""", "--trace", path, "--trace-events", "100")
        self.assertEqual(done.stderr, "")
        with open(path) as file:
            found = json.load(file)
        # Of each of 5,004 calls two events, and 100 are kept.
        self.assertEqual(found["otherData"], {"dropped events": {"MainThread": 2 * 5004 - 100}})
        spans = {}
        for event in found["traceEvents"]:
            if event["ph"] == "X":
                begin = nanoseconds(event["ts"])
                spans.setdefault(event["name"], []).append((begin, begin + nanoseconds(event["dur"])))
        self.assertEqual({name: len(times) for name, times in spans.items()}, {"<module>": 1, "main": 1, "phase": 1, "leaf": 49})
        edge = min(begin for times in spans.values() for begin, _ in times)
        for name in ("<module>", "main", "phase"):
            self.assertEqual(spans[name][0][0], edge)
            self.assertGreaterEqual(spans[name][0][1], max(end for _, end in spans["leaf"]))

    def test_what_is_dropped_is_said(self):
        directory = self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write("def leaf(): pass\nfor _ in range(100): leaf()\n")
        for events, count in ((100, 1), (1000, 0)):
            done = self.run_python("-m", "ferrule_profiler", "--trace", os.path.join(directory, "t.json"), "--trace-events", str(events),
                                   script)
            self.assertEqual(done.stderr.count("the timeline has the last events of MainThread; 102 before them are dropped"), count)

    def test_a_buffer_is_the_end_of_all_events(self):
        def run(events):
            with self.profiler.profile(trace=events) as profile:
                profiler_programs.recursion()
                profiler_programs.generators()
                profiler_programs.exceptions()
            result = profile.result
            thread, = result.threads
            return [(result.codes[number][3] if number >= 0 else None) for _, number, _, _ in thread.events], thread.dropped

        everything, dropped = run(1_000_000)
        self.assertEqual(dropped, 0)
        for room in (1, 2, 100, 1001, len(everything) - 1, len(everything)):
            events, dropped = run(room)
            self.assertEqual(dropped, len(everything) - room)
            open_ = []
            for name in everything[:dropped]:
                open_.append(name) if name else open_.pop()
            self.assertEqual(events, open_ + everything[dropped:])

    def test_processes_have_one_clock(self):
        directory = self.directory()
        before = time.monotonic_ns()
        self.profile_program("""
import os
def parent(): pass
def child(): pass
parent()
if (pid := os.fork()) == 0:
    child()
    os._exit(0)
os.waitpid(pid, 0)
parent()
""", "--subprocesses", "--trace", os.path.join(directory, "trace.json"))
        after = time.monotonic_ns()
        times, processes = {}, {}
        for name in os.listdir(directory):
            with open(os.path.join(directory, name)) as file:
                for event in json.load(file)["traceEvents"]:
                    if event["ph"] == "X":
                        times.setdefault(event["name"], []).append(nanoseconds(event["ts"]))
                    elif event["name"] == "process_name":
                        processes[event["pid"]] = event["args"]["name"]
        (first, second), (child,) = sorted(times["parent"]), times["child"]
        # The clocks are compared once a process, to a few microseconds.
        self.assertLess(before - 10 ** 6, first)
        self.assertLess(first, child)
        self.assertLess(child, second)
        self.assertLess(second, after + 10 ** 6)
        self.assertEqual([name.rpartition("/")[2] for name in processes.values()], ["program.py"] * 2)

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

    def test_tasks_of_one_name_are_added_up(self):
        async def request(n):
            await asyncio.sleep(0)

        async def other():
            pass

        async def main():
            for _ in range(30):
                await asyncio.gather(*(asyncio.create_task(request(n), name=f"GET /{n}") for n in range(100)))
            await asyncio.gather(*(asyncio.create_task(request(n)) for n in range(50)))
            await asyncio.create_task(other(), name="GET /1")

        for options in ({}, {"trace": 10}):
            with self.profiler.profile(**options) as profile:
                asyncio.run(main())
            result = profile.result
            tasks = {(task.name, task.coroutine.rpartition(".")[2]): (task.tasks, task.runs) for task in result.tasks}
            # Three more are asyncio.run()'s own.
            self.assertEqual(len([name for name, _ in tasks if name.startswith("GET")]), 101)
            self.assertLess(len(tasks), 110)
            self.assertEqual({tasks["GET /%d" % n, "request"] for n in range(100)}, {(30, 60)})
            self.assertEqual(tasks["GET /1", "other"], (1, 1))
            unnamed, = (task for task in result.tasks if task.name.endswith("request"))
            self.assertEqual((unnamed.name, unnamed.tasks, unnamed.runs), (unnamed.coroutine, 50, 100))
            self.assertEqual([task.seconds for task in result.tasks], sorted((task.seconds for task in result.tasks), reverse=True))

    def test_tasks_of_ended_threads_are_added_up(self):
        async def job():
            await asyncio.sleep(0)

        async def main():
            await asyncio.create_task(job(), name="job")

        with self.profiler.profile() as profile:
            for _ in range(70):
                thread = threading.Thread(target=asyncio.run, args=(main(),))
                thread.start()
                thread.join()
        job_, = (task for task in profile.result.tasks if task.name == "job")
        self.assertEqual((job_.tasks, job_.runs), (70, 140))

    def test_a_task_that_gets_its_name_later_takes_what_it_has_run(self):
        async def job():
            step()
            await asyncio.sleep(0)

        def step():
            sum(range(20_000))

        async def main():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            await asyncio.gather(*[asyncio.create_task(job(), name="job") for _ in range(5)])

        with self.profiler.profile() as profile:
            asyncio.run(main())
        tasks = {task.name: task for task in profile.result.tasks}
        self.assertEqual((tasks["job"].tasks, tasks["job"].runs), (5, 10))
        self.assertGreaterEqual(tasks["job"].seconds, profile.result.find("step")[0].total - 1e-6)
        self.assertFalse([name for name in tasks if name.endswith("<locals>.job")])

    def test_many_tasks_do_not_take_more_and_more(self):
        async def nothing():
            pass

        async def main():
            for _ in range(3000):
                await asyncio.create_task(nothing(), name=f"name {_}")

        with self.profiler.profile() as profile:
            asyncio.run(main())
        result = profile.result
        self.assertLess(len(result.tasks), 1100)
        self.assertEqual(result.find("nothing")[0].runs, 3000)
        self.assertGreaterEqual(sum(task.runs for task in result.tasks), 3000)
