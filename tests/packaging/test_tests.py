"""The tests themselves: no file is too long, and tests/run.py names only modules that exist.

And the words of the tree: what once had a private word is called by the field's.
"""

import contextlib
import io
import re
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
from pathlib import Path

from tests import run
from tests.greenlet import run as greenlet

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
MOST_LINES = 600
# A callback gets an event, a hook is called for a frame, DISABLE disables it, an unhooked call has a scope.
PRIVATE_WORDS = re.compile(r"\b((un)?settle[ds]?|whoever|spared|extents?|told of|((is|are|was|were|be) )?asked about|"
                           r"free word|(is|are|was|were|be) told)\b", re.IGNORECASE)


def too_long(directory):
    """The Python files below the directory with more than MOST_LINES lines, and their lengths."""
    counts = {path.relative_to(directory).as_posix(): len(path.read_text("utf-8").splitlines())
              for path in directory.rglob("*.py")}
    return {name: count for name, count in sorted(counts.items()) if count > MOST_LINES}


def private_words(text):
    """[(line, word)] of a text, in names too."""
    lines = enumerate(re.sub("[_-]", " ", text).splitlines(), 1)
    return [(number, found[0]) for number, line in lines for found in PRIVATE_WORDS.finditer(line)]


class Words(unittest.TestCase):
    def test_private_words_are_found(self):
        for text in ("a hook that is told of it", "settled", "def test_whoever_calls(self):", "was asked about"):
            with self.subTest(text):
                self.assertEqual([number for number, _ in private_words(f"first\n{text}\n")], [2])
        self.assertEqual(private_words("settlement, unasked, an extent-based file is retold"), [(1, "extent")])

    def test_the_tree_has_none(self):
        kinds = {".py", ".pyi", ".rs", ".c", ".h", ".md", ".toml"}
        files = [path for top in ROOT.iterdir() if top.name not in ("build", ".git", "CHANGELOG.md")
                 for path in (top.rglob("*") if top.is_dir() else [top]) if path.suffix in kinds and path != Path(__file__).resolve()]
        self.assertGreater(len(files), 500)
        self.assertEqual([(path.relative_to(ROOT).as_posix(), found) for path in files for found in private_words(path.read_text("utf-8"))], [])


class Tests(unittest.TestCase):
    def test_no_python_file_is_too_long(self):
        self.assertEqual(too_long(TESTS), {})

    def test_a_longer_file_is_found_and_one_that_just_fits_is_not(self):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "below").mkdir()
            (directory / "fits.py").write_text("pass\n" * MOST_LINES)
            (directory / "below" / "long.py").write_text("pass\n" * (MOST_LINES + 1))
            (directory / "long.txt").write_text("text\n" * (MOST_LINES + 1))
            self.assertEqual(too_long(directory), {"below/long.py": MOST_LINES + 1})

    def test_the_runner_names_modules_that_exist(self):
        named = {*run.C_MODULES, *run.LEAK_MODULES}
        self.assertEqual(named - set(run.python_modules()), set())

    def test_tests_about_the_other_interpreter_are_not_collected(self):
        class Each(unittest.TestCase):
            def test_here(self):
                pass

            @unittest.skip("only on stock")
            def test_on_stock(self):
                pass

            @unittest.skip("needs a printer")
            def test_skipped(self):
                pass

        @unittest.skip("only on Ferrule: hooks")
        class Hooks(Each):
            pass

        load = unittest.defaultTestLoader.loadTestsFromTestCase
        suite = unittest.TestSuite([unittest.TestSuite([load(Each)]), load(Hooks)])
        self.assertEqual([test._testMethodName for test in run.about_this(suite)], ["test_here", "test_skipped"])

    def test_what_unittest_prints(self):
        counts = run.Counts.of_unittest
        for output, exit_code, expected in (
            ("Ran 5 tests in 0.1s\n\nOK\n", 0, (5, 0, 0)),
            ("Ran 1 test in 0.1s\n\nOK (skipped=1)\n", 0, (0, 0, 1)),
            ("Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1, expected failures=3)\n", 1, (5, 3, 1)),
            ("Ran 4 tests in 0.1s\n\nFAILED (unexpected successes=1)\n", 1, (3, 1, 0)),
            ("Ran 3 tests in 0.1s\n\nOK (expected failures=3)\n", 0, (3, 0, 0)),
            # What a test has printed is not what came of the run.
            ("Ran 7 tests in 0.1s\n\nFAILED (failures=7)\nRan 2 tests in 0.1s\n\nOK\n", 0, (2, 0, 0)),
            ("Ran 2 tests in 0.1s\n\nOK (skipped=1)\nSegmentation fault\n", 139, (1, 1, 1)),
            ("Segmentation fault\n", 139, (0, 1, 0)),
            ("", 0, (0, 1, 0)),
        ):
            with self.subTest(output=output):
                found = counts(output, exit_code)
                self.assertEqual((found.passed, found.failed, found.skipped), expected)

    def test_what_a_program_of_tests_prints_last(self):
        for output, exit_code, expected in (
            ("3 passed, 0 failed, 1 skipped\n", 0, "3 passed, 0 failed, 1 skipped"),
            ("1 passed, 1 failed, 0 skipped\ntext\n3 passed, 0 failed, 1 skipped\n", 0, "3 passed, 0 failed, 1 skipped"),
            ("3 passed, 0 failed, 1 skipped\n", 139, "3 passed, 1 failed, 1 skipped"),
            ("3 passed, 2 failed, 1 skipped\n", 1, "3 passed, 2 failed, 1 skipped"),
            ("Segmentation fault\n", 139, "0 passed, 1 failed, 0 skipped"),
            ("", 0, "0 passed, 1 failed, 0 skipped"),
        ):
            with self.subTest(output=output):
                self.assertEqual(str(run.Counts.of_summary(output, exit_code)), expected)

    def test_of_greenlets_tests_those_count_as_failed_that_fail_again_alone(self):
        tests = """
import os, unittest
class Each(unittest.TestCase):
    def test_fails_once(self):
        if not os.path.exists("failed"):
            open("failed", "w").close()
            self.fail()
    def test_fails_again_later(self):
        with open("runs", "a+") as file:
            file.write(".")
            file.seek(0)
            self.assertNotIn(len(file.read()), (1, 4))
    def test_raises(self):
        raise OSError
    def test_passes(self):
        pass
"""
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as output:
            Path(name, "test_each.py").write_text(tests)
            done = greenlet.run([sys.executable, "-m", "unittest", "-q", "test_each"], cwd=name)
            counts = greenlet.outcome(done, "they")
            self.assertEqual(str(counts), "1 passed, 3 failed, 0 skipped")
            greenlet.judge_alone(sys.executable, done, counts, cwd=name)
        self.assertEqual(str(counts), "2 passed, 2 failed, 0 skipped")
        for test, times in (("fails_once", 10), ("fails_again_later", 2), ("raises", 0)):
            self.assertIn(f"test_each.Each.test_{test} failed, and then passed {times} times of 10, alone\n", output.getvalue())
        crashed = run.Counts(failed=1)
        greenlet.judge_alone(None, types.SimpleNamespace(stdout="Segmentation fault\n"), crashed)
        self.assertEqual(crashed.failed, 1)

    def test_groups_run_beside_each_other_and_cpythons_tests_when_they_are_over(self):
        self.assertLessEqual({*run.DEFAULT_GROUPS, *run.ALONE}, {*run.GROUPS})
        together, over = threading.Barrier(2, timeout=60), []

        def beside(options):
            together.wait()
            over.append("beside")
            return run.Counts(passed=1)

        def alone(options):
            over.append("alone")
            return run.Counts(failed=1)

        with unittest.mock.patch.dict(run.GROUPS, c=beside, python=beside, cpython=alone, leaks=alone):
            total = run.run_groups(types.SimpleNamespace(groups=["cpython", "c", "python", "leaks"], at_once=2))
        self.assertEqual((str(total), over), ("2 passed, 2 failed, 0 skipped", ["beside", "beside", "alone", "alone"]))
