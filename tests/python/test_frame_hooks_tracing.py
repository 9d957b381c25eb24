"""Frame hooks beside tracers, profilers and sys.monitoring: all of them get the same events."""

import collections
import functools
import operator
import sys
import unittest

from support import WARM, Copier, HookTestCase, _testcapi, code_named, framecore, needs_hooks

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

# Some whose first instruction is on the line of its RESUME.
def at_once(x): return x
def suspended(): yield leaf(1); yield leaf(2)
class Short: z = at_once(3)

# Some where a line begins with what comes after a call.
def spread():
    return (leaf(1)
            + leaf(2)
            + sum(numbers(2))
            + Thing(
                3).twice)
def delegating():
    value = (leaf(4)
             or (yield from
                 numbers(3)))
    for value \
            in numbers(2):
        yield (value,
               (yield))
def closed():
    yield from numbers(2)
class Derived(Thing):
    def __init__(self,
                 x):
        return super().__init__(
            leaf(x))
def same(function): return function
@same
@staticmethod
def decorated(
    x=leaf(6),
): return x

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
    result += [at_once(4), *suspended(), Short.z, (lambda: 5)()]
    class Shorter: x = 1
    for times in range(2):
        started = closed()
        for _ in range(times):
            next(started)
        started.close()
    result += [spread(), decorated(), Derived(7).twice, *delegating()]
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
    """The events of the program that a trace or profile function receives."""
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


EVENTS = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "LINE", "RAISE", "PY_UNWIND",
          "PY_THROW", "JUMP", "BRANCH", "STOP_ITERATION", "EXCEPTION_HANDLED", "RERAISE")


def monitored(program, names=EVENTS):
    monitoring = sys.monitoring
    events = []
    tool = 4
    monitoring.use_tool_id(tool, "test")
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


def monitored_from_the_start_on(program):
    """Lines, of which each function that starts makes the only events, in the middle of its first instruction."""
    monitoring, tool, lines = sys.monitoring, 4, []
    events = monitoring.events

    def start(code, offset):
        if code.co_filename == "<program>":
            monitoring.set_events(tool, events.LINE)

    def line(code, number):
        if code.co_filename == "<program>":
            lines.append(("LINE", code.co_qualname, number))
            monitoring.set_events(tool, events.LINE | events.PY_START)

    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, events.PY_START, start)
        monitoring.register_callback(tool, events.LINE, line)
        monitoring.set_events(tool, events.LINE | events.PY_START)
        program()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return lines


# Each event alone: CPython looks at some instructions less then.
ALONE = {**{name: lambda program, name=name: monitored(program, [name]) for name in (*EVENTS, "INSTRUCTION")},
         "LINE from the start on": monitored_from_the_start_on}


@needs_hooks
class BesideTracing(HookTestCase):
    def events_of(self, watch, warm, hook=None):
        """The events of a program that runs three times with the hook, and then without."""
        program = load_program()
        for _ in range(warm):
            program()
        if hook:
            framecore.add_frame_hook(hook)
        try:
            seen = [watch(program) for _ in range(3)]
        finally:
            if hook:
                framecore.remove_frame_hook(hook)
        return seen + [watch(program)]

    def test_events_are_the_same(self):
        hooks = {"passes": lambda view: None,
                 "disables": lambda view: framecore.DISABLE,
                 "watches": lambda view: view.watch(lambda event: None, None, yields=True, resumes=True),
                 "copies": Copier()}
        for name, watch in {**WATCHERS, **ALONE}.items():
            for warm in (0, WARM):
                expected = self.events_of(watch, warm)
                self.assertGreater(len(expected[0]), 30 if name in WATCHERS else -1)
                for kind, hook in hooks.items():
                    with self.subTest(name, warm=warm, hook=kind):
                        self.assertEqual(self.events_of(watch, warm, hook), expected)

    def test_lines_of_the_caller_where_hooks_answer(self):
        namespace = {}
        exec(compile(PROGRAM, "<program>", "exec"), namespace)
        leaf, spread = namespace["leaf"], namespace["spread"]

        def lines(watch):
            return [event for event in watch(spread) if event[1] == "spread"]

        def answer(view):
            return view.result(view.argument("a")) if view.code is leaf.__code__ else None

        watches = {"trace": WATCHERS["trace"], "LINE": ALONE["LINE"]}
        expected = {name: lines(watch) for name, watch in watches.items()}
        self.assertGreater(len(expected["LINE"]), 5)
        for number in range(2):
            framecore.add_frame_hook(answer)
            for name, watch in watches.items():
                with self.subTest(name, number=number):
                    self.assertEqual(lines(watch), expected[name])
            # In the second round what is answered is watched, too.
            framecore.add_frame_hook(lambda view: view.watch(lambda event: None))
            framecore.remove_frame_hook(answer)

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


@needs_hooks
@unittest.skipIf(_testcapi is None, "needs _testcapi")
class WithinResume(HookTestCase):
    """What runs where a frame looks whether there is anything else to do, at its `RESUME`: handlers of signals, the collector, other threads."""

    # In C: a hook in Python would come to its own RESUME first.
    HOOKS = {"passes": lambda: collections.deque(maxlen=0).append,
             "disables": lambda: lambda view: framecore.DISABLE,
             "watches": lambda: operator.methodcaller("watch", collections.deque(maxlen=0).append, None, yields=True, resumes=True)}

    def compare(self, run):
        """What run() gives for a new function, cold and warm, is the same beside each kind of hook. Returns that."""
        seen = {}
        for warm in (1, WARM):
            for kind, make in {"none": None, **self.HOOKS}.items():
                namespace = {}
                exec("def function(): return 1", namespace)
                function = namespace["function"]
                hook = make and make()
                if hook:
                    framecore.add_frame_hook(hook)
                for _ in range(warm):
                    function()
                seen[warm, kind] = run(function)
                if hook:
                    framecore.remove_frame_hook(hook)
        for (warm, kind), value in seen.items():
            with self.subTest(warm=warm, hook=kind):
                self.assertEqual(value, seen[warm, "none"])
        return seen[WARM, "none"]

    def meanwhile(self, function, act):
        """Calls a function, and act() at its `RESUME`."""
        list(map(operator.call, (functools.partial(_testcapi._pending_threadfunc, act), function)))

    def lines_of(self, function, act, at_once=True):
        """The lines that monitoring reports where act(turn_on) runs at the function's `RESUME`, and in a call after it."""
        monitoring, delivered = sys.monitoring, []
        tool = monitoring.PROFILER_ID
        monitoring.use_tool_id(tool, "test")
        turn_on = functools.partial(monitoring.set_events, tool, monitoring.events.LINE)
        try:
            monitoring.register_callback(tool, monitoring.events.LINE,
                                         lambda code, line: delivered.append(line) if code is function.__code__ else None)
            if at_once:
                turn_on()
            self.meanwhile(function, lambda: act(turn_on))
            delivered.append("again")
            function()
        finally:
            monitoring.set_events(tool, 0)      # 3.13 keeps them for the next user of the id
            monitoring.free_tool_id(tool)
        return delivered

    def test_a_frame_is_at_its_resume(self):
        def run(function):
            offsets = []
            self.lines_of(function, lambda turn_on: offsets.append((sys._getframe(2).f_code is function.__code__, sys._getframe(2).f_lasti)))
            return offsets

        self.assertEqual(self.compare(run), [(True, 0)])

    def test_lines_that_are_requested_there(self):
        self.compare(lambda function: self.lines_of(function, lambda turn_on: turn_on(), at_once=False))

    def test_lines_where_hooks_change_there(self):
        def change(turn_on):
            framecore.add_frame_hook(print)
            framecore.remove_frame_hook(print)

        self.compare(lambda function: self.lines_of(function, change))
