"""Regular expressions find the same on stock and here, where they are searched in other ways (regular_expressions.py)."""

import subprocess
import unittest
from pathlib import Path

from test_abi import FERRULE, STOCK

PROGRAM = Path(__file__).resolve().parent / "regular_expressions.py"
SEED, COUNT = 1, 5_000
# One attempt to match, at each character of a long text.
INTERRUPTED = """
import re, signal
def stop(*arguments): raise KeyboardInterrupt
text = "a" * 50_000_000
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.01)
try:
    print(re.match({pattern!r}, text))
except KeyboardInterrupt:
    print("interrupted")
"""


class RegularExpressions(unittest.TestCase):
    def lines(self, python):
        done = subprocess.run([python, PROGRAM, str(SEED), str(COUNT)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_random_expressions_find_what_they_find_on_stock(self):
        stock, ferrule = self.lines(STOCK), self.lines(FERRULE)
        found = sum("((" in line for line in stock)
        self.assertGreater(found, COUNT)
        self.assertEqual(ferrule, stock)

    def test_a_signal_interrupts_a_lazy_repetition(self):
        for python in (STOCK, FERRULE):
            for pattern in ("a.*?b", "a(.*?)b"):
                with self.subTest(python=python, pattern=pattern):
                    done = subprocess.run([python, "-c", INTERRUPTED.format(pattern=pattern)], capture_output=True, text=True)
                    self.assertEqual((done.stdout, done.stderr), ("interrupted\n", ""))
