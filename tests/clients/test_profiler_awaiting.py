"""Time awaited by coroutines and tasks, and CPU time of functions."""

import asyncio
import contextvars
import gc
import os
import threading
import time

from profiler_support import ProfilerTestCase, load

NAP = 0.02

setUpModule = load


async def inner(naps):
    for _ in range(naps):
        await asyncio.sleep(NAP)


async def outer(naps):
    await inner(naps)
    return sum(range(1000))


async def numbers(naps):
    for n in range(naps):
        await asyncio.sleep(NAP)
        yield n


async def read(naps):
    return [n async for n in numbers(naps)]


def naps_of_generator(naps):
    for _ in range(naps):
        yield
        time.sleep(NAP)


class Awaited(ProfilerTestCase):
    def one(self, result, name):
        function, = result.find(name)
        return function

    def test_coroutines_and_their_tasks(self):
        async def main():
            await asyncio.gather(*(asyncio.create_task(outer(2), name="job") for _ in range(3)), read(2))
        with self.profiler.profile() as profile:
            asyncio.run(main())
        result = profile.result
        of_outer, of_inner, of_numbers, of_read = (self.one(result, name).awaited for name in ("outer", "inner", "numbers", "read"))
        self.assertGreaterEqual(of_inner, 3 * 2 * NAP * 0.9)
        # The innermost is suspended first, and resumed last.
        self.assertLessEqual(of_outer, of_inner)
        self.assertGreater(of_outer, 3 * 2 * NAP * 0.9)
        self.assertLess(of_outer, 3 * result.wall)
        self.assertGreaterEqual(of_numbers, 2 * NAP * 0.9)
        self.assertGreaterEqual(of_read, 2 * NAP * 0.9)
        self.assertGreater(self.one(result, "outer").awaited, self.one(result, "outer").total)
        tasks = {task.name.rpartition(".")[2]: task for task in result.tasks}
        # A task awaits while its coroutine does.
        self.assertAlmostEqual(tasks["job"].awaited, of_outer)
        self.assertAlmostEqual(tasks["read"].awaited, of_read)
        self.assertAlmostEqual(tasks["main"].awaited, self.one(result, f"{type(self).__name__}.test_coroutines_and_their_tasks.<locals>.main").awaited)
        self.assertLess(tasks["main"].awaited + tasks["main"].seconds, result.wall)

    def test_what_does_not_await(self):
        async def at_once():
            return 1

        async def main():
            return await at_once()
        with self.profiler.profile() as profile:
            list(naps_of_generator(2))
            time.sleep(NAP)
            asyncio.run(main())
        for function in profile.result.functions.values():
            if function.kind in ("function", "generator") or function.name in ("at_once", "main"):
                self.assertEqual(function.awaited, 0, function)
        self.assertEqual([task.awaited for task in profile.result.tasks if task.coroutine.endswith("main")], [0])
        with self.profiler.profile(count=True) as profile:
            asyncio.run(outer(1))
        self.assertEqual({function.awaited for function in profile.result.functions.values()}, {0})

    def test_what_is_awaited_when_it_stops(self):
        async def main():
            task = asyncio.create_task(outer(2), name="job")
            await asyncio.sleep(NAP)
            profile.start()
            late = asyncio.create_task(outer(10), name="late")
            await asyncio.sleep(0)      # until it awaits: on a busy machine that may be after a time that began before
            await asyncio.sleep(NAP / 4)
            before = profile.result
            await asyncio.sleep(NAP / 4)
            profile.stop()
            late.cancel()
            await asyncio.gather(task, late, return_exceptions=True)
            return before
        profile = self.profiler.profile()
        before = asyncio.run(main())
        # It had begun before: what it awaits is known, and it is not counted itself.
        job, = (task for task in profile.result.tasks if task.name == "job")
        self.assertEqual((job.tasks, job.coroutine), (0, "outer"))
        early, late = (next(task for task in result.tasks if task.name == "late") for result in (before, profile.result))
        self.assertGreaterEqual(early.awaited, NAP / 4 * 0.9)
        self.assertGreaterEqual(late.awaited, NAP / 2 * 0.9)
        self.assertLess(late.awaited, profile.result.wall)
        self.assertAlmostEqual(self.one(profile.result, "outer").awaited, late.awaited)
        for once, again in zip(profile.result.tasks, profile.result.tasks, strict=True):
            self.assertAlmostEqual(once.awaited, again.awaited, delta=1e-6)     # nothing has run since

    def test_tasks_that_are_cancelled_or_dropped(self):
        async def main():
            cancelled = [asyncio.create_task(outer(100), name="cancelled") for _ in range(3)]
            unnamed = asyncio.create_task(outer(100))
            await asyncio.sleep(NAP)
            for task in (*cancelled, unnamed):
                task.cancel()
            await asyncio.gather(*cancelled, unnamed, return_exceptions=True)
            waits = outer(1)
            waits.send(None)
            waits.close()
            dropped = outer(1)
            dropped.send(None)
            del dropped
            gc.collect()
            try:
                await asyncio.wait_for(inner(100), NAP)
            except TimeoutError:
                pass
        with self.profiler.profile() as profile:
            asyncio.run(main())
        tasks = {task.name.rpartition(".")[2]: task for task in profile.result.tasks}
        self.assertEqual(tasks["cancelled"].tasks, 3)
        self.assertGreaterEqual(tasks["cancelled"].awaited, 3 * NAP * 0.9)
        self.assertGreaterEqual(tasks["outer"].awaited, NAP * 0.9)
        # What an exception is thrown into is no task of its own.
        self.assertEqual([name for name in tasks if name in ("inner", "sleep", "wait_for")], [])
        self.assertEqual(tasks["outer"].tasks, 1)

    def test_a_thread_that_ends_meanwhile(self):
        left = []

        def run():
            loop = asyncio.new_event_loop()
            task = loop.create_task(outer(1000), name="left")
            loop.call_later(NAP, loop.stop)
            loop.run_forever()
            left.append((loop, task))
        with self.profiler.profile() as profile:
            threads = [threading.Thread(target=run) for _ in range(70)]     # more than are kept one by one
            for thread in threads:
                thread.start()
                thread.join()
        task, = (task for task in profile.result.tasks if task.name == "left")
        self.assertEqual(task.tasks, 70)
        self.assertGreater(task.awaited, 0)
        self.assertLess(task.awaited, 70 * profile.result.wall)
        for loop, task in left:
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            loop.close()

    def test_labels_and_lines_of_what_awaits(self):
        async def labelled():
            with self.profiler.label("GET"):
                await inner(2)
        with self.profiler.profile(lines=[inner]) as profile:
            asyncio.run(labelled())
        result = profile.result
        self.assertGreaterEqual(self.one(result, "inner").awaited, 2 * NAP * 0.9)
        of_labelled, = (function.awaited for function in result.functions.values() if function.name == "labelled")
        self.assertTrue(2 * NAP * 0.9 <= of_labelled <= self.one(result, "inner").awaited, of_labelled)

    def test_eager_tasks(self):
        async def main():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            await asyncio.gather(*(asyncio.create_task(outer(1), name="eager", context=contextvars.copy_context()) for _ in range(2)))
        with self.profiler.profile() as profile:
            asyncio.run(main())
        eager, = (task for task in profile.result.tasks if task.name == "eager")
        self.assertEqual(eager.tasks, 2)
        self.assertAlmostEqual(eager.awaited, self.one(profile.result, "outer").awaited)

    def test_a_child_of_a_fork_begins_anew(self):
        done, _ = self.profile_program("""
import asyncio, os, sys, time
async def waits(): await asyncio.sleep(0.4)
async def main():
    task = asyncio.create_task(waits())
    await asyncio.sleep(0.3)
    begun = time.monotonic()
    if os.fork() == 0:
        from ferrule_profiler import _profile
        result = _profile._active.result
        awaited = next(function.awaited for function in result.functions.values() if function.name == "waits")
        os._exit(0 if awaited <= time.monotonic() - begun else 3)
    await task
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
asyncio.run(main())
""")
        self.assertEqual(done.stderr, "")

    def test_it_is_shown(self):
        directory = self.directory()
        for options, shown in (((), "own +% +total +awaited +function"), (("--cpu",), "own +% +CPU +total +CPU +awaited +function")):
            path = os.path.join(directory, "found.txt")
            self.profile_program("import asyncio\nasync def job(): await asyncio.sleep(0.01)\nasyncio.run(job())\n", "-o", path, *options)
            with open(path) as file:
                text = file.read()
            self.assertRegex(text, rf"\n +calls +{shown}\n")
            self.assertRegex(text, r"\ntasks +runs +time +awaited +task of asyncio\n(?:.+\n)*? +1 +2 .* job\n")


def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def asleep(seconds):
    time.sleep(seconds)


def both(seconds):
    busy(seconds)
    asleep(seconds)


def again(n):
    busy(NAP / 4)
    if n:
        again(n - 1)


class Processor(ProfilerTestCase):
    def test_functions_have_cpu_time(self):
        with self.profiler.profile(cpu=True) as profile:
            both(4 * NAP)
            again(3)
        result = profile.result
        found = {name: result.find(name)[0] for name in ("both", "busy", "asleep", "again")}
        self.assertGreaterEqual(found["busy"].cpu, 5 * NAP * 0.99)
        self.assertGreaterEqual(found["asleep"].own, 4 * NAP)
        self.assertLess(found["asleep"].cpu, found["asleep"].own / 2)
        self.assertLess(found["both"].cpu, NAP)
        self.assertGreaterEqual(found["both"].total_cpu, 4 * NAP * 0.99)
        # A call within another one counts once.
        self.assertGreaterEqual(found["again"].total_cpu, NAP * 0.99)
        self.assertLess(found["again"].total_cpu, result.cpu)
        for function in result.functions.values():
            self.assertLessEqual(function.cpu, function.total_cpu + 1e-9)
        whole = sum(function.cpu for function in result.functions.values())
        self.assertLessEqual(whole, result.cpu + 1e-6)
        self.assertAlmostEqual(whole, sum(node.cpu for thread in result.threads for node in thread.nodes), delta=1e-6)

    def test_what_runs_when_it_stops(self):
        def running():
            busy(NAP)
            sum(range(100_000))
            end = time.thread_time() + NAP
            while time.thread_time() < end:
                pass
            return profile.result
        with self.profiler.profile(cpu=True) as profile:
            result = running()
        function = next(function for function in result.functions.values() if function.name == "running")
        self.assertGreaterEqual(function.cpu, NAP * 0.99)

    def test_threads(self):
        with self.profiler.profile(cpu=True) as profile:
            threads = [threading.Thread(target=both, args=(NAP,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        result = profile.result
        self.assertGreaterEqual(result.find("busy")[0].cpu, 3 * NAP * 0.99)
        for thread in result.threads:
            self.assertLessEqual(sum(node.cpu for node in thread.nodes), thread.cpu + 1e-4)
        pool, = (pool for pool in result.pools if pool.name == "Thread (both) (3 threads)")
        self.assertAlmostEqual(sum(node.cpu for node in pool.nodes),
                               sum(node.cpu for thread in result.threads if "both" in thread.name for node in thread.nodes))

    def test_hidden_functions_leave_it_to_their_callers(self):
        with self.profiler.profile(cpu=True) as profile:
            both(NAP)
        grouped = profile.result.grouped(hide=["nothing"])
        self.assertEqual(grouped.find("busy")[0].cpu, profile.result.find("busy")[0].cpu)
        source = "def hidden(call): call()\n"
        space = {}
        exec(compile(source, "/hidden/file.py", "exec"), space)
        with self.profiler.profile(cpu=True) as profile:
            again(0)
            space["hidden"](lambda: busy(NAP))
        whole = sum(function.cpu for function in profile.result.functions.values())
        grouped = profile.result.grouped(hide=["/hidden"])
        self.assertAlmostEqual(sum(node.cpu for thread in grouped.threads for node in thread.nodes), whole, delta=1e-6)

    def test_builtins(self):
        with self.profiler.profile(cpu=True, builtins=True) as profile:
            asleep(NAP)
            busy(NAP)
        sleep, = (function for function in profile.result.functions.values() if "sleep" in function.name and function.kind == "builtin")
        self.assertLess(sleep.cpu, sleep.own / 2)

    def test_a_child_of_a_fork_begins_anew(self):
        done, _ = self.profile_program("""
import os, sys, time
def busy():
    end = time.thread_time() + 0.05
    while time.thread_time() < end: pass
busy()
if os.fork() == 0:
    from ferrule_profiler import _profile
    result = _profile._active.result
    os._exit(0 if sum(function.cpu for function in result.functions.values()) <= time.thread_time() + 1e-3 else 3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
""", "--cpu")
        self.assertEqual(done.stderr, "")

    def test_where_it_is_not_asked_for(self):
        with self.profiler.profile() as profile:
            busy(NAP)
        self.assertFalse(profile.result.with_cpu)
        self.assertEqual({(function.cpu, function.total_cpu) for function in profile.result.functions.values()}, {(0, 0)})
        for options in ({"count": True}, {"sample": True}):
            with self.assertRaisesRegex(ValueError, "CPU time need"):
                self.profiler.profile(cpu=True, **options)
        done = self.run_python("-m", "ferrule_profiler", "--cpu", "--count", "x.py", status=2)
        self.assertIn("--cpu", done.stderr)
