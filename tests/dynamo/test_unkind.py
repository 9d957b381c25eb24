"""Concurrent use: threads that compile while others reset, install and uninstall; forks; subinterpreters."""

import subprocess
import sys
import unittest

from support import COMPILES, EVALUATOR, INSTALL, TORCH_2_6, environment, run_script

BROKEN = """
def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2
"""
WHILE_THREADS_COMPILE = BROKEN + """
import time

def while_threads_compile(seconds, act):
    # Acts again and again; returns what went wrong in the threads.
    compiled(broken)    # which imports more of torch: several threads at once would find modules half made
    wrong, end = [], time.monotonic() + seconds

    def work(n):
        f, g = compiled(broken), compiled(lambda x: x - n, fullgraph=True)
        while time.monotonic() < end:
            try:
                if not torch.equal(f(x), (x + 1) * 2) or not torch.equal(g(x), x - n):
                    wrong.append("value")
            except BaseException as error:
                wrong.append(repr(error))
        callback = torch._C._dynamo.eval_frame.get_eval_frame_callback()
        if callback is not None:
            wrong.append(repr(callback))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        act()
        time.sleep(0.002)
    for thread in threads:
        thread.join()
    return wrong
"""


class Unkind(unittest.TestCase):
    def test_resets_while_threads_compile(self):
        """torch's own evaluator does not survive this."""
        wrong, callback = run_script("hooks", COMPILES + WHILE_THREADS_COMPILE + """
wrong = while_threads_compile(4, torch._dynamo.reset)
print(json.dumps([wrong, torch._C._dynamo.eval_frame.get_eval_frame_callback()]))
""")
        if TORCH_2_6:
            # A reset empties tables of codes that another thread's compiler reads.
            wrong = [error for error in wrong if not error.startswith("KeyError(")]
        self.assertEqual((wrong, callback), ([], None))

    def test_a_compiled_call_without_memory(self):
        """Calls alone: where memory runs out while torch compiles, torch itself crashes, with its evaluator too."""
        seen, callback = run_script("hooks", COMPILES + BROKEN + """
import _testcapi, collections

def whole(x):
    return (x + 1) * 2

seen, wanted = {}, ((x + 1) * 2).tolist()
for name, function in dict(whole=whole, broken=broken, skipped=torch.compiler.disable(whole)).items():
    function, seen[name] = compiled(function), collections.Counter()
    function(x)
    for number in range(200):
        _testcapi.set_nomemory(number, number + 1)
        try:
            value = function(x)
        except (MemoryError, torch.OutOfMemoryError):
            value = None
        finally:
            _testcapi.remove_mem_hooks()
        seen[name]["failed" if value is None else "right" if value.tolist() == wanted else "wrong"] += 1
        seen[name]["wrong"] += function(x).tolist() != wanted
print(json.dumps([seen, torch._C._dynamo.eval_frame.get_eval_frame_callback()]))
""")
        self.assertIsNone(callback)
        for name, counts in seen.items():
            self.assertEqual(counts["wrong"], 0, name)
            self.assertGreater(min(counts["failed"], counts["right"]), 3, name)

    def test_installs_and_uninstalls_while_threads_compile(self):
        wrong, done, default = run_script("evaluator", EVALUATOR + COMPILES + WHILE_THREADS_COMPILE + """
import collections, ferrule_dynamo
done = collections.Counter()

def changes():
    for change in (ferrule_dynamo.install, ferrule_dynamo.uninstall):
        try:
            change()
            done[change.__name__] += 1
        except RuntimeError as error:
            assert "torch.compile region" in str(error), error

wrong = while_threads_compile(6, changes)
ferrule_dynamo.uninstall()
print(json.dumps([wrong, done, is_default()]))
""")
        self.assertEqual((wrong, default), ([], True))
        self.assertGreater(done["install"], 0)

    def test_threads_install_and_uninstall_at_the_same_time(self):
        errors, clean = run_script("evaluator", EVALUATOR + COMPILES + """
import framehook, ferrule_dynamo
E, errors, barrier = torch._C._dynamo.eval_frame, [], threading.Barrier(4)
originals = dict(vars(E))

def work():
    for _ in range(5):
        for change in ferrule_dynamo.install, ferrule_dynamo.uninstall:
            barrier.wait(60)
            try:
                change()
            except BaseException as error:
                errors.append(repr(error))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
compiled(lambda x: x + 1)(x)
same = all(vars(E)[name] is value for name, value in originals.items())
print(json.dumps([errors, [same, ferrule_dynamo.installed(), len(framehook.hooks()), is_default(), len(graphs)]]))
""")
        self.assertEqual((errors, clean), ([], [True, False, 0, True, 1]))

    def test_not_while_it_is_being_installed(self):
        """By a destructor, or a signal handler, that runs meanwhile in the same thread."""
        errors, installed = run_script("evaluator", COMPILES + """
import ferrule_dynamo, ferrule_dynamo._patching as patching
errors, take_over = [], patching.take_settings_over

def destructor_runs(extension):
    for change in ferrule_dynamo.install, ferrule_dynamo.uninstall:
        try:
            change()
        except RuntimeError as error:
            errors.append(str(error))
    take_over(extension)
patching.take_settings_over = destructor_runs
ferrule_dynamo.install()
print(json.dumps([errors, [ferrule_dynamo.installed(), compiled(lambda x: x + 1)(x).tolist(), len(graphs)]]))
""")
        self.assertEqual(errors, ["ferrule_dynamo is being installed or uninstalled"] * 2)
        self.assertEqual(installed, [True, [2.0] * 4, 1])

    def test_a_child_of_a_fork_while_it_is_installed(self):
        """The fork waits until it is, so the child has all or nothing of it."""
        codes = run_script("evaluator", COMPILES + """
import os, time, warnings, ferrule_dynamo
warnings.simplefilter("ignore")
codes, end = [], threading.Event()

def change():
    while not end.is_set():
        ferrule_dynamo.install()
        ferrule_dynamo.uninstall()
        time.sleep(0.01)        # else the lock is never free when the fork waits for it
thread = threading.Thread(target=change)
thread.start()
for _ in range(4):
    child = os.fork()
    if not child:
        code = 1
        try:
            ferrule_dynamo.install()
            code = 0 if torch.equal(compiled(lambda x: x * 5)(x), x * 5) and ferrule_dynamo.installed() else 2
        except BaseException:
            code = 3
        finally:
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
end.set()
thread.join()
print(json.dumps(codes))
""")
        self.assertEqual(codes, [0] * 4)

    def test_a_child_of_a_fork_while_it_is_imported(self):
        """CPython leaves what another thread was importing locked in the child."""
        code = run_script("evaluator", """
import json, os, signal, sys, threading, time, ferrule_dynamo
begun = threading.Event()

class Slow:
    def find_spec(name, path=None, target=None):
        if name == "ferrule_dynamo._patching" and not begun.is_set():
            begun.set()
            time.sleep(1)       # the fork comes meanwhile

sys.meta_path.insert(0, Slow)
thread = threading.Thread(target=ferrule_dynamo.__getattr__, args=("installed",))
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    ferrule_dynamo.installed()
    os._exit(0)
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
thread.join()
""")
        self.assertEqual(code, 0)

    def test_installed_while_another_thread_is_in_a_region(self):
        """The region ends as it would have, and the evaluator with it."""
        seen = run_script("evaluator", EVALUATOR + COMPILES + """
import ferrule_dynamo
inside, may_continue = threading.Event(), threading.Event()
seen = []

def wait():
    inside.set()
    may_continue.wait(60)
disabled, skipped = torch.compiler.disable(wait), torch._dynamo.decorators.skip(lambda: wait())

def waits_while_it_compiles(module, inputs):
    # What it calls begins and ends regions of its own.
    compiled(lambda x: x * 2)(x)
    wait()
    compiled(lambda x: x * 3)(x)
    return module.forward

def waits_in_a_full_graph(module, inputs):
    def run(*arguments):
        wait()
        disabled_too(), compiled(lambda x: x * 4)(x)
        return module.forward(*arguments)
    return run
disabled_too = torch.compiler.disable(lambda: None)

def f(x):
    disabled()
    return x + 1

def g(x):
    skipped()
    return x + 1

def h(x):
    return x + 1

for make in (lambda: compiled(f), lambda: compiled(g), lambda: torch.compile(h, backend=waits_while_it_compiles),
             lambda: torch.compile(h, backend=waits_in_a_full_graph, fullgraph=True)):
    torch._dynamo.reset()
    inside.clear(), may_continue.clear()

    def work():
        try:
            results = [make()(x).tolist(), compiled(lambda x: x * 3, fullgraph=True)(x).tolist()]
        except BaseException as error:
            results = repr(error)
        seen.append([results, torch._C._dynamo.eval_frame.get_eval_frame_callback() is None])
    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    ferrule_dynamo.install()
    may_continue.set()
    thread.join()
    seen[-1].append(is_default())
    ferrule_dynamo.uninstall()
print(json.dumps(seen))
""")
        # torch 2.6 has set its evaluator for good where it compiles, or runs a full graph, when the hook is installed.
        default = [True, True, not TORCH_2_6, not TORCH_2_6]
        self.assertEqual(seen, [[[[2.0] * 4, [3.0] * 4], True, is_default] for is_default in default])

    def test_an_interrupt_in_the_comparison_of_backends(self):
        """It is raised. Other exceptions mean that it is another backend, as with the evaluator."""
        script = COMPILES + """
class Backend:
    def __init__(self, error):
        self.error = error

    def __call__(self, module, inputs):
        return backend(module, inputs)

    def __eq__(self, other):
        global compares
        if compares:
            compares = False
            raise self.error
        return self is other
    __hash__ = object.__hash__

def f(x):
    return x + 1
seen = []
for error in (KeyboardInterrupt, SystemExit, LookupError):
    torch._dynamo.reset()
    compares = False        # not now: torch compares backends with others
    torch.compile(f, backend=Backend(error))(x)
    compares = True
    try:
        seen.append(compiled(f)(x).tolist())
    except BaseException as raised:
        seen.append(type(raised).__name__)
    seen.append(torch._C._dynamo.eval_frame.get_eval_frame_callback())
print(json.dumps(seen))
"""
        hooks, evaluator = run_script("hooks", script), run_script("evaluator", script)
        self.assertEqual(hooks, ["KeyboardInterrupt", None, "SystemExit", None, [2.0] * 4, None])
        self.assertEqual(evaluator, [[2.0] * 4, None] * 3)

    @unittest.skipIf(TORCH_2_6, "this torch has no such hook")
    def test_a_guard_complete_hook_raises(self):
        """Its exception is the call's; with the evaluator the process aborts."""
        seen = run_script("hooks", COMPILES + """
E, seen = torch._C._dynamo.eval_frame, []

def fails(hit):
    raise LookupError(hit)
f = compiled(lambda x: x + 1)
f(x)
E.set_guard_complete_hook(fails)
for argument in x, torch.ones(5):
    try:
        f(argument)
    except LookupError as error:
        seen.append([error.args[0], E.get_eval_frame_callback()])
E.set_guard_complete_hook(None)
print(json.dumps([seen, f(x).tolist(), len(graphs)]))
""")
        self.assertEqual(seen, [[[True, None], [False, None]], [2.0] * 4, 1])

    @unittest.skipIf(TORCH_2_6, "this torch has no strategies")
    def test_an_action_with_an_unknown_number(self):
        errors, value = run_script("hooks", COMPILES + """
import types
E, errors = torch._C._dynamo.eval_frame, []

def f(x):
    return x + 1
for numbers in ((3, 0), (0, -1)):
    current, below = (types.SimpleNamespace(value=number) for number in numbers)
    try:
        E.set_code_exec_strategy(f.__code__, types.SimpleNamespace(cur_action=current, recursive_action=below))
    except ValueError as error:
        errors.append(str(error))
print(json.dumps([errors, [compiled(f)(x).tolist(), len(graphs)]]))
""")
        self.assertEqual(errors, ["ferrule_dynamo knows no FrameAction 3", "ferrule_dynamo knows no FrameAction -1"])
        self.assertEqual(value, [[2.0] * 4, 1])

    def test_classes_look_like_those_of_torch(self):
        script = COMPILES + """
def f(x):
    return x + 1
compiled(f)(x)
E = torch._C._dynamo.eval_frame
entry, = E._debug_get_cache_entry_list(f.__code__)
classes = [type(entry), type(entry.guard_manager.extra_state), E._PyInterpreterFrame]
print(json.dumps([[repr(it), sorted(name for name in dir(it) if not name.startswith("__"))] for it in classes]))
"""
        hooks, evaluator = run_script("hooks", script), run_script("evaluator", script)
        for (name, has), (expected, torch_has) in zip(hooks, evaluator, strict=True):
            self.assertEqual(name, expected)
            # pybind11's way to hand an object to other extensions, which no other one can offer.
            expected_here = set(torch_has) - {"_pybind11_conduit_v1_"}
            if TORCH_2_6 and name.endswith("_CacheEntry'>"):
                expected_here |= {"backend", "isolate_recompiles_id"}      # as later ones have
            self.assertEqual(expected_here, set(has), name)

    def test_not_by_a_backend(self):
        errors = run_script("evaluator", COMPILES + """
import ferrule_dynamo
errors = []

def unkind(module, inputs):
    for change in (ferrule_dynamo.install, ferrule_dynamo.uninstall):
        try:
            change()
        except RuntimeError as error:
            errors.append(str(error))
    return module.forward
torch.compile(lambda x: x + 1, backend=unkind)(x)
ferrule_dynamo.install()
torch.compile(lambda x: x + 2, backend=unkind)(x)
print(json.dumps(errors))
""")
        # Where it is installed already, or not at all, there is nothing to do.
        self.assertEqual(len(errors), 2, errors)
        self.assertTrue(all("torch.compile region" in error for error in errors), errors)

    def test_a_child_has_no_threads_of_its_parent(self):
        code = run_script("hooks", COMPILES + """
import os, warnings
warnings.simplefilter("ignore")
inside, may_continue = threading.Event(), threading.Event()

@torch._dynamo.decorators.skip
def wait():
    inside.set()
    may_continue.wait(60)

def f(x):
    wait()
    return x + 1
thread = threading.Thread(target=lambda: compiled(f)(x))
thread.start()
assert inside.wait(60)
child = os.fork()
if not child:
    code = 1
    try:
        code = 0 if torch.equal(compiled(lambda x: x * 5)(x), x * 5) else 2
        ferrule_dynamo.uninstall()      # no thread of this process is in a region
    except RuntimeError:
        code = 3
    finally:
        os._exit(code)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
may_continue.set()
thread.join()
print(json.dumps(code))
""")
        self.assertEqual(code, 0)

    def test_subinterpreters_start_as_without_it(self):
        done = subprocess.run([sys.executable, "-c", INSTALL["hooks"] + COMPILES + """
import _interpreters

@torch._dynamo.decorators.skip
def elsewhere():
    for kind in ("legacy", "isolated"):
        other = _interpreters.create(kind)
        failed = _interpreters.exec(other, "def f(n): return n + 1\\\\nassert sum(map(f, range(10))) == 55")
        assert failed is None, failed
        _interpreters.destroy(other)

def f(x):
    elsewhere()
    return x + 1
print(compiled(f)(x).tolist(), compiled(lambda x: x * 3)(x).tolist())
""".replace("\\\\n", "\\n")], env=environment(FERRULE_DYNAMO="1"), text=True, check=False, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, "[2.0, 2.0, 2.0, 2.0] [3.0, 3.0, 3.0, 3.0]\n"), done.stderr)
        self.assertNotIn("Error", done.stderr)

    def test_an_interpreter_starts_without_the_extension(self):
        done = subprocess.run([sys.executable, "-c", "import sys; print('ferrule_dynamo._core' in sys.modules)"],
                              env=environment(), text=True, check=True, capture_output=True)
        self.assertEqual(done.stdout, "False\n")

    def test_a_hook_behind_it_fails_replaces_and_answers(self):
        """Whatever becomes of a compiled frame, the callback is what it was."""
        seen = run_script("hooks", COMPILES + """
import framehook
extension = torch._C._dynamo.eval_frame
seen = []

def small(x):
    return x * 2

def other(x):
    return x * 100

def look():
    seen.append(callable(extension.get_eval_frame_callback()))

for options in ({}, {"fullgraph": True}):
    run = compiled(small, **options)
    run(x)
    (entry,) = extension._debug_get_cache_entry_list(small.__code__)

    def last(view):
        if view.code is entry.code:
            if way == "raise":
                raise LookupError("last")
            return other.__code__ if way == "replace" else view.result("result")

    @torch._dynamo.decorators.skip
    def inner():
        global way
        for way in ("raise", "replace", "result"):
            try:
                value = run(x)
                seen.append(value if way == "result" else value.tolist())
            except LookupError as error:
                seen.append(str(error))
            look()

    def outer(x):
        inner()
        return x
    with framehook.hook(last):
        compiled(outer)(x)
    torch._dynamo.reset()
print(json.dumps(seen))
""")
        self.assertEqual(seen, ["last", True, [100.0] * 4, True, "result", True] * 2)
