"""Threads of a pool, which are added up; and the one tree of all threads in the page."""

import json
import os
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

from profiler_support import ProfilerTestCase, load

setUpModule = load


def leaf(n):
    return sum(range(n))


def job(barrier, n):
    barrier.wait()
    return leaf(n)


def paths_of(threads):
    """What the paths of some threads have counted together, by the paths."""
    sums = {}
    for thread in threads:
        for path, runs, own in thread.paths:
            known = sums.get(path, (0, 0))
            sums[path] = known[0] + runs, known[1] + own
    return sums


class Pools(ProfilerTestCase):
    def run_pools(self):
        with self.profiler.profile() as profile:
            for prefix in ("", "images", "images-", "two\nlines"):
                barrier = threading.Barrier(3)
                with ThreadPoolExecutor(3, prefix) as pool, self.profiler.label("all"):
                    list(pool.map(job, [barrier] * 6, range(6)))
            barrier = threading.Barrier(2)
            named = [None, None, "alone-1", "alone", "x9", "x10"]
            threads = [threading.Thread(target=job, args=(threading.Barrier(1) if name else barrier, 9), name=name) for name in named]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return profile.result

    def test_they_are_added_up_by_name(self):
        result = self.run_pools()
        pools = {re.sub("Executor-[0-9]+", "Executor-N", pool.name): pool for pool in result.pools}
        self.assertEqual(set(pools), {"MainThread", "ThreadPoolExecutor-N (3 threads)", "images (3 threads)", "images- (3 threads)",
                                      "two\nlines (3 threads)", "Thread (job) (2 threads)", "alone (2 threads)", "x9", "x10"})
        for pool in result.pools:
            if not pool.name.endswith("threads)"):
                self.assertIn(pool, result.threads)
        of_images = [thread for thread in result.threads if re.fullmatch(r"images_\d", thread.name)]
        self.assertEqual(len(of_images), 3)
        pool, expected = pools["images (3 threads)"], paths_of(of_images)
        found = {path: (runs, own) for path, runs, own in pool.paths}
        self.assertEqual({path: runs for path, (runs, _) in found.items()}, {path: runs for path, (runs, _) in expected.items()})
        for path, (_, own) in expected.items():
            self.assertAlmostEqual(found[path][1], own)
        for field in ("seconds", "cpu", "waiting"):
            self.assertAlmostEqual(getattr(pool, field), sum(getattr(thread, field) for thread in of_images), delta=1e-6)
        self.assertLess(len(pool.nodes), sum(len(thread.nodes) for thread in of_images))
        self.assertEqual(sum(node.runs for pool in result.pools for node in pool.nodes),
                         sum(function.runs for function in result.functions.values()))

    def test_files_have_pools(self):
        result = self.run_pools()
        path = os.path.join(self.directory(), "found")
        result.write(path, "folded")
        with open(path) as file:
            roots = {line.split(";")[0] for line in file}
        self.assertLessEqual({"images (3 threads)", r"two\nlines (3 threads)", "x9"}, roots)
        result.write(path, "speedscope")
        with open(path) as file:
            self.assertLessEqual({"images (3 threads)", "MainThread"}, {profile["name"] for profile in json.load(file)["profiles"]})

    def test_a_counted_profile(self):
        with self.profiler.profile(count=True) as profile, ThreadPoolExecutor(2, "counted") as pool:
            list(pool.map(job, [threading.Barrier(2)] * 2, range(2)))
        pool, = (pool for pool in profile.result.pools if pool.name == "counted (2 threads)")
        self.assertEqual([runs for (number,), runs, _ in pool.paths if profile.result.functions[number].name == "leaf"], [2])


class Trees(ProfilerTestCase):
    def page(self):
        from ferrule_profiler import _page
        return _page

    def test_the_tree_of_all_threads(self):
        page = self.page()
        with self.profiler.profile() as profile:
            thread = threading.Thread(target=leaf, args=(9,), name="other")
            thread.start()
            thread.join()
            leaf(99)
        result = profile.result
        _, places = page.rows(result)
        (parents, numbers, own), roots = page.tree(result, places)
        self.assertEqual(sorted(roots), ["MainThread", "all", "other"])
        self.assertEqual(len(own), 1 + sum(len(thread.nodes) for thread in result.threads))
        self.assertTrue(all(parent < place for place, parent in enumerate(parents) if place))
        ends = [place for place, number in enumerate(numbers) if number == places[self.number(result, "leaf")]]
        names = []
        for place in ends:
            while parents[place]:
                place = parents[place]
            names.append(roots[page.FIRST_ROOT - numbers[place]])
        self.assertEqual(sorted(names), ["MainThread", "other"])
        self.assertAlmostEqual(sum(own) / 1e9, result.seconds, delta=1e-6)

    @staticmethod
    def number(result, name):
        return next(number for number, function in result.functions.items() if function.name == name)

    def test_more_places_than_a_page_has(self):
        page = self.page()
        chance = random.Random(1)
        for values in ((1, 1), (0, 5), (0, 0)):
            parents, numbers, own = [0], [page.FIRST_ROOT], [0]
            for place in range(1, page.MOST_PLACES + 5000):
                parents.append(chance.randrange(max(place - 50, 0), place))
                numbers.append(place)
                own.append(chance.randint(*values))
            whole = own[:]
            for place in range(len(own) - 1, 0, -1):
                whole[parents[place]] += whole[place]
            kept = page.pruned(parents, numbers, own)
            self.assertEqual([len(column) for column in kept], [page.MOST_PLACES] * 3)
            self.assertEqual(sum(kept[2]), sum(own))
            left = set(kept[1])
            self.assertGreaterEqual(min(whole[number] for number in left if number > 0),
                                    max(whole[place] for place in range(1, len(own)) if place not in left))
            for place in range(1, len(kept[0])):
                self.assertEqual(kept[1][kept[0][place]], numbers[parents[kept[1][place]]])
        few = ([0, 0], [page.FIRST_ROOT, 0], [0, 1])
        self.assertEqual(page.pruned(*few), few)

    def test_whose_code_it_is(self):
        page = self.page()
        for file, kind, expected in ((os.__file__, "function", True), ("<frozen importlib._bootstrap>", "function", True),
                                     ("/x/lib/python3.13/site-packages/a/b.py", "function", True), ("~", "builtin", True),
                                     ("/x/dist-packages/a.py", "generator", True), ("", "label", False), ("<string>", "function", False),
                                     ("/x/site-packages.py", "function", False), (os.path.dirname(os.__file__) + "-mine/a.py", "function", False)):
            with self.profiler.profile() as profile:
                leaf(1)
            function = profile.result.find("leaf")[0]._replace(file=file, kind=kind)
            self.assertEqual(page.is_library(function), expected, file)
