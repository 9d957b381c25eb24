"""Frame hooks while something else happens at any moment: faulthandler, recursion limits, stack overflow, forks, and the end."""

import itertools
import random
import sys
import unittest

from support import FREE_THREADED, ON_STOCK, ProgramTestCase, framecore, framehook, make_recursion, needs_hooks, use_extensions

use_extensions()
import datahooks
import evaluators
import framehooks

from test_hook_data import ON_EXIT, PASS

EVALUATORS = ("default", "pass", "count")


# --- Recursion that does not end, of each kind. ---------------------------------------------------------------------

def function(n):
    return function(n + 1)


def generator(n):
    yield from generator(n + 1)


async def coroutine(n):
    return await coroutine(n + 1)


def through_c(n):
    return max(map(through_c, (n + 1,)))


def many_locals(n):
    a = b = c = d = e = f = g = h = n
    return many_locals(a + 1) + sum((b, c, d, e, f, g, h))


class Thing:
    def __init__(self, n):
        self.inner = Thing(n + 1)

    @property
    def read(self):
        return self.read

    def __getitem__(self, index):
        return self[index + 1]

    def __getattr__(self, name):
        return getattr(self, name + "x")

    def __eq__(self, other):
        return self == other


def send(made):
    made.send(None)


THING = Thing.__new__(Thing)
ENDLESS = {
    function: lambda: function(0),
    generator: lambda: next(generator(0)),
    coroutine: lambda: send(coroutine(0)),
    through_c: lambda: through_c(0),
    many_locals: lambda: many_locals(0),
    Thing.__init__: lambda: Thing(0),
    Thing.read.fget: lambda: THING.read,
    Thing.__getitem__: lambda: THING[0],
    Thing.__getattr__: lambda: THING.missing,
    Thing.__eq__: lambda: THING == 1,
}
CODES = [function.__code__ for function in ENDLESS]
IDS = {id(code) for code in CODES}
COPIES = {} if ON_STOCK else framehook.CodeMap(
    (code, code.replace(co_stacksize=code.co_stacksize + 7)) for code in CODES)


def watches(view):
    # By identity. To compare code objects may take C recursion, and CPython 3.13 loses the RecursionError of that.
    if id(view.code) in IDS:
        view.watch(lambda event: None, None, yields=True, resumes=True)


def add_all_in_python():
    for hook in (lambda view: None, lambda view: framehook.DISABLE, watches, lambda view: COPIES.get(view.code)):
        framehook.add(hook)


def add_all_in_c():
    for code in CODES[:3]:
        datahooks.add(code, PASS, events=ON_EXIT)
    framehooks.add_native("pass")
    framehooks.add_native("disable")
    framehooks.add_replacer({code: COPIES[code] for code in CODES})


@needs_hooks
class StackOverflow(unittest.TestCase):
    def setUp(self):
        self.addCleanup(framecore.clear_frame_hooks)
        self.addCleanup(datahooks.take_hooks)
        self.addCleanup(datahooks.take_frames)
        self.addCleanup(evaluators.set, "default")

    def test_endless_recursion_is_an_exception_with_hooks_and_evaluators(self):
        for add, evaluator in itertools.product((add_all_in_python, add_all_in_c), EVALUATORS):
            add()
            evaluators.set(evaluator)
            for function, call in ENDLESS.items():
                with self.subTest(add.__name__, evaluator=evaluator, function=function.__qualname__):
                    for _ in range(3):
                        # With a hook in Python it may be the hook that has no room.
                        with self.assertRaises(RecursionError):
                            call()
            evaluators.set("default")
            framecore.clear_frame_hooks()
            frames = datahooks.take_frames()
            self.assertEqual({frame[2:] for frame in frames}, {(1, 0)} if add is add_all_in_c else set())

    def test_limits_go_up_and_down_while_hooks_run(self):
        limits, outcomes = random.Random(1), {"value": 0, "RecursionError": 0}
        recurse = make_recursion(40)

        def set_limit():
            try:
                sys.setrecursionlimit(limits.choice((60, 90, 150, 400, 2_000, 20_000)))
            except RecursionError:
                pass        # It is deeper already.

        def changes(view):
            if limits.random() < 0.02:
                set_limit()
            if view.code is recurse.__code__:
                view.watch(on_event)

        def on_event(event):
            if limits.random() < 0.02:
                set_limit()

        copy = recurse.__code__.replace(co_stacksize=recurse.__code__.co_stacksize + 300)
        previous = sys.getrecursionlimit()
        for evaluator in EVALUATORS:
            for _ in range(150):
                framehook.add(changes)
                framehook.add(lambda view: copy if view.code is recurse.__code__ else None)
                evaluators.set(evaluator)
                try:
                    value = recurse(300, lambda: 7)
                    outcomes["value"] += 1
                except RecursionError:
                    value = 7
                    outcomes["RecursionError"] += 1
                finally:
                    evaluators.set("default")
                    framecore.clear_frame_hooks()
                    sys.setrecursionlimit(previous)
                self.assertEqual(value, 7)
                self.assertEqual(recurse(300, lambda: 8), 8)
        self.assertGreater(min(outcomes.values()), 20, outcomes)


# --- In processes of their own. ------------------------------------------------------------------------------------

SURROUNDINGS = """
import framehook, os, signal, sys, threading, time
import evaluators
from support import make_recursion

def leaf(n):
    return n

def generator(n):
    yield n
    yield leaf(n)

def fails(n):
    raise KeyError(n)

def work(n):
    total = recurse(n % 60, lambda: leaf(1))
    total += sum(generator(n))
    try:
        fails(n)
    except KeyError:
        total += 1
    return total - 2 * n

recurse = make_recursion(100)
CODES = [f.__code__ for f in (leaf, generator, fails, work, recurse)]
COPIES = framehook.CodeMap((code, code.replace(co_stacksize=code.co_stacksize + 400)) for code in CODES)

def watch(view):
    if view.code in COPIES:
        view.watch(lambda event: None, None, yields=True, resumes=True)

def replace(view):
    return COPIES.get(view.code)

sys.setrecursionlimit(20_000)
"""

DUMPS = SURROUNDINGS + """
import faulthandler, random, tempfile
file = tempfile.TemporaryFile()
# Its handler is C and runs in the middle of anything.
faulthandler.register(signal.SIGALRM, file, all_threads=sys.argv[1] == "all")
dumps = 0
moments = random.Random(1)
deadline = time.monotonic() + 240
for number in range(1_000_000):
    evaluators.set(("default", "count")[number // 20 % 2])
    # Once each time. Where a dump takes longer than the time between two, as in an emulator, nothing else would ever run.
    signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-6, 3e-4))
    with framehook.hook(watch), framehook.hook(replace), framehook.hook(lambda view: framehook.DISABLE):
        for n in range(20):
            assert work(n) == 2, work(n)
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-6, 3e-4))
    signal.setitimer(signal.ITIMER_REAL, 0)
    evaluators.set("default")
    if os.fstat(file.fileno()).st_size > 1 << 20:
        file.seek(0)
        said = file.read()
        dumps += said.count(b"most recent call first")
        assert b"in recurse" in said and b"in work" in said
        file.seek(0)
        file.truncate()
    if dumps > 600 or time.monotonic() > deadline:
        break
assert dumps > 200, dumps
print(dumps)
"""

FORKS = SURROUNDINGS + """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
ending = threading.Event()
pids = []

def busy():
    while not ending.is_set():
        assert work(7) == 2

def fork_here(view=None):
    if view is not None and view.code is not leaf.__code__ or len(pids) == 20:
        return
    pid = os.fork()
    if pid == 0:
        # All hooks are still called, at this depth and deeper; the other threads have ended.
        pids.extend(range(20))
        assert work(9) == 2
        with framehook.hook(lambda view: framehook.DISABLE):
            assert recurse(5_000, lambda: work(3)) == 2
        os._exit(17)
    pids.append(pid)

framehook.add(watch)
framehook.add(replace)
framehook.add(fork_here, first=True, this_thread=True)
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
for depth in range(0, 4_000, 200):
    recurse(depth, lambda: leaf(1))
ending.set()
for thread in threads:
    thread.join()
assert len(pids) == 20, pids
for pid in pids:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 17, status
print("end")
"""

# What daemon threads are in when the interpreter ends.
PLACES = {
    "a hook that sleeps": """
        def hook(view):
            if view.code is leaf.__code__:
                inside()
                time.sleep(100)
        framehook.add(hook)
        leaf(1)""",
    "a hook that runs": """
        def hook(view):
            if view.code is leaf.__code__:
                inside()
                while True:
                    work(3)
        framehook.add(hook)
        leaf(1)""",
    "a callback": """
        def callback(event):
            # What the interpreter drops at its end is reported in the main thread.
            if event.kind == "returned":
                inside()
                while True:
                    work(3)
        framehook.add(lambda view: view.watch(callback) if view.code is leaf.__code__ else None)
        leaf(1)""",
    "a frame that is watched, at the bottom of a recursion": """
        framehook.add(lambda view: watch(view))
        recurse(500, lambda: (inside(), time.sleep(100)))""",
    "a frame that was replaced": """
        framehook.add(lambda view: replace(view))
        recurse(500, lambda: (inside(), spin()))""",
    "adding and removing": """
        inside()
        while True:
            hook = lambda view: None
            framehook.add(hook)
            work(3)
            framehook.remove(hook)""",
    "what a hook calls around itself": """
        def hook(view):
            if view.code is leaf.__code__:
                framehook.reentrant(spin)()
        def spin():
            inside()
            while True:
                work(3)
        framehook.add(hook)
        leaf(1)""",
    "an evaluator": """
        evaluators.set("count")
        framehook.add(lambda view: watch(view))
        inside()
        spin()""",
    "collections": """
        import gc
        inside()
        while True:
            gc.collect()""",
}
if FREE_THREADED:
    # Adding and removing stop the world. CPython 3.13 without the GIL does not end where a daemon thread does that: the thread stays where it
    # is, with the lock of the stop. (A collection in such a thread has the last one left out, so that one is no harm.)
    del PLACES["adding and removing"]
ENDS = SURROUNDINGS + """
def spin():
    while True:
        work(3)

ready = threading.Semaphore(0)

def inside():
    # The hook of one thread is called in the others too.
    if threading.get_ident() not in seen:
        seen.add(threading.get_ident())
        ready.release()

def body():
    exec(SOURCE, dict(globals()))

seen = set()
SOURCE = "if True:" + sys.argv[1]
for _ in range(4):
    threading.Thread(target=body, daemon=True).start()
    ready.acquire()
print("end", flush=True)
"""


@needs_hooks
class Processes(ProgramTestCase):
    def test_faulthandler_writes_what_runs_in_the_middle_of_anything(self):
        for threads in ("one", "all"):
            with self.subTest(threads):
                self.assert_program_succeeds(DUMPS, threads)

    def test_children_are_forked_in_hooks_at_any_depth_beside_threads_with_hooks(self):
        self.assertEqual(self.assert_program_succeeds(FORKS), "end\n")

    def test_the_interpreter_ends_while_daemon_threads_are_inside_hooks_and_frames_with_hooks(self):
        for place, source in PLACES.items():
            for _ in range(3):
                with self.subTest(place):
                    self.assertEqual(self.assert_program_succeeds(ENDS, source), "end\n")
