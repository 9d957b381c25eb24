"""What the tests of the debugger share: programs with named lines, a debugger with a script."""

import bdb
import gc
import importlib.util
import io
import linecache
import os
import pdb
import re
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(ROOT, "clients", "debugger", "src")
sys.path.insert(0, PACKAGE)

import ferrule_debugger
from ferrule_debugger.session import session

has_hooks = ferrule_debugger.missing() is None
# Once a thread was started, CPython 3.13 without the GIL keeps every code object for ever.
code_dies = unittest.skipIf(sysconfig.get_config_var("Py_GIL_DISABLED"), "code is never freed")
needs_hooks = unittest.skipUnless(has_hooks, "only on Ferrule: this interpreter has no frame hooks")
needs_debugpy = unittest.skipIf(importlib.util.find_spec("debugpy") is None, "debugpy is not installed for this interpreter: pip install debugpy")


# A function to debug: a part of the programs of several tests.
LOOP = """
def f(n):
    total = 0
    for i in range(n):
        total += i                      # body
    return total                        # last
"""


class Program:
    """A file of Python whose lines are named by comments: `x = 1  # name`."""

    def __init__(self, case, text):
        directory = tempfile.TemporaryDirectory()
        case.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "program.py")
        self.text = textwrap.dedent(text)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.text)
        case.addCleanup(linecache.clearcache)

    def line(self, name):
        found = [
            number
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.partition("#")[2].strip() == name
        ]
        assert len(found) == 1, (name, found)
        return found[0]

    def lines(self):
        """The numbers of all lines that have a name."""
        return {line.partition("#")[2].strip(): number for number, line in enumerate(self.text.splitlines(), 1) if "#" in line}

    def load(self, **names):
        """Run it; its namespace."""
        namespace = {"__name__": "program", "__file__": self.path, **names}
        exec(compile(self.text, self.path, "exec"), namespace)
        return namespace

    def name_of(self, line):
        comment = linecache.getline(self.path, line).partition("#")[2].strip()
        return comment or line


class Scripted(ferrule_debugger.Bdb):
    """At each stop it takes the next action: a name of set_..., or a function of it and the frame.

    `stops` are the stops so far, as (event, name of the line). After the last action it continues.
    """

    def __init__(self, program, *actions, skip=None):
        super().__init__(skip)
        self.program = program
        self.actions = list(actions)
        self.stops = []

    def do_clear(self, number):
        self.clear_bpbynumber(number)

    def set(self, name, **options):
        """Set a breakpoint at a line by its name; the breakpoint."""
        problem = self.set_break(self.program.path, self.program.line(name), **options)
        assert problem is None, problem
        return bdb.Breakpoint.bpbynumber[-1]

    def _stop(self, event, frame):
        self.stops.append((event, self.program.name_of(frame.f_lineno)))
        while self.actions:
            action = self.actions.pop(0)
            if isinstance(action, str):
                method = getattr(self, "set_" + action)
                method(frame) if action in ("next", "until", "return") else method()
                return
            action(self, frame)
        self.set_continue()

    def user_line(self, frame):
        self._stop("line", frame)

    def user_call(self, frame, arguments):
        if self.stop_here(frame):
            self._stop("call", frame)

    def user_return(self, frame, value):
        self._stop("return", frame)

    def user_exception(self, frame, exception):
        self._stop("exception", frame)


def at(name, **options):
    """An action: set a breakpoint."""
    return lambda debugger, frame: debugger.set(name, **options)


class DebuggerCase(unittest.TestCase):
    """Each test begins without breakpoints, and must leave nothing behind."""

    TEXT = None     # of the program that all tests of a class debug

    def setUp(self):
        bdb.Breakpoint.clearBreakpoints()
        self.assertIsNone(session.owner)
        if self.TEXT:
            self.source = self.program(self.TEXT)
            self.names = self.source.load()

    def tearDown(self):
        bdb.Breakpoint.clearBreakpoints()
        pdb.Pdb._file_mtime_table.clear()       # it would grow by each file that there ever was
        self.assertIsNone(session.owner, "a debugger was left in force")
        self.assertIsNone(session.events.tool)
        self.assertEqual(len(session.events.entries), 0)
        self.assertIsNone(sys.gettrace())
        if has_hooks:
            import framehook

            self.assertEqual([info.name for info in framehook.hooks()], [])

    def program(self, text):
        return Program(self, text)

    def debug(self, program, function, *actions, arguments=(), **options):
        """Call a function of a program that was loaded, under a scripted debugger: the debugger.

        The first action is taken at the function's first line.
        """
        debugger = Scripted(program, *actions, **options)
        debugger.value = debugger.runcall(function, *arguments)
        return debugger


def catch(way, name=None, condition=None, **options):
    """An action: stop at exceptions."""
    def action(debugger, frame):
        options_now = dict(options)
        ignore = options_now.pop("ignore", 0)
        debugger.set_catch(way, name and f"builtins.{name}", condition, **options_now).ignore = ignore
    return action


class CatchingCase(DebuggerCase):
    """`caught()` returns the lines at which a catch has stopped a function."""

    def caught(self, function, way="raised", name=None, condition=None, raises=None, **options):
        """The lines where a catch stops; `raises`: what leaves the function."""
        skip = options.pop("skip", None)
        debugger = Scripted(self.source, catch(way, name, condition, **options), skip=skip)
        try:
            if raises is None:
                debugger.runcall(self.names[function])
            else:
                with self.assertRaises(raises):
                    debugger.runcall(self.names[function])
        finally:
            bdb.Breakpoint.clearBreakpoints()
        kinds = {event for event, _ in debugger.stops[1:]}
        self.assertLessEqual(kinds, {"exception"})
        return [line for _, line in debugger.stops[1:]]


def local_events(code):
    """The events of the debugger's tool that are set for one code object."""
    return sys.monitoring.get_local_events(session.events.tool, code)


def pdb_session(function, *commands):
    """Call a function under the Pdb with these commands; what it has printed."""
    out = io.StringIO()
    debugger = ferrule_debugger.Pdb(
        stdin=io.StringIO("\n".join(commands) + "\n"), stdout=out, nosigint=True, readrc=False
    )
    debugger.runcall(function)
    gc.collect()
    return out.getvalue()


def run_python(arguments, text="", timeout=120, cwd=None, **environment):
    """Run this interpreter with the debugger importable: what it printed, with its errors."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONBREAKPOINT"}
    done = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env={**inherited, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )
    return done.stdout + done.stderr


class TypedCase(DebuggerCase):
    """`typed()` types commands into `python -m ferrule_debugger`; `source` is the program."""

    def typed(self, *commands, options=(), **environment):
        """What is printed where these commands are typed; {name} is the number of the line of that name."""
        typed = "\n".join(commands).format(**self.source.lines())
        return run_python(["-m", "ferrule_debugger", *options, self.source.path], typed + "\n", timeout=60, **environment)


def wait_for_sleep(pid):
    """Wait until the main thread of a process waits for something."""
    while True:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "S":
                return
        time.sleep(0.01)


def typed_into(debugger, path, typed, **environment):
    """What a debugger, the name of a module, prints where these commands are typed into it.

    Without what differs by nature: our own frames in a traceback, addresses, and what is said where
    there are no hooks.
    """
    printed = run_python(["-X", "utf8", "-m", debugger, path], typed, PYTHONHASHSEED="0",
                         HOME=os.path.dirname(path), **environment)
    printed = re.sub(r"  File \S*ferrule_debugger/.*?\n(?=  File|\w)", "", printed, flags=re.DOTALL)
    return re.sub(r"(0x|x7)[0-9a-f]+", "0x", without_notice(printed))


def without_notice(printed):
    """What was printed, without what is said where there are no hooks."""
    missing = ferrule_debugger.missing()
    return printed if missing is None else re.sub(re.escape(missing) + " Code is found .*\n", "", printed)


class LikePdbCase(DebuggerCase):
    """Sessions that print what they print under pdb."""

    maxDiff = None

    def assert_like_pdb(self, path, typed, **environment):
        """The same is printed by both; what it is."""
        ours = typed_into("ferrule_debugger", path, typed, **environment)
        self.assertEqual(ours, typed_into("pdb", path, typed, **environment))
        return ours

    def assert_sessions_like_pdb(self, program, sessions):
        """Each is commands with ";" between them; `q` comes last."""
        for commands in sessions:
            with self.subTest(commands):
                self.assert_like_pdb(program.path, commands.replace(";", "\n") + "\nq\n")
