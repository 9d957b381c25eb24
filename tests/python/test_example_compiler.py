"""The toy compiler of docs/compilers.md: what it compiles does what the interpreter does, and is left where it must be."""

import itertools
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import tempfile
import unittest

from loops_support import compilers
from support import FREE_THREADED, ON_STOCK, ROOT, framecore, needs_hooks

toy = None


def setUpModule():
    global toy
    if ON_STOCK:
        return
    directory = tempfile.mkdtemp()
    unittest.addModuleCleanup(subprocess.run, ["rm", "-rf", directory], check=True)
    includes = {sysconfig.get_path("include"), sysconfig.get_path("platinclude"), os.path.join(ROOT, "overlay", "Include")}
    command = [*shlex.split(os.environ.get("CC") or "cc"), "-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
               "-Wno-unused-parameter", *(f"-I{path}" for path in sorted(includes, key=lambda path: path.startswith(ROOT + "/overlay"))),
               os.path.join(ROOT, "examples", "compiler", "toymodule.c"), "-o", os.path.join(directory, "toy.so")]
    subprocess.run(command, check=True)
    sys.path.insert(0, directory)
    unittest.addModuleCleanup(framecore.clear_frame_hooks)      # the module's hook stays as long as the interpreter
    try:
        import toy
    finally:
        sys.path.remove(directory)


def polynomial(a, b):
    c = a * a - b
    return c * c + 3 * a


def sums(n):
    s = 0
    i = 0
    while i < n:
        s = s + i * i
        i = i + 1
    return s


def powers(base, count):
    """Overflows in the middle of its loop, and continues with large numbers."""
    i = 0
    p = 1
    while i != count:
        p = p * base - i
        i = i + 1
    return p


FUNCTIONS = {polynomial: list(itertools.product((-7, 0, 1, 3_000_000_000, 2**70), repeat=2)), sums: [(n,) for n in (-1, 0, 1, 10, 5_000)],
             powers: list(itertools.product((-3, 0, 2, 10**9, 2**64), (0, 1, 7, 100)))}


@needs_hooks
class Toy(unittest.TestCase):
    def compiled(self, function, turns=10):
        self.assertIs(toy.compile(function, turns), True)
        self.addCleanup(toy.release, function)
        # Since a hook was added, the interpreter has to call it once.
        function(*[1] * function.__code__.co_argcount)

    def changes(self, call):
        """The result of a call, and how often compiled code was entered and left in the middle."""
        entries, exits = toy.counts()
        result = call()
        now = toy.counts()
        return result, now[0] - entries, now[1] - exits

    def test_it_computes_what_the_interpreter_does(self):
        for function, arguments in FUNCTIONS.items():
            expected = [function(*them) for them in arguments]
            self.compiled(function)
            self.assertEqual([function(*them) for them in arguments], expected)

    def test_entered_and_left(self):
        self.compiled(polynomial)
        self.assertEqual(self.changes(lambda: polynomial(3, 4)), (34, 1, 0))
        self.assertEqual(self.changes(lambda: polynomial(2**62, 4)), ((2**124 - 4)**2 + 3 * 2**62, 1, 1))
        self.assertEqual(self.changes(lambda: polynomial(2**70, 4))[1:], (0, 0))

    def test_entered_at_a_loop(self):
        expected = sums(5_000)
        self.compiled(sums)
        # A call with names is the interpreter's, until its loop is hot.
        self.assertEqual(self.changes(lambda: sums(n=5_000)), (expected, 1, 0))
        self.assertEqual(self.changes(lambda: sums(n=5))[1:], (0, 0))

    def test_what_does_not_fit_continues_in_the_interpreter(self):
        expected = powers(10**9, 100)
        self.compiled(powers)
        result, entries, exits = self.changes(lambda: powers(10**9, 100))
        self.assertEqual(result, expected)
        self.assertGreaterEqual(entries, 1)
        self.assertEqual(exits, 1)

    @unittest.skipIf(FREE_THREADED, "signals are handled by the interpreter, and no thread requests the GIL here")
    def test_a_signal_is_handled_in_a_loop_that_does_not_end(self):
        class Enough(Exception):
            pass

        def enough(number, frame):
            raise Enough(frame.f_code, frame.f_locals["s"])
        self.compiled(sums)
        before = signal.signal(signal.SIGALRM, enough)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(Enough) as caught:
            sums(10**12)
        code, s = caught.exception.args
        self.assertIs(code, sums.__code__)
        self.assertGreater(s, 0)

    def test_a_tracer_sees_every_line(self):
        def lines():
            found = []

            def tracer(frame, event, arg):
                if frame.f_code is sums.__code__:
                    found.append((event, frame.f_lineno))
                return tracer
            sys.settrace(tracer)
            sums(20)
            sys.settrace(None)
            return found
        expected = lines()
        self.compiled(sums)
        sums(20)
        self.assertEqual(lines(), expected)
        sums(20)
        self.assertEqual(self.changes(lambda: sums(20))[1:], (1, 0))

    def test_what_it_does_not_know(self):
        def division(a, b): return a // b
        def attribute(a): return a.real
        def truth(a, b): return a < b
        def real(): return 1.5
        def many(*a): return a
        for function in (division, attribute, truth, real, many):
            self.assertIs(toy.compile(function), False, function)

    def test_given_back(self):
        toy.compile(polynomial)
        toy.release(polynomial)
        self.assertTrue(compilers.is_interpreted(polynomial))
        self.assertEqual(self.changes(lambda: polynomial(3, 4)), (34, 0, 0))


class Size(unittest.TestCase):
    def test_it_is_a_toy(self):
        with open(os.path.join(ROOT, "examples", "compiler", "toy.c"), encoding="utf-8") as file:
            self.assertLessEqual(len(file.readlines()), 100)
