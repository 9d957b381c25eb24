"""How torch's own tests are judged, run with its evaluator and with the hook: tests/dynamo/torch_tests.py."""

import json
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock

from tests.dynamo import torch_tests
from tools.binary import debian


class Judgement(unittest.TestCase):
    def test_each_difference_is_explained(self):
        entries = tomllib.loads(torch_tests.EXPECTED.read_text()).get("differs", [])
        tests = [test for entry in entries for test in entry["tests"]]
        self.assertEqual(len(tests), len(set(tests)))
        for entry in entries:
            self.assertGreater(len(entry["why"]), 30, entry)
            self.assertTrue(all(test.startswith("dynamo.test_") for test in entry["tests"]), entry)

    def test_what_differs_twice_has_to_be_expected(self):
        outcomes = [("dynamo.test_a.A.same", "passed", "passed"), ("dynamo.test_a.A.fails", "E: 1", "E: 1"), ("dynamo.test_a.A.once", "passed", "E: 1"),
                    ("dynamo.test_a.A.new", "passed", "E: 1"), ("dynamo.test_a.A.known", "E: 1", "E: 2"), ("dynamo.test_a.A.absent", "passed", "not run")]
        again = [(test, evaluator, "passed" if test.endswith("once") else hooks) for test, evaluator, hooks in outcomes[2:]]
        counts, wrong, notes = torch_tests.judge(outcomes, again, {"dynamo.test_a.A.known": "why", "dynamo.test_a.A.same": "why"})
        self.assertEqual(counts, {"passed": 1, "failed the same": 1, "different once": 1, "different": 2, "different, as expected": 1})
        self.assertEqual([line.splitlines()[0] for line in wrong], [
            "DIFFERS: dynamo.test_a.A.new", "DIFFERS: dynamo.test_a.A.absent", "IS THE SAME, and is expected to differ: dynamo.test_a.A.same"])
        self.assertEqual(len(notes), 1)
        self.assertIn("dynamo.test_a.A.once", notes[0])

    def test_a_test_that_ends_the_process_is_an_outcome(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "outcomes.jsonl"

            def read(*lines):
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                return torch_tests.read(path)
            self.assertEqual(read({"started": "a"}, {"test": "a", "outcome": "passed"}, {"started": "b"}),
                             ({"a": "passed", "b": torch_tests.ENDED}, False))
            self.assertEqual(read({"started": "b"}, {"started": "c"}, {"test": "c", "outcome": "skipped"}, {"end": True}),
                             ({"b": torch_tests.ENDED, "c": "skipped"}, True))
            with self.assertRaises(SystemExit):
                read({"end": False})


class Sources(unittest.TestCase):
    def suites(self, release):
        """Of which suites apt is to read the lists, to have the packages of a release."""
        archives = [("http://debian", "key")], [("http://security", "key")]
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(debian, "run_apt", return_value=""), \
                mock.patch.object(debian, "mirrors", return_value=archives):
            debian.Suite(release, Path(directory))
            lines = (Path(directory) / "sources" / "ferrule.sources").read_text().splitlines()
        return [line.removeprefix("Suites: ") for line in lines if line.startswith("Suites: ")]

    def test_releases_under_development_have_no_security_archive(self):
        """apt fails where it is to read the lists of a suite that does not exist."""
        self.assertEqual(self.suites("trixie"), ["trixie", "trixie-security"])
        for release in ("sid", "experimental"):
            self.assertEqual(self.suites(release), [release])

    def test_the_nearest_version_that_can_be_had_is_taken(self):
        """And what cannot be had is said."""
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(torch_tests, "KEPT", Path(directory)), \
                mock.patch.object(torch_tests, "Suite", side_effect=torch_tests.Unreachable("404")), \
                mock.patch.object(torch_tests, "say") as said:
            kept = Path(directory) / "trixie" / "test"
            kept.mkdir(parents=True)
            self.assertEqual(torch_tests.fetched("2.15.0"), kept)
            self.assertEqual([call.args for call in said.call_args_list], [("warning: no tests of Debian's sid: 404",)])
            said.reset_mock()
            self.assertEqual(torch_tests.fetched("2.6.0"), kept)
            said.assert_not_called()
