"""`diff` and `merge` of files that were written."""

import cProfile
import io
import json
import marshal
import os
import profile
import pstats
import xml.etree.ElementTree

from profiler_support import ProfilerTestCase, load

ROW = (1, 1, 0.5, 0.5, {})
# None of them is a profile, though some begin as one.
BROKEN = {
    "empty": b"", "text": b"no profile\n", "json": b"[1]", "binary": b"\xff{\0", "binary.folded": b"\xff{\0", "text.folded": b"no profile\n",
    # Marshal would make lists and tuples with room for 10 ** 9 objects of these.
    "deep": b"[" * 200_000, "lists": b"[[1, 2], [3]]", "tuple": b"(what", "key": b"{(what",
    "comment.folded": b"# a;b\na;b 3\n", "half.folded": b"a;b 3.5\n",
    "timeline-null": b'{"traceEvents": null}', "timeline-dict": b'{"traceEvents": {"a": 1}}', "timeline-list": b'{"traceEvents": [1]}',
    "timeline-dropped": b'{"traceEvents": [], "otherData": {"dropped events": 3}}',
    "speedscope-shared": b'{"shared": {}}', "speedscope-numbers": b'{"shared": 3, "profiles": 4}',
    "speedscope-none": b'{"shared": {"frames": []}, "profiles": [{"name": "x"}]}',
    "speedscope-event": b'{"shared": {"frames": []}, "profiles": [{"name": "x", "events": [{"type": "O"}]}]}',
    "speedscope-sample": b'{"shared": {"frames": []}, "profiles": [{"name": "x", "samples": [1]}]}',
    **{f"marshal-{number}": marshal.dumps(found) for number, found in enumerate((
        [1], 5, {"a": ROW}, {("f", 1, "n"): (1, 2, 3)}, {("f", 1, "n"): ROW, 3: 4}, {("f", 1, "n"): ("a", "b", "c", "d", {})},
        {("f", 1, "n"): (1, 1, 0.5, 0.5, {"f": 1})}, {("f", "1", "n"): ROW}))},
    "cut": marshal.dumps({("f", 1, "n"): ROW})[:-3],
}
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
        for name, text in BROKEN.items():
            with open(self.path(name), "wb") as file:
                file.write(text)
            for command in (["diff", prof, self.path(name)], ["merge", "-o", self.path("all"), self.path(name), self.path(name)]):
                with self.subTest(name, command=command[0]):
                    done = self.command(*command, status=1)
                    self.assertEqual(done.stdout, "")
                    self.assertEqual(done.stderr, f"ferrule_profiler: {self.path(name)} is none of pstats (.prof), folded paths, speedscope, a timeline\n")
                    self.assertFalse(os.path.exists(self.path("all")))
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
        self.assertEqual(self.command("--quiet", "-o", "x.prof", "diff").stdout, "run\n")
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

    def write(self, name, content):
        with open(self.path(name), "w") as file:
            file.write(content)
        return self.path(name)

    def test_files_of_other_profilers(self):
        def called():
            pass

        def calls():
            called()
            called()

        for number, kind in enumerate((cProfile, profile)):
            other = kind.Profile()
            other.runcall(calls)
            other.dump_stats(self.path(f"{number}.prof"))
        ours, _ = self.profiled(".prof")
        self.command("merge", "-o", self.path("all.prof"), self.path("0.prof"), self.path("1.prof"), ours)
        stats = pstats.Stats(self.path("all.prof"), stream=io.StringIO()).stats
        counts = {name: (row[1], sum(found if type(found) is int else found[1] for found in row[4].values()))
                  for (_, _, name), row in stats.items() if name in ("called", "calls")}
        self.assertEqual(counts["called"], (4, 4))
        self.assertIn("functions differ", self.command("diff", self.path("0.prof"), self.path("1.prof")).stdout)
        # py-spy writes samples.
        sampled = {"shared": {"frames": [{"name": "a"}, {"name": "b"}]}, "profiles": [
            {"type": "sampled", "name": "t", "unit": "seconds", "startValue": 0, "endValue": 1, "samples": [[0, 1]], "weights": [1]}]}
        self.command("merge", "-o", self.path("all.json"), *[self.write("sampled.json", json.dumps(sampled))] * 2)
        with open(self.path("all.json")) as file:
            found = json.load(file)
        self.assertEqual([found["shared"]["frames"][frame]["name"] for made in found["profiles"] for frame in made["samples"][0]], ["a", "b"] * 2)
        self.assertEqual([made["samples"] for made in found["profiles"]], [[[0, 1]], [[2, 3]]])
        # Some events of other timelines belong to no process.
        self.command("merge", "-o", self.path("all.json"), *[self.write("other.json", '{"traceEvents": [{"name": "x", "ts": 1}]}')] * 2)
        with open(self.path("all.json")) as file:
            self.assertEqual(len(json.load(file)["traceEvents"]), 2)

    def test_profiles_of_programs_that_have_called_nothing(self):
        with self.profiler.profile() as made:
            pass
        for end in (".prof", ".folded", ".speedscope.json"):
            path = self.path(f"nothing{end}")
            made.result.write(path)
            self.command("merge", "-o", self.path(f"all{end}"), path, path)
        self.assertEqual([self.size(name) for name in ("nothing.folded", "all.folded")], [0, 0])
        self.assertIn("0 functions differ", self.command("diff", self.path("nothing.prof"), self.path("nothing.prof")).stdout)
        done = self.command("diff", "-o", self.path("x.svg"), self.path("nothing.folded"), self.path("nothing.folded"), status=1)
        self.assertRegex(done.stderr, "^ferrule_profiler: there is nothing to draw: .*\n$")
        self.assertIn(" 3\n", self.merged_text(self.path("nothing.folded"), self.write("a.folded", "a;b 1\n\n"), self.write("b.folded", "a;b 2\n")))

    def size(self, name):
        return os.path.getsize(self.path(name))

    def merged_text(self, *paths):
        self.command("merge", "-o", self.path("text"), *paths)
        with open(self.path("text")) as file:
            return file.read()

    def test_errors(self):
        prof, _ = self.profiled(".prof")
        self.assertIn("usage:", self.command("merge", prof, status=2).stderr)
        self.assertIn("cannot be read", self.command("merge", "-o", self.path("x"), prof, self.path("none"), status=1).stderr)
        self.assertIn("Is a directory", self.command("merge", "-o", self.here, prof, status=1).stderr)
