"""How ci/real-programs reads what test runners leave, and what it takes for a difference."""

import tempfile
import unittest
from pathlib import Path

from ci import real_programs
from tests.real import outcomes
from tests.real.outcomes import FAILED, PASSED, SKIPPED, Outcome

JUNIT = """<testsuites><testsuite><testcase classname="a.T" name="good"/><testcase classname="a.T" name="at[0x7f00deadbeef]"/>
<testcase classname="a.T" name="bad"><failure message="no"/></testcase><testcase classname="a.T" name="good"><error/></testcase>
<testcase classname="a.T" name="left"><skipped/></testcase></testsuite></testsuites>"""

UNITTEST = """..
======================================================================
FAIL: test_one (a.T.test_one)
----------------------------------------------------------------------
Ran 9 tests in 0.1s

FAILED (failures=1, skipped=2, expected failures=1)
"""


def outcome(**results):
    return Outcome(dict(results))


class Reading(unittest.TestCase):
    def read(self, runner, status=0, text="", xml=""):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "deeper").mkdir()
            if xml:
                (Path(directory) / "deeper" / "TEST-a.xml").write_text(xml)
            return outcomes.read(runner, Path(directory), text, status)

    def test_junit(self):
        found = self.read("junit", 1, xml=JUNIT)
        self.assertEqual(
            found.results,
            {"a.T::good": FAILED, "a.T::at[0x...]": PASSED, "a.T::bad": FAILED, "a.T::left": SKIPPED},
        )

    def test_unittest(self):
        found = self.read("unittest", 1, UNITTEST)
        self.assertEqual(found.results, {"test_one (a.T.test_one)": FAILED})
        self.assertEqual([found.count(kind) for kind in (PASSED, FAILED, SKIPPED)], [6, 1, 2])
        self.assertEqual(found.total, 9)

    def test_lines(self):
        found = self.read("lines", 0, "ok one\nFAILED two: it is 'so'\nskipped three: why\nnothing\n")
        self.assertEqual(found.results, {"one": PASSED, "two": FAILED, "three": SKIPPED})

    def test_gevent(self):
        shown = "\x1b[1;31m! /e/bin/python -u -m unittest gevent.tests.a gevent.tests.b [code 1]\x1b[0m\n"
        headline = "  FAIL: test_one (gevent.tests.a.T.test_one)\n"
        total = "Ran 20 tests\x1b[1;33m (skipped=5)\x1b[0m in 8 files in 00:32\x1b[0m\n"
        found = self.read("gevent", 1, headline + shown + total)
        self.assertEqual(found.results, {"test_one (gevent.tests.a.T.test_one)": FAILED})
        self.assertEqual([found.count(kind) for kind in (PASSED, FAILED, SKIPPED)], [14, 1, 5])
        # A process that crashes has no headline.
        found = self.read("gevent", 1, shown + total)
        self.assertEqual(len(found.having(FAILED)), 1)
        self.assertIn("gevent.tests.b", *found.having(FAILED))

    def test_a_run_that_does_not_end_well_has_failed(self):
        fine = "ok one\n"
        for status, text, wanted in (
            (None, fine, "ended by the time limit"),
            (-11, fine, "ended by signal 11"),
            (139, fine, "ended by signal 11"),
            (2, fine, "exit status 2"),
            (0, "", "no test passed"),
        ):
            self.assertIn(f"the run: {wanted}", self.read("lines", status, text).having(FAILED))
        self.assertFalse(self.read("lines", 0, fine).having(FAILED))
        # Tests that fail are what this status is for.
        self.assertEqual(self.read("lines", 1, "ok one\nFAILED two: no\n").having(FAILED), {"two"})


class Differing(unittest.TestCase):
    def test_what_is_worse(self):
        stock = outcome(a=PASSED, b=PASSED, c=FAILED, d=SKIPPED, e=FAILED)
        other = outcome(a=PASSED, b=FAILED, c=FAILED, d=FAILED, e=PASSED)
        self.assertEqual(outcomes.difference(stock, other), {"b", "d"})

    def test_what_is_left_out(self):
        self.assertEqual(outcomes.difference(outcome(a=PASSED), outcome(a=SKIPPED)), {"a"})
        self.assertEqual(outcomes.difference(outcome(a=SKIPPED), outcome(a=PASSED)), set())
        self.assertEqual(outcomes.difference(outcome(a=PASSED, b=PASSED), outcome(a=PASSED)), {"b"})
        unnamed = Outcome({}, outcomes.Counter({PASSED: 3}))
        fewer = Outcome({}, outcomes.Counter({PASSED: 2}))
        self.assertTrue(outcomes.difference(unnamed, fewer))

    def test_only_what_repeats_counts(self):
        program = real_programs.Program("p", "p==1", "all", "lines", ())

        class Scripted(real_programs.Trial):
            seconds = 0

            def run(self, way, label, only=None):
                return self.runs[way].pop(0)

        good, bad = outcome(a=PASSED, b=PASSED), outcome(a=FAILED, b=FAILED)
        trial = Scripted(program, {})
        trial.runs = {"stock": [good] * 5, "ferrule": [bad, outcome(a=FAILED, b=PASSED), bad], "hooked": [bad, good]}
        _, worse, flaky = trial.compare()
        self.assertEqual((worse, flaky), ({"ferrule": {"a"}, "hooked": set()}, {"a", "b"}))

    def test_the_verdict(self):
        judge = real_programs.judge
        self.assertEqual(judge({"ferrule": set(), "hooked": set()}, set()), (True, "nothing"))
        self.assertEqual(judge({"ferrule": set(), "hooked": set()}, {"x"}), (True, "1 flaky"))
        self.assertEqual(judge({"ferrule": {"x"}, "hooked": {"x"}}, set()), (False, "**on Ferrule**: `x`"))
        self.assertEqual(judge({"ferrule": set(), "hooked": {"y"}}, set()), (False, "**with the hook**: `y`"))


class Pins(unittest.TestCase):
    def test_every_program_is_whole(self):
        for program in real_programs.programs().values():
            self.assertIn(program.runner, {"pytest", *outcomes.READERS}, program.name)
            for service in program.services:
                self.assertIn(service, real_programs.environments.SERVICES)
