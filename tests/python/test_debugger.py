"""gdb with CPython's own python-gdb.py, on a process that is stopped inside the frame core: Python frames as ever.

Runs on stock too, where the same functions are C.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import support

GDB = shutil.which("gdb")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "python-gdb.py")
EVAL_LOOP = "_PyEval_EvalFrameDefault"
SECONDS = 300
NAME = "stopped_here.py"

# gcc and clang 19 optimize the eval loop so far that gdb may find no frame of Python's in it; stock's neither. So does clang
# where the loop has a second tier, and with a profile stock's.
HIDES_FRAMES = ("Clang" not in sys.version or "Clang 19." in sys.version
                or "-D_Py_TIER2" in (sysconfig.get_config_var("CONFIGURE_CFLAGS_NODIST") or "")
                or support.ON_STOCK and "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""))
# The last optimization option counts.
OPTIMIZED = (re.findall(r"-O\S+", sysconfig.get_config_var("PY_CORE_CFLAGS") or "") or ["-O0"])[-1] != "-O0"

# bin() is where gdb takes over: what comes before is the interpreter's start, and imports.
PROGRAM = """
import gc, sys{watching}

def innermost(number):
    bin(0)
    {what}

def middle(word):
    return [innermost(n) for n in (17,)]

class Outer:
    def method(self):
        return sorted([1], key=lambda one: middle('word'))

Outer().method()
"""


# A module with an exit callback for every frame.
WATCHING = """
import framehook, sys

def left(event):
    sys._getframe()

framehook.add(lambda view: view.watch(left))
"""


# Run by gdb. The names of the thread's frames, and a bar where an eval loop begins: these come from memory, not from variables of C
# that the compiler may have done without.
WALK = """
gdb.execute('set language c')
frame = PyFramePtr(gdb.parse_and_eval('_PyRuntime._main_interpreter.threads.main->current_frame'))
names = []
while frame._gdbval:
    names.append('|' if frame.is_shim() else frame.co_name.proxyval(set()))
    frame = frame.previous()
print('--- walk', *names)
"""


def inside_gdb(program, function):
    """What gdb prints about the process when it gets to the function: its own frames, then Python's."""
    commands = ["set confirm off", "set breakpoint pending on", "set startup-with-shell off", f"source {SCRIPT}",
                "break builtin_bin", "run", f"break {function}", "continue", "echo --- native\\n", "backtrace 40",
                "echo --- python\\n", "py-bt", "py-bt-full",
                "echo --- from C\\n", f"frame function {EVAL_LOOP}", "py-bt", "py-bt-full", "echo --- end\\n",
                "source walk.py"]
    arguments = [word for command in commands for word in ("-ex", command)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as directory:
        for name, text in ((NAME, program), ("watching.py", WATCHING), ("walk.py", WALK)):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(text)
        path = os.path.join(directory, NAME)
        done = subprocess.run([GDB, "-nx", "-batch", *arguments, "--args", sys.executable, "-S", path],
                              capture_output=True, text=True, errors="replace", env=environment, timeout=SECONDS,
                              cwd=directory, stdin=subprocess.DEVNULL)
    return done.stdout, done.stderr


def can_stop_a_process():
    """Whether gdb may run a program here: some containers forbid it."""
    done = subprocess.run([GDB, "-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "break main", "-ex", "run",
                           "-ex", "info registers rip", "--args", sys.executable, "-c", ""],
                          capture_output=True, text=True, errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL)
    return "Breakpoint 1, " in done.stdout


def seen(text):
    """The names and lines of the program's frames in what py-bt printed."""
    return [(name, int(line)) for line, name in re.findall(rf'  File ".*/{NAME}", line (\d+), in (\S+)', text)]


def seen_in_full(text):
    """The program's frames in what py-bt-full printed, arguments and all."""
    return re.findall(rf"Frame 0x\w+, for file .*/{NAME}.*", text)


@unittest.skipIf(GDB is None, "gdb is not installed: `make deps` installs it")
@unittest.skipUnless(os.path.exists(SCRIPT), f"no {SCRIPT}: the interpreter is not one in its build directory")
@unittest.skipIf(support.framecore and support.framecore.info()["cross_lto"],
                 "gdb stops in a function by its name: the linker has inlined it")
class PythonFramesInGdb(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not can_stop_a_process():
            raise unittest.SkipTest("gdb cannot run a process here")

    def check(self, function, what, innermost=True):
        stdout, stderr = inside_gdb(PROGRAM.format(what=what, watching=""), function)
        said = f"{stdout[-6000:]}\n{stderr[-2000:]}"
        native, stopped, python = stdout.partition("--- python\n")
        self.assertTrue(stopped, said)
        # Functions that were inlined into the one with the breakpoint come before it.
        frames = re.findall(r"^#\d+ .*", native.partition("--- native\n")[2], re.MULTILINE)
        top = frames[:1 + next(i for i, frame in enumerate(frames) if function in frame)]
        if not support.ON_STOCK:
            self.assertIn("rust-core/src/frame/", top[-1])
            self.assertTrue(all(".rs:" in frame for frame in top), top)
        here, _, from_c = python.partition("--- from C\n")
        self.assertEqual(seen(here), seen(from_c), said)
        self.assertEqual(seen_in_full(here), seen_in_full(from_c), said)
        self.assertEqual(len(seen_in_full(here)), len(seen(here)), said)
        self.assertNotIn("Error occurred in Python", stderr)
        names = seen(here)
        expected = [("innermost", 6), ("middle", 9), ("<lambda>", 13), ("method", 13), ("<module>", 15)]
        expected = expected[0 if innermost else 1:]
        if OPTIMIZED:
            # In an optimized eval loop gdb cannot always find the frame, wherever the process is stopped; and with some compilers
            # none. test_walking_frames sees them all the same.
            if not names and "(unable to read python frame information)" in here and HIDES_FRAMES:
                self.skipTest("gdb finds no frame in the eval loop that this compiler has made")
            self.assertNotEqual(names, [], said)
            self.assertEqual(names, [frame for frame in expected if frame in names], said)
            return
        self.assertEqual(names, expected, said)
        self.assertIn("(word='word'", here)
        if innermost:
            self.assertIn("(number=17)", here)

    def walked(self, what, watching):
        stdout, stderr = inside_gdb(PROGRAM.format(what=what, watching=watching), "_PyFrame_MakeAndSetFrameObject")
        found = re.search("^--- walk (.*)", stdout, re.MULTILINE)
        self.assertTrue(found, f"{stdout[-3000:]}\n{stderr[-2000:]}")
        return found[1]

    def test_walking_frames(self):
        self.assertEqual(self.walked("sys._getframe()", ""), "innermost middle <lambda> | method <module> |")

    @support.needs_hooks
    def test_return_shims_of_watched_frames_are_skipped(self):
        self.assertEqual(self.walked("sys._getframe()", ", watching"), "innermost middle <lambda> | method <module> |")
        # The frame that ends is not seen any more.
        self.assertEqual(self.walked("pass", ", watching"), "left | middle <lambda> | method <module> |")

    def test_while_a_frame_object_is_made(self):
        self.check("_PyFrame_MakeAndSetFrameObject", "sys._getframe()")

    def test_while_the_collector_looks_at_a_generator(self):
        self.check("_PyFrame_Traverse", "gc.get_referents((i for i in 'x'))")

    def test_while_a_frame_is_cleared(self):
        # The frame that ends is not seen any more.
        self.check("_PyFrame_ClearExceptCode" if support.ON_STOCK else "_PyRust_EndCall", "pass", innermost=False)
