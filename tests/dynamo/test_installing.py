"""install() and uninstall(), the environment variable, and what stays as it is."""

import unittest

from support import COMPILES, EVALUATOR, INSTALL, TORCH_2_6, run, run_script


class Installing(unittest.TestCase):
    def test_the_evaluator_stays_the_default_one(self):
        script = EVALUATOR + COMPILES + """
seen = []

@torch._dynamo.disable
def look():
    seen.append(is_default())

@torch._dynamo.decorators.skip
def look_within():
    seen.append(is_default())

def f(x):
    look()
    look_within()
    return x + 1
f = compiled(f)
f(x), f(x)
print(json.dumps([seen, len(graphs), is_default()]))
"""
        seen, graphs, after = run_script("hooks", script)
        self.assertEqual((set(seen), after), ({True}, True))
        self.assertGreater(graphs, 0)
        # The test sees what it is to see: with the evaluator another one is there.
        seen, graphs_of_evaluator, _ = run_script("evaluator", script)
        self.assertIn(False, seen)
        self.assertEqual(graphs, graphs_of_evaluator)

    def test_an_environment_variable(self):
        script = COMPILES + """
import ferrule_dynamo
compiled(lambda x: x + 1)(x)
print(ferrule_dynamo.installed(), len(graphs))
"""
        self.assertEqual(run("-c", script, FERRULE_DYNAMO="1").split(), ["True", "1"])
        self.assertEqual(run("-c", script, FERRULE_DYNAMO="0").split(), ["False", "1"])
        self.assertEqual(run("-c", script).split(), ["False", "1"])

    def test_the_variable_costs_no_import_of_torch(self):
        self.assertEqual(run("-c", "import sys; print('torch' in sys.modules)", FERRULE_DYNAMO="1").strip(), "False")

    def test_before_and_after_torch_was_imported(self):
        body = "f = compiled(lambda x: x * 2); f(x); f(x)\nprint(len(graphs), ferrule_dynamo.installed())\n"
        for script in (INSTALL["hooks"] + COMPILES + body, COMPILES + INSTALL["hooks"] + body,
                       "import torch\n" + INSTALL["hooks"] + COMPILES + body):
            self.assertEqual(run("-c", script).split(), ["1", "True"])

    def test_back_and_forth(self):
        """Each way compiles for itself, and what the other one has made stays harmless."""
        script = EVALUATOR + COMPILES + """
import ferrule_dynamo, gc
module = torch._C._dynamo.eval_frame
originals = dict(vars(module))
names = {name: dict(vars(m)) for name, m in sys.modules.items() if name.startswith('torch._dynamo')}

class Thing:
    n = 3

def call():
    thing = Thing()
    f = compiled(lambda x: x * thing.n)
    f(x), f(x)

counts = []
for _ in range(3):
    call()
    gc.collect()
    counts.append(len(graphs))
    ferrule_dynamo.install()
    ferrule_dynamo.install()
    call()
    gc.collect()
    counts.append(len(graphs))
    ferrule_dynamo.uninstall()
    ferrule_dynamo.uninstall()
same = all(vars(module)[name] is value for name, value in originals.items())
changed = [f"{m}.{name}" for m, before in names.items() for name, value in before.items()
           if getattr(sys.modules[m], name, None) is not value and callable(value)
           and "ferrule" in repr(getattr(sys.modules[m], name, None))]
import framehook
print(json.dumps([counts, same, changed, len(framehook.hooks()), is_default()]))
"""
        counts, same, changed, hooks, default = run_script("evaluator", script)
        # The evaluator's cache stays where it is; the hook's goes with it.
        self.assertEqual(counts, [1, 2, 2, 3, 3, 4])
        self.assertEqual((same, changed, hooks, default), (True, [], 0, True))

    def test_not_within_a_region(self):
        script = COMPILES + """
import ferrule_dynamo
errors = []

@torch._dynamo.decorators.skip
def change(how):
    try:
        how()
    except RuntimeError as error:
        errors.append(str(error))

def f(x):
    change(ferrule_dynamo.install)
    change(ferrule_dynamo.uninstall)
    return x + 1
compiled(f)(x)
ferrule_dynamo.install()
compiled(lambda x: f(x))(x)
print(json.dumps(errors))
"""
        errors = run_script("evaluator", script)
        self.assertTrue(all("torch.compile region" in error for error in errors), errors)
        self.assertGreaterEqual(len(errors), 2)

    @unittest.skipIf(TORCH_2_6, "this torch has no limit of its own")
    def test_the_limit_of_c_recursion_goes_along(self):
        """What was set before holds with the hook, and what was set with the hook holds afterwards."""
        script = COMPILES + """
import ferrule_dynamo, warnings
limits, warned = [], []

def compilation():
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as now:
        warnings.simplefilter("always")
        compiled(lambda x: x + 1)(x)
    # Each frame that is looked at says it.
    warned.append(sorted({str(warning.message).partition("current")[0] for warning in now}))
    limits.append(torch._dynamo.get_recursion_limit())

torch._dynamo.set_recursion_limit(2000)
compilation()
ferrule_dynamo.install()
compilation()
torch._dynamo.set_recursion_limit(3000)
compilation()
ferrule_dynamo.uninstall()
compilation()
torch._dynamo.set_recursion_limit(-1)
compilation()
print(json.dumps([limits, warned]))
"""
        limits, warned = run_script("evaluator", script)
        self.assertEqual(limits, [2000, 2000, 3000, 3000, -1])
        said = [[f"new c_recursion limit ({limit}) is lower than thread's "] for limit in limits[:4]]
        self.assertEqual(warned, [*said, []])

    def test_a_thread_that_ends_within_a_region(self):
        script = COMPILES + """
import ferrule_dynamo
thread = threading.Thread(target=torch._C._dynamo.eval_frame.set_eval_frame, args=(lambda *arguments: None,))
thread.start()
thread.join()
ferrule_dynamo.uninstall()
print(json.dumps(ferrule_dynamo.installed()))
"""
        self.assertFalse(run_script("hooks", script))

    def test_what_is_missing_elsewhere(self):
        script = """
import ferrule_dynamo, ferrule_dynamo._patching as patching, json
patching._core = type("Stock", (), {"version": staticmethod(lambda: 0)})
try:
    ferrule_dynamo.install()
except RuntimeError as error:
    print(json.dumps([str(error), ferrule_dynamo.installed()]))
"""
        error, installed = run_script("evaluator", script)
        self.assertIn("it is not Ferrule", error)
        self.assertFalse(installed)

    def test_the_hook_rests_while_nothing_is_compiled(self):
        script = COMPILES + """
import ferrule_dynamo._core as core
f = compiled(lambda x: x + 1)
f(x)
seen = [core.is_enabled()]

def small(n):
    return n

for n in range(5000):
    small(n)
seen.append(core.is_enabled())
f(x)
f(torch.ones(5))
seen += [core.is_enabled(), len(graphs)]
print(json.dumps(seen))
"""
        self.assertEqual(run_script("hooks", script), [True, False, True, 2])

    def test_a_compiled_module_looks_at_no_caller(self):
        """In a thread that calls compiled modules only. Walking the stack would make a frame object of each caller."""
        script = COMPILES + """
import gc, types
module = compiled(torch.nn.Linear(4, 4))
module(x)
seen = []

def deep(frames):
    if frames:
        return deep(frames - 1)
    module(x), module(x)
    seen.append(sum(type(it) is types.FrameType and it.f_code is deep.__code__ for it in gc.get_objects()))
thread = threading.Thread(target=deep, args=(50,))
thread.start()
thread.join()
print(json.dumps(seen))
"""
        self.assertEqual(run_script("hooks", script), run_script("evaluator", script))

    def test_below_a_disabled_region_the_hook_is_not_called(self):
        """Nor elsewhere in a thread without a callback; and it is called again as soon as there is one."""
        script = COMPILES + """
import framehook

def calls():
    info, = (hook for hook in framehook.hooks() if hook.name == "TorchDynamo")
    return info.calls

def small(n):
    return n

@torch.compiler.disable
def eager():
    before = calls()
    for n in range(1000):
        small(n)
    seen.append(calls() - before)

def f(x):
    eager()
    return small(x + 1)

seen, run = [], compiled(f)
run(x)
del seen[:], graphs[:]
run(x), run(x), compiled(lambda x: x * 2)(x)
thread = threading.Thread(target=run, args=(x,))
thread.start()
thread.join()
print(json.dumps([seen, len(graphs)]))
"""
        calls, graphs = run_script("hooks", script)
        self.assertEqual(graphs, 1)
        self.assertEqual(len(calls), 3)
        self.assertLess(max(calls), 50)

    def test_while_torch_compiles_the_hook_is_not_called_for_long(self):
        """And the rest of the region is compiled, whatever the compiler has called."""
        script = COMPILES + """
def busy(module, inputs):
    def small(n):
        return n
    for n in range(1000):
        small(n)
    return backend(module, inputs)

def inner(x):
    return x * 3

def f(x):
    y = x + 1
    torch._dynamo.graph_break()
    return inner(y) * 2
print(json.dumps([torch.compile(f, backend=busy)(x).tolist(), torch.compile(inner, backend=busy)(x).tolist(), len(graphs)]))
"""
        self.assertEqual(run_script("hooks", script), run_script("evaluator", script))

    def test_all_hooks_are_removed(self):
        """Functions run as they are then, and say nothing wrong."""
        script = COMPILES + """
import ferrule_dynamo, framehook
f = compiled(lambda x: x + 1)
f(x)
framehook.clear()
results = [f(x).tolist(), f(torch.ones(2)).tolist()]
ferrule_dynamo.uninstall()
results.append(compiled(lambda x: x * 3)(x).tolist())
print(json.dumps([results, len(graphs)]))
"""
        results, graphs = run_script("hooks", script)
        self.assertEqual(results, [[2.0] * 4, [2.0] * 2, [3.0] * 4])
        self.assertEqual(graphs, 2)
