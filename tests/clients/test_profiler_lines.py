"""The times of lines of chosen functions."""

import asyncio
import functools
import json
import os
import re
import subprocess
import sys
import threading

import profiler_programs
from profiler_support import OUT, ProfilerTestCase, load
from tests.remote_debugging import needs_remote

setUpModule = load


def add_up(items):
    total = 0
    for item in items:
        total += double(item)
    return total


def double(item):
    return item * 2


def first_line(function):
    return function.__code__.co_firstlineno


class LinesCase(ProfilerTestCase):
    def lines_of(self, result, name):
        """{line from the first of a function: how often it has begun}, without those that have not."""
        number, = (number for number, function in result.functions.items() if function.qualname == name)
        first = result.functions[number].line
        return {line - first: counted.runs for line, counted in result.lines[number].items() if counted.runs}

    def assert_adds_up(self, result):
        """The lines of a function have all of its own time, and none of another's."""
        self.assertTrue(result.lines)
        for number, lines in result.lines.items():
            function = result.functions[number]
            self.assertAlmostEqual(sum(line.own for line in lines.values()), function.own, delta=1e-6)
            self.assertTrue(all(line.own >= 0 for line in lines.values()))

    def run_text(self, text, run, **options):
        """The result of a profile of functions that a text defines."""
        module = {}
        exec(compile(text, "<text>", "exec"), module)
        with self.profiler.profile(**options) as profile:
            run(module)
        self.assert_adds_up(profile.result)
        return profile.result


class Counts(LinesCase):
    maxDiff = None

    def reported(self, program):
        """{(function, line): how often the line is reported to a tool of its own}"""
        monitoring, found, lines, resumed = sys.monitoring, {}, {}, set()
        events = monitoring.events

        def start(code, *_):
            resumed.discard(id(sys._getframe(1)))   # another frame had the address

        def resume(code, *_):
            resumed.add(id(sys._getframe(1)))

        def count(code, line):
            frame = id(sys._getframe(1))
            if code.co_filename != profiler_programs.__file__:
                return
            # The line that a generator is resumed on is reported, and does not begin.
            if frame not in resumed or lines[frame] != line:
                found[code.co_qualname, line] = found.get((code.co_qualname, line), 0) + 1
            resumed.discard(frame)
            lines[frame] = line

        callbacks = {events.PY_START: start, events.LINE: count, events.PY_RESUME: resume, events.PY_THROW: resume}
        monitoring.use_tool_id(monitoring.COVERAGE_ID, "lines")
        for event, callback in callbacks.items():
            monitoring.register_callback(monitoring.COVERAGE_ID, event, callback)
        monitoring.set_events(monitoring.COVERAGE_ID, sum(callbacks))
        try:
            program()
        finally:
            monitoring.set_events(monitoring.COVERAGE_ID, 0)
            for event in callbacks:
                monitoring.register_callback(monitoring.COVERAGE_ID, event, None)
            monitoring.free_tool_id(monitoring.COVERAGE_ID)
        return found

    def test_they_are_those_that_another_tool_sees(self):
        for program in profiler_programs.PROGRAMS:
            if program is profiler_programs.asyncio_tasks:
                continue        # it waits for as long as the machine takes
            with self.subTest(program.__name__):
                program()       # what is only done the first time
                reported = self.reported(program)
                with self.profiler.profile(lines_of=[profiler_programs.__file__]) as profile:
                    program()
                result = profile.result
                counted = {(result.functions[number].qualname, line): one.runs
                           for number, lines in result.lines.items() for line, one in lines.items() if one.runs}
                self.assertEqual(counted, reported)
                self.assert_adds_up(result)

    def test_own_time_is_where_it_was_taken(self):
        result = self.run_text("def f():\n    a = sum(range(300_000))\n    g()\n    b = 1\ndef g():\n    sum(range(3_000_000))\n",
                               lambda module: module["f"](), lines="f")
        lines = {line: counted.own for (number, lines) in result.lines.items() for line, counted in lines.items()}
        self.assertEqual(max(lines, key=lines.get), 2)
        self.assertGreater(result.find("g")[0].own, lines[3])
        self.assertEqual(set(lines), {1, 2, 3, 4})

    def test_profiles_do_not_change_for_it(self):
        with self.profiler.profile() as profile:
            add_up(range(100))
        plain = {function.qualname: function[5:9] for function in profile.result.functions.values()}
        edges = sorted((edge.runs, edge.calls) for edge in profile.result.edges)
        with self.profiler.profile(lines=[add_up, double]) as profile:
            add_up(range(100))
        self.assertEqual({function.qualname: function[5:9] for function in profile.result.functions.values()}, plain)
        self.assertEqual(sorted((edge.runs, edge.calls) for edge in profile.result.edges), edges)
        nodes = [node for thread in profile.result.threads for node in thread.nodes]
        self.assertEqual(len(nodes), 3)     # the thread, and a place for each function

    def test_recursion(self):
        result = self.run_text("def f(n):\n    if n:\n        f(n - 1)\n    return n\n", lambda module: module["f"](200), lines="f")
        self.assertEqual(self.lines_of(result, "f"), {1: 201, 2: 200, 3: 201})

    def test_an_exception_that_passes(self):
        text = "def f(n):\n    try:\n        return g(n)\n    finally:\n        n = 1\ndef g(n):\n    n += 1\n    raise KeyError\n"

        def run(module):
            with self.assertRaises(KeyError):
                module["f"](1)

        result = self.run_text(text, run, lines=["f", "g"])
        self.assertEqual((self.lines_of(result, "f"), self.lines_of(result, "g")), ({1: 1, 2: 1, 4: 1}, {1: 1, 2: 1}))

    def test_what_begins_before_the_profile_is_not_counted(self):
        text = "def f(start):\n    a = 1\n    start()\n    b = 2\n    g()\n    return 3\ndef g():\n    return 1\n"
        module = {}
        exec(compile(text, "<text>", "exec"), module)
        profile = self.profiler.profile(lines=["f", "g"])
        module["f"](profile.start)
        profile.stop()
        self.assertEqual(self.lines_of(profile.result, "g"), {1: 1})
        self.assertEqual(profile.result.find("f"), [])
        self.assertEqual(profile.result.missing, ["f"])


class Suspended(LinesCase):
    TEXT = """def make(n):
    for i in range(n):
        yield i, double(
            i)
    try:
        yield
    except KeyError:
        yield 7
"""

    def test_a_generator_that_another_thread_resumes(self):
        def run(module):
            made = module["make"](2)
            next(made), next(made)
            thread = threading.Thread(target=next, args=(made,))
            thread.start()
            thread.join()
            self.assertEqual(made.throw(KeyError), 7)
            made.close()

        result = self.run_text(self.TEXT.replace("double(", "str("), run, lines="make")
        self.assertEqual(self.lines_of(result, "make"), {1: 3, 2: 4, 3: 2, 4: 1, 5: 1, 6: 1, 7: 1})

    def test_time_after_it_is_resumed_is_the_lines(self):
        text = "def g():\n    x = 1\n    sum(range((yield)))\n    y = 1\n"

        def run(module):
            made = module["g"]()
            next(made)
            with self.assertRaises(StopIteration):
                made.send(2_000_000)

        lines, = self.run_text(text, run, lines="g").lines.values()
        self.assertEqual(max(lines, key=lambda line: lines[line].own), 3)

    def test_coroutines_that_take_turns(self):
        text = ("import asyncio\nasync def one(n):\n    for i in range(n):\n        await asyncio.sleep(0)\n        i += 1\n"
                "async def all():\n    await asyncio.gather(*(one(n) for n in range(20)))\n")
        result = self.run_text(text, lambda module: asyncio.run(module["all"]()), lines=["one", "all"])
        self.assertEqual(self.lines_of(result, "one"), {1: 210, 2: 190, 3: 190})

    def test_generators_that_are_never_ended(self):
        text = "def g():\n    yield 1\n    yield 2\n"
        result = self.run_text(text, lambda module: [next(module["g"]()) for _ in range(1000)], lines="g")
        self.assertEqual(self.lines_of(result, "g"), {1: 1000})


class Chosen(LinesCase):
    def names(self, run=lambda: add_up([1]), **options):
        with self.profiler.profile(**options) as profile:
            run()
        result = profile.result
        return {result.functions[number].qualname for number in result.lines}, result.missing

    def test_functions_and_their_names(self):
        class Thing:
            def method(self):
                return [x for x in map(lambda x: x, (y for y in range(3)))]

        wrapped = functools.wraps(add_up)(lambda items: add_up(items))
        within = "Chosen.test_functions_and_their_names.<locals>.Thing.method"
        nested = {within, f"{within}.<locals>.<lambda>", f"{within}.<locals>.<genexpr>"}

        def run():
            wrapped([1]), Thing().method()

        for chosen, names in (("add_up", {"add_up"}), (add_up, {"add_up"}), ([add_up], {"add_up"}), (["add_up", double], {"add_up", "double"}),
                              (wrapped, {"add_up"}), ("method", nested), ("Thing.method", nested), (Thing().method, nested),
                              (Thing.method, nested), ("<lambda>", {f"{within}.<locals>.<lambda>", "Chosen.test_functions_and_their_names.<locals>.<lambda>"}),
                              ("test_profiler_lines.py:double", {"double"}), (f"{__file__}:double", {"double"}), (double.__code__, {"double"})):
            with self.subTest(chosen):
                self.assertEqual(self.names(run, lines=chosen), (names, []))
        for name in ("up", "add", "add_up.x", "hing.method", "lines.py:double", "other.py:double", "add_up\n", ""):
            with self.subTest(name):
                self.assertEqual(self.names(run, lines=[name]), (set(), [name]))

    def test_files(self):
        here = os.path.relpath(__file__)
        for name in (here, __file__, "test_profiler_lines.py", "./clients/../clients/test_profiler_lines.py"):
            with self.subTest(name):
                self.assertEqual(self.names(lines_of=[name])[0] >= {"add_up", "double"}, True)
        link = os.path.join(self.directory(), "link.py")
        os.symlink(__file__, link)
        self.assertEqual(self.names(lines_of=link)[0] >= {"add_up", "double"}, True)
        for name in ("lines.py", "lients/test_profiler_lines.py", "test_profiler_lines", "\x1b\udcff.py"):
            with self.subTest(name):
                self.assertEqual(self.names(lines_of=[name]), (set(), [name]))

    def test_what_makes_no_sense(self):
        for wrong in ({"lines": len}, {"lines": [3]}, {"lines_of": [3]}, {"lines": 3}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.profiler.profile(**wrong)
        for kind in ("count", "sample"):
            with self.assertRaisesRegex(ValueError, "exact times"):
                self.profiler.profile(lines="add_up", **{kind: True})


class Tools(LinesCase):
    def test_nothing_is_left(self):
        monitoring = sys.monitoring
        before = [monitoring.get_tool(tool) for tool in range(6)]
        for _ in range(3):
            with self.profiler.profile(lines="add_up") as profile:
                tool = next(tool for tool in range(6) if before[tool] is None
                            and monitoring.get_tool(tool) and monitoring.get_events(tool) == 0)
                add_up(range(5))
                self.assertTrue(monitoring.get_local_events(tool, add_up.__code__))
                self.assertFalse(monitoring.get_local_events(tool, double.__code__))
            self.assertEqual(self.lines_of(profile.result, "add_up"), {1: 1, 2: 6, 3: 5, 4: 1})
            self.assertEqual([monitoring.get_tool(tool) for tool in range(6)], before)
            monitoring.use_tool_id(tool, "another")
            self.assertEqual(monitoring.get_local_events(tool, add_up.__code__), 0)
            monitoring.free_tool_id(tool)

    def test_all_ids_are_taken(self):
        monitoring = sys.monitoring
        for tool in range(6):
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "another")
                self.addCleanup(monitoring.free_tool_id, tool)
        with self.assertRaisesRegex(self.profiler.ProfilerError, "lines cannot be counted: .* no tool id left; these have them: .*another"):
            self.profiler.start(lines="add_up")
        monitoring.free_tool_id(5), monitoring.free_tool_id(4)
        with self.profiler.profile(lines="add_up") as profile:
            add_up([])
        self.assertTrue(profile.result.lines)
        monitoring.use_tool_id(5, "another"), monitoring.use_tool_id(4, "another")

    def test_beside_others_that_see_lines(self):
        seen = []

        def trace(frame, event, argument):
            if frame.f_code is add_up.__code__:
                seen.append(event)
                return trace

        def run():
            sys.settrace(trace)
            try:
                add_up(range(5))
            finally:
                sys.settrace(None)

        run()
        alone, seen[:] = seen[:], []
        with self.profiler.profile(lines="add_up", builtins=True, trace=100, arguments=True) as profile:
            run()
            profile.result.print_table(file=open(os.devnull, "w"))      # and while it is being made
        self.assertEqual(seen, alone)
        self.assertEqual(self.lines_of(profile.result, "add_up"), {1: 1, 2: 6, 3: 5, 4: 1})

    def test_a_tool_that_disables_its_events(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(1, "another")
        self.addCleanup(monitoring.free_tool_id, 1)
        monitoring.register_callback(1, monitoring.events.LINE, lambda code, line: monitoring.DISABLE)
        monitoring.set_events(1, monitoring.events.LINE)
        try:
            with self.profiler.profile(lines="add_up") as profile:
                add_up(range(5)), add_up(range(5))
        finally:
            monitoring.set_events(1, 0)
        self.assertEqual(self.lines_of(profile.result, "add_up"), {1: 2, 2: 12, 3: 10, 4: 2})


class Many(LinesCase):
    def test_threads_that_have_ended_are_added_up(self):
        def run():
            for _ in range(150):
                thread = threading.Thread(target=add_up, args=([1, 2],))
                thread.start()
                thread.join()

        with self.profiler.profile(lines="add_up") as profile:
            run()
        self.assertLess(len(profile.result.threads), 100)
        self.assertEqual(self.lines_of(profile.result, "add_up"), {1: 150, 2: 450, 3: 300, 4: 150})
        self.assert_adds_up(profile.result)

    def test_a_tree_that_is_cut(self):
        """More paths than a tree has places, each with lines."""
        text = ("def leaf():\n    a = 1\n    return a\n"
                "def g(depth):\n    if depth: h(depth - 1), k(depth - 1)\n    else: leaf()\n"
                "def h(depth):\n    if depth: g(depth - 1), k(depth - 1)\n    else: leaf()\n"
                "def k(depth):\n    if depth: g(depth - 1), h(depth - 1)\n    else: leaf()\n")
        result = self.run_text(text, lambda module: module["g"](17), lines=["leaf", "g", "h", "k"])
        self.assertGreater(result.cuts, 0)
        self.assertEqual(self.lines_of(result, "leaf"), {1: 1 << 17, 2: 1 << 17})
        calls = {name: result.find(name)[0].calls for name in "ghk"}
        for name, count in calls.items():
            self.assertEqual(self.lines_of(result, name)[1], count)

    def test_a_long_function(self):
        count = 20_000
        text = "def f():\n" + "".join(f"    a{n % 50} = {n}\n" for n in range(count))
        result = self.run_text(text, lambda module: module["f"](), lines="f")
        self.assertEqual(self.lines_of(result, "f"), dict.fromkeys(range(1, count + 1), 1))
        path = os.path.join(self.directory(), "found")
        for format in ("html", "table", "callgrind"):
            result.write(path, format)

    def test_the_limit_of_recursion(self):
        result = self.run_text("def f():\n    f()\n", lambda module: self.assertRaises(RecursionError, module["f"]), lines="f")
        # The last one may have raised before its line.
        self.assertLessEqual(result.find("f")[0].calls - self.lines_of(result, "f")[1], 1)


PROGRAM = """import os, sys, threading
def work(n):
    total = 0
    for i in range(n):
        total += i
    return total
work(10)
"""


class Program(LinesCase):
    def run_program(self, *options, text=PROGRAM, status=0):
        directory = self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write(text)
        return self.run_python("-m", "ferrule_profiler", *options, script, status=status)

    def table(self, text, name="work"):
        """{line: (runs, source)} of the listing that begins with a function."""
        block = re.search(rf"program\.py:\d+  {name}, own time by line\n.*\n((?: .*\n)*)", text)
        self.assertIsNotNone(block, text)
        rows = [re.match(r" *([\d,]+) +\S+ .s +[\d.]+ +(\d+)(?:  (.*))?", line) for line in block[1].splitlines()]
        return {int(row[2]): (int(row[1]), row[3] or "") for row in rows if row}

    WORK = {2: (0, "def work(n):"), 3: (1, "    total = 0"), 4: (11, "    for i in range(n):"), 5: (10, "        total += i"),
            6: (1, "    return total")}

    def test_the_table_has_them_beside_the_source(self):
        done = self.run_program("--lines", "work")
        self.assertEqual(self.table(done.stderr), self.WORK)
        done = self.run_program("--quiet", "--lines-of", "program.py", "-o", "-")
        found = self.table(done.stdout, "<module>")
        self.assertEqual({line: row for line, row in found.items() if line in range(3, 7)},
                         {line: row for line, row in self.WORK.items() if line != 2})
        self.assertEqual(found[7], (1, "work(10)"))

    def test_what_was_not_called_is_named(self):
        done = self.run_program("--lines", "wrok", "--lines", "work", "--lines-of", "x\x1b.py")
        self.assertIn("no lines of wrok: it was not called\nno lines of x\\x1b.py: it was not called\n", done.stderr)
        self.assertEqual(self.table(done.stderr), self.WORK)

    def test_options_that_make_no_sense(self):
        for options in (("--count", "--lines", "f"), ("--sample", "--lines-of", "f")):
            self.assertIn("--lines and --lines-of need exact times", self.run_program(*options, status=2).stderr)
        for options in (("--lines", ""), ("--lines", "a.py:"), ("--lines-of", "")):
            self.assertIn("--lines needs the name of a function", self.run_program(*options, status=2).stderr)

    def test_however_it_ends(self):
        for end, status in (("os._exit(3)", 3), ("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 15)", -15),
                            ("threading.Thread(target=os._exit, args=(3,)).start(); [None for _ in iter(int, 1)]", 3)):
            text = PROGRAM + f"def last():\n    a = 1\n    {end}\nlast()\n"
            found = self.table(self.run_program("--lines", "last", text=text, status=status).stderr, "last")
            self.assertEqual({line: row[0] for line, row in found.items()}, {8: 0, 9: 1, 10: 1}, end)

    def run_with_subprocesses(self, text):
        """The directory of the program and of what was found."""
        directory = self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write(text)
        self.run_python("-m", "ferrule_profiler", "--subprocesses", "--lines", "work", "-o", os.path.join(directory, "found.txt"), script)
        return directory

    def test_forked_children_have_their_own(self):
        text = PROGRAM + "if os.fork() == 0:\n    work(20)\nelse:\n    os.wait()\n"
        directory = self.run_with_subprocesses(text)
        found = {}
        for name in os.listdir(directory):
            if name != "program.py":
                with open(os.path.join(directory, name)) as file:
                    found[len(name)] = self.table(file.read())[5][0]
        self.assertEqual([found[length] for length in sorted(found)], [10, 20])

    def test_other_pythons_have_theirs(self):
        text = PROGRAM + "import subprocess\nif len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'x'])\n"
        directory = self.run_with_subprocesses(text)
        names = [name for name in os.listdir(directory) if name.endswith(".txt")]
        self.assertEqual(len(names), 2)
        for name in names:
            with open(os.path.join(directory, name)) as file:
                self.assertEqual(self.table(file.read()), self.WORK)

    def test_source_that_is_not_there_and_odd_names(self):
        text = PROGRAM + "exec(compile('def \\u202e():\\n    return 1', 'a\\x1b\\n.py', 'exec'))\n".replace("\\u202e", "odd")
        text += "odd()\nos.unlink(__file__)\n"
        done = self.run_program("--lines", "work", "--lines", "odd", text=text)
        self.assertEqual(self.table(done.stderr), {line: (row[0], "") for line, row in self.WORK.items()})
        self.assertIn("a\\x1b\\n.py:1  odd, own time by line", done.stderr)
        self.assertNotIn("\x1b", done.stderr)

    def test_long_stretches_without_counts_are_left_out(self):
        text = PROGRAM + "def long(n):\n    if n:\n" + "        a = 1\n" * 50 + "    return n\nlong(0)\n"
        found = self.run_program("--lines", "long", text=text).stderr
        self.assertEqual(set(self.table(found, "long")), {8, 9, 60})
        self.assertEqual(found.count(" ...\n"), 1, found)

    def test_readers_of_callgrind_have_them(self):
        directory = self.directory()
        path = os.path.join(directory, "found.callgrind")
        self.run_program("--quiet", "--lines", "work", "-o", path)
        with open(path) as file:
            block = re.search(r"\nfn=work .*\n((?:\d+ \d+\n)+)", file.read())
        self.assertEqual([int(row.split()[0]) for row in block[1].splitlines()], [2, 3, 4, 5, 6])

    def test_the_page_has_them(self):
        path = os.path.join(self.directory(), "found.html")
        self.run_program("--quiet", "--lines", "work", "-o", path)
        with open(path) as file:
            data = json.loads(re.search(r'id="data" [^>]*>(.*?)</script>', file.read())[1])
        row, = (row for row in data["functions"] if row[0] == "work")
        self.assertEqual([line[:2] for line in row[13]], [[2, 0], [3, 1], [4, 11], [5, 10], [6, 1]])
        self.assertEqual(sum(line[2] for line in row[13]), row[8])
        self.assertEqual(len(row[11]), 5)

    @needs_remote
    def test_a_process_that_runs(self):
        script = os.path.join(self.directory(), "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM + "import time\nprint(flush=True)\nwhile True:\n    work(10)\n    time.sleep(0.01)\n")
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": OUT}) as process:
            process.stdout.readline()
            done = self.run_python("-m", "ferrule_profiler", "--lines", "work", "--pid", str(process.pid), "--seconds", "0.5")
            process.kill()
        lines = {line: row[0] for line, row in self.table(done.stderr).items()}
        self.assertGreater(lines[3], 0)
        self.assertEqual((lines[4], lines[5], lines[6]), (11 * lines[3], 10 * lines[3], lines[3]))
