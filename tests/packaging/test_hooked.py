"""How CPython's suite is judged that runs with frame hooks: tests/hooked."""

import tomllib
import unittest
from pathlib import Path

from tests.hooked import run as hooked

EXPECTED = Path(hooked.__file__).with_name("expected.toml")


class Differences(unittest.TestCase):
    def test_fewer_than_twenty_for_each_hook_and_each_has_its_reason(self):
        table = tomllib.loads(EXPECTED.read_text())
        self.assertLessEqual(set(table), set(hooked.HOOKS))
        for hook in hooked.HOOKS:
            self.assertLess(len(hooked.read_expected(hook)), 20, hook)
        for hook, files in table.items():
            methods = [method for entries in files.values() for entry in entries for method in entry["methods"]]
            self.assertEqual(len(methods), len(set(methods)), hook)
            for test_file, entries in files.items():
                for entry in entries:
                    self.assertGreater(len(entry["why"]), 30, test_file)
                    for method in entry["methods"]:
                        self.assertTrue(method.startswith(f"test.{test_file}."), method)

    def test_headlines_of_unittest(self):
        for line, expected in {
            "FAIL: test_a (test.test_x.Class.test_a)": "test.test_x.Class.test_a",
            "ERROR: test_a (test.test_x.Class.test_a) (n=3)": "test.test_x.Class.test_a",
            "FAIL: syntax (test.test_generators.__test__)": "test.test_generators.__test__.syntax",
            "ERROR: setUpClass (test.test_x.Class)": "test.test_x.Class.setUpClass",
            "UNEXPECTED SUCCESS: test_a (test.test_x.Class.test_a)": "test.test_x.Class.test_a",
            "test_a (test.test_x.Class.test_a) ... FAIL": None,
            "FAIL: a sentence (about something)": None,
        }.items():
            self.assertEqual(hooked.method_in(line), expected, line)

    def test_both_kinds_of_surprise_are_reported(self):
        expected = {"test.test_x.A.b": "why", "test.test_y.A.b": "why", "test.test_z.A.b": "why"}
        # test_z was not run: nothing is known about it.
        surprising, mended = hooked.compare(expected, {"test_x", "test_y"},
                                            {"test_x": {"test.test_x.A.b", "test.test_x.A.c"}})
        self.assertEqual(surprising, ["test.test_x.A.c"])
        self.assertEqual(mended, [("test.test_y.A.b", "test_y")])

    def test_files_in_packages_are_known_under_both_names(self):
        # regrtest says test_p.test_x in a run of that file, and test.test_p.test_x in a run of all.
        expected = {"test.test_p.test_x.A.b": "why", "test.test_p.test_y.A.b": "why"}
        for prefix in "", "test.":
            file = f"{prefix}test_p.test_x"
            self.assertEqual(hooked.compare(expected, {file}, {}), ([], [("test.test_p.test_x.A.b", file)]))
            self.assertEqual(hooked.compare(expected, {file}, {file: {"test.test_p.test_x.A.b"}}), ([], []))
