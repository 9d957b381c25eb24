"""A negative argument of 32 bits is negative, whatever the eval loop has it in (extended_arguments.py)."""

import unittest
from pathlib import Path

from test_abi import FERRULE, STOCK, output

PROGRAM = Path(__file__).resolve().parent / "extended_arguments.py"


class ExtendedArguments(unittest.TestCase):
    def test_they_jump_backwards_as_on_stock(self):
        stock, ferrule = (output(python, PROGRAM) for python in (STOCK, FERRULE))
        self.assertEqual(len(stock.splitlines()), 4)
        self.assertEqual(ferrule, stock)
