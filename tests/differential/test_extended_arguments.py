"""Arguments of 32 bits mean what they mean on stock, whatever the eval loop has them in (extended_arguments.py)."""

import unittest
from pathlib import Path

from test_abi import FERRULE, STOCK, output

PROGRAM = Path(__file__).resolve().parent / "extended_arguments.py"


class ExtendedArguments(unittest.TestCase):
    def test_programs_of_32_bits_do_what_they_do_on_stock(self):
        stock, ferrule = (output(python, PROGRAM) for python in (STOCK, FERRULE))
        self.assertEqual(len(stock.splitlines()), 8)
        self.assertEqual(ferrule, stock)
