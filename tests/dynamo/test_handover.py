"""Marks and settings made before install() hold afterwards, and those made meanwhile hold after uninstall()."""

import unittest

from support import COMPILES, EVALUATOR, TORCH_2_6, run_script

HEAD = "import ferrule_dynamo\n" + COMPILES + "E = torch._C._dynamo.eval_frame\n"
INSTALL, UNINSTALL = "ferrule_dynamo.install()\n", "ferrule_dynamo.uninstall()\n"
# When the hook is installed and uninstalled: marks or settings are made (M), and their effect is recorded (S).
ORDERS = {
    "early": (INSTALL, "M", "S"),
    "late": ("M", INSTALL, "S"),
    "twice": ("M", INSTALL, INSTALL, "S"),
    "in the middle": ("M", "S", INSTALL, "S"),
    "uninstalled between": ("M", INSTALL, UNINSTALL, "S"),
    "uninstalled": (INSTALL, "M", UNINSTALL, "S"),
    "installed again": (INSTALL, "M", UNINSTALL, INSTALL, "S"),
    "made again": (INSTALL, "M", UNINSTALL, "M", INSTALL, "S"),
}
MARKS = """
def strategy(current, below):
    return E._FrameExecStrategy(E._FrameAction(current), E._FrameAction(below))

def inner(x):
    seen.append(torch.compiler.is_compiling())
    return x * 2

@torch.compiler.disable(recursive=False)
def disabled(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)

@torch._dynamo.decorators.skip
def skipped(x, *more, y=1, **others):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)

def closure_of(n):
    @torch._dynamo.decorators.skip
    def closure(x):
        seen.append(torch.compiler.is_compiling())
        return inner(x + n)
    return closure

@torch._dynamo.decorators.skip
def numbers(x):
    seen.append(torch.compiler.is_compiling())
    yield inner(x + 1)

class Thing:
    @torch._dynamo.decorators.skip
    def method(self, x, /, y=2, *, z=3):
        seen.append(torch.compiler.is_compiling())
        return inner(x + 1)

def unmarked(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)

def changed_its_mind(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)
torch._dynamo.decorators.skip(changed_its_mind)
torch._dynamo.reset_code(changed_its_mind.__code__)

marked = [disabled, skipped, closure_of(3), numbers, Thing().method, unmarked, changed_its_mind]
"""
MARKED_WITH_STRATEGIES = """
def all_skipped(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)

def skipped_below(x):
    seen.append(torch.compiler.is_compiling())
    torch._dynamo.graph_break()
    return inner(x + 1)

def generator(x):
    seen.append(torch.compiler.is_compiling())
    yield inner(x + 1)

async def coroutine(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)

async def asynchronous(x):
    seen.append(torch.compiler.is_compiling())
    yield inner(x + 1)

def compiled_before(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)
compiled(compiled_before)(x)
for function, *numbers_of in ((all_skipped, 1, 1), (skipped_below, 0, 1), (generator, 1, 1), (coroutine, 1, 1), (asynchronous, 1, 0),
                              (compiled_before, 1, 0)):
    E.set_code_exec_strategy(function.__code__, strategy(*numbers_of))
    marked.append(function)
"""
SEEN = """
@torch._dynamo.decorators.skip
def call(function):
    made = function(x)
    if hasattr(made, "__anext__"):
        made = made.__anext__()
    if hasattr(made, "send"):
        try:
            made.send(None)
        except StopIteration:
            pass

def late(x):
    seen.append(torch.compiler.is_compiling())
    return inner(x + 1)

for function in [*marked, torch.compiler.disable(late, recursive=False)]:
    # What one way has compiled the other one does not know.
    for it in inner, unmarked, changed_its_mind:
        torch._dynamo.reset_code(it.__code__)
    del graphs[:], seen[:]
    for _ in range(2):
        compiled(call)(function)
    result.append([function.__name__, list(seen), [[node.op for node in graph.graph.nodes] for graph in graphs]])
"""

SETTINGS = """
checked = []
E.set_guard_complete_hook(lambda hit: checked.append(hit) or True)
E._set_lru_cache(False)
E.set_bytecode_debugger_callback(lambda code: checked.append(code.co_name))
"""
SETTINGS_SEEN = """
def g(x, n):
    return x + n
c = compiled(g, dynamic=False)
del checked[:]
for n in (1, 2, 3, 3):
    c(x, n)
entries = E._debug_get_cache_entry_list(g.__code__)
result.append([checked[:], [entry.compile_id.frame_compile_id for entry in entries], E._set_lru_cache(False),
               E.get_bytecode_debugger_callback() is not None])
"""


class Handover(unittest.TestCase):
    maxDiff = 3000

    def check(self, made, seen):
        parts, expected = {"M": made, "S": seen}, {}

        def run(order):
            script = HEAD + "result, seen = [], []\n" + "".join(parts.get(part, part) for part in order)
            return run_script("evaluator", script + "\nprint(json.dumps(result))\n")
        for name, order in ORDERS.items():
            with_evaluator = "".join(part for part in order if part in parts)
            if with_evaluator not in expected:
                expected[with_evaluator] = run(with_evaluator)
                self.assertTrue(expected[with_evaluator])
            with self.subTest(name):
                self.assertEqual(run(order), expected[with_evaluator])

    def test_marks(self):
        self.check(MARKS + ("" if TORCH_2_6 else MARKED_WITH_STRATEGIES), SEEN)

    @unittest.skipIf(TORCH_2_6, "this torch has fewer settings")
    def test_settings(self):
        self.check(SETTINGS, SETTINGS_SEEN)

    def test_names_outside_of_torch(self):
        """Wherever another package has a function of the extension, it has the hook's, and later torch's again."""
        same, served, changed = run_script("evaluator", HEAD + """
import types
outside = types.ModuleType("outside")
sys.modules["outside"] = outside
outside.__dict__["set_eval_frame"] = E.set_eval_frame
kept = {"a": E.reset_code, "b": [E.get_eval_frame_callback]}

class Engine:
    change = E.set_eval_frame

def closure_of(function):
    return lambda: function
closure = closure_of(E.get_eval_frame_callback)

def now():
    found = [outside.set_eval_frame, kept["a"], kept["b"][0], Engine.change, closure()]
    return [(id(function), id(getattr(E, function.__name__))) for function in found]
before = now()
Engine().change     # which the class caches
ferrule_dynamo.install()
during = now()
ferrule_dynamo.uninstall()
print(json.dumps([before == now(), [one == served for one, served in during], [one != other for one, other in zip(before, during)]]))
""")
        self.assertEqual((same, served, changed), (True, [True] * 5, [True] * 5))

    def refused(self, before, undo="", how="install"):
        """What is said where something cannot be handed over; nothing has changed then, and without it there is nothing to say."""
        before = before.replace("TORCH", "torch._C._dynamo.eval_frame")
        error, installed, same, value, later = run_script("evaluator", HEAD + f"""
{INSTALL if how == "uninstall" else ""}
functions = dict(vars(E))
{before}
try:
    ferrule_dynamo.{how}()
    error = None
except RuntimeError as failed:
    error = str(failed)
same = all(vars(E)[name] is value for name, value in functions.items())
installed = ferrule_dynamo.installed()
value = compiled(lambda x: x * 3)(x).tolist()
{undo}
ferrule_dynamo.{how}()
print(json.dumps([error, installed, same, value, ferrule_dynamo.installed()]))
""")
        self.assertEqual((installed, same, value, later), (how == "uninstall", True, [3.0] * 4, how == "install"))
        return error

    def test_a_name_that_cannot_be_exchanged(self):
        held = "def begin(callback, how=TORCH.set_eval_frame):\n    return how(callback)\n"
        for how in ("install", "uninstall"):
            error = self.refused(held, "begin.__defaults__ = ()", how)
            self.assertIn("eval_frame.set_eval_frame: a tuple has it", error)
            self.assertIn("FERRULE_DYNAMO=1", error)

    def test_a_guard_error_hook_of_another(self):
        error = self.refused("E.set_guard_error_hook(lambda *arguments: None)",
                             "import torch._dynamo.guards as guards\nE.set_guard_error_hook(guards.guard_error_hook)")
        self.assertIn("guard-error hook", error)

    def test_frozen_objects(self):
        """The collector does not say what is among them."""
        for how in ("install", "uninstall"):
            error = self.refused("import gc; gc.freeze()", "gc.unfreeze()", how)
            self.assertIn("gc.unfreeze()", error)

    def test_all_tools_are_in_use(self):
        error = self.refused("tools = [t for t in range(6) if sys.monitoring.get_tool(t) is None]\n"
                             "for tool in tools: sys.monitoring.use_tool_id(tool, str(tool))",
                             "sys.monitoring.free_tool_id(tools[0])")
        self.assertIn("all tools of sys.monitoring", error)

    @unittest.skipIf(TORCH_2_6, "this torch has no precompiled code")
    def test_precompiled_code(self):
        loaded = """
def source(x):
    return x + 1

def other(x):
    return x + 1
compiled(source)(x)
entry, = E._debug_get_cache_entry_list(source.__code__)
E._load_precompile_entry(other.__code__, entry.guard_manager, entry.code)
"""
        error = self.refused(loaded, "E._reset_precompile_entries(other.__code__)")
        self.assertIn("precompiled code of other", error)
        # The hook's can be given to torch.
        counts = run_script("evaluator", HEAD + INSTALL + loaded + """
counts = [len(E._debug_get_precompile_entries(other.__code__))]
ferrule_dynamo.uninstall()
counts.append(len(E._debug_get_precompile_entries(other.__code__)))
print(json.dumps(counts))
""")
        self.assertEqual(counts, [1, 1])

    def test_a_reset_is_for_both(self):
        """What the evaluator has compiled does not come back with it."""
        counts = run_script("evaluator", HEAD + """
def f(x):
    return x + 1
run = compiled(f)
run(x)
ferrule_dynamo.install()
run(x)
torch._dynamo.reset()
ferrule_dynamo.uninstall()
run(x)
print(json.dumps([len(graphs), len(E._debug_get_cache_entry_list(f.__code__))]))
""")
        self.assertEqual(counts, [3, 1])

    def test_nothing_of_what_is_read_runs(self):
        """Marks are read in calls that are stopped before their first instruction; no tool and no hook sees them."""
        seen, free = run_script("evaluator", HEAD + """
import framehook
seen = []

@torch._dynamo.decorators.skip
def marked(a, *, b=None):
    seen.append("ran")

@torch._dynamo.decorators.skip
def marked_generator(a):
    seen.append("ran")
    yield

def hook(view):
    if view.code in (marked.__code__, marked_generator.__code__):
        seen.append(view.code.co_name)
def old(frame, event, argument):
    if frame.f_code in (marked.__code__, marked_generator.__code__):
        seen.append(event)
with framehook.hook(hook):
    sys.settrace(old), sys.setprofile(old)
    ferrule_dynamo.install()
    ferrule_dynamo.uninstall()
    seen += [sys.gettrace() is not old, sys.getprofile() is not old]
    sys.settrace(None), sys.setprofile(None)
print(json.dumps([seen, [sys.monitoring.get_tool(tool) for tool in range(6)]]))
""")
        self.assertEqual((seen, free), ([False, False], [None] * 6))

    def test_other_threads_call_what_is_read(self):
        """They are not stopped, and the guard-complete hook that was set is called for them."""
        ran, wrong, checked, compilations = run_script("evaluator", HEAD + """
import ferrule_dynamo._handover as handover
ran, wrong, checked, strategy = [], [], [], handover.Reader.strategy
threading.excepthook = lambda failed: wrong.append(repr(failed.exc_value))

@torch._dynamo.decorators.skip
def marked():
    ran.append("marked")
run = compiled(lambda x: x + 1)
run(x)
if hasattr(E, "set_guard_complete_hook"):
    E.set_guard_complete_hook(lambda hit: checked.append(hit) or hit)

def elsewhere():
    marked(), run(x)

def while_another_thread_calls(self, code):
    torchs = self.torch
    if code is marked.__code__:
        def begin(callback):
            if callback is not None:
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
            return torchs["set_eval_frame"](callback)
        self.torch = torchs | {"set_eval_frame": begin}
    try:
        return strategy(self, code)
    finally:
        self.torch = torchs
handover.Reader.strategy = while_another_thread_calls
ferrule_dynamo.install()
print(json.dumps([ran, wrong, checked, len(graphs)]))
""")
        self.assertEqual((ran, wrong, compilations), (["marked"], [], 1))
        self.assertEqual(checked, [] if TORCH_2_6 else [True])

    def test_interrupts(self):
        """In whatever line one is raised, the hook is installed or it is not, and the next call does what is left. No mark or setting is lost."""
        lines, wrong = run_script("evaluator", EVALUATOR + HEAD + """
import framehook
compiled(lambda x: x - 1)(x)
ferrule_dynamo.install(), ferrule_dynamo.uninstall()
import ferrule_dynamo._handover as handover, ferrule_dynamo._names as names, ferrule_dynamo._patching as patching

def marked(x):
    return x + 1
if hasattr(E, "skip_code"):
    E.skip_code(marked.__code__)
else:
    E.set_code_exec_strategy(marked.__code__, E._FrameExecStrategy(E._FrameAction(1), E._FrameAction(0)))
checks = lambda hit: hit
set_hook = getattr(E, "set_guard_complete_hook", None) and (lambda hook: E.set_guard_complete_hook(hook))
set_hook and set_hook(checks)
torchs = {name: id(value) for name, value in vars(E).items() if name in patching.SERVED_BY}
traced = {function.__code__ for function in (
    patching.install_into, patching.take_settings_over, patching.remove, patching.give_back, patching.uninstall_from_torch,
    patching.set_classes_of_entries, handover.hand_over_settings, handover.read_marks, handover.Reader.begin, names.exchange)}
known, wrong = set(), []

def interrupted(change):
    # Raises in the first line of these functions that has not raised yet. Returns the line.
    line = None

    def trace(frame, event, argument):
        nonlocal line
        # Not again where the package sets the trace function back.
        if line or frame.f_code not in traced:
            return None
        here = change.__name__, frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno
        if event == "line" and here not in known:
            known.add(here)
            line = here
            raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        change()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return line

def check(line, *expected):
    count = len(graphs)
    compiled(marked)(x)
    found = {ferrule_dynamo.installed(), bool(framehook.hooks()), *(id(getattr(E, name)) != value for name, value in torchs.items())}
    kept = len(graphs) == count, set_hook is None or set_hook(checks) is checks, is_default(), sys.monitoring.get_tool(5) is None
    if len(found) != 1 or not all(kept) or expected and found != set(expected):
        wrong.append([line, sorted(found), kept])

for change, back, installed in ((ferrule_dynamo.install, ferrule_dynamo.uninstall, True), (ferrule_dynamo.uninstall, ferrule_dynamo.install, False)):
    if not installed:
        back()
    while line := interrupted(change):
        check(line)
        if ferrule_dynamo.installed() == installed:
            back()
    change()
    check("whole", installed)
value = compiled(lambda x: x * 3)(x).tolist()
if value != [3.0] * 4 or not is_default():
    wrong.append(value)
print(json.dumps([sorted(known), wrong]))
""")
        self.assertEqual(wrong, [])
        self.assertGreater(len(lines), 40)
