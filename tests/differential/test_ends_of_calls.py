"""Destructors that run at the end of calls see and do the same on stock and here (ends_of_calls.py)."""

import os
import unittest

from test_abi import FERRULE, STOCK, output

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ends_of_calls.py")


class EndsOfCalls(unittest.TestCase):
    def test_destructors_see_and_do_what_they_do_on_stock(self):
        stock, ferrule = (output(python, PROGRAM).splitlines() for python in (STOCK, FERRULE))
        self.assertGreater(len(stock), 10_000)
        self.assertEqual(ferrule, stock)
