"""How much C recursion a thread has left while destructors run at the end of a call: the same on stock and here."""

import os
import subprocess
import tempfile
import unittest

from test_abi import FERRULE, STOCK, compile_c

LEFT = """
#include "Python.h"
int left(void) { return PyThreadState_Get()->c_recursion_remaining; }
"""

PROGRAM = """
import ctypes, sys, types
library = ctypes.PyDLL(sys.argv[1])
seen = []

class Reports:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        seen.append((self.name, library.left()))

def local():
    it = Reports("local")
    other = Reports("second local")

def argument(it, *more, **others):
    pass

def cell():
    it = Reports("cell")
    return (lambda: it) and None

def raises():
    it = Reports("while an exception is on its way")
    raise ValueError

def with_object(outlives):
    it = Reports("frame object dies" if not outlives else "frame object lives")
    return sys._getframe() if outlives else sys._getframe() and None

def generator():
    it = Reports("generator")
    yield

def raising_with_object():
    try:
        raises()
    except ValueError as error:
        pass

class Attribute:
    @property
    def value(self):
        it = Reports("property")
    def __getitem__(self, index):
        it = Reports("item")
    def __init__(self):
        it = Reports("init")

seen.append(("before", library.left()))
local()
argument(Reports("argument"), Reports("star"), name=Reports("keyword"))
cell()
raising_with_object()
with_object(False)
del (kept := [with_object(True)])[:]
list(generator())
unfinished = generator()
next(unfinished)
del unfinished
for _ in range(20):
    Attribute().value
    Attribute()[0]
    local()
# The function and the code are given up by the frame, last.
made = types.FunctionType(local.__code__.replace(co_name="made"), globals())
made.reports = Reports("function")
made.once = lambda: globals().pop("made")
exec("def dies():\\n    del globals()['dies']\\ndies.reports = Reports('function that deletes itself')\\ndies()")
exec("it = Reports('locals mapping')", globals() | {"Reports": Reports}, {})
exec(compile("class Body:\\n    it = Reports('class body')\\ndel Body", "x", "exec"))
import gc
gc.collect()

# A destructor that runs a call, at whose end a destructor runs: as deep as C recursion allows.
sys.setrecursionlimit(1_000_000)
deepest, lowest = 0, 1_000_000
class Nests:
    def __del__(self):
        global deepest, lowest
        deepest += 1
        lowest = min(lowest, library.left())
        if deepest < 20_000:
            nest()
def nest():
    it = Nests()
sys.unraisablehook = lambda args: seen.append(("unraisable", args.exc_type.__name__))
nest()
seen += ("deepest", deepest), ("lowest", lowest)
for name, count in seen:
    print(name, count)
"""


class CRecursion(unittest.TestCase):
    def seen(self, python):
        with tempfile.TemporaryDirectory() as directory:
            library = os.path.join(directory, "left.so")
            result = compile_c(python, LEFT, "-fno-lto", "-fPIC", "-shared", "-fvisibility=default", "-o", library)
            self.assertEqual(result.returncode, 0, result.stderr)
            done = subprocess.run([python, "-c", PROGRAM, library], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_destructors_see_what_they_see_on_stock(self):
        stock, ferrule = self.seen(STOCK), self.seen(FERRULE)
        self.assertGreater(len(stock), 60)
        self.assertEqual(ferrule, stock)
