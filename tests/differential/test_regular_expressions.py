"""Regular expressions find the same on stock and here, where they are searched in other ways (regular_expressions.py)."""

import subprocess
import unittest
from pathlib import Path

from test_abi import FERRULE, STOCK

PROGRAM = Path(__file__).resolve().parent / "regular_expressions.py"
SEED, COUNT = 1, 4_000


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
