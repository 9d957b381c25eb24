"""The files that a profile is written to, read again."""

import io
import json
import os
import pstats
import re
import shutil
import subprocess
import threading
import unittest

import profiler_programs
from profiler_support import ProfilerTestCase, load


def setUpModule():
    load()


def hostile():
    exec(compile("def f(): pass\nf()", "</script><b>;&.py", "exec"))


class Formats(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        with self.profiler.profile() as profile:
            profiler_programs.recursion()
            profiler_programs.generators()
            thread = threading.Thread(target=profiler_programs.comprehensions, name="<other>")
            thread.start()
            thread.join()
            hostile()
        self.result = profile.result

    def write(self, name, format=None):
        path = os.path.join(self.directory(), name)
        self.result.write(path, format)
        self.assertEqual(os.listdir(os.path.dirname(path)), [name])
        return path

    def test_pstats_reads_the_file(self):
        out = io.StringIO()
        stats = pstats.Stats(self.write("found.prof"), stream=out)
        stats.sort_stats("cumulative").print_stats("fib")
        stats.print_callers("fib")
        stats.print_callees("recursion")
        self.assertRegex(out.getvalue(), r"1219/1 .*\(fib\)")
        self.assertEqual(stats.total_calls, sum(f.runs for f in self.result.functions.values()))
        self.assertAlmostEqual(stats.total_tt, self.result.seconds, delta=1e-6)

    def test_speedscope_has_the_requested_form(self):
        with open(self.write("found.speedscope.json")) as file:
            found = json.load(file)
        self.assertEqual(found["$schema"], "https://www.speedscope.app/file-format-schema.json")
        frames = found["shared"]["frames"]
        self.assertTrue(all(isinstance(frame["name"], str) for frame in frames))
        self.assertEqual({profile["name"] for profile in found["profiles"]},
                         {"MainThread", "<other>"})
        for profile in found["profiles"]:
            self.assertEqual((profile["type"], profile["unit"]), ("evented", "nanoseconds"))
            open_, at = [], profile["startValue"]
            for event in profile["events"]:
                self.assertGreaterEqual(event["at"], at)
                at = event["at"]
                if event["type"] == "O":
                    self.assertIn("name", frames[event["frame"]])
                    open_.append(event["frame"])
                else:
                    self.assertEqual((event["type"], event["frame"]), ("C", open_.pop()))
            self.assertEqual((open_, at), ([], profile["endValue"]))
        whole = sum(profile["endValue"] for profile in found["profiles"])
        self.assertAlmostEqual(whole / 1e9, self.result.seconds, delta=1e-5)

    def test_callgrind_adds_up(self):
        with open(self.write("callgrind.out.1")) as file:
            text = file.read()
        self.assertIn("\nevents: ns\n", text)
        own, lines = 0, iter(text.splitlines())
        for line in lines:
            if line.startswith("calls="):
                next(lines)
            elif re.match(r"\d+ \d+$", line):
                own += int(line.split()[1])
        self.assertAlmostEqual(own / 1e9, self.result.seconds, delta=1e-5)
        if shutil.which("callgrind_annotate"):
            path = self.write("found.callgrind")
            done = subprocess.run(["callgrind_annotate", path], capture_output=True, text=True)
            self.assertIn("recursion.<locals>.fib", done.stdout, done.stderr)

    def test_the_table_and_the_paths(self):
        with open(self.write("found.txt")) as file:
            self.assertIn("recursion.<locals>.ackermann", file.read())
        with open(self.write("found", "folded")) as file:
            for line in file:
                self.assertRegex(line, r"^(MainThread|<other>);.+ \d+$")

    def test_what_has_no_format(self):
        with self.assertRaisesRegex(ValueError, "a format is one of"):
            self.result.write("x", "xml")
        with self.assertRaises(OSError):
            self.result.write(os.path.join(self.directory(), "no", "x.prof"))

    def test_the_page_is_whole(self):
        with open(self.write("found.html"), encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn("</script><b>", text)
        self.assertEqual(re.findall(r"@[A-Z]+@", text), [])
        self.assertEqual([address for address in re.findall(r'(?:src|href)="([^"]*)"', text)
                          if not address.startswith("data:")], [])
        data = json.loads(re.search(r'id="data" [^>]*>(.*?)</script>', text)[1])
        self.assertEqual(len(data["functions"]), len(self.result.functions))
        fib = next(row for row in data["functions"] if row[0].endswith("<locals>.fib"))
        self.assertEqual(fib[4], 1219)
        self.assertIn("def fib(n):", fib[11][0])


if __name__ == "__main__":
    unittest.main()
