"""What is reported of a program: explain, stats, dump, `python -m ferrule_jit`, and `python -X ferrule_jit`."""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import jit_support
from jit_support import Case, define

PROGRAM = """
    import sys
    def count(n):
        total = 0
        for i in range(n):
            total += i * i
        return total
    def grow(n):
        x = 1
        for i in range(n):
            x = x * 3
        return x
    def text(n):
        for i in range(n):
            if i < 2: s = f"<{i}>"
        return s
    def cold(): return 1
    print(count(5000), text(2000), cold(), sys.argv[1:], __name__)
    for _ in range(60):
        grow(30)
    grow(2000)
    sys.exit(3)
"""

setUpModule = jit_support.load


def run(*arguments, program=PROGRAM, python=sys.executable, environment=()):
    """A program run by `python -m ferrule_jit`, and the page that was written."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "script.py")
        script.write_text(textwrap.dedent(program))
        page = Path(directory, "page.html")
        arguments = [str({"SCRIPT": script, "PAGE": page}.get(argument, argument)) for argument in arguments]
        done = subprocess.run([python, *arguments], capture_output=True, text=True, cwd=directory,
                              env={**os.environ, "PYTHONPATH": jit_support.packages(), **dict(environment)})
        return done, page.read_text() if page.exists() else None


class Checker(html.parser.HTMLParser):
    """Elements are closed in the order in which they were opened; the texts of lines by class."""

    VOID = ("meta",)

    def __init__(self, page):
        super().__init__()
        self.open, self.lines = [], {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag in self.VOID:
            return
        if tag in ("th",) and self.open[-1] == "th":
            self.open.pop()     # may be left out
        self.open.append(tag)
        names = dict(attributes).get("class") or ""
        if names.startswith("line"):
            self.kind = names.removeprefix("line").strip()

    def handle_endtag(self, tag):
        if self.open[-1] == "th" and tag == "tr":
            self.open.pop()
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        if self.open and self.open[-1] == "code":
            self.lines[data.strip()] = self.kind


class Program(unittest.TestCase):
    def test_the_report_as_text(self):
        done, _ = run("-m", "ferrule_jit", "SCRIPT", "one", "-o")
        self.assertEqual((done.returncode, done.stdout), (3, "41654167500 <1> 1 ['one', '-o'] __main__\n"), done.stderr)
        report = {}
        for line in done.stderr.splitlines():
            if not line.startswith(" "):
                about = report[line.split(" ")[0]] = []
            else:
                about.append(line.strip())
        self.assertRegex(report["count"][0], r"line 5: compiled from the loop in line 5 on: \d+ bytes in [\d.]+ ms, entered once")
        self.assertIn("line 11: left ", "\n".join(report["grow"]))
        self.assertRegex("\n".join(report["text"]), r"line 15: compiled in part: the instruction [A-Z_]+ is not compiled")
        self.assertEqual(report["cold"], ["not compiled: not called often enough, or no loop"])
        self.assertRegex(done.stderr.splitlines()[-1], r"compiled, .* refused, [\d.]+ ms of processor time, \d+ KiB of machine code")

    def test_the_page(self):
        done, page = run("-m", "ferrule_jit", "-o", "PAGE", "SCRIPT")
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        checker = Checker(page)
        self.assertEqual(checker.open, [])
        expected = {"total += i * i": "compiled", "x = x * 3": "left", 'if i < 2: s = f"<{i}>"': "refused", "return s": "interpreted"}
        self.assertEqual({line: checker.lines[line] for line in expected}, expected)
        self.assertIn("compiled from the loop in line 5 on", page)

    def test_a_module(self):
        done, _ = run("-m", "ferrule_jit", "-m", "script", "x")
        self.assertEqual((done.returncode, done.stdout), (3, "41654167500 <1> 1 ['x'] __main__\n"), done.stderr)
        self.assertIn("count (", done.stderr)

    def test_a_program_that_raises_has_a_report(self):
        done, _ = run("-m", "ferrule_jit", "SCRIPT", program="def f(n):\n    for i in range(n): pass\nf(3000)\n1 / 0\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("compiled from the loop in line 2 on", done.stderr)
        self.assertIn("ZeroDivisionError", done.stderr)

    def test_what_is_asked_wrongly(self):
        for arguments in ((), ("-m",), ("--turns", "x", "SCRIPT")):
            done, _ = run("-m", "ferrule_jit", *arguments)
            self.assertEqual((done.returncode, done.stderr.splitlines()[0][:7]), (2, "usage: "), done.stderr)
        done, _ = run("-m", "ferrule_jit", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--output", done.stdout)

    @unittest.skipUnless(os.environ.get("STOCK_PYTHON"), "stock is not named")
    def test_an_interpreter_that_cannot(self):
        done, _ = run("-m", "ferrule_jit", "SCRIPT", python=os.environ["STOCK_PYTHON"])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "ferrule_jit cannot run here: there are no frame hooks, which are a part of Ferrule\n")


class AtStart(unittest.TestCase):
    """The file that the wheel puts beside the package."""

    def setUp(self):
        self.base = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.base)
        self.site = Path(self.base, "lib", "python3.13", "site-packages")
        shutil.copytree(jit_support.packages(), self.site)
        shutil.copy(jit_support.ROOT / "clients" / "jit" / "ferrule_jit.data" / "purelib" / "ferrule_jit.pth", self.site)

    def run_python(self, *options, python=sys.executable, **environment):
        code = "import sys; print('ferrule_jit' in sys.modules and sys.modules['ferrule_jit'].is_enabled())"
        return subprocess.run([python, *options, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "PYTHONUSERBASE": self.base, **environment})

    def test_it_is_enabled_where_that_is_asked_for(self):
        for options, environment, expected in ((("-X", "ferrule_jit"), {}, "True\n"), ((), {"FERRULE_JIT": "1"}, "True\n"), ((), {}, "False\n")):
            done = self.run_python(*options, **environment)
            self.assertEqual((done.stdout, done.stderr), (expected, ""))

    def test_it_imports_little(self):
        """What reports need comes with the first one: it took more than the start of the interpreter."""
        def modules(*options, **environment):
            code = "import sys; print(*sys.modules)"
            return set(subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True,
                                      env={**os.environ, "PYTHONUSERBASE": self.base, **environment}).stdout.split())
        self.assertEqual(modules("-X", "ferrule_jit") - modules(), {"ferrule_jit", "ferrule_jit._core"})
        named = modules("-X", "ferrule_jit", FERRULE_JIT_GDB="1") - modules()
        self.assertEqual(named, {"ferrule_jit", "ferrule_jit._compiler", "ferrule_jit._core"})

    def test_names_of_the_package(self):
        code = "import ferrule_jit; print(set(ferrule_jit.__all__) <= set(dir(ferrule_jit))); from ferrule_jit import *; " \
               "print(is_enabled is ferrule_jit.is_enabled, enable.__module__); ferrule_jit.nothing"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONUSERBASE": self.base})
        self.assertEqual(done.stdout, "True\nTrue ferrule_jit._compiler\n")
        self.assertEqual(done.stderr.splitlines()[-1], "AttributeError: module 'ferrule_jit' has no attribute 'nothing'")

    def test_nothing_is_printed_where_the_hook_is_refused(self):
        code = "import sys, site\n" \
               "def refuse(event, arguments):\n    if event == 'framehook.add': raise RuntimeError('not here')\n" \
               "sys.addaudithook(refuse)\nsite.addsitedir(sys.argv[1])\n"
        for option, expected in (("ferrule_jit", ""), ("ferrule_jit=warn", "not here")):
            done = subprocess.run([sys.executable, "-S", "-X", option, "-c", code, self.site], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            self.assertIn(expected, done.stderr)
            self.assertLessEqual(done.stderr.count("\n"), len(expected) > 0)

    def test_nothing_is_printed_in_an_isolated_interpreter(self):
        code = "import _interpreters; i = _interpreters.create(); print(_interpreters.exec(i, 'x = 1'))"
        done = subprocess.run([sys.executable, "-X", "ferrule_jit", "-c", code], capture_output=True, text=True,
                              env={**os.environ, "PYTHONUSERBASE": self.base})
        self.assertEqual((done.stdout, done.stderr), ("None\n", ""))

    @unittest.skipUnless(os.environ.get("STOCK_PYTHON"), "stock is not named")
    def test_an_interpreter_that_cannot_says_so_if_it_is_asked(self):
        for option, expected in (("ferrule_jit", ""), ("ferrule_jit=warn", "ferrule_jit cannot run here: there are no frame hooks, "
                                                                          "which are a part of Ferrule\n")):
            done = self.run_python("-X", option, python=os.environ["STOCK_PYTHON"])
            self.assertEqual((done.stdout, done.stderr), ("False\n", expected))


class Interface(Case):
    def test_explain_names_the_line_that_is_not_compiled(self):
        made = define("def f(n):\n    for i in range(n):\n        x = i + 1\n        y = {x: 1}\n    return y\n").f
        made(3)
        self.assertIn("line 4: not compiled: the instruction BUILD_MAP is not compiled", self.jit.explain(made))
        made = define("def f(a, n):\n    for i in range(n):\n        pass\n    return a + 1\n").f
        made(1, 3)
        self.jit.compile_at_next_call(made)
        self.assertRaises(TypeError, made, "x", 3)
        self.assertRegex(self.jit.explain(made), r"line 4: not compiled: arithmetic of another object and int")

    def test_explain_names_the_call_whose_callee_was_left(self):
        made = define("""
            def g(x):
                y = x * 2
                return y * x
            def f(n, x):
                total = 0
                for i in range(n):
                    total += g(x)
                return total
        """)
        self.jit.compile_at_next_call(made.f)
        for x in (3, 3, 2**62):
            made.f(1, x)
        self.assertIn("line 8: left once", self.jit.explain(made.f))

    def test_entries_are_counted_for_each_version(self):
        made = define("def f(a, n):\n    for i in range(n): a = a + a\n    return a\n").f
        self.compiled(made, 1, 3)
        for _ in range(5):
            made(1, 3)
        for _ in range(3):
            made(1.5, 3)
        entered = {tuple(types): entered for types, _, _, _, _, entered in self.jit.stats(made)["versions"]}
        self.assertEqual(entered, {("int", "int"): 6, ("float", "int"): 3})

    def test_dump(self):
        made = define("def f(n):\n    t = 0\n    for i in range(n): t += i\n    return t\n").f
        self.assertEqual(self.jit.dump(made), "")
        self.compiled(made, 3)
        mapped = self.jit.stats()["machine_code_mapped"]
        found = self.jit.dump(made)
        self.assertRegex(found, r"(?m)^function ")
        self.assertRegex(found, r"\bs?add_?i?\w*\b.*\n")
        self.assertTrue(re.search(r"(?m)^\s+ret\b", found), found)
        self.assertEqual(self.jit.stats()["machine_code_mapped"], mapped)

    def test_totals(self):
        before = self.jit.stats()
        self.compiled(define("def f(n):\n    t = 0\n    for i in range(n): t += i\n    return t\n").f, 3)
        after = self.jit.stats()
        self.assertEqual(after["compiled"], before["compiled"] + 1)
        self.assertEqual(after["refused"], before["refused"])
        self.assertGreater(after["seconds"], before["seconds"])
        self.assertGreater(after["machine_code_mapped"], 0)
