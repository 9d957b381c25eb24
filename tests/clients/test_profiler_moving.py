"""Generators and coroutines that one thread suspends and another one resumes, closes or drops."""

import asyncio
import contextlib
import gc
import os
import queue
import random
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

from profiler_support import ProfilerTestCase, load

NAP = 0.02
# sys.monitoring reports nothing where a generator is closed or released that is suspended.
ON_MONITORING = bool(os.environ.get("FERRULE_TESTS_ON_MONITORING"))

setUpModule = load


class Worker(threading.Thread):
    """A thread that calls what it is given, until it is left."""

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.given, self.done = queue.SimpleQueue(), queue.SimpleQueue()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.given.put(None)
        self.join()

    def run(self):
        while (function := self.given.get()) is not None:
            try:
                self.done.put((function(), None))
            except BaseException as error:
                self.done.put((None, error))
            del function

    def __call__(self, function):
        self.given.put(function)
        value, error = self.done.get()
        if error is not None:
            raise error
        return value


@contextlib.contextmanager
def workers(number):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Worker(f"mover {n}")) for n in range(number)]


def leaf():
    return 1


def double(n):
    return leaf() + leaf() if n else 0


def numbers(n):
    for i in range(n):
        yield double(i)


def delegating(n):
    leaf()
    return (yield from numbers(n))


@types.coroutine
def pause():
    leaf()
    yield


async def pausing(n):
    for i in range(n):
        await pause()
        double(i)
    return n


async def outer(n):
    return await pausing(n)


async def values(n):
    for i in range(n):
        await pause()
        yield i


class Awaits:
    """Suspends a coroutine, and knows between which moments."""

    def __init__(self):
        self.least = self.most = 0.0
        self.left = None        # just before and just after it was suspended last

    def send(self, coroutine):
        before = time.perf_counter()
        try:
            coroutine.send(None)
        except StopIteration:
            self.add(before)
            return False
        self.add(before)
        self.left = before, time.perf_counter()
        return True

    def add(self, resumed):
        if self.left is not None:
            self.least += resumed - self.left[1]
            self.most += time.perf_counter() - self.left[0]
            self.left = None

    def end(self, function):
        before = time.perf_counter()
        function()
        self.add(before)


def runs_by_setprofile(function):
    """How often each function began or was resumed, in all threads, as threading.setprofile() reports it."""
    found = []      # appended by several threads

    def report(frame, event, argument):
        if event == "call":
            found.append(frame.f_code.co_name)

    threading.setprofile(report)
    sys.setprofile(report)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {name: found.count(name) for name in set(found)}


class Moving(ProfilerTestCase):
    def profiled(self, function, **options):
        with self.profiler.profile(**options) as profile:
            function()
        self.check(profile.result)
        return profile.result

    def check(self, result):
        """What is true of all results."""
        for number, function in result.functions.items():
            self.assertTrue(0 <= function.own <= function.total + 1e-6, function)
            self.assertLessEqual(function.calls, max(function.runs, function.calls), function)
            nodes = [node for thread in result.threads for node in thread.nodes if node.function == number]
            self.assertEqual(sum(node.runs for node in nodes), function.runs, function)
            self.assertAlmostEqual(sum(node.own for node in nodes), function.own, delta=1e-6)
            into = [edge for edge in result.edges if edge.callee == number]
            self.assertEqual(sum(edge.runs for edge in into), function.runs, function)
            self.assertEqual(sum(edge.calls for edge in into), function.calls, function)
        for thread in result.threads:
            self.assertLessEqual(sum(node.own for node in thread.nodes), result.wall + 1e-6, thread.name)

    def counts(self, result, *names):
        return [(function.calls, function.runs) for name in names for function in result.find(name)]

    def check_awaited(self, function, awaits, many=1):
        self.assertGreaterEqual(function.awaited, awaits.least * 0.99 - 1e-5, function)
        self.assertLessEqual(function.awaited, awaits.most * 1.01 + many * 1e-5, function)

    def test_counts_are_those_of_the_program(self):
        rounds, threads = 40, 3

        def work():
            with workers(threads) as movers:
                chosen = random.Random(7)
                made = [chosen.choice(movers)(lambda kind=kind: kind(rounds)) for kind in (numbers, delegating, outer, pausing) * 5]
                for _ in range(rounds):
                    for generator in made:
                        chosen.choice(movers)(lambda generator=generator: generator.send(None))
                for generator in made:
                    with self.assertRaises((StopIteration, RuntimeError)):      # a StopIteration leaves no lambda of a generator
                        chosen.choice(movers)(lambda generator=generator: generator.send(None))

        result = self.profiled(work)
        runs = rounds + 1
        # A generator is a call where it was made, or, on stock, where it first runs.
        self.assertEqual(self.counts(result, "numbers", "delegating"), [(10, 10 * runs), (5, 5 * runs)])
        self.assertEqual(self.counts(result, "pausing", "outer"), [(10, 10 * runs), (5, 5 * runs)])
        self.assertEqual(self.counts(result, "pause", "double"), [(10 * rounds, 20 * rounds), (20 * rounds, 20 * rounds)])
        leaves = 20 * 2 * (rounds - 1) + 10 * rounds + 5
        self.assertEqual(self.counts(result, "leaf"), [(leaves, leaves)])
        for name in ("pausing", "outer"):
            self.assertEqual({function.recursive for function in result.find(name)}, {0})
        where = {result.functions[edge.caller].name for edge in result.edges
                 if edge.caller is not None and result.functions[edge.callee].name == "numbers" and edge.runs}
        self.assertEqual(where, {"<lambda>", "delegating"})
        expected = runs_by_setprofile(work)
        names = ("numbers", "delegating", "outer", "pausing", "pause", "double", "leaf")
        found = {name: sum(function.runs for function in result.find(name)) for name in names}
        self.assertEqual(found, {name: expected[name] for name in found})

    def test_time_awaited_is_from_a_suspension_to_the_next_resumption(self):
        awaits = Awaits()

        def work():
            with workers(2) as (one, other):
                made = outer(4)
                for mover in (one, other, one, one):
                    mover(lambda: awaits.send(made))
                    time.sleep(NAP)
                self.assertFalse(other(lambda: awaits.send(made)))
                time.sleep(3 * NAP)     # it is over

        result = self.profiled(work)
        for name in ("outer", "pausing"):
            self.check_awaited(result.find(name)[0], awaits)
        self.assertGreaterEqual(awaits.least, 4 * NAP * 0.9)

    def test_asynchronous_generators(self):
        awaits = Awaits()

        async def read(given):
            return [n async for n in given]

        def work():
            with workers(2) as (one, other):
                given = one(lambda: values(3))
                made = read(given)
                for mover in (one, other, one):
                    mover(lambda: awaits.send(made))
                    time.sleep(NAP)
                other(lambda: awaits.send(made))

        result = self.profiled(work)
        of_values, = (function for function in result.functions.values() if function.name == "values")
        self.assertEqual((of_values.calls, of_values.runs), (1, 7))
        self.check_awaited(of_values, awaits)
        self.check_awaited(next(function for function in result.functions.values() if function.name == "read"), awaits)

    def test_closed_or_dropped_in_another_thread(self):
        """It has awaited until then. One that is closed where an exception may be caught runs once more."""
        for end in ("close", "del", "close later"):
            with self.subTest(end):
                awaits = Awaits()

                def work(end=end, awaits=awaits):
                    with workers(2) as (one, other):
                        held = [outer(4)]
                        one(lambda: awaits.send(held[0]))
                        time.sleep(NAP)
                        if end == "close later":
                            other(lambda: awaits.send(held[0]))
                            time.sleep(NAP)
                        awaits.end(lambda: other(held[0].close if end.startswith("close") else held.clear))
                        time.sleep(3 * NAP)

                result = self.profiled(work)
                if not ON_MONITORING:
                    self.check_awaited(result.find("outer")[0], awaits)
                self.assertEqual(result.find("outer")[0].calls, 1)

    def test_dropped_in_its_own_thread(self):
        awaits = Awaits()

        def work():
            held = [outer(4)]
            awaits.send(held[0])
            time.sleep(NAP)
            awaits.end(held.clear)
            time.sleep(3 * NAP)

        result = self.profiled(work)
        if not ON_MONITORING:
            self.check_awaited(result.find("outer")[0], awaits)

    def test_threads_that_end_while_it_is_suspended(self):
        """Also where so many have ended that they are added up."""
        awaits = Awaits()
        number = 150

        def work():
            made = outer(number)
            for _ in range(number):
                with workers(1) as (one,):
                    one(lambda: awaits.send(made))
            self.assertFalse(awaits.send(made))
            held = [numbers(2)]
            with workers(1) as (one,):
                one(lambda: next(held[0]))
            for _ in range(number):
                with workers(1) as (one,):
                    one(leaf)
            next(held[0])
            held.clear()
            gc.collect()

        result = self.profiled(work)
        self.assertEqual(self.counts(result, "outer", "pausing", "numbers"), [(1, number + 1), (1, number + 1), (1, 2)])
        self.check_awaited(result.find("outer")[0], awaits, number)
        self.assertLess(len(result.threads), 100)

    def test_a_profile_that_ends_meanwhile(self):
        with workers(2) as (one, other):
            early = outer(5)
            one(lambda: early.send(None))
            with self.profiler.profile() as profile:
                made = outer(5)
                one(lambda: made.send(None))
                other(lambda: made.send(None))
                other(lambda: early.send(None))
            with self.profiler.profile() as again:
                one(lambda: made.send(None))
                one(lambda: early.send(None))
                late = outer(2)
                other(lambda: late.send(None))
            one(lambda: (made.send(None), late.send(None), early.close()))
            with self.profiler.profile(count=True) as counted:
                other(lambda: made.send(None))
                one(lambda: outer(1).close())
        self.check(profile.result)
        self.check(again.result)
        self.assertEqual(self.counts(profile.result, "outer"), [(1, 2)])
        self.assertEqual(self.counts(again.result, "outer"), [(1, 1)])
        self.assertEqual([function.calls for function in counted.result.find("outer")], [] if ON_MONITORING else [1])

    def test_lines(self):
        source = ("def lined(n):\n    got = 0\n    for i in range(n):\n        got += (yield i)\n        got += 1\n    return got\n"
                  "def long():\n    sum(range((yield)))\n    x = 1\n")
        names = {}
        exec(compile(source, "/moving/lined.py", "exec"), names)

        def work():
            with workers(2) as movers:
                made = movers[0](lambda: names["lined"](10))
                next(made)
                for n in range(9):
                    movers[n % 2](lambda: made.send(n))
                with self.assertRaises(StopIteration):
                    made.send(0)
                late = movers[0](lambda: names["long"]())
                movers[0](lambda: next(late))
                with contextlib.suppress(StopIteration, RuntimeError):
                    movers[1](lambda: late.send(3_000_000))

        def alone():
            made = names["lined"](10)
            next(made)
            for n in range(9):
                made.send(n)
            with self.assertRaises(StopIteration):
                made.send(0)

        result = self.profiled(work, lines_of=["/moving/lined.py"])
        lines = {result.functions[number].name: found for number, found in result.lines.items()}
        in_one = self.profiled(alone, lines_of=["/moving/lined.py"])
        expected, = ({number: line.runs for number, line in found.items()} for found in in_one.lines.values())
        self.assertEqual({number: line.runs for number, line in lines["lined"].items()}, expected)
        # What it has computed after it was resumed is the line's, and not its function's.
        self.assertEqual(max(lines["long"], key=lambda number: lines["long"][number].own), 8)
        for name, found in lines.items():
            self.assertAlmostEqual(sum(line.own for line in found.values()), result.find(name)[0].own, delta=1e-6)

    def test_labels(self):
        def within():
            with self.profiler.label("outside"):
                leaf()
                with self.profiler.label("inside"):
                    yield leaf()
                    yield leaf()
                    yield leaf()
                leaf()
                yield
            leaf()

        def work():
            with workers(2) as (one, other):
                made = within()
                for mover in (one, other, one, other):
                    mover(lambda: next(made))
                    mover(leaf)
                self.assertEqual(one(lambda: list(made)), [])

        result = self.profiled(work)
        places = {}
        for thread in result.threads:
            for path, runs, _ in thread.paths:
                functions = [result.functions[number] for number in path if number in result.functions]
                if functions[-1].name == "leaf":
                    labels = tuple(function.name for function in functions if function.kind == "label")
                    places[labels] = places.get(labels, 0) + runs
        self.assertEqual(places, {("outside",): 2, ("outside", "inside"): 3, (): 5})
        self.assertEqual({function.name: function.calls for function in result.functions.values() if function.kind == "label"},
                         {"outside": 1, "inside": 1})

    def test_arguments_in_the_timeline(self):
        def work():
            with workers(2) as (one, other):
                made = numbers(3)
                for mover in (one, other, one):
                    mover(lambda: next(made))

        result = self.profiled(work, trace=1000, arguments=True)
        shown = [arguments for thread in result.threads for _, number, _, arguments in thread.events
                 if number >= 0 and result.functions[number].name == "numbers"]
        self.assertEqual(shown, ["n=3"] * 3)

    def test_tasks_of_a_loop_that_several_threads_run(self):
        async def job(gate):
            while not gate.is_set():
                await asyncio.sleep(0)
            await asyncio.sleep(0)

        async def turns(n):
            for _ in range(n):
                await asyncio.sleep(0)

        def work():
            loop = asyncio.new_event_loop()
            with workers(2) as (one, other):
                gate = asyncio.Event()
                tasks = [loop.create_task(job(gate), name="named"), loop.create_task(job(gate))]
                for mover in (one, other, one, other):
                    mover(lambda: loop.run_until_complete(turns(3)))
                gate.set()
                one(lambda: loop.run_until_complete(asyncio.wait(tasks)))
                loop.close()

        for options in ({}, {"trace": 1000}):
            result = self.profiled(work, **options)
            jobs = [task for task in result.tasks if task.coroutine.rpartition(".")[2] == "job"]
            of_job, = (function for function in result.functions.values() if function.name == "job")
            self.assertEqual(sum(task.tasks for task in jobs), 2)
            self.assertEqual({task.name.rpartition(".")[2]: task.tasks for task in jobs}["named"], 1)
            self.assertEqual(sum(task.runs for task in jobs), of_job.runs)
            self.assertEqual(of_job.calls, 2)
            self.assertAlmostEqual(sum(task.awaited for task in jobs), of_job.awaited, delta=1e-5)
            self.assertLess(of_job.awaited, 2 * result.wall)

    def test_loops_of_several_threads_and_their_executors(self):
        number, jobs = 3, 10

        async def job(pool, n):
            await asyncio.get_running_loop().run_in_executor(pool, double, n)
            await asyncio.to_thread(leaf)
            return n

        async def main(pool):
            return sum(await asyncio.gather(*(job(pool, 1) for _ in range(jobs))))

        def work():
            with ThreadPoolExecutor(4) as pool, workers(number) as movers:
                found = []
                threads = [threading.Thread(target=lambda: found.append(asyncio.run(main(pool)))) for _ in movers]
                for thread in threads:
                    thread.start()
                loop = asyncio.new_event_loop()
                runner = threading.Thread(target=loop.run_forever)
                runner.start()
                sent = [asyncio.run_coroutine_threadsafe(job(pool, 1), loop) for _ in range(jobs)]
                found += [future.result() for future in sent]
                loop.call_soon_threadsafe(loop.stop)
                for thread in (runner, *threads):
                    thread.join()
                loop.run_until_complete(loop.shutdown_default_executor())
                loop.close()
            self.assertEqual(sum(found), (number + 1) * jobs)

        result = self.profiled(work)
        all_jobs = (number + 1) * jobs
        of_job, = (function for function in result.functions.values() if function.name == "job")
        self.assertEqual((of_job.calls, of_job.raised), (all_jobs, 0))
        self.assertEqual(self.counts(result, "double", "leaf"), [(all_jobs, all_jobs), (3 * all_jobs, 3 * all_jobs)])
        self.assertEqual(sum(task.tasks for task in result.tasks if task.coroutine.rpartition(".")[2] == "job"), all_jobs)
        self.assertLess(of_job.awaited, all_jobs * result.wall)

    def test_threads_that_pass_generators_on(self):
        """All run at once, each what it finds."""
        number, rounds = 40, 30

        def work():
            waiting = queue.SimpleQueue()
            for n in range(number):
                waiting.put(numbers(rounds) if n % 2 else outer(rounds))

            def move():
                while True:
                    try:
                        generator = waiting.get_nowait()
                    except queue.Empty:
                        return
                    for _ in range(random.randrange(1, 4)):
                        try:
                            generator.send(None)
                        except StopIteration:
                            break
                    else:
                        waiting.put(generator)

            threads = [threading.Thread(target=move) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        for options in ({}, {"lines": ["numbers", "pausing"]}, {"trace": 10_000, "arguments": True}, {"cpu": True}):
            with self.subTest(options):
                result = self.profiled(work, **options)
                half = number // 2
                self.assertEqual(self.counts(result, "numbers", "outer", "pausing"), [(half, half * (rounds + 1))] * 3)
                self.assertEqual(self.counts(result, "double"), [(number * rounds,) * 2])

    def test_a_child_of_a_fork(self):
        done, _ = self.profile_program("""
import os, sys, threading
def numbers():
    for i in range(10): yield i
def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
moved, back, dropped = numbers(), numbers(), numbers()
next(back)
for made in (moved, back, dropped):
    in_thread(lambda: next(made))
if os.fork() == 0:
    next(moved), next(back), in_thread(lambda: next(moved))
    del dropped
    from ferrule_profiler import _profile
    found, = _profile._active.result.find("numbers")
    os._exit(0 if (found.calls, found.runs) == (0, 3) else 3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
""")
        self.assertEqual(done.stderr, "")
