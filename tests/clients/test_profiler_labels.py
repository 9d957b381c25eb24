"""Labels: what runs in them, and that they end where they do."""

import asyncio
import concurrent.futures
import contextlib
import io
import json
import os
import re
import sys
import threading

import profiler_programs
from labels_support import LabelsCase, leaf
from profiler_support import load, times_from_a_timer

setUpModule = load


class Blocks(LabelsCase):
    def test_what_runs_in_them(self):
        def run():
            leaf()
            with self.label("one"):
                leaf(), leaf()
                with self.label("two"):
                    leaf()
                leaf()
            leaf()

        result = self.profiled(run)
        self.assertEqual(self.within(result), {(): 2, ("one",): 3, ("one", "two"): 1})
        self.assertEqual(self.counted(result), {"one": (1, 1, 0, 0), "two": (1, 1, 0, 0)})
        self.assertGreaterEqual(result.find("one")[0].total, result.find("two")[0].total)

    def test_the_function_keeps_its_own_time(self):
        def run():
            with self.label("one"):
                sum(range(1_000_000))

        result = self.profiled(run)
        one, around = result.find("one")[0], result.find("run")[0]
        self.assertGreater(around.own, 0.9 * one.total)
        self.assertLess(one.own, 0.5 * one.total)
        self.assertEqual((around.calls, around.runs, around.recursive), (1, 1, 0))

    def test_functions_are_counted_as_without_them(self):
        def outer(n, label):
            with label("a"):
                return leaf(inner(n, label))

        def inner(n, label):
            with label("b"), label("a"):
                return outer(n - 1, label) if n else leaf()

        counted = []
        for label in (self.label, lambda name: contextlib.nullcontext()):
            functions = self.profiled(lambda: outer(20, label)).functions.values()
            counted.append({function.name: function[5:9] for function in functions if function.name in ("outer", "inner", "leaf")})
        self.assertEqual(*counted)

    def test_recursion(self):
        def again(n):
            with self.label("again"):
                if n:
                    again(n - 1)

        result = self.profiled(lambda: again(30))
        self.assertEqual(self.counted(result), {"again": (31, 31, 30, 0)})
        self.assertLessEqual(result.find("again")[0].total, result.seconds + 1e-6)

    def test_exceptions(self):
        def fail():
            with self.label("outer"), self.label("inner"):
                leaf()
                raise KeyError

        def run():
            for _ in range(3):
                with contextlib.suppress(KeyError):
                    fail()
            leaf()

        result = self.profiled(run)
        self.assertEqual(self.counted(result), {"outer": (3, 3, 0, 3), "inner": (3, 3, 0, 3)})
        self.assertEqual(self.within(result), {("outer", "inner"): 3, (): 1})

    def test_without_a_profile_and_around_its_ends(self):
        with self.label("before") as label:
            self.assertEqual(repr(label), "ferrule_profiler.label('before')")
            profile = self.profiler.start()
            leaf()
            with self.label("before"):
                leaf()
        leaf()
        with self.label("open"):
            leaf()
            profile.stop()
            leaf()
        self.check(profile.result)
        self.assertEqual(self.within(profile.result), {(): 2, ("before",): 1, ("open",): 1})

    def test_while_a_profile_is_made(self):
        with self.profiler.profile() as profile, self.label("one"):
            leaf()
            self.check(profile.result)
            self.assertEqual(self.within(profile.result), {("one",): 1})
            self.assertEqual(self.counted(profile.result), {"one": (1, 1, 0, 0)})

    def test_labels_are_left_in_any_order(self):
        def run():
            one, two = self.label("one"), self.label("two")
            one.__enter__(), two.__enter__()
            leaf()
            one.__exit__(None, None, None)
            leaf()
            two.__exit__(None, None, None)
            leaf()
            two.__exit__(None, None, None)      # once more

        self.assertEqual(self.within(self.profiled(run)), {("one", "two"): 1, ("two",): 1, (): 1})

    def test_they_end_where_they_are_left(self):
        """And not with the function that has entered them."""
        def stacked():
            with contextlib.ExitStack() as stack:
                stack.enter_context(self.label("stack"))
                leaf()
                stack.callback(leaf)
            leaf()

        def begin():
            self.label("hook").__enter__()

        def end():
            self.label("hook").__exit__(None, None, None)

        def hooks():
            begin()
            leaf()
            end()
            leaf()

        def left_open():
            begin()

        def run():
            stacked(), hooks()

        self.assertEqual(self.within(self.profiled(run)), {("stack",): 2, ("hook",): 1, (): 2})
        self.profiled(left_open)
        with self.assertRaises(AttributeError):
            self.label("hook").name = None
            self.label("hook").other = 1

    def test_names(self):
        for wrong in (None, 3, b"x"):
            with self.assertRaisesRegex(TypeError, "a label is a str"):
                self.label(wrong)
        names = ["", "\x1b[31m\n", "\udcff", "run", "[cut]", "a;b", "<script>"]

        def run():
            for name in names:
                with self.label(name):
                    leaf()

        result = self.profiled(run)
        self.assertEqual({label.name for label in result.labels}, set(names))
        self.assertEqual(sum(self.within(result).values()), len(names))
        for format in ("html", "table", "pstats", "speedscope", "callgrind", "folded"):
            path = os.path.join(self.directory(), "found")
            result.write(path, format)
            with open(path, "rb") as file:
                self.assertNotIn(b"\x1b[31m", file.read())

    def test_many_names_share_one(self):
        def run():
            for n in range(3000):
                with self.label(f"GET /users/{n}"):
                    leaf()

        result = self.profiled(run)
        self.assertEqual(len(result.labels), 1001)
        self.assertEqual(result.find("[labels that came later]")[0].calls, 2000)
        self.assertEqual(sum(self.within(result).values()), 3000)

    def test_deep_and_many_paths(self):
        def nested(n):
            with self.label(f"label {n % 3}"):
                if n:
                    nested(n - 1)
                leaf()

        def wide(n):
            with self.label(f"label {n % 3}"):
                if n:
                    wide(n - 1), other(n - 1)
                leaf()

        def other(n):
            with self.label(f"label {n % 2}"):
                if n:
                    wide(n - 1), other(n - 1)
                leaf()

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(5000)
        self.addCleanup(sys.setrecursionlimit, limit)
        result = self.profiled(lambda: nested(1500))
        self.assertEqual(result.find("leaf")[0].calls, 1501)
        self.assertEqual(sum(label.calls for label in result.labels), 1501)
        result = self.profiled(lambda: wide(15))
        self.assertGreater(result.cuts, 0)
        self.assertEqual(result.find("leaf")[0].calls, (1 << 16) - 1)
        self.assertEqual(sum(label.calls for label in result.labels), (1 << 16) - 1)

    def test_counts_alone_and_a_timer(self):
        def run():
            for _ in range(3):
                with self.label("one"):
                    leaf()

        for options in ({"count": True}, *([{"sample": True}] if times_from_a_timer() else [])):
            with self.profiler.profile(**options) as profile:
                run()
            self.assertEqual([(label.name, label.calls) for label in profile.result.labels], [("one", 3)])
            profile.result.print_table(file=io.StringIO())

    def test_beside_other_parts_of_a_profile(self):
        def run():
            with self.label("one"):
                leaf(len("x"))
                sorted([2, 1], key=leaf)

        result = self.profiled(run, builtins=True, trace=1000, arguments=True, lines=[run])
        self.assertEqual(self.within(result), {("one",): 3})
        self.assertEqual(self.within(result, "<built-in method builtins.sorted>"), {("one",): 1})
        number, = (number for number, function in result.functions.items() if function.name == "run")
        self.assertEqual([line.runs for line in result.lines[number].values()], [0, 2, 1, 1])
        names = [event["name"] for event in json.loads(self.timeline(result))["traceEvents"]]
        self.assertEqual((names.count("one"), names.count("leaf")), (1, 3))

    def timeline(self, result):
        from ferrule_profiler._timeline import timeline
        return timeline(result)

    def test_files_of_other_programs_have_functions_alone(self):
        def run():
            with self.label("one"):
                leaf()

        result = self.profiled(run)
        import marshal

        from ferrule_profiler import _formats
        stats = marshal.loads(_formats.pstats(result))
        self.assertNotIn("one", {name for _, _, name in stats})
        callers, = (row[4] for (_, _, name), row in stats.items() if name == "leaf")
        self.assertEqual([name for _, _, name in callers], ["run"])
        self.assertNotIn("fn=one", _formats.callgrind(result))
        self.assertIn(";one;", _formats.folded(result))


class Suspended(LabelsCase):
    def test_a_generator_takes_its_label_along(self):
        def make():
            with self.label("made"):
                for n in range(3):
                    leaf()
                    yield n
            leaf()

        def run():
            for _ in make():
                leaf(), leaf()

        result = self.profiled(run)
        self.assertEqual(self.within(result), {("made",): 3, (): 7})
        self.assertEqual(self.counted(result), {"made": (1, 1, 0, 0)})
        self.assertEqual(result.find("make")[0][5:9], (1, 4, 0, 0))

    def test_generators_that_end_otherwise(self):
        def make():
            with self.label("made"):
                try:
                    yield leaf()
                    yield leaf()
                finally:
                    leaf()

        def run():
            closed = make()
            next(closed)
            closed.close()
            thrown = make()
            next(thrown)
            with self.assertRaises(KeyError):
                thrown.throw(KeyError)
            dropped = make()
            next(dropped)
            del dropped
            leaf()

        result = self.profiled(run)
        self.assertEqual(self.within(result), {("made",): 6, (): 1})

    def test_one_that_another_thread_resumes_keeps_them(self):
        def make():
            with self.label("made"):
                yield leaf()
                yield leaf()

        def run():
            made = make()
            next(made)
            thread = threading.Thread(target=lambda: [*made, leaf()])
            thread.start()
            thread.join()
            leaf()

        self.assertEqual(self.within(self.profiled(run)), {("made",): 2, (): 2})

    def test_tasks_have_their_own(self):
        async def inner(n):
            for _ in range(3):
                leaf()
                await asyncio.sleep(0)

        async def request(n):
            with self.label(f"request {n}"):
                leaf()
                await asyncio.sleep(0)
                await inner(n)
                leaf()
            await asyncio.sleep(0)
            leaf()

        async def main():
            await asyncio.gather(*(request(n) for n in range(20)))

        result = self.profiled(lambda: asyncio.run(main()), lines=[request])
        self.assertEqual(self.within(result), {(): 20, **{(f"request {n}",): 5 for n in range(20)}})
        self.assertEqual({label.calls for label in result.labels}, {1})
        task, = (task for task in result.tasks if task.coroutine.endswith("request"))
        self.assertEqual((task.tasks, task.runs), (20, 120))
        lines, = result.lines.values()
        self.assertEqual([line.runs for line in lines.values()], [0, 40, 20, 20, 20, 20, 20, 20])

    def test_asynchronous_generators_and_stacks(self):
        async def make():
            with self.label("made"):
                for n in range(2):
                    await asyncio.sleep(0)
                    leaf()
                    yield n

        async def main():
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(self.label("stack"))
                async for _ in make():
                    await asyncio.sleep(0)
                    leaf()
            leaf()

        result = self.profiled(lambda: asyncio.run(main()))
        self.assertEqual(self.within(result), {("stack", "made"): 2, ("stack",): 2, (): 1})

    def test_coroutines_of_the_programs(self):
        """Whatever they do: the same counts with a label around each function that they call."""
        for program in profiler_programs.PROGRAMS:
            if program is profiler_programs.asyncio_tasks:
                continue        # it waits for as long as the machine takes
            with self.subTest(program.__name__):
                program()
                alone = self.profiled(program)

                def run():
                    with self.label("program"):
                        program()

                labelled = self.profiled(run)
                name = program.__qualname__
                counts = [{(function.qualname, function.line): function[5:9] for function in result.functions.values()
                           if function.qualname.startswith(name)} for result in (alone, labelled)]
                self.assertEqual(*counts)


class Threads(LabelsCase):
    def test_each_has_its_own(self):
        def work(n):
            with self.label(f"work {n % 4}"):
                return leaf(n)

        def run():
            with self.label("main"), concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(work, range(400)))

        result = self.profiled(run)
        self.assertEqual(self.within(result), {(f"work {n}",): 100 for n in range(4)})

    def test_one_object_in_many_threads(self):
        label = self.label("shared")
        barrier = threading.Barrier(4)

        def work():
            barrier.wait()
            for _ in range(200):
                with label, label:
                    leaf()

        def run():
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        result = self.profiled(run)
        self.assertEqual(self.within(result), {("shared", "shared"): 800})
        self.assertEqual(self.counted(result), {"shared": (1600, 1600, 800, 0)})

    def test_threads_that_have_ended(self):
        def work():
            with self.label("work"):
                leaf()

        def run():
            for _ in range(150):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()

        self.assertEqual(self.within(self.profiled(run)), {("work",): 150})


PROGRAM = """import os, sys, ferrule_profiler
def leaf(): return 1
def work():
    with ferrule_profiler.label("GET /\\x1bpath"):
        leaf()
        END
work()
"""


class Program(LabelsCase):
    def run_program(self, *options, end="pass", status=0):
        script = os.path.join(self.directory(), "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM.replace("END", end))
        return self.run_python("-m", "ferrule_profiler", *options, script, status=status)

    def test_the_table_has_them_however_it_ends(self):
        for end, status in (("pass", 0), ("os._exit(3)", 3), ("os.kill(os.getpid(), 15)", -15), ("sys.exit(3)", 3)):
            done = self.run_program(end=end, status=status)
            self.assertRegex(done.stderr, r"\ncalls +total +each +raised  label\n +1 .* [01]  GET /\\x1bpath\n")
        done = self.run_program("--count")
        self.assertRegex(done.stderr, r"\ncalls  label\n +1  GET /\\x1bpath\n")

    def test_the_child_of_a_fork_has_the_open_one(self):
        directory = self.directory()
        self.run_program("--subprocesses", "-o", os.path.join(directory, "found.folded"), end="os.fork() and os.wait(); leaf()")
        self.assertEqual(len(os.listdir(directory)), 2)
        for name in os.listdir(directory):
            with open(os.path.join(directory, name)) as file:
                self.assertRegex(file.read(), r";GET /\\x1bpath;work [^;]*;leaf ")

    def test_the_page_has_them(self):
        path = os.path.join(self.directory(), "found.html")
        self.run_program("--quiet", "-o", path)
        with open(path) as file:
            data = json.loads(re.search(r'id="data" [^>]*>(.*?)</script>', file.read())[1])
        row, = (row for row in data["functions"] if row[3] == "label")
        self.assertEqual((row[0], row[4]), ("GET /\\x1bpath", 1))
