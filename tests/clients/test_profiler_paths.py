"""The tree of paths: the one that the program has taken, and where it is cut."""

import collections
import functools
import io
import json
import os
import random
import sys
import threading

from profiler_support import ProfilerTestCase, load

# As in the core.
MOST_NODES, MOST_DEPTH = 100_000, 1000

setUpModule = load


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper


@decorated
def query(n):
    return n


@decorated
def view(n):
    return query(n)


@decorated
def request(n):
    return view(n)


@decorated
def cheap():
    return 1


def main():
    for n in range(5):
        request(n)
        cheap()


def names(result, path):
    return tuple("[cut]" if number < 0 else result.codes[number][2] for number in path)


def runs_of_paths(result, first=None):
    """{path of names: runs} of all threads; of paths that begin with `first`, where it is said."""
    found = collections.Counter()
    for thread in result.threads:
        for path, runs, _ in thread.paths:
            named = names(result, path)
            if first is None or named[0] == first:
                found[named] += runs
    return found


class Walk:
    """Calls its methods at random, and keeps account of the paths that they take."""

    def __init__(self, seed, depth=12, calls=3000):
        self.random, self.depth, self.calls = random.Random(seed), depth, calls
        self.stack, self.paths = [], collections.Counter()

    def begun(self, name):
        self.stack.append(name)
        path = []
        for called in self.stack:
            if path[-1:] != [called]:       # a function that calls itself
                path.append(called)
        self.paths[tuple(path)] += 1

    def inside(self, name):
        self.begun(name)
        try:
            for _ in range(self.random.randrange(3)):
                if len(self.stack) < self.depth and self.calls:
                    self.calls -= 1
                    next_ = self.random.choice((self.plain, self.other, self.same, self.raises, self.generated))
                    next_(next_)
        finally:
            self.stack.pop()

    def plain(self, _):
        self.begun("plain")
        self.inside("inside")
        self.stack.pop()

    def other(self, _):
        self.begun("other")
        self.inside("inside")
        self.stack.pop()

    def same(self, _, again=2):
        self.begun("same")
        if again:
            self.same(_, again - 1)
        self.inside("inside")
        self.stack.pop()

    def raises(self, _):
        self.begun("raises")
        try:
            self.inside("inside")
            raise KeyError
        except KeyError:
            pass
        self.stack.pop()

    def steps(self):
        for _ in range(2):
            self.begun("steps")
            self.inside("inside")
            self.stack.pop()
            yield
        self.begun("steps")
        self.stack.pop()

    def generated(self, _):
        self.begun("generated")
        for _ in self.steps():
            pass
        self.stack.pop()

    def walk(self):
        while self.calls:
            self.calls -= 1
            self.plain(None)


METHODS = {"inside", "plain", "other", "same", "raises", "generated", "steps"}


class Exact(ProfilerTestCase):
    def assert_paths(self, walk, result):
        found = collections.Counter()
        for path, runs in runs_of_paths(result).items():
            if "walk" in path:
                path = path[path.index("walk") + 1:]
                if path and METHODS.issuperset(path):
                    found[path] += runs
        # Not assertEqual(): a description of all differences takes minutes.
        differ = [(path, found[path], walk.paths[path]) for path in found | walk.paths
                  if found[path] != walk.paths[path]]
        self.assertEqual(differ[:5], [])
        self.assertGreater(len(found), 50)

    def test_a_decorator_of_caller_and_callee(self):
        with self.profiler.profile() as profile:
            main()
        wrapped = ("main", "wrapper", "request", "wrapper", "view", "wrapper", "query")
        expected = {wrapped[:length]: 5 for length in range(2, 8)} | {("main",): 1}
        expected["main", "wrapper"] = 10
        expected["main", "wrapper", "cheap"] = 5
        self.assertEqual(runs_of_paths(profile.result, "main"), expected)

    def test_the_files_have_the_same_paths(self):
        with self.profiler.profile() as profile:
            main()
        result = profile.result
        expected = {path for path in runs_of_paths(result, "main")}
        directory = self.directory()
        path = os.path.join(directory, "found")
        result.write(path, "folded")
        with open(path) as file:
            folded = {tuple(name.split(" (")[0].split(".")[-1] for name in line.rpartition(" ")[0].split(";")[1:])
                      for line in file}
        self.assertEqual({path for path in folded if path[0] == "main"}, expected)
        result.write(path, "speedscope")
        with open(path) as file:
            found = json.load(file)
        drawn, stack = set(), []
        for event in found["profiles"][0]["events"]:
            if event["type"] == "O":
                stack.append(found["shared"]["frames"][event["frame"]]["name"].split(".")[-1])
                drawn.add(tuple(stack))
            else:
                stack.pop()
        self.assertEqual({path for path in drawn if path[0] == "main"}, expected)

    def test_random_calls(self):
        for seed in range(20):
            walk = Walk(seed)
            with self.subTest(seed), self.profiler.profile() as profile:
                walk.walk()
            self.assert_paths(walk, profile.result)

    def test_random_calls_in_threads(self):
        walks = [Walk(seed) for seed in range(100, 104)]
        with self.profiler.profile() as profile:
            threads = [threading.Thread(target=walk.walk) for walk in walks]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        whole = Walk(0)
        for walk in walks:
            whole.paths += walk.paths
        self.assert_paths(whole, profile.result)

    def test_threads_that_are_added_up(self):
        walk = Walk(7, calls=50)
        walks = []
        with self.profiler.profile() as profile:
            for _ in range(70):         # more than are shown one by one
                walks.append(Walk(7, calls=50))
                thread = threading.Thread(target=walks[-1].walk)
                thread.start()
                thread.join()
        for each in walks:
            walk.paths += each.paths
        self.assertIn("threads that have ended", [thread.name for thread in profile.result.threads])
        self.assert_paths(walk, profile.result)


# Together they have twice as many paths with each level.
def left(n):
    return n and (middle(n - 1), right(n - 1))


def right(n):
    return n and (middle(n - 1), left(n - 1))


def middle(n):
    return n and (left(n - 1), right(n - 1))


class Cut(ProfilerTestCase):
    """Where the tree has no more room."""

    def check(self, result):
        """Everything but the paths is exact; and the paths add up."""
        runs = sum(function.runs for function in result.functions.values())
        self.assertEqual(sum(runs_of_paths(result).values()), runs)
        own = sum(own for thread in result.threads for _, _, own in thread.paths)
        self.assertAlmostEqual(own, result.seconds, delta=1e-5 + 1e-9 * MOST_NODES)
        for thread in result.threads:
            self.assertLessEqual(len(thread.nodes), 1.5 * MOST_NODES)

    def test_endless_paths(self):
        def heavy():
            return sum(range(200_000))

        def twice(n):
            return n and twice(n - 1) or heavy()

        with self.profiler.profile() as profile:
            right(17)
            twice(3)
            right(17)
            twice(3)
        result = profile.result
        self.check(result)
        calls = {name: result.find(name)[0].calls for name in ("left", "right", "middle", "heavy")}
        self.assertEqual((calls["heavy"], sum(calls.values())), (2, 2 * (2 ** 18 - 1) + 2))
        found = runs_of_paths(result)
        # What took long is there, also where the tree was full already.
        self.assertEqual((found["twice", "heavy"], found["twice",]), (2, 8))
        self.assertTrue(any(path[-1] == "[cut]" for path in found))
        self.assertGreater(result.cuts, 0)

    def test_deeper_than_a_path(self):
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n and even(n - 1) or leaf()

        def leaf():
            return 0

        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(30_000)
        with self.profiler.profile() as profile:
            even(9_000)
            even(1_999)
        result = profile.result
        self.check(result)
        self.assertEqual((result.find("even")[0].calls, result.find("odd")[0].calls), (5501, 5500))
        found = runs_of_paths(result)
        self.assertLessEqual(max(map(len, found)), MOST_DEPTH + 2)
        self.assertEqual({path[-1] for path in found if "[cut]" in path}, {"even", "odd", "leaf"})
        self.assertEqual(result.cuts, 1)
        for format in ("folded", "speedscope", "html", "callgrind"):
            result.write(os.path.join(self.directory(), "found"), format)

    def test_nothing_is_cut_where_there_is_room(self):
        with self.profiler.profile() as profile:
            main()
        self.assertEqual(profile.result.cuts, 0)
        self.assertFalse(any("[cut]" in path for path in runs_of_paths(profile.result)))

    def test_it_is_said(self):
        def chain(n):
            return n and link(n - 1)

        def link(n):
            return n and chain(n - 1)

        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(5_000)
        with self.profiler.profile() as profile:
            chain(2_000)
        out = io.StringIO()
        profile.result.print_table(out)
        self.assertIn("paths are cut at 1 place", out.getvalue())
        path = os.path.join(self.directory(), "found.html")
        profile.result.write(path)
        with open(path) as file:
            self.assertIn("paths are cut at 1 place", file.read())

    def test_pruned_while_generators_and_other_threads_are_under_way(self):
        def steps(n):
            for _ in range(n):
                left(9)
                yield

        def work(level):
            if level:
                return work_again(level)
            for _ in steps(6):
                right(14)

        def work_again(level):
            return work(level - 1)

        with self.profiler.profile() as profile:
            threads = [threading.Thread(target=work, args=(level,)) for level in range(3)]
            for thread in threads:
                thread.start()
            for level in range(6):
                work(level % 10)
            for thread in threads:
                thread.join()
        self.check(profile.result)
        self.assertEqual(profile.result.find("steps")[0].runs, 9 * 7)
        for function in profile.result.functions.values():
            self.assertLessEqual(function.own, function.total + 1e-7)
