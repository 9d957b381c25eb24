"""Random programs whose frames continue from records leave the trace of stock, and what goes wrong is noticed.

How many and which: 60 in each mode, always the same. `continued_programs.py --help` says how to run more.
"""

import ast
import os
import unittest
from dataclasses import replace

from tests.differential import continued_programs, program_runs

FERRULE = os.path.abspath(os.environ["FERRULE_PYTHON"])
STOCK = os.path.abspath(os.environ["STOCK_PYTHON"])

FIRST_SEED = 0
COUNT = 60


class ContinuedPrograms(unittest.TestCase):
    def check(self, mode):
        summary = program_runs.run_for(self, continued_programs.programs_for(FERRULE, STOCK, mode), list(range(FIRST_SEED, FIRST_SEED + COUNT)))
        # A comparison of nothing would be equal, too.
        self.assertGreater(summary.lines, 50 * COUNT)

    def test_frames_continue(self):
        self.check("each")

    def test_frames_continue_with_a_hook(self):
        self.check("hooked")

    def test_frames_raise(self):
        self.check("throw")

    def test_programs_are_thrown_into(self):
        """More often than once each: most continue after an exception that one of their functions has handled."""
        programs = continued_programs.programs_for(FERRULE, STOCK, "throw")
        sources = [(seed, programs.generate(seed)[0]) for seed in range(FIRST_SEED, FIRST_SEED + COUNT)]
        *_, (_, last) = program_runs.run_programs(programs.worker, programs.ways[0], sources, programs.seconds)
        self.assertGreater(ast.literal_eval(last.details[0])["stops"], COUNT)

    def run_source(self, source, mode="each"):
        programs = replace(continued_programs.programs_for(FERRULE, STOCK, mode), generate=lambda seed: (source, {}))
        return program_runs.run_batch(programs, [0])

    def test_programs_are_stopped(self):
        """A program that counts hooks sees this one, so it differs from stock, where nothing stops it."""
        source = ("import gc, sys\n"
                  "def f(n): return f(n - 1) + 1 if n else 0\n"
                  "f(20)\n"
                  "counts = next(it for it in gc.get_objects() if getattr(it, '__name__', '') == 'continuing').counts()\n"
                  "emit('stops', counts['stops'] > 20, counts['longest'] > 10)\n")
        failure, = self.run_source(source).failures
        difference = program_runs.difference(failure)
        self.assertIn("-stops False False", difference)
        self.assertIn("+stops True True", difference)
