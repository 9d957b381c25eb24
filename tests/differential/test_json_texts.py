"""JSON texts become the same on stock and here, where the end of a string is looked for in several characters at a time (json_texts.py)."""

import unittest
from pathlib import Path

from test_abi import FERRULE, STOCK, output

PROGRAM = Path(__file__).resolve().parent / "json_texts.py"
SEED, COUNT = 1, 20_000


class JsonTexts(unittest.TestCase):
    def test_random_texts_become_what_they_become_on_stock(self):
        stock, ferrule = (output(python, PROGRAM, SEED, COUNT).splitlines() for python in (STOCK, FERRULE))
        self.assertEqual(len(stock), 2 * COUNT)
        wrong = sum("JSONDecodeError" in line for line in stock)
        self.assertTrue(COUNT / 10 < wrong < COUNT, wrong)
        self.assertEqual(ferrule, stock)
