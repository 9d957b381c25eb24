"""Tests of mutated source end on Ferrule as on stock, and a difference would be noticed. `ci/fuzz` runs many more."""

import argparse
import itertools
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests.fuzz import run as mutated
from tests.fuzz.run import Mutant, Outcome, Subject
from tests.fuzz.subjects import GREENLET, install
from tests.fuzz.worker import LOOKS, look, without_places

FERRULE = os.path.abspath(os.environ["FERRULE_PYTHON"])
STOCK = os.path.abspath(os.environ["STOCK_PYTHON"])
SEEDS = range(6)


def ran(*tests):
    return Outcome("", json.dumps(["alone", "ran", list(tests)]))


GOOD, BAD = ran(["test_a", "passed", ""]), ran(["test_a", "error", "ValueError: no"])
PROGRAM = """import unittest
class T(unittest.TestCase):
    def given(self, n):
        for i in range(n):
            try:
                yield i
            finally:
                self.seen.append(i)
    def failing(self, n):
        raise ValueError(n)
    def test_frames(self):
        self.seen = []
        for _ in range(500):
            self.assertEqual(next(iter(self.given(3))), 0)
            self.assertEqual(list(self.given(2)), [0, 1])
            self.assertRaises(ValueError, self.failing, 1)
        self.assertEqual(self.seen, [0, 0, 1] * 500)
        self.failing(3)
"""
CRASH = Outcome("signal SIGSEGV", "Fatal Python error")


class MutatedSource(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # greenlet alone: the programs themselves are left to `ci/fuzz`.
        cls.programs = mutated.ROOT / "build" / "fuzz" / "greenlet"
        try:
            install(cls.programs, (GREENLET,))
        except subprocess.CalledProcessError:
            # Without the package index a developer can do all the rest; CI must have it.
            if os.environ.get("CI"):
                raise
        cls.fuzzer = mutated.Fuzzer(argparse.Namespace(python=FERRULE, stock=STOCK, programs=cls.programs))

    def test_they_end_as_on_stock(self):
        seen = []
        for seed in SEEDS:
            verdict, finding = self.fuzzer.one(seed)
            self.assertEqual(finding, "")
            seen.append(verdict)
        # A comparison of nothing would be equal, too.
        self.assertIn("same", seen)

    def test_what_a_seed_chooses_is_independent(self):
        seen = set()
        for seed in range(3000):
            _, subject = self.fuzzer.chosen(seed)
            seen.add((subject is None, look(seed), mutated.hook_of(seed)))
        self.assertEqual(seen, set(itertools.product((True, False), LOOKS, mutated.HOOKS)))

    def test_a_seed_gives_one_source(self):
        texts = {subprocess.run([python, mutated.HERE / "mutations.py", mutated.HERE / "worker.py", "7"], capture_output=True, text=True, check=True,
                                env={**os.environ, "PYTHONHASHSEED": str(number)}).stdout for number, python in enumerate((STOCK, FERRULE))}
        self.assertEqual(len(texts), 1)
        self.assertIn("def main", texts.pop())

    def verdict(self, ours, theirs, hook="none", collector=lambda plus, outcome: outcome):
        """Of what the two interpreters make of a program, one run after the other; the last continues. collector: what stock makes of it
        where the collector runs at other times."""
        runs = {FERRULE: list(ours), STOCK: list(theirs)}

        def run(python, mutant, hook, plus=0):
            return collector(plus, runs[python].pop(0) if len(runs[python]) > 1 else runs[python][0])

        with mock.patch.object(mutated, "run", run):
            return self.fuzzer.compare(Mutant(Path("x.py"), 0, hook, None))

    def test_a_crash_of_ferrule_alone_is_a_finding(self):
        verdict, finding = self.verdict([CRASH], [GOOD])
        self.assertEqual(verdict, "crash")
        self.assertIn("signal SIGSEGV; stock: to its end", finding)
        self.assertEqual(self.verdict([CRASH, GOOD], [GOOD])[0], "crash")
        self.assertEqual(self.verdict([CRASH], [GOOD], "copy")[0], "crash")
        self.assertEqual(self.verdict([CRASH], [GOOD, CRASH]), ("stock crashes too", ""))

    def test_a_test_that_ends_in_another_way_is_a_finding(self):
        verdict, finding = self.verdict([BAD], [GOOD])
        self.assertEqual(verdict, "difference")
        self.assertIn("ValueError: no", finding)
        self.assertEqual(self.verdict([BAD], [GOOD, BAD])[1], "")
        self.assertEqual(self.verdict([BAD, GOOD], [GOOD])[1], "")
        self.assertEqual(self.verdict([ran()], [GOOD])[0], "difference")
        # A test may look for the code that a copy replaces.
        self.assertEqual(self.verdict([BAD], [GOOD], "copy"), ("not comparable", ""))
        # Code for which a hook is called has no RESUME_CHECK.
        seen = ["test_a", "failed", "AssertionError: 'RESUME' != 'RESUME_CHECK'"]
        self.assertEqual(self.verdict([ran(seen)], [GOOD], "pass"), ("not comparable", ""))
        self.assertEqual(self.verdict([ran(seen)], [GOOD])[0], "difference")
        # What else there is in the same module is compared.
        other, deep = ["test_b", "passed", ""], ["test_recursion", "failed", ""]
        for one in (seen, deep):
            good = [one[0], "passed", ""]
            self.assertEqual(self.verdict([ran(one, other)], [ran(good, other)], "pass"), ("same", ""))
            self.assertEqual(self.verdict([ran(one, other)], [ran(good)], "pass")[0], "difference")

    def test_no_hook_changes_what_comes_of_a_program(self):
        seeds = {look(seed): seed for seed in range(100)}
        self.assertEqual(set(seeds), set(LOOKS))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "m.py")
            path.write_text(PROGRAM)
            for how, seed in seeds.items():
                if not self.fuzzer.can_run(how, "none"):
                    continue
                mutant = Mutant(path, seed, "none", None, self.fuzzer.paths)
                on_stock = mutated.run(STOCK, mutant, "none")
                self.assertEqual(json.loads(on_stock.output)[:2], [how, "ran"])
                self.assertIn("ValueError: 3", on_stock.output)
                for hook in sorted(set(mutated.HOOKS)):
                    if not self.fuzzer.can_run(how, hook):
                        continue
                    with self.subTest(look=how, hook=hook):
                        self.assertEqual(mutated.run(FERRULE, mutant, hook), on_stock)

    def test_a_hook_adds_no_module_that_tests_find(self):
        source = """import sys, unittest
class T(unittest.TestCase):
    def test_modules(self):
        with_a_file = [name for name, module in sys.modules.items() if hasattr(module, "__file__")]
        self.fail(f"{len(with_a_file)} modules, the last is {with_a_file[-1]}")
"""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "m.py")
            path.write_text(source)
            mutant = Mutant(path, next(seed for seed in range(100) if look(seed) == "alone"), "none", None, self.fuzzer.paths)
            on_stock = mutated.run(STOCK, mutant, "none")
            self.assertIn("modules, the last is", on_stock.output)
            for hook in sorted(set(mutated.HOOKS) - set(mutated.CLIENTS)):
                if self.fuzzer.can_run("alone", hook):
                    with self.subTest(hook=hook):
                        self.assertEqual(mutated.run(FERRULE, mutant, hook), on_stock)

    def test_what_depends_on_when_the_collector_runs_is_no_finding(self):
        def differs(plus, outcome):
            return BAD if plus == mutated.COLLECTOR[-1] else outcome

        self.assertEqual(self.verdict([BAD], [GOOD], "read", differs), ("differs by the collector's times", ""))
        ours = [BAD] * 4 + [GOOD]
        self.assertEqual(self.verdict(ours, [GOOD], "read"), ("differs by the collector's times", ""))
        # Without a hook it runs at the same times; and no time of it explains a crash.
        self.assertEqual(self.verdict([BAD], [GOOD], "none", differs)[0], "difference")
        self.assertEqual(self.verdict([CRASH], [GOOD], "read", differs)[0], "crash")
        source = """import gc, unittest
class T(unittest.TestCase):
    def test_when(self):
        self.fail(gc.get_threshold()[0])
"""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "m.py")
            path.write_text(source)
            mutant = Mutant(path, 1, "none", None)
            first, later = (int(json.loads(mutated.run(STOCK, mutant, "none", plus).output)[2][0][2].split()[-1]) for plus in (0, 401))
            self.assertEqual(later, first + 401)

    def test_addresses_are_no_difference(self):
        said = {without_places(f"None != (<object object at 0x7f{digits}>, <obje[21 chars]{digits}>)") for digits in ("1a2b30", "9", "fade")}
        self.assertEqual(said, {"None != ("})
        self.assertEqual(without_places("Tuples differ: (<A at 0x12>,) != (<A at 0x1>,)\n- (<A at 0x12>,)\n?   -\n"), "Tuples differ: (")
        self.assertEqual(without_places("no, <A at 0x12> is None"), "no, <A at 0x> is None")
        self.assertEqual(without_places("'beef[40 chars]cafe' != 'b'"), "'beefNcafe' != 'b'")

    def test_output_of_a_worker_is_distinguished_from_a_crash(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "m.py")
            for source, wanted in (("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "signal SIGSEGV"),
                                   ("import os\nos._exit(3)\n", "exit status 3"),
                                   ("raise SystemExit\n", "")):
                path.write_text(source)
                self.assertEqual(mutated.run(STOCK, Mutant(path, 0, "none", None), "none").died, wanted)

    def test_a_mutated_module_is_what_its_tests_test(self):
        source = Path(subprocess.run([STOCK, "-c", "import textwrap; print(textwrap.__file__)"], capture_output=True, text=True,
                                     check=True).stdout.strip()).read_text()
        subject = Subject("textwrap", ("test.test_textwrap",))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "m.py")
            outcomes = {}
            for name, text in (("whole", source), ("other", source + "\ndef shorten(text, width, **kwargs):\n    return 'mutated'\n")):
                path.write_text(text)
                for python in (STOCK, FERRULE):
                    output = mutated.run(python, Mutant(path, 0, "none", subject), "none").output
                    outcomes[name, python] = {test: what for test, what, _ in json.loads(output)[2]}
        whole, other = outcomes["whole", STOCK], outcomes["other", STOCK]
        self.assertEqual((whole, other), (outcomes["whole", FERRULE], outcomes["other", FERRULE]))
        self.assertEqual(set(whole.values()), {"passed"})
        failed = [test for test, what in other.items() if what == "failed"]
        self.assertTrue(failed)
        self.assertTrue(all("Shorten" in test for test in failed), failed)
