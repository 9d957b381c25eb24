"""The files that a profile is written to, read again."""

import io
import json
import os
import pstats
import re
import shutil
import subprocess
import threading
import xml.etree.ElementTree

import profiler_programs
from profiler_support import ProfilerTestCase, load

setUpModule = load


def hostile():
    exec(compile("def f(): pass\nf()", "</script><b>;&.py", "exec"))


ODD = ("\x1b[31mred", "two\nlines", "nul\0", "\ud800surrogate", "\ufffenone", "\u202eleft", "\x85next", "semi;colon")


class OddNames(ProfilerTestCase):
    """Names with characters that are commands of terminals, ends of lines, or none of XML."""

    def setUp(self):
        super().setUp()
        with self.profiler.profile() as profile:
            for name in ODD:
                code = (lambda: 0).__code__.replace(co_name=name, co_qualname=name, co_filename=f"dir/{name}.py")
                thread = threading.Thread(target=eval, args=(code,), name=name)
                thread.start()
                thread.join()
        self.result = profile.result

    def write(self, format):
        path = os.path.join(self.directory(), "found")
        self.result.write(path, format)
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()

    def test_texts_are_of_characters_that_can_be_seen(self):
        for format in ("table", "folded", "callgrind", "speedscope"):
            text = self.write(format)
            for line in text.split("\n"):
                self.assertTrue(line.isprintable(), (format, line))
            self.assertIn(r"two\nlines", text.replace(r"\\", "\\"))

    def test_callgrind_has_a_name_on_each_line(self):
        for line in filter(None, self.write("callgrind").split("\n")):
            self.assertRegex(line, r"^(#|c?f[ln]=.|calls=\d+ \d+$|\d+ \d+$|(version|creator|positions|event|events): )")

    def test_the_flame_graph_is_xml(self):
        from ferrule_profiler import _compare
        paths = [(path, int(count)) for path, _, count in (line.rpartition(" ") for line in self.write("folded").splitlines())]
        picture = _compare.difference(paths, paths)
        titles = [title.text for title in xml.etree.ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(r"\x1b[31mred" in title for title in titles), titles)

    def test_the_terminal_gets_no_commands(self):
        out = io.StringIO()
        self.result.print_table(out)
        self.assertIn(r"\x1b[31mred", out.getvalue())
        self.assertNotIn("\x1b", out.getvalue())

    def test_the_objects_have_the_names_as_they_are(self):
        names = {function.name for function in self.result.functions.values()}
        self.assertLessEqual({name for name in ODD if "\ud800" not in name}, names)


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

    def test_callgrind_names_are_of_one_function(self):
        """gprof2dot takes functions of one name for one, whatever their files."""
        directory = self.directory()
        programs = [compile("def f(): pass\nf()", os.path.join(directory, f"{name}.py"), "exec") for name in "ab"]
        with self.profiler.profile() as profile:
            for program in programs:
                exec(program, {})
        path = os.path.join(directory, "found.callgrind")
        profile.result.write(path)
        with open(path) as file:
            names = re.findall("^fn=(.*)", file.read(), re.MULTILINE)
        self.assertEqual((len(names), len(set(names))), (4, 4), names)

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
