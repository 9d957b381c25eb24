"""Frame hooks in every kind of call, beside tracing, in threads, and at the end of the interpreter.

What must be offered is not written down here but taken from sys.monitoring, which reports each frame that starts.
"""

import collections
import functools
import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref

import test_calls_at_edges
from support import (CFace, CView, HookTestCase, ProgramTestCase, PythonFace, code_named, framecore, in_new_thread,
                     needs_hooks, recursion_limit, use_extensions)

use_extensions()
import framehooks

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support.py")
DEPTH = 600
WARM = 200


class Copier:
    """A hook that has an equal copy run instead of everything."""

    def __init__(self):
        # The code itself is kept too: its address is then nobody else's.
        self.copies = {}

    def __call__(self, view):
        code = view.code
        known = self.copies.get(id(code))
        if known is None:
            known = self.copies[id(code)] = code, code.replace()
        return known[1]


def run_module():
    """Module code, imported for the first time."""
    name = "a_module_of_a_test"
    source = "def function():\n    return 3\nclass Class:\n    value = function()\n"
    module = type(sys)(name)
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    return module.Class.value


def execute():
    namespace = {}
    exec("a = 1\nb = [a for a in range(3)]\nc = (lambda: b)()", namespace)
    return namespace["c"]


def execute_with_closure():
    got = []
    cells = {"got": _cell(got.append), "x": _cell(5)}
    exec(_WITH_CLOSURE, {}, closure=tuple([cells[name] for name in _WITH_CLOSURE.co_freevars]))
    return got


def _cell(value):
    return (lambda: value).__closure__[0]


_WITH_CLOSURE = code_named("run", "def outer(got, x):\n def run():\n  got(x)\n return run")


def class_bodies():
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases, **options):
            return {"prepared": True}

    class Outer(metaclass=Meta):
        x = 1
        doubled = [x for x in (1, 2)]

        class Inner:
            y = 2

        def method(self):
            return __class__

        def __init_subclass__(cls, **options):
            cls.initialized = options

    class Child(Outer, option=1):
        pass
    return Outer.prepared, Outer.doubled, Outer.Inner.y, Child().method() is Outer, Child.initialized


def generic_class():
    class Box[T: int]:
        def get[U](self, x: U) -> U:
            return x
    type Alias = Box[int]
    return Box[int]().get(3), Alias.__value__ is not None


def decorated():
    @functools.cache
    def cached(x):
        return x + 1

    @functools.singledispatch
    def dispatched(x):
        return "object"

    @dispatched.register
    def _(x: int):
        return "int"
    return cached(1), cached(1), dispatched(1), dispatched("")


def keyword_only(*, a, b=2):
    return a, b


def positional_only(a, b=2, /):
    return a, b


class Slots:
    def __new__(cls, *args):
        return super().__new__(cls)

    def __init__(self, *args):
        self.args = args

    def __getattr__(self, name):
        return f"no {name}"

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

    def __contains__(self, x):
        return x == 3

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 5

    def __bool__(self):
        return False

    def __next__(self):
        raise StopIteration

    def __iter__(self):
        return self

    def __format__(self, spec):
        return f"<{spec}>"


def slots():
    slot = Slots(1, 2)
    return (slot.args, slot.missing, 3 in slot, slot == 4, hash(slot), bool(slot), list(slot), f"{slot:x}",
            {slot: 1}[slot])


def recursive(n):
    return recursive(n - 1) + 1 if n else 0


def exceptions_through_finally():
    log = []

    def inner():
        try:
            raise KeyError("inner")
        finally:
            log.append("finally")

    def middle():
        try:
            inner()
        except* KeyError as group:
            log.append(len(group.exceptions))
    middle()
    return log


async def with_everything():
    class Context:
        async def __aenter__(self):
            return 1

        async def __aexit__(self, *exception):
            return False

    class Iterator:
        left = 2

        def __aiter__(self):
            return self

        async def __anext__(self):
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return self.left

    async with Context() as value:
        return value, [x async for x in Iterator()], [await plain(x) for x in range(2)]


async def plain(x):
    return x


KINDS = {
    **test_calls_at_edges.KINDS,
    "module code": (run_module, 3),
    "exec": (execute, [0, 1, 2]),
    "exec with a closure": (execute_with_closure, [5]),
    "class bodies": (class_bodies, (True, [1, 2], 2, True, {"option": 1})),
    "type parameters": (generic_class, (3, True)),
    "decorators": (decorated, (2, 2, "int", "object")),
    "keyword-only parameters": (lambda: keyword_only(b=1, a=2), (2, 1)),
    "keyword-only parameters from a dictionary": (lambda: keyword_only(**{"a": 1}), (1, 2)),
    "positional-only parameters": (lambda: positional_only(1), (1, 2)),
    "slots": (slots, ((1, 2), "no missing", True, True, 5, False, [], "<x>", 1)),
    "recursion": (lambda: recursive(30), 30),
    "exceptions": (exceptions_through_finally, ["finally", 1]),
    "everything asynchronous": (lambda: test_calls_at_edges.run(with_everything()), (1, [1, 0], [0, 1])),
    "map": (lambda: list(map(lambda a, b: a + b, (1, 2), (3, 4))), [4, 6]),
    "filter and reduce": (lambda: functools.reduce(lambda a, b: a + b, filter(lambda x: x > 1, range(4))), 5),
    "method of a class made by type()": (lambda: type("T", (), {"m": lambda self: 8})().m(), 8),
    "a nested comprehension with a closure": (lambda: [[f() for f in [lambda: i]] for i in range(2)], [[0], [1]]),
}


def identify(code):
    # Some kinds compile anew each time.
    return code.co_filename, code.co_qualname, code.co_firstlineno


def started_frames(kind):
    """The frames that a call starts, as sys.monitoring reports them."""
    started = collections.Counter()
    monitoring = sys.monitoring
    tool = 4
    monitoring.use_tool_id(tool, "oracle")
    try:
        monitoring.register_callback(tool, monitoring.events.PY_START,
                                     lambda code, offset: started.update([identify(code)]))
        monitoring.set_events(tool, monitoring.events.PY_START)
        try:
            kind()
        finally:
            monitoring.set_events(tool, 0)
    finally:
        monitoring.register_callback(tool, monitoring.events.PY_START, None)
        monitoring.free_tool_id(tool)
    return started


class KindsOfCalls:
    def test_each_frame_that_starts_is_offered_once(self):
        for name, (kind, expected) in KINDS.items():
            with self.subTest(name):
                for _ in range(WARM):
                    kind()
                wanted = started_frames(kind)
                offered = collections.Counter()
                handle = self.add(lambda view: offered.update([identify(view.code)]))
                for _ in range(3):
                    offered.clear()
                    result = kind()
                    self.remove_quietly(handle, offered)
                    self.assertEqual(result, expected)
                    self.assertEqual(offered, wanted)
                    handle = self.add(lambda view: offered.update([identify(view.code)]))
                self.clear()

    def remove_quietly(self, handle, offered):
        self.remove(handle)
        for key in [key for key in offered if key[0] == SUPPORT or key[1].endswith("remove_quietly")]:
            del offered[key]

    def test_a_settled_frame_is_not_offered_again(self):
        for name, (kind, expected) in KINDS.items():
            if name in ("module code", "exec", "exec and eval"):
                continue    # these have new code each time
            with self.subTest(name):
                asked = []

                def hook(view):
                    asked.append(view.code)
                    return self.SETTLED

                handle = self.add(hook)
                for _ in range(20):
                    self.assertEqual(kind(), expected)
                self.switch(handle, False)
                self.assertEqual(len({id(code) for code in asked}), len(asked))
                self.clear()

    def test_equal_copies_at_every_depth(self):
        with recursion_limit(DEPTH + 100):
            for name, (kind, expected) in KINDS.items():
                with self.subTest(name):
                    handle = self.add(Copier())
                    crossed = in_new_thread(test_calls_at_edges.call_at_every_depth, kind, expected, DEPTH)
                    replaced = self.info(handle)["replacements"]
                    self.clear()
                    self.assertGreaterEqual(crossed, 1)
                    self.assertGreaterEqual(replaced, 3 * DEPTH)

    def test_equal_copies_beside_an_evaluator(self):
        self.add(Copier())
        framehooks.set_evaluator("pass")
        try:
            for name, (kind, expected) in KINDS.items():
                with self.subTest(name):
                    for _ in range(20):
                        self.assertEqual(kind(), expected)
        finally:
            framehooks.set_evaluator(None)


@needs_hooks
class PythonKindsOfCalls(PythonFace, KindsOfCalls, HookTestCase):
    pass


@needs_hooks
class CKindsOfCalls(CFace, KindsOfCalls, HookTestCase):
    pass


class KindsWithoutHooks(unittest.TestCase):
    """What the kinds above say is true of CPython."""

    def test_every_kind(self):
        for name, (kind, expected) in KINDS.items():
            with self.subTest(name):
                self.assertEqual(kind(), expected)
                # The first run fills caches; those after it are alike.
                self.assertEqual(started_frames(kind), started_frames(kind))


# --- Beside tracing. ----------------------------------------------------------------------------------------------

PROGRAM = """
class Thing:
    def __init__(self, x):
        self.x = x
    @property
    def twice(self):
        return self.x * 2
    def __getitem__(self, i):
        return i

def leaf(a, *b, c=1, **d):
    e = a
    return e

def numbers(n):
    for i in range(n):
        yield leaf(i)

def failing():
    try:
        raise KeyError("x")
    finally:
        leaf(1)

async def coroutine():
    return [x async for x in asynchronous()]

async def asynchronous():
    yield leaf(1)

def program():
    thing = Thing(3)
    result = [thing.twice, thing[1], leaf(1, 2, c=3, d=4), *numbers(3)]
    try:
        failing()
    except KeyError:
        result.append("caught")
    result += map(lambda x: leaf(x), (1, 2))
    class Local:
        y = leaf(2)
    try:
        coroutine().send(None)
    except StopIteration as stopped:
        result += stopped.value
    return result
"""


def load_program():
    namespace = {}
    exec(compile(PROGRAM, "<program>", "exec"), namespace)
    return namespace["program"]


def traced(install, program):
    """What a trace or profile function is told of the program."""
    events = []

    def callback(frame, event, argument):
        if frame.f_code.co_filename == "<program>":
            events.append((event, frame.f_code.co_qualname, frame.f_lineno))
        return callback

    install(callback)
    try:
        program()
    finally:
        install(None)
    return events


def monitored(program):
    monitoring = sys.monitoring
    events = []
    tool = 4
    monitoring.use_tool_id(tool, "test")
    names = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "LINE", "RAISE", "PY_UNWIND", "PY_THROW", "JUMP",
             "BRANCH", "STOP_ITERATION", "EXCEPTION_HANDLED", "RERAISE")
    try:
        for name in names:
            def callback(code, position, *rest, name=name):
                if code.co_filename == "<program>":
                    events.append((name, code.co_qualname, position))
            monitoring.register_callback(tool, getattr(monitoring.events, name), callback)
        monitoring.set_events(tool, sum(getattr(monitoring.events, name) for name in names))
        try:
            program()
        finally:
            monitoring.set_events(tool, 0)
    finally:
        for name in names:
            monitoring.register_callback(tool, getattr(monitoring.events, name), None)
        monitoring.free_tool_id(tool)
    return events


WATCHERS = {
    "trace": lambda program: traced(sys.settrace, program),
    "profile": lambda program: traced(sys.setprofile, program),
    "monitoring": monitored,
}


@needs_hooks
class BesideTracing(HookTestCase):
    def test_events_are_the_same(self):
        for name, watch in WATCHERS.items():
            for warm in (0, WARM):
                program = load_program()
                for _ in range(warm):
                    program()
                expected = watch(program)
                self.assertGreater(len(expected), 30)
                hooks = {"passes": lambda view: None, "settles": lambda view: framecore.SETTLED, "copies": Copier()}
                for kind, hook in hooks.items():
                    with self.subTest(name, warm=warm, hook=kind):
                        framecore.add_frame_hook(hook)
                        for _ in range(3):
                            self.assertEqual(watch(program), expected)
                        framecore.remove_frame_hook(hook)
                        self.assertEqual(watch(program), expected)

    def test_a_hook_added_while_tracing(self):
        program = load_program()
        plain = program()
        for _ in range(WARM):
            program()
        offered = []
        results = []
        copier = Copier()

        def hook(view):
            offered.append(view.code)
            return copier(view)

        def run():
            results.append(program())
            framecore.add_frame_hook(hook)
            results.append(program())
            framecore.remove_frame_hook(hook)
            results.append(program())

        for watch in WATCHERS.values():
            watch(run)
        self.assertEqual(results, [plain] * 9)
        self.assertIn(program.__code__, offered)

    def test_what_tracing_starts_late_sees(self):
        def target():
            return 1

        new = code_named("target", "def target():\n x = 1\n return x + 1", "<new>")
        framecore.add_frame_hook(self.replacer((target, new)))
        self.assertEqual(target(), 2)
        lines = []

        def tracer(frame, event, argument):
            if frame.f_code is new:
                lines.append((event, frame.f_lineno))
            return tracer

        sys.settrace(tracer)
        try:
            target()
        finally:
            sys.settrace(None)
        self.assertEqual(lines, [("call", 1), ("line", 2), ("line", 3), ("return", 3)])


# --- Threads. -----------------------------------------------------------------------------------------------------

@needs_hooks
class Threads(HookTestCase):
    CALLS = 3_000

    def test_two_threads_with_their_own_switches_while_a_third_adds_and_removes(self):
        def target():
            return "ran"

        seen = collections.Counter()

        def hook(view):
            if view.code is target.__code__:
                seen[threading.get_ident()] += 1

        handle = framecore.add_frame_hook(hook)
        idents = {}
        stop = threading.Event()
        problems = []

        def calls(kind):
            idents[kind] = threading.get_ident()
            if kind == "without":
                framecore.enable_frame_hook_in_thread(handle, False)
            for _ in range(self.CALLS):
                if target() != "ran":
                    problems.append(kind)

        def churn():
            while not stop.is_set():
                handles = [framecore.add_frame_hook(lambda view: None) for _ in range(5)]
                for one in handles:
                    framecore.remove_frame_hook(one)

        workers = [threading.Thread(target=calls, args=(kind,)) for kind in ("with", "without")]
        churner = threading.Thread(target=churn)
        for thread in (churner, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        stop.set()
        churner.join()
        self.assertEqual(problems, [])
        self.assertEqual(seen[idents["with"]], self.CALLS)
        self.assertEqual(seen[idents["without"]], 0)
        self.assertEqual([info["id"] for info in framecore.frame_hooks()], [handle])

    def test_many_threads_add_replace_and_remove(self):
        def target(a):
            return a

        failures = []

        def work(number):
            new = code_named("target", f"def target(a):\n b{number} = a\n return b{number}")

            def hook(view):
                return new if view.code is target.__code__ else None
            for n in range(200):
                handle = framecore.add_frame_hook(hook)
                if target(n) != n or [target(m) for m in range(5)] != list(range(5)):
                    failures.append(n)
                framecore.remove_frame_hook(handle)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failures, framecore.frame_hooks()), ([], []))

    def test_a_hook_removed_while_it_runs_elsewhere(self):
        def target():
            return "original"

        new = code_named("target", "def target(): return 'replaced'")
        runs, goes_on = threading.Event(), threading.Event()
        before = framehooks.freed()

        def hook():
            if framehooks.get_code() is target.__code__:
                runs.set()
                goes_on.wait(60)
                return new

        handle = framehooks.add_extended(hook, "slow")
        results = []
        thread = threading.Thread(target=lambda: results.append(target()))
        thread.start()
        self.assertTrue(runs.wait(60))
        framehooks.remove(handle)
        freed_early = framehooks.freed() - before
        goes_on.set()
        thread.join()
        self.assertEqual(freed_early, 0)
        self.assertEqual(framehooks.freed() - before, 1)
        # Its last answer counts, or does not: it was removed in mid-round.
        self.assertIn(results, (["replaced"], ["original"]))
        self.assertEqual(target(), "original")

    def test_a_thread_that_ends_leaves_no_switch_behind(self):
        def target():
            pass

        hook = self.recorder(target)
        handle = framecore.add_frame_hook(hook)
        for _ in range(20):
            in_new_thread(framecore.enable_frame_hook_in_thread, handle, False)
            in_new_thread(target)
        self.assertEqual(len(hook.seen), 20)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child(self):
        program = """
import os, _framecore
seen = []
def target(): pass
def hook(view):
    seen.append(view.code.co_name)
    if view.code is target.__code__ and forks:
        forks.pop()
        pids.append(os.fork())
forks, pids = [1], []
_framecore.add_frame_hook(hook)
target()
target()
assert seen.count("target") == 2, seen
_framecore.remove_frame_hook(hook)
if pids[0]:
    assert os.waitpid(pids[0], 0)[1] == 0
else:
    os._exit(0)
print("parent")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "parent\n", ""))


# --- The end of the interpreter. -----------------------------------------------------------------------------------

@needs_hooks
class Finalization(ProgramTestCase):
    def test_hooks_that_pass_copy_or_settle(self):
        program = """
import atexit, sys, _framecore
class Last:
    def __del__(self):
        print("destructor", flush=True)
def at_exit():
    print("atexit", flush=True)
    return sum(x for x in range(3))
atexit.register(at_exit)
copies = {}
def copy(view):
    code = view.code
    if id(code) not in copies:
        copies[id(code)] = code, code.replace()
    return copies[id(code)][1]
hooks = {"pass": lambda view: None, "copy": copy, "settle": lambda view: _framecore.SETTLED}
for name in sys.argv[1:]:
    _framecore.add_frame_hook(hooks[name])
one, two = Last(), Last()
"""
        for hooks in (["pass"], ["copy"], ["settle"], ["settle", "copy", "pass"]):
            with self.subTest(hooks):
                out = self.assert_program_succeeds(program, *hooks)
                self.assertEqual(out.split(), ["atexit", "destructor", "destructor"])

    def test_a_hook_that_fails_everything(self):
        program = """
import _framecore
def fail(view):
    raise KeyError("refused")
_framecore.add_frame_hook(fail)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        # What Python runs at the end fails, and says so; it is no crash.
        self.assertGreaterEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Fatal", done.stderr)

    def test_threads_that_still_run(self):
        program = """
import threading, time, _framecore
def leaf(x): return x
def spin():
    while True:
        leaf(1)
copy = leaf.__code__.replace()
_framecore.add_frame_hook(lambda view: copy if view.code is leaf.__code__ else None)
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
time.sleep(0.2)
print("end")
"""
        for _ in range(3):
            self.assertEqual(self.assert_program_succeeds(program), "end\n")

    def test_a_subinterpreter_that_nobody_destroys(self):
        program = """
import _interpreters, _framecore
other = _interpreters.create()
problem = _interpreters.exec(other, "import _framecore; _framecore.add_frame_hook(lambda view: None)")
assert problem is None, problem
_framecore.add_frame_hook(lambda view: None)
print("end")
"""
        self.assertEqual(self.assert_program_succeeds(program), "end\n")

    def test_initializing_again(self):
        # A hook of the first life of the interpreter is not there in the second: each -c is a whole life.
        program = "import _framecore; assert _framecore.frame_hooks() == []; _framecore.add_frame_hook(print)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_exceptions_that_end_a_program(self):
        program = """
import sys, _framecore
def target(): pass
def hook(view):
    if view.code is target.__code__:
        sys.exit(7)
_framecore.add_frame_hook(hook)
target()
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (7, ""))


# --- The Python face alone. ----------------------------------------------------------------------------------------

@needs_hooks
class PythonHooks(HookTestCase):
    def test_sys_has_the_same_functions(self):
        def target():
            pass
        hook = self.recorder(target)
        handle = sys.add_frame_hook(hook)
        self.assertIsInstance(handle, int)
        target()
        sys.remove_frame_hook(hook)
        target()
        self.assertEqual(hook.seen, ["target"])
        sys.add_frame_hook(hook)
        with self.assertRaises(ValueError):
            framecore.add_frame_hook(hook)
        framecore.remove_frame_hook(hook)
        with self.assertRaises(ValueError):
            sys.remove_frame_hook(hook)
        sys.remove_frame_hook(sys.add_frame_hook(hook))
        with self.assertRaises(TypeError):
            sys.add_frame_hook(None)

    def test_wrong_answers(self):
        def target():
            return "ran"

        answers = [0, True, "code", (), target, object(), framecore.SETTLED, None]
        asked = answers[:]
        framecore.add_frame_hook(lambda view: asked.pop(0) if view.code is target.__code__ else None)
        for answer in answers[:-2]:
            with self.assertRaises(TypeError) as caught:
                target()
            self.assertIn(type(answer).__name__, str(caught.exception))
        self.assertEqual(target(), "ran")

    def test_callables_of_other_kinds(self):
        class Callable:
            def __init__(self):
                self.views = []

            def __call__(self, view):
                self.views.append(view)

            method = __call__

        def target():
            return "ran"

        for hook in (Callable(), Callable().method, functools.partial(lambda view: None), [].append, type, str.__len__):
            handle = framecore.add_frame_hook(hook)
            try:
                result = target()
            except TypeError:
                # type(view) is no answer, and str.__len__(view) no call.
                result = TypeError
            framecore.remove_frame_hook(handle)
            self.assertEqual(result, TypeError if hook in (type, str.__len__) else "ran")

    def test_a_callable_that_takes_no_argument(self):
        def target():
            pass
        handle = framecore.add_frame_hook(lambda: None)
        # Nothing else can be called until it is gone.
        try:
            target()
        except TypeError:
            failed = True
        else:
            failed = False
        framecore.remove_frame_hook(handle)
        self.assertTrue(failed)

    def test_what_cannot_be_added(self):
        for wrong in (None, 3, "hook", []):
            with self.assertRaises(TypeError):
                framecore.add_frame_hook(wrong)
        for arguments in ((), (print, 3), (print, "name", 1)):
            with self.assertRaises(TypeError):
                framecore.add_frame_hook(*arguments)
        self.assertEqual(framecore.frame_hooks(), [])

    def test_identity_decides(self):
        class Equal:
            def __eq__(self, other):
                return True

            def __hash__(self):
                return 1

            def __call__(self, view):
                pass

        one, two, three = Equal(), Equal(), Equal()
        framecore.add_frame_hook(one)
        framecore.add_frame_hook(two)
        with self.assertRaises(ValueError):
            framecore.add_frame_hook(one)
        with self.assertRaises(ValueError):
            framecore.remove_frame_hook(three)
        framecore.remove_frame_hook(two)
        self.assertEqual([info["hook"] is one for info in framecore.frame_hooks()], [True])

    def test_a_duplicate_add_inside_the_hook(self):
        def target():
            pass

        def hook(view):
            if view.code is target.__code__:
                framecore.add_frame_hook(hook)

        framecore.add_frame_hook(hook)
        with self.assertRaises(ValueError):
            target()

    def test_what_hooks_reports(self):
        def target():
            pass

        new = target.__code__.replace()
        answers = [None, new, KeyError, framecore.SETTLED]

        def hook(view):
            if view.code is target.__code__:
                answer = answers.pop(0)
                if answer is KeyError:
                    raise KeyError
                return answer
            return framecore.SETTLED

        framecore.frame_hooks()
        handle = framecore.add_frame_hook(hook, "a name")
        for _ in range(6):
            try:
                target()
            except KeyError:
                pass
        info, = framecore.frame_hooks()
        self.assertEqual({key: info[key] for key in ("id", "name", "hook", "enabled", "replacements", "errors")},
                         {"id": handle, "name": "a name", "hook": hook, "enabled": True, "replacements": 1, "errors": 1})
        self.assertEqual(info["calls"], 4)
        self.assertGreater(info["nanoseconds"], 0)

    def test_settled_is_one_object(self):
        self.assertEqual(repr(framecore.SETTLED), "framehook.SETTLED")
        with self.assertRaises(TypeError):
            type(framecore.SETTLED)()

    def test_a_hook_that_is_gone_is_released(self):
        class Hook:
            def __call__(self, view):
                pass

        for remove in (lambda hook: framecore.remove_frame_hook(hook), lambda hook: framecore.clear_frame_hooks()):
            hook = Hook()
            reference = weakref.ref(hook)
            framecore.add_frame_hook(hook)
            remove(hook)
            del hook
            self.assertIsNone(reference())


@needs_hooks
class Views(HookTestCase):
    def kept_view(self, *arguments):
        def target(a=1, *, b=2):
            pass

        kept = []
        hook = lambda view: kept.append(view) if view.code is target.__code__ else None
        framecore.add_frame_hook(hook)
        target(*arguments)
        framecore.remove_frame_hook(hook)
        return kept[0]

    def test_a_view_kept_past_the_call(self):
        view = self.kept_view()
        uses = [lambda: view.code, lambda: view.function, lambda: view.globals, lambda: view.builtins,
                lambda: view.argument_names, lambda: view.argument(0), lambda: view.argument("a"),
                lambda: view.arguments()]
        for use in uses:
            for _ in range(3):
                with self.assertRaisesRegex(RuntimeError, "^this view of a frame has expired: "):
                    use()
        self.assertIsInstance(repr(view), str)

    def test_a_view_kept_past_a_hook_that_fails_or_replaces(self):
        def target():
            pass

        kept = []
        answers = [KeyError, target.__code__.replace()]

        def hook(view):
            if view.code is target.__code__:
                kept.append(view)
                answer = answers.pop(0)
                if answer is KeyError:
                    raise KeyError
                return answer

        framecore.add_frame_hook(hook)
        with self.assertRaises(KeyError):
            target()
        target()
        framecore.remove_frame_hook(hook)
        for view in kept:
            with self.assertRaisesRegex(RuntimeError, "expired"):
                view.code

    def test_a_view_keeps_nothing_alive(self):
        class Thing:
            pass
        thing = Thing()
        reference = weakref.ref(thing)
        view = self.kept_view(thing)
        del thing
        gc.collect()
        self.assertIsNone(reference())
        self.assertIsNotNone(view)

    def test_a_view_in_a_cycle(self):
        def target():
            pass

        def hook(view):
            if view.code is target.__code__:
                hook.view = view

        framecore.add_frame_hook(hook)
        target()
        framecore.remove_frame_hook(hook)
        del hook
        gc.collect()

    def test_views_cannot_be_made_or_changed(self):
        with self.assertRaises(TypeError):
            framecore.FrameView()
        with self.assertRaises(TypeError):
            framecore.FrameView.__new__(framecore.FrameView)
        with self.assertRaises(TypeError):
            object.__new__(framecore.FrameView)
        problems = []

        def target():
            pass

        def hook(view):
            if view.code is target.__code__:
                for name in ("code", "function", "globals", "builtins", "argument_names", "other"):
                    try:
                        setattr(view, name, 1)
                    except AttributeError:
                        problems.append(name)
        framecore.add_frame_hook(hook)
        target()
        self.assertEqual(len(problems), 6)

    def test_arguments_of_the_wrong_type(self):
        def target(a):
            pass

        problems = []

        def hook(view):
            if view.code is target.__code__:
                for wrong in (None, 1.5, b"a", ()):
                    try:
                        view.argument(wrong)
                    except TypeError:
                        problems.append(wrong)
        framecore.add_frame_hook(hook)
        target(1)
        self.assertEqual(problems, [None, 1.5, b"a", ()])


if __name__ == "__main__":
    unittest.main()
