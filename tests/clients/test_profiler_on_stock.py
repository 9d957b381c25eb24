"""The profiler on stock CPython: sys.monitoring reports the calls, and the counts are those on Ferrule."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import profiler_programs
from profiler_support import OUT, PROGRAMS, build, load
from stock_support import HERE, ROOT, STOCK, check_listing

# Those in which calls are counted. What reads and writes files is the same code on both.
MODULES = ("test_profiler_at_work", "test_profiler_awaiting", "test_profiler_beside_others", "test_profiler_command", "test_profiler_groups",
           "test_profiler_labels", "test_profiler_lines", "test_profiler_moving", "test_profiler_options", "test_profiler_paths", "test_profiler_pools",
           "test_profiler_signals", "test_profiler_threads", "test_profiler_timeline", "test_profiler_truth", "test_profiler_web")
# Of generators that have never run, and so are no calls on stock: how many there are.
NEVER_RUN = {"generators.<locals>.numbers": 1, "thrown.<locals>.outer": 1}
# Where the variables of a frame die differs: on stock its end is reported before.
OF_DESTRUCTION = ("__del__", "_remove")

setUpModule = load


@unittest.skipIf(not STOCK, "no stock build: STOCK_PYTHON is not set")
class OnStock(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        """One build serves both interpreters, unless they are of two kinds: with and without assertions, or the GIL."""
        ask = "import sysconfig; print(*map(sysconfig.get_config_var, ('EXT_SUFFIX', 'Py_GIL_DISABLED')))"
        suffix, without_gil = subprocess.run([STOCK, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
        if without_gil == "1":
            raise unittest.SkipTest("the profiler needs the GIL on stock")
        cls.packages = OUT
        if suffix != sysconfig.get_config_var("EXT_SUFFIX"):
            cls.packages = build(STOCK, OUT + "-stock")
            cls.addClassCleanup(shutil.rmtree, cls.packages)

    def run_stock(self, *arguments):
        return self.run_python(STOCK, self.packages, *arguments)

    def run_python(self, python, packages, *arguments):
        done = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=900, cwd=ROOT,
                              env={**os.environ, "PYTHONPATH": packages, "PYTHONFAULTHANDLER": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def program(self, source):
        """What a program has printed, in lines."""
        done = self.run_stock("-c", "import sys, ferrule_profiler\nfrom ferrule_profiler import _core\n"
                              "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n" + source)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_the_profilers_tests_pass_but_for_what_is_listed(self):
        with tempfile.TemporaryDirectory() as packages:
            for name in os.listdir(self.packages):
                os.symlink(os.path.join(self.packages, name), os.path.join(packages, name))
            os.symlink(os.path.join(ROOT, "clients", "framehook", "src", "framehook"), os.path.join(packages, "framehook"))
            check_listing(self, "profiler_on_stock.toml", HERE, MODULES, PYTHONPATH=packages, FERRULE_TESTS_ON_MONITORING="1",
                          FERRULE_TESTS_PROFILER=packages)

    def counted(self, name, python, packages):
        """Two dicts: of functions (calls, runs, recursive runs, runs that raised), of pairs the same without calls. A generator is a
        call of what has made it on Ferrule, of what first runs it on stock."""
        found = json.loads(self.run_python(python, packages, PROGRAMS, name, "all").stdout)
        found = {key: counts for key, counts in found.items() if not any(name in key for name in OF_DESTRUCTION)}
        functions = {key.rpartition(":")[0]: counts for key, counts in found.items() if "->" not in key}
        return functions, {key: counts[1:] for key, counts in found.items() if "->" in key and counts[1]}

    def test_counts_callers_and_recursion_are_those_on_ferrule(self):
        seen = set()
        for program in profiler_programs.PROGRAMS:
            with self.subTest(program.__name__):
                functions, pairs = self.counted(program.__name__, sys.executable, OUT)
                functions_there, pairs_there = self.counted(program.__name__, STOCK, self.packages)
                self.assertGreater(len(functions), 1)
                for name in NEVER_RUN.keys() & functions.keys():
                    functions[name][0] -= NEVER_RUN[name]
                    seen.add(name)
                self.assertEqual(functions_there, functions)
                self.assertEqual(pairs_there, pairs)
        self.assertEqual(seen, set(NEVER_RUN))

    def test_the_id_of_a_tool(self):
        """One that is free, given back; the profiler's own is left to the program. An error that names the tools where none is."""
        self.assertEqual(self.program(r"""
import cProfile
tools = lambda: [sys.monitoring.get_tool(number) for number in range(6)]
for options in ({}, {"count": True}, {"builtins": True}):
    other = cProfile.Profile()
    with ferrule_profiler.profile(**options) as profile:
        print(tools())
        if not options.get("builtins"): other.runcall(fib, 5)
        fib(5)
    print(profile.result.find("fib")[0].calls, tools() == [None] * 6)
for number in (5, 4, 3, 2, 0):
    sys.monitoring.use_tool_id(number, f"tool {number}")
with ferrule_profiler.profile() as profile:
    print(tools()[1])
    fib(5)
sys.monitoring.use_tool_id(1, "tool 1")
for options in ({}, {"count": True}, {"sample": True}, {"builtins": True}):
    try:
        ferrule_profiler.start(**options)
    except ferrule_profiler.ProfilerError as error:
        print(error)
sys.monitoring.free_tool_id(4)
with ferrule_profiler.profile(sample=True) as profile:
    fib(5)
print(profile.result.find("fib")[0].calls, tools()[4])
"""), ["[None, None, None, None, None, 'ferrule_profiler']", "30 True", "[None, None, None, None, None, 'ferrule_profiler']", "30 True",
       "[None, None, 'ferrule_profiler', None, None, 'ferrule_profiler']", "15 True", "ferrule_profiler",
       *["calls cannot be counted: sys.monitoring has no tool id left; these have them: tool 0, tool 1, tool 2, tool 3, tool 4, tool 5"] * 4,
       "15 None"])

    def test_beside_other_tools(self):
        """Each has its own events and its own DISABLE, and what it makes of our id is its own."""
        self.assertEqual(self.program(r"""
monitoring, events = sys.monitoring, sys.monitoring.events
def line(code, number):
    seen.append(number)
    return monitoring.DISABLE
def start(code, offset):
    started.append(code.co_name)
    return monitoring.DISABLE
seen, started = [], []
def use_tool(number):
    monitoring.use_tool_id(number, "tool")
    for event, callback in ((events.LINE, line), (events.PY_START, start)):
        monitoring.register_callback(number, event, callback)
    monitoring.set_events(number, events.LINE | events.PY_START)
use_tool(1)
with ferrule_profiler.profile() as profile:
    fib(5)
    monitoring.restart_events()
    fib(5)
print(profile.result.find("fib")[0].calls, started.count("fib"), len(seen) > 2)
monitoring.free_tool_id(1)
with ferrule_profiler.profile() as profile:
    fib(5)
    monitoring.set_events(5, 0)         # what no tool should do to another
    monitoring.free_tool_id(5)
    use_tool(5)
    started.clear()
    fib(5)
fib(5)
print(profile.result.find("fib")[0].calls, started.count("fib"), monitoring.get_tool(5))
"""), ["30 2 True", "15 1 tool"])

    def test_a_trace_function_that_raises(self):
        """The call has not begun, and so is none. A tool's callback is called afterwards."""
        self.assertEqual(self.program(r"""
def begins(*_): raise ValueError
def stopped(): pass
def attempt():
    try: stopped()
    except ValueError: fib(2)
sys.monitoring.use_tool_id(4, "tool")
sys.monitoring.register_callback(4, sys.monitoring.events.PY_START, begins)
with ferrule_profiler.profile() as profile:
    def trace(frame, event, argument):
        if frame.f_code is stopped.__code__: raise ValueError
    sys.settrace(trace)
    attempt()
    sys.settrace(None)
    sys.monitoring.set_local_events(4, stopped.__code__, sys.monitoring.events.PY_START)
    attempt()
print([profile.result.find(name)[0][5:9] for name in ("attempt", "stopped", "fib")])
"""), ["[(2, 2, 0, 0), (1, 1, 0, 1), (6, 6, 4, 0)]"])

    def test_an_audit_hook_that_refuses_callbacks(self):
        """No profile begins, and one that runs ends."""
        self.assertEqual(self.program(r"""
def audit(event, arguments):
    if event == "sys.monitoring.register_callback" and refusing:
        raise ValueError("refused")
refusing = False
sys.addaudithook(audit)
sys.unraisablehook = lambda unraisable: print(unraisable.exc_value)
with ferrule_profiler.profile() as profile:
    fib(5)
    refusing = True
fib(5)
print(profile.result.find("fib")[0].calls, sys.monitoring.get_tool(5))
for options in ({}, {"count": True}):
    try:
        ferrule_profiler.start(**options)
    except ValueError as error:
        print(error, sys.monitoring.get_tool(5))
refusing = False
with ferrule_profiler.profile() as profile:
    fib(5)
print(profile.result.find("fib")[0].calls)
"""), ["refused", "15 None", "refused None", "refused None", "15"])

    def test_a_callback_that_others_call(self):
        """Programs can get it from register_callback(). It reports of the frame that runs, or nothing."""
        self.assertEqual(self.program(r"""
events = sys.monitoring.events
for core in (_core.ExactProfile(), _core.CountProfile()):
    core.start()
    names = ["PY_START", "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND"]
    callbacks = [sys.monitoring.register_callback(5, getattr(events, name), None) for name in names]
    callbacks = [callback for callback in callbacks if callback]
    del core
    for callback in callbacks * 3:
        for arguments in ((), (1,), (1, 2), (fib.__code__,), (fib.__code__, None), (fib.__code__, -1, 2), (fib.__code__, 10 ** 30),
                          (None,) * 4):
            callback(*arguments)
    print(len(callbacks), [callback(fib.__code__, 0, 0) for callback in callbacks] == [None] * len(callbacks))
    print(callbacks[0].__self__.result()["timed"])
    callbacks[0].__self__.stop()
"""), ["6 True", "True", "2 True", "False"])

    def test_functions_that_are_ignored_are_disabled_where_they_can_be(self):
        """CPython refuses that of an exception that is thrown in or leaves."""
        self.assertEqual(self.program(r"""
source = '''
def own():
    try:
        yield 1
        yield 2
    except KeyError:
        yield 3
    raise ValueError
'''
names = {}
exec(compile(source, "<own>", "exec"), names)
def use():
    generator = names["own"]()
    found = [next(generator), next(generator), generator.throw(KeyError())]
    unstarted = names["own"]()
    for call in (lambda: next(generator), lambda: unstarted.throw(KeyError())):
        try:
            call()
        except (ValueError, KeyError):
            found.append("raised")
    fib(3)
    return found
for make in (_core.ExactProfile, _core.CountProfile):
    core = make("<own>")
    core.start()
    print(*use(), *use())
    events = ("PY_START", "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND")
    callbacks = {name: sys.monitoring.register_callback(5, getattr(sys.monitoring.events, name), None) for name in events}
    own, other = names["own"].__code__, use.__code__
    print(*(name for name, callback in callbacks.items() if callback and callback(own, 0, None) is sys.monitoring.DISABLE))
    print({callback(other, 0, None) for callback in callbacks.values() if callback})
    core.stop()
    found = core.result()
    names_found = [code[2] for code in found["codes"]]
    print([(names_found[row[0]], row[1]) for thread in found["threads"] for row in thread["functions"]])
"""), ["1 2 3 raised raised 1 2 3 raised raised", "PY_START PY_RESUME PY_RETURN PY_YIELD", "{None}",
       "[('use', 3), ('<lambda>', 4), ('fib', 10)]",
       "1 2 3 raised raised 1 2 3 raised raised", "PY_START", "{None}",
       "[('use', 3), ('<lambda>', 2), ('<lambda>', 2), ('fib', 10)]"])

    def test_in_a_virtual_environment(self):
        with tempfile.TemporaryDirectory() as directory:
            self.run_stock("-m", "venv", "--without-pip", directory)
            packages = os.path.join(directory, "lib", "python3.13", "site-packages")
            os.symlink(os.path.join(self.packages, "ferrule_profiler"), os.path.join(packages, "ferrule_profiler"))
            script = os.path.join(directory, "program.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write("def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(10))\n")
            done = subprocess.run([os.path.join(directory, "bin", "python"), "-m", "ferrule_profiler", "-o", "-", "--quiet", "--count", script],
                                  capture_output=True, text=True, timeout=900, env={**os.environ, "PYTHONPATH": ""})
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"^55\n(.*\n)*\s+177\s+fib ")

    def test_another_interpreter_says_so(self):
        version = self.program("print(sys.version.split()[0])")[0]
        self.assertEqual(self.program(r"""
_core.can_monitor = lambda: False       # as in one without the GIL
for options in ({}, {"count": True}):
    try:
        ferrule_profiler.start(**options)
    except ferrule_profiler.ProfilerError as error:
        print(str(error) == ferrule_profiler.available(), error)
"""), [f"True calls can be counted on Ferrule, and on CPython 3.13 with the GIL (this is {version}, {STOCK})"] * 2)

    def test_a_profile_that_nobody_stops(self):
        """To the end of the interpreter, with daemon threads or with objects that die then."""
        self.assertEqual(self.program(r"""
import atexit, threading
def forever():
    while True:
        fib(3)
        list(x for x in range(3))
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
profile = ferrule_profiler.start()
fib(10)
atexit.register(lambda: print(profile.result.find("fib")[0].calls >= 177))
"""), ["True"])
        self.assertEqual(self.program(r"""
class Late:
    def __del__(self):
        print("late", fib(3), *(x for x in range(2)))
late = Late()
late.me = late
ferrule_profiler.start()
"""), ["late 2 0 1"])
