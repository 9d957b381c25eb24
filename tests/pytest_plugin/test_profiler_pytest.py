"""The profiler's pytest plugin, under pytest from the package index."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

from tests.clients.profiler_support import ROOT, build, read_stats

PLUGIN = "ferrule_profiler.pytest_plugin"
TESTS = r"""
import os, pytest
def work(n):
    return sum(range(n))
@pytest.fixture
def made():
    work(1)
    yield 3
    work(1)
def test_one(made):
    assert work(3) == made
class TestClass:
    @pytest.mark.parametrize("n", [1, 2])
    def test_two(self, n):
        work(n)
def test_fails():
    work(5)
    assert False
"""


@unittest.skipIf(importlib.util.find_spec("pytest") is None, "pytest is not installed for this interpreter: pip install pytest")
class Plugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.packages = build(os.environ.get("FERRULE_PYTHON") or sys._base_executable, str(Path(made, "packages")))

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_python(self, *arguments, status, more=()):
        done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=self.directory,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join([self.packages, *map(str, more)]), "PYTEST_ADDOPTS": ""})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def run_pytest(self, *options, text=TESTS, status=1, plugin=("-p", PLUGIN), **others):
        (self.directory / "test_it.py").write_text(text, encoding="utf-8")
        return self.run_python("-m", "pytest", "-p", "no:cacheprovider", *plugin, *options, "test_it.py", status=status, **others)

    def labels(self, said):
        """{test: how often it was run} of the table."""
        table = said[said.index("calls       total"):] if "calls       total" in said else said
        return {row[2]: int(row[1]) for row in re.finditer(r"^ *(\d+) .* \d+  (test_it\.py::.*)$", table, re.M)}

    def files(self):
        return sorted(path.name for path in self.directory.iterdir() if path.name not in ("test_it.py", "__pycache__"))

    ALL = {f"test_it.py::{name}": 1 for name in ("test_one", "TestClass::test_two[1]", "TestClass::test_two[2]", "test_fails")}

    def test_each_test_is_a_label(self):
        said = self.run_pytest("--ferrule-profile", "--ferrule-profile-lines", "work")
        self.assertEqual(self.labels(said), self.ALL)
        self.assertIn("1 failed, 3 passed", said)
        self.assertRegex(said, r"test_it\.py:3  work, own time by line\n.*\n +0 .*def work\(n\):\n +6 .*return sum")
        self.assertEqual(self.files(), [])

    def test_files(self):
        said = self.run_pytest("--ferrule-profile", "--ferrule-profile-output", "found.prof", "--ferrule-profile-output", "found.folded")
        self.assertEqual(self.files(), ["found.folded", "found.prof"])
        self.assertEqual(read_stats(str(self.directory / "found.prof"))["work"][1], 6)
        folded = (self.directory / "found.folded").read_text()
        self.assertRegex(folded, r";test_it\.py::test_one;.*;work \(")
        self.assertIn("found.prof is written\nfound.folded is written\n", said)

    def test_each_test_has_a_profile(self):
        said = self.run_pytest("--ferrule-profile-each", "--ferrule-profile-output", "found.prof")
        self.assertEqual(self.files(), [f"found.test_it.py-{name}.prof" for name in
                                        ("TestClass-test_two[1]", "TestClass-test_two[2]", "test_fails", "test_one")])
        calls = {name: read_stats(str(self.directory / name))["work"][1] for name in self.files()}
        self.assertEqual(list(calls.values()), [1, 1, 1, 3])
        self.assertEqual(said.count(" is written\n"), 4)

    def test_names_that_are_long_odd_or_the_same(self):
        text = ("import pytest\n@pytest.mark.parametrize('n', ['x' * 300 + '/a', 'x' * 300 + '?a', '../../up', '\\x1b[31m\\n', '\\u202e', ''])\n"
                "def test(n): pass\n")
        said = self.run_pytest("--ferrule-profile-each", "--ferrule-profile-output", "found.txt", text=text, status=0)
        self.assertEqual(len(self.files()), 6)
        self.assertEqual(said.count(" is written\n"), 6, said)
        self.assertNotIn("\x1b[31m", self.run_pytest("--ferrule-profile", "--color=no", text=text, status=0))

    def test_without_its_options(self):
        said = self.run_pytest()
        self.assertNotIn("ferrule", said.split("plugins:")[-1].partition("\n")[2])

    def test_options_that_make_no_sense(self):
        for options, error in ((("--ferrule-profile-each",), "needs --ferrule-profile-output FILE"),
                               (("--ferrule-profile-output", "x.html"), "need --ferrule-profile or"),
                               (("--ferrule-profile-lines", "f"), "need --ferrule-profile or"),
                               (("--ferrule-profile", "--ferrule-profile-output", "x.csv"), "no format has names like 'x.csv'")):
            with self.subTest(options):
                self.assertIn(error, self.run_pytest(*options, status=4))

    def test_a_profile_that_is_being_made(self):
        (self.directory / "test_it.py").write_text(TESTS)
        said = self.run_python("-m", "ferrule_profiler", "--quiet", "-o", "x.prof", "-m", "pytest", "-p", PLUGIN, "--ferrule-profile", "test_it.py",
                               status=4)
        self.assertIn("a profile is being made already", said)

    def test_tests_that_profile(self):
        text = ("import ferrule_profiler\ndef test_start():\n    ferrule_profiler.start()\ndef test_stop():\n    ferrule_profiler.stop()\n"
                "def test_after(): pass\n")
        for options in (("--ferrule-profile",), ("--ferrule-profile-each", "--ferrule-profile-output", "found.txt")):
            said = self.run_pytest(*options, text=text)
            self.assertIn("ProfilerError: a profile is being made already", said)
            self.assertIn("1 failed, 2 passed", said)

    def test_it_is_interrupted(self):
        said = self.run_pytest("--ferrule-profile", "--ferrule-profile-output", "found.txt", text=TESTS + "def test_stops():\n    raise KeyboardInterrupt\n"
                               "def test_never(): pass\n", status=2)
        self.assertEqual(self.labels(said), self.ALL | {"test_it.py::test_stops": 1})
        self.assertEqual(self.files(), ["found.txt"])

    def test_a_test_that_forks(self):
        text = TESTS + "def test_forks():\n    if os.fork() == 0:\n        os._exit(0)\n    os.wait()\n    work(1)\n"
        said = self.run_pytest("--ferrule-profile", "--ferrule-profile-output", "found.prof", text=text)
        self.assertIn("test_it.py::test_forks", self.labels(said))
        self.assertEqual(read_stats(str(self.directory / "found.prof"))["work"][1], 7)

    def test_a_file_that_cannot_be_written(self):
        said = self.run_pytest("--ferrule-profile", "--ferrule-profile-output", "none/found.txt", text="def test(): pass\n", status=0)
        self.assertIn("none/found.txt is not written: [Errno 2]", said)

    def test_workers_of_xdist_write_their_own_files(self):
        """pytest-xdist gives a worker its name, and the process that starts them `dist`."""
        for options, names in (("config.workerinput = {'workerid': 'gw0'}", ["found.gw0.prof"]), ("config.option.dist = 'load'", [])):
            (self.directory / "as_xdist.py").write_text(
                f"import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_configure(config):\n    {options}\n", encoding="utf-8")
            said = self.run_pytest("-p", "as_xdist", "--ferrule-profile", "--ferrule-profile-output", "found.prof", more=[self.directory])
            self.assertEqual([path.name for path in self.directory.glob("*.prof")], names)
            for name in names:
                self.assertEqual(read_stats(str(self.directory / name))["work"][1], 6)
                (self.directory / name).unlink()
            if not names:
                self.assertNotIn("function in", said)

    def test_what_runs_no_test(self):
        said = self.run_pytest("--ferrule-profile", "--collect-only", status=0)
        self.assertNotIn("wall", said)
        said = self.run_pytest("--ferrule-profile", "-k", "nothing_of_the_kind", status=5)
        self.assertEqual(self.labels(said), {})

    def test_it_is_found_where_the_wheel_is_installed(self):
        about = Path(ROOT, "clients", "profiler", "pyproject.toml").read_text(encoding="utf-8")
        found = tomllib.loads(about)["project"]["entry-points"]["pytest11"]
        about = self.directory / "packages" / "ferrule_profiler-0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ferrule_profiler\nVersion: 0\n")
        (about / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {value}\n" for name, value in found.items()))
        for plugin in ((), ("-p", PLUGIN)):     # both is once
            said = self.run_pytest("--ferrule-profile", plugin=plugin, more=[about.parent])
            self.assertEqual(self.labels(said), self.ALL)
