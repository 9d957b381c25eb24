"""Regular expressions find the same on stock and here, where they are searched in other ways (regular_expressions.py)."""

import subprocess
import unittest
from pathlib import Path

from test_abi import FERRULE, STOCK, output

PROGRAM = Path(__file__).resolve().parent / "regular_expressions.py"
SEED, COUNT = 1, 5_000
# How often a long search lets a handler of signals run; once would be after it.
INTERRUPTED = """
import re, signal
calls = 0
def count(*arguments):
    global calls
    calls += 1
pattern, text = re.compile({pattern!r}), {letter!r} * 10_000_000
signal.signal(signal.SIGALRM, count)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
assert pattern.search(text) is None
signal.setitimer(signal.ITIMER_REAL, 0)
print(calls > 1)
"""


class RegularExpressions(unittest.TestCase):
    def test_random_expressions_find_what_they_find_on_stock(self):
        stock, ferrule = (output(python, PROGRAM, SEED, COUNT).splitlines() for python in (STOCK, FERRULE))
        found = sum("((" in line for line in stock)
        self.assertGreater(found, COUNT)
        self.assertEqual(ferrule, stock)

    def test_signals_are_seen_during_a_search(self):
        for python in (STOCK, FERRULE):
            # Lazy repetitions, at one place; then a set that each match begins with, in wider characters.
            for pattern, letter in ((r"\Aa.*?b", "a"), (r"\Aa(.*?)b", "a"), (r"([0-9]x)+", "\u0450"), (r"\d+", "\u0450")):
                with self.subTest(python=python, pattern=pattern):
                    done = subprocess.run([python, "-c", INTERRUPTED.format(pattern=pattern, letter=letter)], capture_output=True, text=True)
                    self.assertEqual((done.stdout, done.stderr), ("True\n", ""))
