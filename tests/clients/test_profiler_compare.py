"""`diff` and `merge` of files that were written."""

import io
import json
import os
import pstats
import xml.etree.ElementTree

from profiler_support import ProfilerTestCase, load

PROGRAM = """{above}
def helper(n): return n
def slow():
    for n in range({count}): helper(n)
def same(): pass
slow(); same()
{below}
"""

setUpModule = load


class CompareCase(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        self.here = self.directory()

    def path(self, name):
        return os.path.join(self.here, name)

    def profiled(self, end, **options):
        """Files of two programs that differ a little."""
        paths = []
        for name, text in (("before", PROGRAM.format(above="", count=10, below="")),
                           ("after", PROGRAM.format(above="# two\n# lines\n", count=1000, below="def new(): pass\nnew()"))):
            path = self.path(f"{name}{end}")
            with open(self.path("program.py"), "w") as file:
                file.write(text)
            self.run_python("-m", "ferrule_profiler", "--quiet", "--trace" if end == ".json" else "-o", path, self.path("program.py"))
            paths.append(path)
        return paths

    def command(self, *arguments, status=0):
        return self.run_python("-m", "ferrule_profiler", *arguments, status=status)


class Diff(CompareCase):
    def test_the_table_has_what_has_changed(self):
        out = self.command("diff", "--sort", "calls", *self.profiled(".prof")).stdout
        self.assertRegex(out, r"^own time of all functions: .*; \d functions differ\n")
        rows = out.splitlines()[3:]
        self.assertRegex(rows[0], r"^ *1,000 +\+990 .*  helper  .*/program.py$")
        changes = {row.split()[-2]: row.split()[:2] for row in rows}
        self.assertEqual(changes["new"], ["1", "+1"])
        # These have other times at most.
        self.assertEqual(changes.get("slow", ["1", "0"]), ["1", "0"])
        self.assertEqual(changes.get("same", ["1", "0"]), ["1", "0"])

    def test_limit_and_sort(self):
        paths = self.profiled(".prof")
        one = self.command("diff", "--limit", "1", "--sort", "total", *paths).stdout
        self.assertIn("more (--limit 0 shows all)", one)
        self.assertNotIn("more", self.command("diff", "--limit", "0", *paths).stdout)

    def test_a_profile_and_itself(self):
        before, _ = self.profiled(".prof")
        self.assertIn(" 0 functions differ", self.command("diff", before, before).stdout)

    def test_functions_of_one_name(self):
        paths = []
        for name, calls in (("a", 1), ("b", 5)):
            with self.profiler.profile() as profile:
                exec(compile("class A:\n    def f(self): pass\nclass B:\n    def f(self): pass\n"
                             f"for _ in range({calls}): B().f()\nA().f()", "x.py", "exec"), {})
            paths.append(self.path(f"{name}.prof"))
            profile.result.write(paths[-1])
        rows = [row for row in self.command("diff", "--sort", "calls", *paths).stdout.splitlines() if "  f  " in row]
        self.assertEqual([row.split()[:2] for row in rows if "+" in row.split()[1]], [["5", "+4"]])

    def test_the_flame_graph_is_red_and_blue(self):
        before, after = self.profiled(".folded")
        svg = self.path("diff.svg")
        self.command("diff", "-o", svg, before, after)
        frames = {}
        for group in xml.etree.ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}g"):
            title, box = (group.find("{http://www.w3.org/2000/svg}" + kind) for kind in ("title", "rect"))
            if title is not None and box is not None:
                frames[title.text.split(" ")[0]] = [int(part) for part in box.get("fill")[4:-1].split(",")]
        red, _, blue = frames["helper"]
        self.assertGreater(red, blue)
        self.command("diff", "-o", svg, after, before)
        with open(svg) as file:
            self.assertNotIn("rgb(255,0,0)", file.read())

    def test_errors(self):
        prof, _ = self.profiled(".prof")
        folded, _ = self.profiled(".folded")
        for name, text in (("empty", b""), ("text", b"no profile\n"), ("json", b"[1]"), ("binary", b"\xff{\0")):
            with open(self.path(name), "wb") as file:
                file.write(text)
            error = self.command("diff", prof, self.path(name), status=1).stderr
            self.assertIn(f"{self.path(name)} is none of pstats", error)
        for arguments, error in (((prof, folded), "several formats"), ((folded, folded), "with -o FILE.svg"),
                                 ((prof, self.path("none")), "cannot be read: No such file"), (("-o", self.path("x.svg"), prof, prof), "diff prints")):
            found = self.command("diff", *arguments, status=1).stderr
            self.assertIn(error, found)
            self.assertNotIn("Traceback", found)
        self.assertIn("usage:", self.command("diff", prof, status=2).stderr)

    def test_a_script_of_that_name(self):
        with open(self.path("diff"), "w") as file:
            file.write("print('run')\n")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.here)
        self.assertEqual(self.command("--quiet", "diff").stdout, "run\n")
        self.assertEqual(self.command("diff", "a", "b").stdout, "run\n")


class Merge(CompareCase):
    def test_pstats(self):
        paths = self.profiled(".prof")
        self.command("merge", "-o", self.path("all.prof"), *paths)
        stats = pstats.Stats(self.path("all.prof"), stream=io.StringIO()).stats
        calls = {}
        for (_, _, name), row in stats.items():
            calls[name] = calls.get(name, 0) + row[1]
        self.assertEqual((calls["helper"], calls["new"], calls["same"]), (1010, 1, 2))

    def test_folded(self):
        paths = self.profiled(".folded")
        paths[1] = paths[0]
        self.command("merge", "-o", self.path("all.folded"), *paths)

        def read(path):
            with open(path) as file:
                return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in file}

        self.assertEqual(read(self.path("all.folded")), {path: 2 * count for path, count in read(paths[0]).items()})

    def test_speedscope(self):
        paths = self.profiled(".speedscope.json")
        self.command("merge", "-o", self.path("all.json"), *paths)
        with open(self.path("all.json")) as file:
            found = json.load(file)
        names = [{found["shared"]["frames"][event["frame"]]["name"] for event in profile["events"]} for profile in found["profiles"]]
        self.assertEqual(names, [{"<module>", "slow", "helper", "same"}, {"<module>", "slow", "helper", "same", "new"}])

    def test_timelines(self):
        paths = self.profiled(".json")
        self.command("merge", "-o", self.path("all.json"), *paths)
        with open(self.path("all.json")) as file:
            found = json.load(file)["traceEvents"]
        self.assertEqual(len({event["pid"] for event in found}), 2)
        self.assertEqual(len([event for event in found if event["name"] == "helper"]), 1010)
        first, second = (next(event["ts"] for event in found if event["name"] == "slow" and event["pid"] == pid)
                         for pid in dict.fromkeys(event["pid"] for event in found))
        self.assertLess(first, second)

    def test_errors(self):
        prof, _ = self.profiled(".prof")
        self.assertIn("usage:", self.command("merge", prof, status=2).stderr)
        self.assertIn("cannot be read", self.command("merge", "-o", self.path("x"), prof, self.path("none"), status=1).stderr)
        self.assertIn("Is a directory", self.command("merge", "-o", self.here, prof, status=1).stderr)
