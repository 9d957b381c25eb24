"""Random programs leave the same trace on Ferrule as on stock, and a difference would be noticed.

How many and which: 500, always the same. `programs.py --help` says how to run more, and how to repeat one.
"""

import os
import subprocess
import sys
import unittest
from unittest import mock

from tests.c.build_extensions import facts_of
from tests.differential import program_runs, programs, programs_generator

FERRULE = os.path.abspath(os.environ["FERRULE_PYTHON"])
STOCK = os.path.abspath(os.environ["STOCK_PYTHON"])

FIRST_SEED = 0
COUNT = 500
# Programs may end early by an exception of theirs, but nearly all must get to what they are about.
LEAST_THAT_END_WELL = 0.95

PROGRAMS = programs.programs_for(FERRULE, STOCK)
FREE_THREADED = facts_of(FERRULE)["free_threaded"]
REFERENCE, (OURS,) = PROGRAMS.reference, PROGRAMS.ways
ON_FERRULE = "'_framecore' in sys.builtin_module_names"


def run_sources(*sources):
    """Run given sources as if they were the programs 0, 1, ...; returns the summary."""
    with mock.patch.object(programs_generator, "program", lambda seed: (sources[seed], {})):
        return program_runs.run_batch(PROGRAMS, list(range(len(sources))))


class RandomPrograms(unittest.TestCase):
    def test_they_leave_the_same_trace(self):
        summary = program_runs.run_for(self, PROGRAMS, list(range(FIRST_SEED, FIRST_SEED + COUNT)))
        self.assertGreater(summary.ends["to its end"], LEAST_THAT_END_WELL * COUNT)
        # A comparison of nothing would be equal, too.
        self.assertGreater(summary.lines, 50 * COUNT)

    def test_a_seed_gives_one_program_on_every_python(self):
        code = "from tests.differential import programs_generator as g; print([g.program(seed)[0] for seed in range(20)])"
        texts = [subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=program_runs.ROOT,
                                env={**os.environ, "PYTHONHASHSEED": str(hash_seed)}).stdout
                 for hash_seed, python in enumerate((sys.executable, FERRULE, STOCK))]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])
        self.assertGreater(len(texts[0]), 20_000)


class Differences(unittest.TestCase):
    """The comparison notices, and names, what differs."""

    def test_the_same_trace_is_no_difference(self):
        summary = run_sources("emit('one', 1)\n", "emit('two', sys._getframe().f_lineno)\n")
        self.assertEqual((summary.failures, summary.stock_died, summary.programs), ([], [], 2))

    def test_a_program_that_names_its_interpreter_is_noticed(self):
        summary = run_sources("emit('one', 1)\n", f"emit('who', {ON_FERRULE})\n", "emit('two', 2)\n")
        failure, = summary.failures
        self.assertEqual((failure.seed, failure.alone), (1, True))
        self.assertIn("-who False", program_runs.difference(failure))
        self.assertIn("+who True", program_runs.difference(failure))

    @unittest.skipIf(FREE_THREADED, "without the GIL no order is compared")
    def test_a_destructor_in_another_order_is_noticed(self):
        source = (f"a, b = Probe('a'), Probe('b')\nif {ON_FERRULE}: del b; del a\nelse: del a; del b\n")
        self.assertEqual(len(run_sources(source).failures), 1)

    def test_a_reference_too_many_is_noticed(self):
        source = f"def f(a):\n    emit('count', sys.getrefcount(a))\nx = object()\nf(x)\nif {ON_FERRULE}: y = x\nf(x)\n"
        self.assertEqual(len(run_sources(source).failures), 1)

    def test_a_crash_is_its_own_program_s_and_the_next_ones_run(self):
        crash = f"import os\nif {ON_FERRULE}: os.abort()\n"
        summary = run_sources("emit('one', 1)\n", crash, "emit('two', 2)\n")
        failure, = summary.failures
        self.assertEqual((failure.seed, failure.ours.end), (1, "killed by SIGABRT"))
        self.assertEqual(summary.programs, 3)

    def test_what_crashes_stock_is_counted_and_no_difference(self):
        summary = run_sources("import os; os.abort()\n", "emit('two', 2)\n")
        self.assertEqual((summary.failures, summary.stock_died), ([], [0]))

    def test_a_program_that_hangs_is_ended_and_named(self):
        ended = list(program_runs.run_programs(PROGRAMS.worker, REFERENCE,
                                           [(7, "while True: pass\n"), (8, "emit('after')\n")], 10))
        self.assertEqual([seed for seed, _ in ended], [7, 8])
        self.assertEqual((ended[0][1].end, ended[1][1].end), ("hung", "to its end"))

    def test_a_difference_is_made_smaller(self):
        source = f"x = 1\ny = [i for i in range(3)]\ndef f():\n    z = 1\n    emit('who', {ON_FERRULE})\n    return z\nf()\n"
        small = program_runs.shrink(source, program_runs.fails_alone(PROGRAMS, OURS))
        self.assertLess(len(small.splitlines()), 5)
        self.assertIn("_framecore", small)
