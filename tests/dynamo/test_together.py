"""Dynamo beside other tools in one process: the profiler and the debugger of this project,
coverage.py, another hook, greenlets."""

import unittest

from support import COMPILES, run_script

PROGRAM = """
import types
source = '''
import torch

def helper(x):
    return x + 1

@torch.compiler.disable
def eager(x):
    y = x * 3
    return helper(y)

def f(x):
    y = helper(x)
    y = eager(y)
    return y * 2
'''
with open(PATH, "w") as file:
    file.write(source)
program = types.ModuleType("program")
exec(compile(source, PATH, "exec"), program.__dict__)
f = compiled(program.f)
f(x)
"""


def script(body):
    return COMPILES + 'import tempfile\nPATH = tempfile.mkdtemp() + "/program.py"\n' + PROGRAM + body


class Together(unittest.TestCase):
    def test_with_the_profiler(self):
        calls, graphs, value = run_script("hooks", script("""
import ferrule_profiler
with ferrule_profiler.profile() as profile:
    for _ in range(10):
        value = f(x)
names = {function.name: function.calls for function in profile.result.functions.values() if function.file == PATH}
print(json.dumps([names, len(graphs), value.tolist()]))
"""))
        # What runs under the name of f is its compiled code.
        self.assertEqual((graphs, value), (2, [14.0] * 4))
        self.assertEqual(calls["eager"], 10)
        self.assertEqual(calls["helper"], 10)
        self.assertEqual(calls["f"], 10)

    def test_with_the_debugger(self):
        stops, graphs, value = run_script("hooks", script("""
import linecache, ferrule_debugger
linecache.checkcache()
stops = []

class Debugger(ferrule_debugger.Pdb):
    def interaction(self, frame, traceback):
        if frame.f_code.co_filename == PATH:
            stops.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
        self.set_continue()

debugger = Debugger(nosigint=True, readrc=False)
debugger.reset()
error = debugger.set_break(PATH, 9)         # y = x * 3
assert error is None, error
debugger.set_trace()
for _ in range(3):
    value = f(x)
debugger.set_quit()
print(json.dumps([stops, len(graphs), value.tolist()]))
"""))
        self.assertEqual((graphs, value), (2, [14.0] * 4))
        self.assertEqual([stop for stop in stops if stop[0] == "eager"], [["eager", 9, ["x"]]] * 3)

    def test_with_coverage(self):
        for core in ("ctrace", "sysmon"):
            with self.subTest(core=core):
                lines, graphs, value = run_script("hooks", script("""
import coverage
measured = coverage.Coverage(data_file=None, include=[PATH])
measured.start()
for _ in range(3):
    value = f(x)
measured.stop()
print(json.dumps([sorted(measured.get_data().lines(PATH) or []), len(graphs), value.tolist()]))
"""), COVERAGE_CORE=core)
                self.assertEqual((graphs, value), (2, [14.0] * 4))
                self.assertLessEqual({9, 10, 5}, set(lines))

    def test_all_of_them_at_once(self):
        names, lines, graphs, value = run_script("hooks", script("""
import coverage, ferrule_debugger, ferrule_profiler
stops = []

class Debugger(ferrule_debugger.Pdb):
    def interaction(self, frame, traceback):
        if frame.f_code.co_filename == PATH:
            stops.append(frame.f_lineno)
        self.set_continue()

measured = coverage.Coverage(data_file=None, include=[PATH])
debugger = Debugger(nosigint=True, readrc=False)
debugger.reset()
debugger.set_break(PATH, 9)
with ferrule_profiler.profile() as profile:
    measured.start()
    debugger.set_trace()
    for _ in range(5):
        value = f(x)
    debugger.set_quit()
    measured.stop()
names = {function.name: function.calls for function in profile.result.functions.values() if function.file == PATH}
names["stops"] = stops.count(9)
print(json.dumps([names, sorted(measured.get_data().lines(PATH) or []), len(graphs), value.tolist()]))
"""), COVERAGE_CORE="sysmon")
        self.assertEqual((graphs, value), (2, [14.0] * 4))
        self.assertEqual((names["eager"], names["helper"], names["stops"]), (5, 5, 5))
        self.assertLessEqual({9, 10, 5}, set(lines))

    def test_with_a_hook_before_and_one_behind(self):
        """One after sees what Dynamo has chosen; one before sees the function's own code."""
        before, after, value = run_script("hooks", script("""
import framehook
before, after = [], []
first = framehook.add(lambda view: before.append(view.code), first=True)
last = framehook.add(lambda view: after.append(view.code))
for _ in range(2):
    value = f(x)
framehook.remove(first), framehook.remove(last)
own = program.f.__code__
print(json.dumps([sum(code is own for code in before), sum(code is own for code in after), value.tolist()]))
"""))
        self.assertEqual((before, after, value), (2, 0, [14.0] * 4))

    def test_a_hook_before_it_that_replaces(self):
        value, graphs = run_script("hooks", script("""
import framehook

def other(x):
    return x * 7

def hook(view):
    return other.__code__ if view.code is program.f.__code__ else None

with framehook.hook(hook) as block:
    framehook.remove(hook)
    handle = framehook.add(hook, first=True)
    value = f(x)
print(json.dumps([value.tolist(), len(graphs)]))
"""))
        # Dynamo compiles what the hook before it has chosen.
        self.assertEqual((value, graphs), ([7.0] * 4, 3))

    def test_with_greenlets(self):
        """A callback is the thread's, whichever greenlet runs: as with the evaluator."""
        body = script("""
import greenlet
seen = []

def callback():
    now = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    return "on" if callable(now) else now

def other():
    seen.append(callback())
    main.switch()
    seen.append(callback())

main = greenlet.getcurrent()
worker = greenlet.greenlet(other)

@torch._dynamo.decorators.skip
def switch():
    worker.switch()

def g(x):
    switch()
    torch._dynamo.graph_break()
    return x + 1
value = compiled(g)(x)
worker.switch()
print(json.dumps([seen, len(graphs), value.tolist()]))
""")
        self.assertEqual(run_script("hooks", body), run_script("evaluator", body))
