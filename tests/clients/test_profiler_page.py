"""What the page says of the program, and of the source of its functions."""

import functools
import json
import linecache
import os
import pickle
import re
import subprocess
import sys
import threading
import time

from profiler_support import OUT, ProfilerTestCase, load

setUpModule = load


def wrapped(function):
    return functools.wraps(function)(lambda *args: function(*args))


@wrapped
@functools.lru_cache
def target(x):
    "doc"
    return dict(
        x=x,
    )


def user():
    return sum(i * 2 for i in range(10))


def after_user():
    return "NOT PART OF THE GENERATOR EXPRESSION"


pair = (lambda: 1,
        lambda: 2)


def outer():
    def inner():
        return 1
    inner()

    def last():
        return 2
    # after its end
    return (last(),
            1)


class PageCase(ProfilerTestCase):
    def data(self, result):
        path = os.path.join(self.directory(), "found.html")
        result.write(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return json.loads(re.search(r'id="data" [^>]*>(.*?)</script>', text)[1]), text

    def sources(self, result):
        """{(qualified name, line): (lines, a word about them)}"""
        return {(row[0], row[2]): (row[11], row[12]) for row in self.data(result)[0]["functions"]}


class Sources(PageCase):
    def test_each_function_has_its_own_lines(self):
        with self.profiler.profile() as profile:
            target(1), user(), after_user(), pair[0](), pair[1](), outer()
        with open(__file__) as file:
            lines = file.read().split("\n")
        ends = {"target": "    )", "user": "    return sum(i * 2 for i in range(10))", "outer": "            1)",
                "user.<locals>.<genexpr>": "    return sum(i * 2 for i in range(10))", "outer.<locals>.inner": "        return 1",
                "outer.<locals>.last": "        return 2", "after_user": lines[after_user.__code__.co_firstlineno]}
        found = self.sources(profile.result)
        for (name, line), (source, word) in found.items():
            if name in ends:
                self.assertEqual(source, lines[line - 1:line - 1 + len(source)])
                self.assertEqual((source[-1], word), (ends.pop(name), ""))
        self.assertEqual(ends, {})
        for function in pair:
            line = function.__code__.co_firstlineno
            self.assertEqual(found["<lambda>", line], ([lines[line - 1]], ""))

    def run_changed(self, name, text, change, profiled=None):
        path = os.path.join(self.directory(), name)
        with open(path, "wb") as file:
            file.write(text)
        os.utime(path, (1, 1))
        code = compile((profiled or text).decode("utf-8", "replace"), path, "exec")
        with self.profiler.profile() as profile:
            exec(code, {})
            change(path)
        return self.sources(profile.result)

    TEXT = b"# top\n\ndef aaa():\n    return 1\naaa()\n"

    def test_a_file_that_changes(self):
        def change(path):
            with open(path, "w") as file:
                file.write("SECRET = 1\n" * 3 + "x = '''unterminated\n" * 5)
            # The kernel stamps a file with the time of its last tick, which may be before the profile began.
            os.utime(path, ns=(time.time_ns(),) * 2)
        source, word = self.run_changed("a.py", self.TEXT, change)["aaa", 3]
        self.assertEqual((len(source), word), (2, "The file was changed after the profile began: this is what it is now."))
        source, word = self.run_changed("a.py", self.TEXT, lambda path: None)["aaa", 3]
        self.assertEqual((source, word), (["def aaa():", "    return 1"], ""))

    def test_what_is_no_source(self):
        def replaced(make):
            return lambda path: (os.unlink(path), make(path))

        def grow(path):
            os.truncate(path, 1 << 40)

        changes = (os.unlink, replaced(os.mkfifo), replaced(os.mkdir), grow, replaced(lambda path: os.symlink("/dev/zero", path)),
                   replaced(lambda path: os.symlink(path, path)))
        for change in changes:
            self.assertEqual(self.run_changed("a.py", self.TEXT, change)["aaa", 3], ([], ""))
        for text in (b"# coding: nosuch\n" + self.TEXT, self.TEXT.replace(b"1", b"\xff\xfe")):
            self.assertEqual(self.run_changed("a.py", text, lambda path: None, self.TEXT)["aaa", 3], ([], ""))

    def test_odd_lines(self):
        text = self.TEXT.replace(b"1", b"'\x1b[31m\xe2\x80\xae' + '" + b"x" * 10_000 + b"'").replace(b"\n", b"\r\n")
        source, _ = self.run_changed("a.py", text, lambda path: None)["aaa", 3]
        self.assertEqual(source[0], "def aaa():")
        self.assertIn(r"\x1b[31m\u202e", source[1])
        self.assertLess(len(source[1]), 1000)

    def test_a_source_that_was_made(self):
        linecache.cache["<made>"] = (1, None, ["def made(): return 1\n"], "<made>")
        self.addCleanup(linecache.cache.pop, "<made>")
        code = compile("def made(): return 1\nmade()", "<made>", "exec")
        with self.profiler.profile() as profile:
            exec(code, {})
        self.assertEqual(self.sources(profile.result)["made", 1], (["def made(): return 1"], ""))

    def test_a_pickled_result(self):
        with self.profiler.profile() as profile:
            user()
        again = pickle.loads(pickle.dumps(profile.result))
        self.assertEqual(again.functions, profile.result.functions)
        self.data(again)


class FileNames(PageCase):
    def test_names_that_are_not_utf_8(self):
        codes = [compile("def f(): pass\nf()", os.fsdecode(b"dir/\xff%d.py" % n), "exec") for n in range(2)]
        codes += [compile("def f(): pass\nf()", os.fsdecode(b"dir/\xfe0.py"), "exec")]
        with self.profiler.profile() as profile:
            for code in codes:
                exec(code, {})
        self.assertEqual({function.file for function in profile.result.find("f")}, {code.co_filename for code in codes})
        for format in ("html", "table", "pstats", "speedscope", "callgrind", "folded"):
            profile.result.write(os.path.join(self.directory(), "found"), format)

    def test_a_program_of_such_a_name(self):
        directory = os.fsencode(self.directory())
        script = os.path.join(directory, b"\xff\x1b.py")
        with open(script, "w") as file:
            file.write("def f(): return 1\nf()\n")
        done = subprocess.run([os.fsencode(sys.executable), b"-m", b"ferrule_profiler", b"-o", b"\xff.html", b"-o", b"\xff.prof", script],
                              cwd=directory, capture_output=True, env={**os.environ, "PYTHONPATH": OUT})
        self.assertEqual((done.returncode, sorted(os.listdir(directory))), (0, [b"\xff\x1b.py", b"\xff.html", b"\xff.prof"]), done.stderr)
        self.assertNotIn(b"\x1b", done.stderr)


class Heading(PageCase):
    def test_what_it_took(self):
        around, processors = time.monotonic(), time.process_time()
        with self.profiler.profile() as profile:
            within, work = time.monotonic(), time.process_time()
            threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            sum(range(1_000_000))
            for thread in threads:
                thread.join()
            within, work = time.monotonic() - within, time.process_time() - work
        around, processors = time.monotonic() - around, time.process_time() - processors
        result = profile.result
        self.assertLessEqual(within * 0.99, result.wall)
        self.assertLessEqual(result.wall, around * 1.01)
        self.assertLessEqual(work, result.cpu)
        self.assertLessEqual(result.cpu, processors)
        # Four threads have waited for at least as long as they have slept.
        self.assertGreater(result.waiting, 0.6)
        self.assertLess(sum(thread.cpu for thread in result.threads), result.cpu + 1e-3)
        for thread in result.threads:
            self.assertAlmostEqual(thread.waiting + min(thread.cpu, thread.seconds), thread.seconds, delta=1e-6)
        self.assertEqual(profile.result.cpu, result.cpu)        # it has ended
        self.assertAlmostEqual(result.date, time.time(), delta=around + 60)

    def test_it_begins_where_it_is_started(self):
        profile = self.profiler.profile()
        sum(range(100_000))
        around, processors = time.monotonic(), time.process_time()
        with profile:
            pass
        self.assertLessEqual(profile.result.wall, (time.monotonic() - around) * 1.01)
        self.assertLessEqual(profile.result.cpu, time.process_time() - processors)

    def test_a_forked_child_begins_anew(self):
        done, _ = self.profile_program("""
import os, sys, time
import ferrule_profiler
sum(range(3_000_000))
begun, work = time.monotonic(), time.process_time()
if (child := os.fork()) == 0:
    from ferrule_profiler import _profile
    result = _profile._active.result
    assert result.wall <= time.monotonic() - begun, result.wall
    assert result.cpu <= time.process_time(), result.cpu
    assert result.threads[0].cpu <= time.process_time(), result.threads[0].cpu
    assert result.pid == os.getpid()
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 7)
""")
        self.assertEqual(done.stderr, "")

    def test_it_says_what_was_profiled(self):
        directory = self.directory()
        page, table = (os.path.join(directory, name) for name in ("found.html", "found.txt"))
        self.profile_program("import time\ntime.sleep(0.01)\n", "-o", page, "-o", table, directory=directory,
                             arguments=["-x", "<b>", "@DATA@"])
        with open(table) as file:
            first, second, third, *_ = file
        self.assertEqual(first, f"{directory}/program.py -x <b> @DATA@\n")
        version = ".".join(map(str, sys.version_info[:3]))
        self.assertRegex(second, rf"^process \d+, Python {re.escape(version)}, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertRegex(third, r"^1 call of 1 function in 1 thread, [\d.]+ ms wall, [\d.]+ .s CPU, [\d.]+ .s waiting \(.*\)$")
        with open(page) as file:
            text = file.read()
        self.assertIn(f"<title>{directory}/program.py -x &lt;b&gt; @DATA@ - profile</title>", text)
        for line in (second, third):
            self.assertIn(re.split("[, ]", line)[1], text)

    def test_subinterpreters_are_named(self):
        try:
            import _interpreters
        except ImportError:
            self.skipTest("no subinterpreters here")
        self.assertTrue(_interpreters)
        directory = self.directory()
        for source, said in (("import _interpreters as i\nnew = i.create()\ni.exec(new, 'def f(): pass\\nf()')\ni.destroy(new)", 1), ("", 0)):
            path = os.path.join(directory, "found.txt")
            _, stats = self.profile_program(source, "-o", path)
            self.assertNotIn("f", stats)
            with open(path) as file:
                self.assertEqual(file.read().count("\ncode of subinterpreters is not counted\n"), said)

    def test_a_module(self):
        done = self.run_python("-m", "ferrule_profiler", "-m", "this", "x")
        self.assertRegex(done.stderr, r"^-m this x\nprocess \d")
