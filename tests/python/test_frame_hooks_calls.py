"""Frame hooks in every kind of call.

The tests have no list of frames that must be offered. sys.monitoring reports each frame that
starts, and hooks must be called for the same ones.
"""

import collections
import functools
import os
import sys
import unittest

import test_calls_at_edges
from support import WARM, CApi, Copier, HookTestCase, PythonApi, code_named, in_new_thread, needs_hooks, recursion_limit, use_extensions

use_extensions()
import framehooks

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support.py")
DEPTH = 600


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
    return (Outer.prepared, Outer.doubled, Outer.Inner.y, Child().method() is Outer,
            Child.initialized)


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
    return (slot.args, slot.missing, 3 in slot, slot == 4, hash(slot), bool(slot), list(slot),
            f"{slot:x}", {slot: 1}[slot])


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
    "everything asynchronous": (lambda: test_calls_at_edges.run(with_everything()),
                                (1, [1, 0], [0, 1])),
    "map": (lambda: list(map(lambda a, b: a + b, (1, 2), (3, 4))), [4, 6]),
    "filter and reduce": (
        lambda: functools.reduce(lambda a, b: a + b, filter(lambda x: x > 1, range(4))), 5),
    "method of a class made by type()": (lambda: type("T", (), {"m": lambda self: 8})().m(), 8),
    "a nested comprehension with a closure": (
        lambda: [[f() for f in [lambda: i]] for i in range(2)], [[0], [1]]),
}


def identify(code):
    # Some kinds compile anew each time, so the code object itself identifies nothing.
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
    def test_each_frame_that_starts_is_dispatched_once(self):
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
        """Remove the hook, and forget its calls for the functions that remove it."""
        self.remove(handle)
        for key in list(offered):
            if key[0] == SUPPORT or key[1].endswith("remove_quietly"):
                del offered[key]

    def test_a_frame_of_disabled_code_is_not_dispatched_again(self):
        for name, (kind, expected) in KINDS.items():
            if name in ("module code", "exec", "exec and eval"):
                continue    # these have new code each time
            with self.subTest(name):
                entries = []

                def hook(view):
                    entries.append(view.code)
                    return self.DISABLE

                handle = self.add(hook)
                for _ in range(20):
                    self.assertEqual(kind(), expected)
                self.switch(handle, False)
                self.assertEqual(len({id(code) for code in entries}), len(entries))
                self.clear()

    def test_equal_copies_at_every_depth(self):
        with recursion_limit(DEPTH + 100):
            for name, (kind, expected) in KINDS.items():
                with self.subTest(name):
                    handle = self.add(Copier())
                    crossed = in_new_thread(test_calls_at_edges.call_at_every_depth, kind, expected,
                                            DEPTH)
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
class PythonKindsOfCalls(PythonApi, KindsOfCalls, HookTestCase):
    pass


@needs_hooks
class CKindsOfCalls(CApi, KindsOfCalls, HookTestCase):
    pass


class KindsWithoutHooks(unittest.TestCase):
    """What the tables of kinds expect is true of CPython without hooks."""

    def test_every_kind(self):
        for name, (kind, expected) in KINDS.items():
            with self.subTest(name):
                self.assertEqual(kind(), expected)
                # The first run has filled caches. The next ones start the same frames.
                self.assertEqual(started_frames(kind), started_frames(kind))
