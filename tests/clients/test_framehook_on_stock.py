"""The distribution framehook: hooks over sys.monitoring on stock CPython, and Ferrule's own where they are."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import venv

from stock_support import ROOT, STOCK, check_listing

SOURCE = os.path.join(ROOT, "clients", "framehook", "src")

# Those of tests/python that are about hooks in Python, and run for seconds.
MODULES = (
    "test_hook_promises_coexistence", "test_hook_promises_cost", "test_hook_promises_dispatch", "test_hook_promises_interpreters",
    "test_hook_promises_order", "test_hook_promises_replacement", "test_framehook_blocks", "test_framehook_names", "test_frame_hooks_blocks",
    "test_frame_hooks_blocks_elsewhere", "test_frame_hooks_python", "test_frame_hooks_threads", "test_hook_event_context",
    "test_hook_reentrant", "test_hook_scopes_and_results", "test_hook_scopes_threads", "test_hook_watching", "test_hook_watching_changes",
    "test_hook_watching_failures", "test_hook_watching_generators", "test_hook_watching_tools", "test_hooks_of_one_thread",
)


def run(command, python=STOCK, **variables):
    return subprocess.run([python, *command], capture_output=True, text=True, timeout=300, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": SOURCE, **variables})


@unittest.skipIf(not STOCK, "no stock build: STOCK_PYTHON is not set")
class OnStock(unittest.TestCase):
    def program(self, source, *arguments, **variables):
        """What a program printed, in lines."""
        done = run(["-c", source, *arguments], **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_what_is_promised_of_hooks_holds_but_for_what_is_listed(self):
        check_listing(self, "framehook_on_stock.toml", os.path.join(ROOT, "tests", "python"), MODULES, PYTHONPATH=SOURCE,
                      FERRULE_TESTS_ON_MONITORING="1")

    def test_the_tools_of_the_tutorial(self):
        """They print on stock what the page says, but for what is listed here."""
        with open(os.path.join(ROOT, "docs", "frame-hooks.md"), encoding="utf-8") as file:
            said = dict(re.findall(r"<!-- examples/hooks/(\w+)\.py -->\n```python\n.*?^```\n```text\n(.*?)^```$", file.read(),
                                   re.DOTALL | re.MULTILINE))
        self.assertEqual(len(said), 6)
        # What a generator that is dropped would be reported by; what the event loop has resumed, and not created.
        said["call_tracer"] = said["call_tracer"].replace("  numbers dropped\n", "")
        said["slow_calls"] = re.sub(r"(blocks.*) called by serve, line \d+", r"\1 called by _run, line N", said["slow_calls"])
        said["task_times"] = said["task_times"].replace("dropped in worker", "suspended")
        for name in ("call_counter", "call_tracer", "slow_calls", "task_times"):
            with self.subTest(name):
                done = run([os.path.join(ROOT, "examples", "hooks", f"{name}.py")])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                found = re.sub(r"(called by _run, line) \d+", r"\1 N", done.stdout)
                order = sorted if name == "task_times" else list    # in which tasks first run, not that in which they are made
                self.assertEqual(order(found.splitlines()), order(said[name].splitlines()))
        for name, feature, code in (("hot_swap", "replace", 0), ("fake_calls", "result", 1)):
            with self.subTest(name):
                done = run([os.path.join(ROOT, "examples", "hooks", f"{name}.py")])
                self.assertEqual(done.returncode, code)
                if code:
                    self.assertRegex(done.stderr, rf"\nframehook\.NotSupported: .*supports\('{feature}'\)")
                else:
                    self.assertEqual(done.stdout.count("is refused: a frame that sys.monitoring reports has its code already"), 3)

    def test_what_is_not_supported_says_so(self):
        self.assertEqual(self.program(r"""
import framehook
def target(): return 1
def other(): return 2
def generator(): yield
answers = {
    "replace": lambda view: other,
    "result": lambda view: view.result(3),
    "function": lambda view: view.function and None,
}
for feature, answer in answers.items():
    with framehook.hook(lambda view: answer(view) if view.code is target.__code__ else framehook.DISABLE, "one") as hook:
        try:
            target()
        except framehook.NotSupported as error:
            print(feature, framehook.supports(feature), isinstance(error, NotImplementedError), repr(feature) in str(error), hook.info.errors)
print(framehook.supports("creation"), framehook.supports("dropped"))
print(framehook.incompatibility(target, target), framehook.incompatibility(target, other) is None)
try:
    framehook.supports("nonsense")
except ValueError as error:
    print(error)
"""), ["replace False True True 1", "result False True True 1", "function False True True 1", "False False", "None False",
       "frame hooks have no feature 'nonsense'; there are creation, dropped, function, replace, result"])

    def test_the_id_of_a_tool(self):
        """One that is free, given back with the last hook; an error that names the tools where none is."""
        self.assertEqual(self.program(r"""
import framehook, sys
taken = lambda: [sys.monitoring.get_tool(number) for number in range(6)]
def hook(view): seen.append(view.code.co_name)
def target(): pass
seen = []
for number in (5, 4):
    sys.monitoring.use_tool_id(number, f"tool {number}")
with framehook.hook(hook):
    target()
    print(taken()[3:])
print(taken()[3:], seen.count("target"))
for number in range(4):
    sys.monitoring.use_tool_id(number, f"tool {number}")
try:
    framehook.add(hook)
except RuntimeError as error:
    print(error)
print(framehook.hooks())
sys.monitoring.free_tool_id(0)
framehook.add(hook)
target()
sys.monitoring.free_tool_id(0)      # what no tool should do to another
framehook.remove(hook)
print(taken()[0], seen.count("target"))
"""), ["['framehook', 'tool 4', 'tool 5']", "[None, 'tool 4', 'tool 5'] 1",
       "sys.monitoring has no tool id left for frame hooks; these have them: tool 0, tool 1, tool 2, tool 3, tool 4, tool 5", "[]", "None 2"])

    def test_beside_another_tool(self):
        """Its events and its own DISABLE are left alone; its restart_events() does not enable a hook for disabled code. The id that was
        given back is as new for the next tool."""
        self.assertEqual(self.program(r"""
import framehook, sys
monitoring, events = sys.monitoring, sys.monitoring.events
def target(): return 1
def plain(): return 2
def start(code, offset):
    seen.append(("tool", code.co_name))
    return monitoring.DISABLE if code is plain.__code__ else None
def hook(view):
    if view.code not in (target.__code__, plain.__code__): return framehook.DISABLE
    seen.append(("hook", view.code.co_name))
    return framehook.DISABLE if view.code is target.__code__ else None
def use(name):
    target(), target(), plain(), plain()
    print(name, *("-".join(one) for one in seen if one[1] in ("target", "plain")))
    seen.clear()
seen = []
monitoring.use_tool_id(2, "tool")
monitoring.register_callback(2, events.PY_START, start)
monitoring.set_events(2, events.PY_START)
with framehook.hook(hook):
    use("both")
    monitoring.restart_events()
    use("restarted")
    framehook.enable_for_code(hook, target)
    use("enabled")
    monitoring.set_events(2, 0)
    use("alone")
use("none")
monitoring.use_tool_id(5, "next")
monitoring.register_callback(5, events.PY_START, lambda code, offset: seen.append(("next", code.co_name)))
monitoring.set_events(5, events.PY_START)
use("next")
"""), ["both hook-target tool-target tool-target hook-plain tool-plain hook-plain",
       "restarted tool-target tool-target hook-plain tool-plain hook-plain",
       "enabled hook-target tool-target tool-target hook-plain tool-plain hook-plain",
       "alone hook-plain hook-plain", "none", "next next-target next-target next-plain next-plain"])

    def test_generators_that_are_released_are_forgotten(self):
        """Nothing tells of them before 3.14, so they are looked for when there are many."""
        self.assertEqual(self.program(r"""
import framehook, gc
from framehook import _monitoring
def generator(value):
    yield value
def hook(view):
    if view.code is not generator.__code__: return framehook.DISABLE
    view.watch(events.append, yields=True, resumes=True)
events = []
with framehook.hook(hook):
    kept = [generator(n) for n in range(10)]
    for one in kept: next(one)
    for n in range(20_000): next(generator(n))
    print(len(_monitoring.records) < 4_000, len(events))
    events.clear()
    for one in kept: list(one)
    print([event.kind for event in events] == ["resumed", "returned"] * 10)
print(len(_monitoring.records))
"""), ["True 40020", "True", "0"])

    def test_changes_in_the_middle_of_calls(self):
        """Hooks are removed, added and disabled by entry callbacks, exit callbacks and destructors."""
        self.assertEqual(self.program(r"""
import framehook
def target(deep=0): return target(deep - 1) if deep else "value"
def events(name):
    def delivered(event):
        log.append((name, event.kind))
        for act in acts.pop(name, ()): act()
    return delivered
def made(name):
    def hook(view):
        if view.code is not target.__code__: return framehook.DISABLE
        log.append((name, "entry"))
        view.watch(events(name))
    hook.__qualname__ = name
    return hook
def use(*calls):
    log.clear()
    framehook.clear()
    for hook in (one, two, three): framehook.add(hook)
    for call in calls: assert call() == "value"
    print(" ".join(f"{name}:{what}" for name, what in log))
one, two, three, four = map(made, ("one", "two", "three", "four"))
log, acts = [], {}
use(target)
acts["two"] = [lambda: framehook.remove(one)]
use(target, target)
acts["three"] = [lambda: framehook.remove(three), lambda: framehook.add(four, first=True)]
use(target, target)
acts["three"] = [framehook.clear]
use(target, target)
acts["three"] = [lambda: framehook.disable(two)]        # its watches have their events
use(target, target)
acts["three"] = [lambda: framehook.reentrant(target)()]
use(target)
"""), ["one:entry two:entry three:entry three:returned two:returned one:returned",
       "one:entry two:entry three:entry three:returned two:returned two:entry three:entry three:returned two:returned",
       "one:entry two:entry three:entry three:returned two:returned one:returned "
       "four:entry one:entry two:entry two:returned one:returned four:returned",
       "one:entry two:entry three:entry three:returned",
       "one:entry two:entry three:entry three:returned two:returned one:returned one:entry three:entry three:returned one:returned",
       "one:entry two:entry three:entry three:returned one:entry two:entry three:entry three:returned two:returned one:returned "
       "two:returned one:returned"])

    def test_a_signal_handler_that_raises_leaves_no_lock(self):
        """Wherever it interrupts a change of hooks: other threads can change them afterwards."""
        self.assertEqual(self.program(r"""
import framehook, signal, sys, threading
class Stopped(Exception): pass
def stop(number, frame): raise Stopped
def hook(view): pass
def change():
    for n in range(20):
        with framehook.hook(hook), framehook.disabled(hook): pass
signal.signal(signal.SIGALRM, stop)
stopped = 0
for number in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00005 + number % 50 * 0.00001)
        change()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Stopped:
        stopped += 1
        framehook.clear()       # the end of a block may have been interrupted
thread = threading.Thread(target=change, daemon=True)
thread.start()
thread.join(30)
print(stopped > 20, thread.is_alive(), framehook.hooks(), [sys.monitoring.get_tool(number) for number in range(6)].count("framehook") <= 1)
"""), ["True False [] True"])

    def test_a_destructor_may_wait_for_a_thread_that_changes_hooks(self):
        self.assertEqual(self.program(r"""
import framehook, threading
def other(view): pass
class Data:
    def __del__(self):
        thread = threading.Thread(target=lambda: framehook.remove(framehook.add(other)), daemon=True)
        thread.start()
        thread.join(30)
        ends.append(thread.is_alive())
def generator(): yield
def hook(view):
    if view.code is generator.__code__: view.watch(print, Data())
ends = []
framehook.add(hook)
made = generator()
next(made)
framehook.remove(hook)
framehook.add(lambda view, data=Data(): None)
framehook.clear()
print(ends)
"""), ["[False, False]"])

    def test_the_end_of_the_interpreter(self):
        """Hooks end with the functions of atexit. After that there are none, nor can any be added; daemon threads run on."""
        self.assertEqual(self.program(r"""
import atexit, threading, time
@atexit.register
def late():
    print("late", framehook.hooks())
    try:
        framehook.add(print)
    except RuntimeError as error:
        print(error)
import framehook
def hook(view):
    seen.append(view.code.co_name)
    if view.code is spin.__code__: view.watch(seen.append)
def spin(): pass
def forever():
    while True: spin()
seen = []
framehook.add(hook)
framehook.add(lambda view: None, this_thread=True)
atexit.register(lambda: print("at the end", len(seen) >= 1000, len(framehook.hooks())))
threading.Thread(target=forever, daemon=True).start()
while len(seen) < 1000: time.sleep(0.001)
"""), ["at the end True 2", "late []", "frame hooks cannot be added while the interpreter ends"])

    def test_it_cannot_be_imported_without_monitoring(self):
        """As with 3.11, of which pip says that it is not for that."""
        done = run(["-c", "import sys; del sys.monitoring; import framehook"])
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\nImportError: framehook needs .* Ferrule .*sys\.monitoring, 3\.12 or newer\. This one is .*\n$")


class Shared(unittest.TestCase):
    """One file is both."""

    ABOUT = "import framehook; print(framehook.__file__, framehook._core.__name__, all(map(framehook.supports, framehook._FEATURES)))"

    def test_the_distribution_takes_the_files_of_the_library(self):
        for name, own in (("framehook.py", "__init__.py"), ("framehook.pyi", "__init__.pyi")):
            self.assertTrue(os.path.samefile(os.path.join(ROOT, "overlay", "Lib", name), os.path.join(SOURCE, "framehook", own)))
        with tempfile.TemporaryDirectory() as directory:
            done = run(["-m", "tools.clients", "--python", sys.executable, "--packages", directory, "--only", "framehook"], sys.executable)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            found = {name: os.path.islink(os.path.join(directory, "framehook", name)) for name in os.listdir(os.path.join(directory, "framehook"))}
        self.assertEqual(found, dict.fromkeys(("__init__.py", "__init__.pyi", "_monitoring.py", "_views.py", "py.typed"), False))

    def test_it_is_not_installed_with_an_interpreter(self):
        from tools import clients
        self.assertNotIn("framehook", [client.name for client in clients.installed()])
        self.assertIn("framehook", [client.name for client in clients.sources()])

    def test_a_distribution_that_is_installed_on_ferrule_is_not_imported(self):
        with tempfile.TemporaryDirectory() as directory:
            venv.create(directory)
            site = os.path.join(directory, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}{sys.abiflags}", "site-packages")
            os.symlink(os.path.join(SOURCE, "framehook"), os.path.join(site, "framehook"))
            done = run(["-c", self.ABOUT], os.path.join(directory, "bin", "python"), PYTHONPATH="")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"/framehook\.py _framecore True\n$")

    def test_one_that_is_found_first_uses_the_hooks_of_ferrule(self):
        done = run(["-c", self.ABOUT], sys.executable)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"/clients/framehook/src/framehook/__init__\.py _framecore True\n$")
