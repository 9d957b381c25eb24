"""Builds the compiler for the interpreter that runs the tests, and compares functions with and without it."""

import atexit
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import textwrap
import types
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@functools.cache
def packages():
    """The directory with the package, built for this process if FERRULE_JIT_PACKAGES names none."""
    if built := os.environ.get("FERRULE_JIT_PACKAGES"):
        return built
    out = str(ROOT / "build" / "test-extensions" / f"jit-{os.getpid()}")
    done = subprocess.run(
        [sys.executable, "-m", "tools.clients", "--python", sys.executable, "--packages", out, "--only", "jit"],
        capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"the compiler does not build:\n{done.stderr}")
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    return out


def load():
    """Each test module's setUpModule(): imports the package, or raises SkipTest where this interpreter cannot have it."""
    if shutil.which("cargo") is None and "FERRULE_JIT_PACKAGES" not in os.environ:
        raise unittest.SkipTest("cargo is not on PATH")
    sys.path.insert(0, packages())
    unittest.addModuleCleanup(sys.path.remove, packages())
    import ferrule_jit
    missing = ferrule_jit.what_is_missing()
    if missing:
        raise unittest.SkipTest(missing)
    Case.jit = ferrule_jit


def define(source, **values):
    """The functions of a source, as a namespace that nothing else has."""
    namespace = {"__name__": "defined", **values}
    exec(compile(textwrap.dedent(source), "<defined>", "exec"), namespace)
    return types.SimpleNamespace(**{name: value for name, value in namespace.items() if name != "__builtins__"}, globals=namespace)


def shown(value):
    """As repr() has it, but for where the object is."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def calls_of_each_turn(listing):
    """The calls in a listing of `dump` that are not in cold blocks."""
    cold, found = False, []
    for line in listing.partition("\n}\n")[0].splitlines():
        if line.startswith("block"):
            cold = line.split("(")[0].rstrip(":").endswith(" cold")
        elif "call" in line and not cold:
            found.append(line.strip())
    return found


def what_happens(function, arguments):
    """The result with its type, and which arguments it is; or the exception, and where it was raised."""
    try:
        result = function(*arguments)
    except Exception as error:
        places = []
        step = error.__traceback__.tb_next
        while step:
            code = step.tb_frame.f_code
            position = next(itertools.islice(code.co_positions(), step.tb_lasti // 2, None))
            places.append((code.co_name, position, sorted((name, shown(value)) for name, value in step.tb_frame.f_locals.items())))
            step = step.tb_next
        return f"{type(error).__name__}: {error}", places
    return f"{type(result).__name__} {shown(result)}", [index for index, argument in enumerate(arguments) if argument is result]


class Case(unittest.TestCase):
    """The compiler is enabled in each test."""

    jit = None

    def setUp(self):
        self.jit.enable()
        self.addCleanup(self.jit.disable)

    def compiled(self, function, *arguments):
        """Has a function compiled for the types of these arguments."""
        function(*arguments)  # interpreted: specializes RESUME
        self.jit.compile_at_next_call(function)
        function(*arguments)
        self.assertTrue(self.jit.stats(function).get("versions"), self.jit.explain(function))
        return function

    def running(self, source, *arguments, times=1):
        """`f` of a source, whose loops run long, does with the compiler what it does without; the source's functions."""
        plain, made = define(source), define(source)
        self.jit.disable()
        expected = what_happens(plain.f, arguments)
        self.jit.enable()
        self.assertEqual([what_happens(made.f, arguments) for _ in range(times)], [expected] * times)
        return made

    def releases_memory(self, function):
        """A function of an int, compiled, keeps nothing of its turns."""
        self.compiled(function, 10)
        function(1000)
        blocks = sys.getallocatedblocks()
        function(20_000)
        self.assertLess(sys.getallocatedblocks() - blocks, 1000)

    def check(self, source, name, argument_lists, identity=True):
        """A function does with each list of arguments what it does interpreted, and compiled code was entered for it.

        Without `identity`: an operator may give an operand back as its result, or an equal object.
        """
        left = 0
        for arguments in argument_lists:
            plain, made = (getattr(define(source), name) for _ in range(2))
            wanted = what_happens(plain, arguments)
            # What is larger than a machine word meets code that was compiled for ints.
            fitting = [1000 if type(a) is int and not -2**63 <= a < 2**63 else a for a in arguments]
            what_happens(made, fitting)
            self.jit.compile_at_next_call(made)
            what_happens(made, fitting)
            found = what_happens(made, arguments)
            if not identity and isinstance(found[1], list) and found[1] != wanted[1]:
                wanted, found = wanted[0], found[0]
            self.assertEqual(found, wanted, (name, arguments))
            stats = self.jit.stats(made)
            entered = 2 if all(a is b for a, b in zip(fitting, arguments)) else 1
            self.assertGreaterEqual(stats.get("entered", 0), entered, (arguments, self.jit.explain(made)))
            left += stats["left"]
        return left


class ClosureCase(Case):
    """For functions that a function of the source makes."""

    def both(self, source, calls):
        """What `make` of a source returns is called, compiled and not: results and exceptions are equal. The compiled functions."""
        plain, made = ([*result] if isinstance(result, tuple) else [result] for result in (define(source).make() for _ in range(2)))
        outcomes = []
        for functions in (plain, made):
            found = []
            for turn, (index, arguments) in enumerate([*calls, *calls, *calls]):
                if functions is made and turn == len(calls):
                    for function in functions:
                        self.jit.compile_at_next_call(function)
                found.append(what_happens(functions[index], arguments))
            outcomes.append(found)
        self.assertEqual(outcomes[1], outcomes[0])
        return made

    def entered(self, function):
        self.assertGreater(self.jit.stats(function).get("entered", 0), 0, self.jit.explain(function))


def run_alone(program, *options, expect=0):
    """Runs a program in an interpreter of its own with the compiler on; its output."""
    header = f"import sys; sys.path.insert(0, {packages()!r}); import ferrule_jit; ferrule_jit.enable()\n"
    done = subprocess.run([sys.executable, *options, "-c", header + textwrap.dedent(program)], capture_output=True, text=True)
    if done.returncode != expect or (done.stderr and not expect):
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout
