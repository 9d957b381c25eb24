"""Frame hooks beside tracers, profilers and sys.monitoring: all of them get the same events."""

import sys
import unittest

from support import Copier, HookTestCase, WARM, code_named, framecore, needs_hooks

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
    names = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "LINE", "RAISE", "PY_UNWIND",
             "PY_THROW", "JUMP", "BRANCH", "STOP_ITERATION", "EXCEPTION_HANDLED", "RERAISE")
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
                hooks = {"passes": lambda view: None,
                         "settles": lambda view: framecore.SETTLED,
                         "copies": Copier()}
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


if __name__ == "__main__":
    unittest.main()
