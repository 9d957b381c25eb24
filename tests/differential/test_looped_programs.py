"""Random programs leave the trace that they leave on stock while a hook takes all values out of the frame at each turn of each
loop and puts them back; and nothing crashes where it ends functions there.

How many and which: 300 and 200, always the same.
"""

import os
import unittest
from dataclasses import replace

from tests.c import build_extensions
from tests.differential import program_runs, programs
from tests.differential.program_runs import Way

FERRULE = os.path.abspath(os.environ["FERRULE_PYTHON"])
STOCK = os.path.abspath(os.environ["STOCK_PYTHON"])
EXTENSIONS = os.path.join(program_runs.ROOT, "build", "test-extensions", "looped-programs")
WORKER = os.path.join(program_runs.HERE, "looped_programs_worker.py")

FIRST_SEED = 52_000


class LoopedPrograms(unittest.TestCase):
    def programs(self, mode):
        directory = build_extensions.build(FERRULE, EXTENSIONS)
        both = programs.programs_for(FERRULE, STOCK)
        return replace(both, worker=WORKER, reference=replace(both.reference, arguments=(mode, directory)),
                       ways=(Way(f"ferrule {mode}", FERRULE, (mode, directory)),))

    def test_loops_that_are_left_and_entered_again(self):
        program_runs.run_for(self, self.programs("move"), list(range(FIRST_SEED, FIRST_SEED + 300)))

    def test_functions_that_end_at_loops(self):
        program_runs.run_for(self, replace(self.programs("end"), reference=None), list(range(FIRST_SEED, FIRST_SEED + 200)))

    def test_the_hook_is_called(self):
        source = "def f():\n    for i in range(9): pass\n    return 1\nemit('f', f())\n"
        for mode, count in (("move", 0), ("end", 1)):
            runs = replace(self.programs(mode), generate=lambda seed: (source, {}))
            self.assertEqual(len(program_runs.run_batch(runs, [0]).failures), count)
