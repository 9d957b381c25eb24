"""One process initializes Python 200 times, or makes 240 interpreters, with hooks in each: memory does not grow.

CPython 3.13 itself loses something each time, above all strings that it interns, and as much again for each module that is imported. So what
a life loses is compared: without hooks with what stock loses, with hooks with what importing the module alone does. Without the GIL it also
loses functions and copies of code, and whole pages of them, so there sixteen rounds of hooks are compared with one.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import unittest

from support import FREE_THREADED, ROOT, STOCK_PYTHON, ProgramTestCase, needs_hooks, needs_stock

TIMES = 200
INTERPRETERS = 240
# Without the GIL and with CPython's own checks an interpreter takes half a second of a processor, and the machine may do more.
SECONDS = 3600 if FREE_THREADED and hasattr(sys, "gettotalrefcount") else 1200
MAY_LOSE_MORE = 16 if FREE_THREADED else 2      # KiB for each life
# Without the GIL each life loses the table of interned names too. Ferrule has two names more; where these make the table grow, that is 102 KiB.
MAY_LOSE_MORE_THAN_STOCK = MAY_LOSE_MORE + (104 if FREE_THREADED else 0)
# Of an isolated interpreter that loses one object, CPython keeps all arenas. With malloc it keeps what is lost.
EXACTLY = {} if FREE_THREADED else {"PYTHONMALLOC": "malloc"}

FACTS = r"""
import json, os, re, sys, sysconfig
directory = os.path.dirname(os.path.abspath(sys.executable))
# The one that has compiled the library, which may be needed to link it; what sysconfig names is for extensions.
with open(os.path.join(directory, "Makefile")) as file:
    compiler = re.search(r"^CC=\s*(.*)", file.read(), re.MULTILINE)[1]
print(json.dumps([directory, sysconfig.get_path("include"), sysconfig.get_path("platinclude"), compiler,
                  *(sysconfig.get_config_var(name) or "" for name in (
                      "PY_CORE_LDFLAGS", "LINKFORSHARED", "BLDLIBRARY", "LIBS", "MODLIBS", "SYSLIBS"))]))
"""
# What Python does in each life.
PLAIN = """
import sys
sys.setrecursionlimit(20_000)

def recurse(n):
    return 1 + recurse(n - 1) if n else 0

def generator(n):
    yield from range(n)

class Cycle:
    def __init__(self):
        self.cycle, self.frame = self, sys._getframe()

def work():
    assert recurse(5_000) == 5_000 and sum(generator(5)) == 10
    kept = generator(3)
    next(kept)
    Cycle()
    return kept

kept = work()
"""
IMPORT = PLAIN + """
import framehook
"""
# The last two hooks, and a frame that is watched, are there to the end.
HOOKS = IMPORT + """
ROUNDS = 1
copies = framehook.CodeMap()

def copy(view):
    return copies.get(view.code) or copies.setdefault(view.code, view.code.replace())

def callback(event):
    pass

def watch(view):
    view.watch(callback, None, yields=True, resumes=True)

for _ in range(ROUNDS):
    with framehook.hook(lambda view: framehook.DISABLE), framehook.hook(watch):
        work()
framehook.add(copy)
framehook.add(watch)
also_kept = work()
"""
WITH_HOOKS, WITHOUT = (HOOKS.replace("ROUNDS = 1", "ROUNDS = 16"), HOOKS) if FREE_THREADED else (HOOKS, IMPORT)
MAKES_INTERPRETERS = """
import _interpreters, gc, os, sys

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

times, source = int(sys.argv[1]), sys.argv[2]
for number in range(1, times + 1):
    other = _interpreters.create(("isolated", "legacy")[number % 2])
    problem = _interpreters.exec(other, source)
    assert problem is None, problem
    _interpreters.destroy(other)
    if number >= times // 2:
        gc.collect()
        print(resident())
"""


def with_python_in_it(python, target):
    """Build tests/c/reinitialize.c with the library of an interpreter in its build directory."""
    facts = json.loads(subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=True).stdout)
    directory, include, platinclude, compiler, core, exports, library, *libraries = facts
    command = [*shlex.split(compiler), "-O1", "-g", f"-I{include}", f"-I{platinclude}",
               os.path.join(ROOT, "tests", "c", "reinitialize.c"), "-o", target, *shlex.split(core), *shlex.split(exports),
               f"-Wl,-rpath,{directory}", *shlex.split(library), *shlex.split(" ".join(libraries))]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{shlex.join(command)}\n{done.stderr}")


def has_library(python):
    """In a build directory there is what a program can be linked with; of an installed one only the headers may be there."""
    directory = os.path.dirname(os.path.abspath(python))
    return any(name.startswith("libpython3") for name in os.listdir(directory))


def lost(printed):
    """KiB for each life in the second half.

    What is lost, is lost each time. What malloc has taken of the system may grow or shrink by many pages once, and goes up and down: so this is
    the median over all stretches of a quarter of these lives. What happens once is in fewer than half of them.
    """
    resident = list(map(int, printed.split()))
    lives = len(resident) // 4
    return statistics.median((later - earlier) / lives for earlier, later in zip(resident, resident[lives:]))


@unittest.skipUnless(has_library(sys.executable), "needs the library of a build directory")
class Again(unittest.TestCase):
    def lost(self, python, source):
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "reinitialize")
            with_python_in_it(python, program)
            done = subprocess.run([program, python, str(TIMES), source], capture_output=True, text=True, timeout=1200,
                                  env={**os.environ, **EXACTLY})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return lost(done.stdout)

    @needs_stock
    def test_200_times_without_hooks_is_as_on_stock(self):
        self.assertLess(self.lost(sys.executable, PLAIN), self.lost(STOCK_PYTHON, PLAIN) + MAY_LOSE_MORE_THAN_STOCK)

    @needs_hooks
    def test_200_times_with_hooks_loses_nothing_for_them(self):
        self.assertLess(self.lost(sys.executable, WITH_HOOKS), self.lost(sys.executable, WITHOUT) + MAY_LOSE_MORE)


class Interpreters(ProgramTestCase):
    def lost(self, source, python=sys.executable):
        return lost(self.assert_program_succeeds(MAKES_INTERPRETERS, INTERPRETERS, source, python=python, environment=EXACTLY,
                                                 timeout=SECONDS))

    @needs_stock
    def test_interpreters_without_hooks_are_as_on_stock(self):
        self.assertLess(self.lost(PLAIN), self.lost(PLAIN, STOCK_PYTHON) + MAY_LOSE_MORE_THAN_STOCK)

    @needs_hooks
    def test_interpreters_with_hooks_lose_nothing_for_them(self):
        self.assertLess(self.lost(WITH_HOOKS), self.lost(WITHOUT) + MAY_LOSE_MORE)
