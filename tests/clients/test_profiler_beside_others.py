"""A profile beside a debugger, an evaluator, other hooks, tracers and tools of sys.monitoring."""

import os
import subprocess
import sys

from profiler_support import OUT, ProfilerTestCase, load
from tests.python.support import extension_directory

setUpModule = load


class BesideOthers(ProfilerTestCase):
    def run_beside(self, source, *paths, text=""):
        """Run a program that can import the profiler, and what is at these paths; its output."""
        paths = os.pathsep.join((OUT, *paths))
        done = subprocess.run([sys.executable, "-c", "def fib(n):\n"
                               "    return n if n < 2 else fib(n - 1) + fib(n - 2)\n" + source],
                              capture_output=True, text=True, input=text, timeout=300,
                              env={**os.environ, "PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()


class Debugger(BesideOthers):
    PROGRAM = """
import bdb, sys
import ferrule_debugger, ferrule_profiler

def work(n):
    total = 0
    for i in range(n):
        total += fib(i)
    return total

class Stops(ferrule_debugger.Bdb):
    lines = 0
    def user_line(self, frame):
        self.lines += 1
        HOW
debugger = Stops()
def both():
    debugger.set_break("<string>", LINE)
    return work(8)
sys.modules["__main__"].__file__ = "<string>"
import linecache
linecache.cache["<string>"] = (1, None, ["pass\\n"] * 100, "<string>")
FIRST
print(value, debugger.lines)
result = profile.result
for name in ("work", "fib"):
    function, = result.find(name)
    print(name, function.calls, function.runs, function.raised, function.own <= function.total)
import framehook
print(len(framehook.hooks()), sys.gettrace())
"""
    CALLS = sum(2 * (1, 1, 2, 3, 5, 8, 13, 21)[n] - 1 for n in range(8))
    # Of `total += fib(i)`; fib() itself is above the program.
    LINE = 3 + PROGRAM.splitlines().index("        total += fib(i)")

    def check(self, how, first, stops):
        source = self.PROGRAM.replace("HOW", how).replace("FIRST", first)
        found = self.run_beside(source.replace("LINE", str(self.LINE)))
        self.assertEqual(found, [
            f"33 {stops}", "work 1 1 0 True", f"fib {self.CALLS} {self.CALLS} 0 True", "0 None"])

    def test_a_profile_while_a_breakpoint_waits(self):
        """In each order of beginning, and with steps into what is profiled."""
        profiled = "with ferrule_profiler.profile() as profile:\n    value = debugger.runcall(both)"
        debugged = ("def inner():\n    global profile\n"
                    "    with ferrule_profiler.profile() as profile:\n        return both()\n"
                    "value = debugger.runcall(inner)")
        for first in (profiled, debugged):
            with self.subTest(first):
                # The first stop is where runcall() begins.
                self.check("self.set_continue()", first, 9)
        self.check("self.set_next(frame) if self.lines > 3 else self.set_continue()", profiled,
                   self.stops_with_next())

    @staticmethod
    def stops_with_next():
        # runcall's first line, three breakpoints, and from there on each line of work(): five times
        # the loop's head and its body, its end, and the line that returns.
        return 1 + 3 + 2 * 5 + 2

    def test_pdb_with_a_conditional_breakpoint_under_the_command(self):
        directory = self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write("import ferrule_debugger\n"
                       "def fib(n):\n"
                       "    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
                       "ferrule_debugger.set_trace()\n"
                       "fib(10)\n")
        found = os.path.join(directory, "found.prof")
        done = subprocess.run(
            [sys.executable, "-m", "ferrule_profiler", "--quiet", "-o", found, script],
            input="b 3, n == 7\nc\np n\ncl 1\ny\nc\n", capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": OUT, "HOME": directory})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("(Pdb) 7\n", done.stdout)
        from profiler_support import read_stats
        self.assertEqual(read_stats(found)["fib"][:2], (1, 177))


class Evaluator(BesideOthers):
    """An evaluator of PEP 523 runs what the hooks have looked at."""

    SOURCE = """
import evaluators, ferrule_profiler

def numbers(n):
    for i in range(n):
        yield fib(i % 3)
class Made:
    def __init__(self):
        self.value = fib(2)
def run():
    fib(10)
    list(numbers(5))
    Made()
    try:
        wrong()
    except ValueError:
        pass
def wrong():
    raise ValueError
def counts(**options):
    with ferrule_profiler.profile(**options) as profile:
        run()
    return [(f.name, f.calls, f.runs, f.recursive, f.raised)
            for f in sorted(profile.result.functions.values()) if f.kind != "builtin"]
for options in ({}, {"builtins": True}, {"trace": 100, "arguments": True}, {"count": True}):
    alone = counts(**options)
    evaluators.set("pass")
    beside = counts(**options)
    evaluators.set("default")
    print(alone == beside, dict((name, calls) for name, calls, *_ in beside)["fib"])
    with ferrule_profiler.profile(**options) as profile:
        fib(5)
        evaluators.set("pass")
        fib(5)
        evaluators.set("default")
        fib(5)
    print(profile.result.find("fib")[0].calls)
"""

    def test_counts_are_the_same(self):
        found = self.run_beside(self.SOURCE, extension_directory())
        self.assertEqual(found, ["True 187", "45"] * 4)


class Tools(BesideOthers):
    def test_a_callback_that_raises(self):
        """A tool of sys.monitoring ends the call before its first line."""
        found = self.run_beside("""
import sys, ferrule_profiler
monitoring = sys.monitoring
def begins(code, offset):
    if code.co_name == "stopped":
        raise ValueError("no")
def stopped():
    fib(3)
def run():
    for _ in range(3):
        try:
            stopped()
        except ValueError:
            fib(2)
monitoring.use_tool_id(1, "another tool")
monitoring.register_callback(1, monitoring.events.PY_START, begins)
monitoring.set_events(1, monitoring.events.PY_START)
for builtins in (False, True):
    with ferrule_profiler.profile(builtins=builtins) as profile:
        run()
    print(*(profile.result.find(name)[0][5:9] for name in ("stopped", "fib")))
""")
        self.assertEqual(found, ["(3, 3, 0, 3) (9, 9, 6, 0)"] * 2)

    def test_a_tracer_that_jumps_and_profilers_of_the_interpreter(self):
        found = self.run_beside("""
import cProfile, sys, ferrule_profiler
def jumped():
    fib(2)
    fib(3)
    return 5
def trace(frame, event, arg):
    if frame.f_code is jumped.__code__ and event == "line":
        if frame.f_lineno == jumped.__code__.co_firstlineno + 1:
            frame.f_lineno += 2
    return trace
sys.settrace(trace)
with ferrule_profiler.profile() as profile:
    jumped()
sys.settrace(None)
print(profile.result.find("jumped")[0][5:9], profile.result.find("fib"))
other = cProfile.Profile()
sys.setprofile(lambda *event: None)
with ferrule_profiler.profile() as profile:
    fib(5)
sys.setprofile(None)
print(profile.result.find("fib")[0].calls)
with ferrule_profiler.profile() as profile:
    other.enable()
    fib(5)
    other.disable()
print(profile.result.find("fib")[0].calls)
""")
        self.assertEqual(found, ["(1, 1, 0, 0) []", "15", "15"])

    def test_profile_functions_see_what_they_see_without_it(self):
        found = self.run_beside("""
import sys, ferrule_profiler
class Meta(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name)
class Thing(metaclass=Meta):
    def __repr__(self):
        return "thing"
def taking(a, b, c, d, e):
    yield a
    raise ValueError
def run():
    for text in "a" * 50, "b":
        try:
            list(taking(text, text.encode(), 3 ** 50, Thing(), [Thing]))
        except ValueError:
            pass
def events():
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append((frame.f_code.co_name, event)))
    run()
    sys.setprofile(None)
    # Whether the return of setprofile() itself is seen depends on who else listens to calls of C.
    return [event for event in seen if event[0] != "events"]
expected = events()
for options in ({}, {"builtins": True}, {"trace": 100, "arguments": True}, {"count": True}):
    with ferrule_profiler.profile(**options):
        print(len(expected) > 10 and events() == expected)
""")
        self.assertEqual(found, ["True"] * 4)

    def test_a_signal_handler_that_raises_in_the_middle(self):
        found = self.run_beside("""
import signal, ferrule_profiler
class Enough(Exception):
    pass
def enough(*_):
    raise Enough
signal.signal(signal.SIGALRM, enough)
interrupted = 0
with ferrule_profiler.profile() as profile:
    for _ in range(100):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            while True:
                fib(12)
        except Enough:
            interrupted += 1
result = profile.result
print(interrupted, result.find("enough")[0].raised)
fib_, = result.find("fib")
print(fib_.total <= result.seconds + 1e-6, fib_.raised >= 100)
""")
        self.assertEqual(found, ["100 100", "True True"])

    def test_all_hooks_are_cleared_and_no_more_can_be(self):
        found = self.run_beside("""
import framehook, sys, ferrule_profiler
timer = {"sample": True} if sys._is_gil_enabled() else {"count": True}
with ferrule_profiler.profile() as profile:
    fib(3)
    framehook.clear()
    fib(3)
print(profile.result.find("fib")[0].calls)
handles = []
try:
    while True:
        handles.append(framehook.add(lambda view: framehook.DISABLE))
except RuntimeError:
    pass
for options in ({}, {"count": True}, {"builtins": True}, timer):
    try:
        ferrule_profiler.start(**options)
    except ferrule_profiler.ProfilerError as error:
        print("remove one first" in str(error), sys.monitoring.get_tool(2))
for handle in handles:
    framehook.remove(handle)
for options in ({}, {"count": True}, {"builtins": True}, timer):
    with ferrule_profiler.profile(**options) as profile:
        fib(3)
    print(profile.result.find("fib")[0].calls)
""")
        self.assertEqual(found, ["5"] + ["True None"] * 4 + ["5"] * 4)

    def test_a_subinterpreter_is_not_profiled_and_says_why(self):
        try:
            import _interpreters  # noqa: F401
        except ImportError:
            self.skipTest("no subinterpreters here")
        found = self.run_beside("""
import _interpreters, ferrule_profiler
with ferrule_profiler.profile() as profile:
    fib(3)
    other = _interpreters.create()
    print(_interpreters.exec(other, "def inside(): pass\\ninside()"))
    print(_interpreters.exec(other, "import ferrule_profiler; ferrule_profiler.profile()").type.__name__)
    _interpreters.destroy(other)
    fib(3)
print(profile.result.find("fib")[0].calls, profile.result.find("inside"))
""")
        self.assertEqual(found, ["None", "ProfilerError", "10 []"])
