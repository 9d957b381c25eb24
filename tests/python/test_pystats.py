"""With --enable-pystats a program counts on Ferrule what it counts on stock: frames, calls of the evaluator, instructions, references, memory.

The program stays within one chunk of the data stack: at the edges of chunks stock takes slower ways than Ferrule, which reserves.
"""

import os
import re
import sys
import unittest

from support import STOCK_PYTHON, ProgramTestCase, needs_stock

FILES = "/tmp/py_stats"      # where that directory is there, CPython writes to a file in it
WORK = r"""
import asyncio, functools, sys

class Thing:
    kinds = [kind for kind in range(3)]

    def __init__(self, *arguments, **named):
        self.arguments, self.named = arguments, named

    def __getattr__(self, name):
        return name

    def __lt__(self, other):
        return id(type(self)) < 0 or len(self.arguments) < len(other.arguments)

    @property
    def first(self):
        return self.arguments[0]

    def __del__(self):
        self.gone = True

def plain(a, b=2, *rest, c=3, **named):
    free = a
    return (lambda: (free, b, c))()[1]

def recurse(n):
    return recurse(n - 1) + 1 if n else 0

def numbers(n):
    sent = yield n
    yield from range(n)
    return sent

async def wait(n):
    await asyncio.sleep(0)
    return [n async for n in ticks(n)]

async def ticks(n):
    for i in range(n):
        yield i

def raises(n):
    try:
        if not n:
            raise ValueError(n)
        raises(n - 1)
    finally:
        frame = sys._getframe()
        frame.f_locals, frame.f_back

def work():
    for i in range(50):
        things = [Thing(*range(j), x=j) for j in range(i % 7 + 1)]
        sorted(things)
        [thing.anything for thing in things]
        things[-1].first if len(things) > 1 else None
        plain(i, *things, d=1)
        functools.reduce(plain, range(5))
        list(map(recurse, range(5)))
        list(numbers(5))
        half = numbers(3)
        next(half)
        half.close()
        try:
            raises(5)
        except ValueError:
            pass
        exec("def made(): return 1\nmade()", {})
        eval("plain(1)")
        type("Made", (Thing,), {"made": lambda self: 1})(1).made()
    recurse(40)
    asyncio.run(wait(20))

sys._stats_off()
work()
sys._stats_clear()
sys._stats_on()
work()
sys._stats_off()
sys._stats_dump()
"""
# The collector visits whatever there is, and a method is looked up by the address of its name.
BY_CHANCE = re.compile(r"GC\[|Object method cache|Object frees|Object (interpreter )?(in|de)crefs|opcode\[\w+\]\.pair_count")
REFERENCES_BY_CHANCE = 200  # of tens of thousands; a few differ from run to run of the same interpreter


@unittest.skipUnless(hasattr(sys, "_stats_on"), "needs --enable-pystats")
@unittest.skipIf(os.path.isdir(FILES), f"CPython's counters would go to {FILES}")
class Counters(ProgramTestCase):
    def counted(self, python):
        done = self.completed(WORK, python=python, environment={"PYTHONHASHSEED": "0", "PYTHONSTATS": ""})
        lines = (line.rpartition(":") for line in done.stderr.splitlines() if ":" in line)
        return {name.strip(): int(value) for name, _, value in lines if value.strip().isdigit()}

    @needs_stock
    def test_a_program_counts_what_it_counts_on_stock(self):
        ours, theirs = self.counted(sys.executable), self.counted(STOCK_PYTHON)
        self.assertGreater(ours["Frames pushed"], 1_000)
        self.assertGreater(ours["Calls via PyEval_EvalFrame[0]"], 1_000)
        others = {name: (ours.get(name), theirs.get(name)) for name in ours.keys() | theirs.keys()
                  if ours.get(name) != theirs.get(name) and not BY_CHANCE.match(name)}
        self.assertEqual(others, {})
        # What the frame core does is counted as done outside of the evaluator's loop.
        for what in ("increfs", "decrefs"):
            taken, expected = (counted[f"Object {what}"] + counted[f"Object interpreter {what}"] for counted in (ours, theirs))
            self.assertGreater(expected, 100 * REFERENCES_BY_CHANCE)
            self.assertAlmostEqual(taken, expected, delta=REFERENCES_BY_CHANCE)
