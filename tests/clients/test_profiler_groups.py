"""--only and --hide: functions that are not shown, whose time their callers have."""

import asyncio
import io
import os
import pickle
import random
import sys
import unittest

from profiler_support import ProfilerTestCase, load, read_stats, times_from_a_timer

# Two files whose functions call each other at random, a{n} and b{n}.
FUNCTION = """
def {letter}{number}(random, depth):
    sum(range(30))
    for _ in range(int(random() * 3) if depth else 0):
        globals()[NAMES[int(random() * len(NAMES))]](random, depth - 1)
"""
COUNT = 5

setUpModule = load


class GroupsCase(ProfilerTestCase):
    def functions(self):
        """The functions of both files, as one module's."""
        module = {"NAMES": [f"{letter}{n}" for letter in "ab" for n in range(COUNT)]}
        for letter in "ab":
            text = "".join(FUNCTION.format(letter=letter, number=n) for n in range(COUNT))
            exec(compile(text, f"/made/{letter}/file.py", "exec"), module)
        return module

    def at_random(self, seed, depth=14, **options):
        module = self.functions()
        choice = random.Random(seed).random      # no function in Python
        with self.profiler.profile(**options) as profile:
            for _ in range(20):
                module[module["NAMES"][int(choice() * 2 * COUNT)]](choice, depth)
        return profile.result

    def expected(self, result, shown):
        """What there is without hidden functions, by each path: own times, and {(caller, callee): runs}."""
        own, edges = {}, {}
        for thread in result.threads:
            for path, place in thread.walk():
                _, _, runs, took, again, _, _ = thread.nodes[place]
                left = [number for number in path if shown(result.functions[number])]
                last = left[-1] if left else None
                own[last] = own.get(last, 0) + took
                if left and path[-1] == last:
                    edge = left[-2] if left[1:] else None, last
                    edges[edge] = edges.get(edge, 0) + runs - again
                    edges[last, last] = edges.get((last, last), 0) + again
        return own, edges


class Exact(GroupsCase):
    def test_times_and_runs_are_those_of_the_paths(self):
        for seed in range(15):
            with self.subTest(seed):
                result = self.at_random(seed)
                self.assertEqual(result.cuts, 0)
                grouped = result.grouped(only=["/made/a"])
                own, edges = self.expected(result, lambda function: function.file == "/made/a/file.py")
                self.assertAlmostEqual(grouped.lost, own.pop(None, 0), delta=1e-6)
                self.assertEqual(set(grouped.functions), {number for number, function in result.functions.items() if function.name[0] == "a"})
                for number, function in grouped.functions.items():
                    self.assertAlmostEqual(function.own, own[number], delta=1e-6)
                    self.assertEqual(function[:9], result.functions[number][:9])
                    self.assertEqual(function.total, result.functions[number].total)
                    self.assertLessEqual(function.own, function.total + 1e-6)
                    runs = sum(edge.runs for edge in grouped.callers(number))
                    self.assertEqual(runs, function.runs)
                    self.assertAlmostEqual(sum(edge.own for edge in grouped.callers(number)), function.own, delta=1e-6)
                for edge in grouped.edges:
                    self.assertLessEqual(edge.recursive, edge.runs)
                    self.assertLessEqual(edge.total, result.functions[edge.callee].total + 1e-6)
                    self.assertEqual(edge.runs, edges[edge.caller, edge.callee])
                took = sum(node.own for thread in grouped.threads for node in thread.nodes)
                self.assertAlmostEqual(took, sum(function.own for function in result.functions.values()), delta=1e-6)

    def test_nothing_is_hidden(self):
        result = self.at_random(1)
        for options in ({}, {"hide": ["/none"]}, {"only": ["/"]}):
            grouped = result.grouped(**options)
            self.assertEqual((grouped.functions, sorted(grouped.edges, key=str), grouped.hidden, grouped.lost),
                             (result.functions, sorted(result.edges, key=str), 0, 0))
            self.assertEqual([thread.nodes for thread in grouped.threads], [thread.nodes for thread in result.threads])

    def test_all_is_hidden(self):
        result = self.at_random(1)
        grouped = result.grouped(hide="/made")
        self.assertEqual((grouped.functions, grouped.edges, len(grouped.threads[0].nodes)), ({}, [], 1))
        self.assertAlmostEqual(grouped.lost, result.seconds, delta=1e-6)
        for format in ("html", "table", "pstats", "speedscope", "callgrind", "folded"):
            grouped.write(os.path.join(self.directory(), "found"), format)

    def test_one_result_is_not_changed(self):
        result = self.at_random(2)
        before = pickle.dumps(result)
        once = result.grouped(only=["/made/a"])
        self.assertEqual(pickle.dumps(result), before)
        again = once.grouped(only=["/made/a"])
        self.assertEqual(once.functions, again.functions)
        self.assertEqual(pickle.loads(pickle.dumps(once)).functions, once.functions)

    def test_recursion_through_hidden_functions(self):
        module = {}
        exec(compile("def shown(n):\n    if n: hidden(n)\n", "/made/a/x.py", "exec"), module)
        exec(compile("def hidden(n):\n    shown(n - 1)\n", "/made/b/x.py", "exec"), module)
        with self.profiler.profile() as profile:
            module["shown"](50)
        grouped = profile.result.grouped(hide=["/made/b"])
        (number, shown), = ((number, function) for number, function in grouped.functions.items() if function.name == "shown")
        self.assertEqual((shown.calls, shown.recursive), (51, 50))
        self.assertAlmostEqual(shown.own, shown.total, delta=1e-6)
        edge, = (edge for edge in grouped.callers(number) if edge.caller == number)
        self.assertEqual((edge.runs, edge.recursive), (50, 49))
        self.assertLessEqual(edge.total, shown.total)
        # One place for all: it calls itself directly now.
        self.assertEqual(sum(node.function == number for node in grouped.threads[0].nodes), 1)

    def test_a_tree_that_is_cut(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(5000)
        self.addCleanup(sys.setrecursionlimit, limit)
        module = {}
        exec(compile("def a(n): return n and b(n - 1)", "/made/a/x.py", "exec"), module)
        exec(compile("def b(n): return n and a(n - 1)", "/made/b/x.py", "exec"), module)
        with self.profiler.profile() as profile:
            module["a"](3000)
        result = profile.result
        self.assertGreater(result.cuts, 0)
        grouped = result.grouped(only=["/made/a"])
        self.assertEqual({function.name: function.calls for function in grouped.functions.values()}, {"a": 1501})
        self.assertAlmostEqual(sum(node.own for node in grouped.threads[0].nodes), result.threads[0].seconds, delta=1e-6)


class Others(GroupsCase):
    def test_names_of_files(self):
        result = self.at_random(3)
        names = {function.name[0] for function in result.functions.values()}
        self.assertEqual(names, {"a", "b"})

        def left(**options):
            return {function.name[0] for function in result.grouped(**options).functions.values()}

        for name in ("/made/a", "/made/a/", "/made/a/file.py", "a", "a/file.py", "made/a", "/made/../made/a"):
            with self.subTest(name):
                self.assertEqual((left(only=[name]), left(hide=[name])), ({"a"}, {"b"}))
        for name in ("/made/", "file.py", "made", "/"):
            with self.subTest(name):
                self.assertEqual((left(only=[name]), left(hide=[name])), ({"a", "b"}, set()))
        for name in ("/mad", "/a", "ade/a", "a/file", ".", "/made/a/file.py/x", "\x1b\udcff", "<made"):
            with self.subTest(name):
                self.assertEqual((left(only=[name]), left(hide=[name])), (set(), {"a", "b"}))
        self.assertEqual(left(only=["/made"], hide=["b"]), {"a"})
        self.assertEqual(left(only="a"), {"a"})

    def test_other_parts_of_a_profile(self):
        module = self.functions()

        async def main():
            for _ in range(3):
                await asyncio.sleep(0)
                with self.profiler.label("labelled"):
                    module["b0"](random.Random(1).random, 5)

        with self.profiler.profile(builtins=True, trace=100, lines=["b0", main]) as profile:
            asyncio.run(main())
        grouped = profile.result.grouped(only=[__file__])
        self.assertEqual({function.name for function in grouped.functions.values()}, {"main", "labelled"})
        self.assertEqual(len(grouped.lines), 1)
        self.assertEqual(grouped.tasks, profile.result.tasks)
        grouped.print_table(file=io.StringIO())
        for format in ("html", "table", "pstats", "speedscope", "callgrind", "folded"):
            grouped.write(os.path.join(self.directory(), "found"), format)

    def test_counts_alone(self):
        counts = self.at_random(4, count=True)
        grouped = counts.grouped(only=["a"])
        self.assertEqual({number: function.calls for number, function in grouped.functions.items()},
                         {number: function.calls for number, function in counts.functions.items() if function.name[0] == "a"})

    @unittest.skipUnless(times_from_a_timer(), "no thread can look at others")
    def test_a_timer(self):
        sampled = self.at_random(4, sample=0.001).grouped(only=["a"])
        self.assertEqual({function.name[0] for function in sampled.functions.values()}, {"a"})


class Program(GroupsCase):
    TEXT = """import json
def work():
    return json.loads(json.dumps([1, {"a": 2}] * 50, indent=1))
for _ in range(20):
    work()
"""

    def test_the_command(self):
        directory = self.directory()
        path = os.path.join(directory, "found.prof")
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write(self.TEXT)
        done = self.run_python("-m", "ferrule_profiler", "--only", directory, "-o", path, script)
        self.assertRegex(done.stderr, r"\n\d+ functions hidden, with the time in what has called them")
        stats = read_stats(path)
        self.assertEqual(set(stats), {"work", "<module>"})
        self.assertEqual(stats["work"][1], 20)
        done = self.run_python("-m", "ferrule_profiler", "--hide", "<frozen", "--hide", "json", "-o", path, script)
        self.assertEqual([name for name in read_stats(path) if name in ("loads", "_find_and_load", "work")], ["work"])

    def test_options_that_make_no_sense(self):
        for options, error in ((("--only", ""), "need the name of a file"), (("--hide", ""), "need the name of a file")):
            self.assertIn(error, self.run_python("-m", "ferrule_profiler", *options, "x.py", status=2).stderr)
        self.assertIn("--live shows all functions", self.run_python(
            "-m", "ferrule_profiler", "--live", "--only", "x", "--pid", "1", status=2).stderr)
