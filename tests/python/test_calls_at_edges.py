"""Every kind of call, made at every depth around the edges of chunks.

At an edge the specialized path of a call has to give way, or to take another chunk: here each kind of call is
made at each depth, its result is checked, and the counters show that edges were really crossed.
"""

import functools
import sys
import types
import unittest

from support import framecore, in_new_thread, recursion_limit, use_extensions

use_extensions()
import arenafault

# Deep enough for the root chunk's edge and at least two more.
DEPTH = 2_500
LEAST_CROSSINGS = 2


class Thing:
    """Whatever can be specialized to an inlined call of a Python function."""

    kept = 7

    def __init__(self, value, other=0):
        self.value = value
        self.other = other

    def method(self, more):
        return self.value + more

    @classmethod
    def of_class(cls, more):
        return cls.kept + more

    @staticmethod
    def static(more):
        return more + 1

    @property
    def doubled(self):
        return self.value * 2

    @property
    def closed(self):
        return (lambda: self.value)()

    def __getitem__(self, index):
        return index + self.value

    def __setitem__(self, index, value):
        self.value = value

    def __call__(self, a, *, b=2):
        return a + b

    def __add__(self, number):
        return self.value + number

    def __lt__(self, number):
        return self.value < number

    def __len__(self):
        return 3

    def __iter__(self):
        yield from (1, 2, 3)

    def __enter__(self):
        return self.value

    def __exit__(self, *exception):
        return True


class Child(Thing):
    def __init__(self, value):
        super().__init__(value, other=value)

    def method(self, more):
        return super().method(more) * 10


class Dynamic:
    def __getattribute__(self, name):
        return f"attribute {name}"


class Missing:
    def __getattr__(self, name):
        return f"no {name}"


class Descriptor:
    def __get__(self, instance, owner):
        return 5

    def __set__(self, instance, value):
        instance.__dict__["stored"] = value


class Described:
    field = Descriptor()


class New:
    def __new__(cls, value):
        self = super().__new__(cls)
        self.value = value
        return self


def add(a, b=10):
    return a + b


def many(a, b=2, /, c=3, *rest, d=4, e, **others):
    return (a, b, c, rest, d, e, others)


def wide():
    return wide_result()


def wide_result():
    return "wide"


def with_locals(count):
    namespace = {}
    names = " = ".join(f"v{i}" for i in range(count))
    exec(f"def function(x):\n    v0 = x\n    return v0\n    {names} = None\n", namespace)
    return namespace["function"]


locals_300 = with_locals(300)
locals_3000 = with_locals(3_000)


def numbers(n):
    for i in range(n):
        yield i


def echo():
    got = None
    while True:
        try:
            got = yield got
        except ValueError:
            got = "thrown"
        finally:
            pass


def delegate():
    return (yield from numbers(3))


@types.coroutine
def suspend():
    return (yield "suspended")


async def coroutine(x):
    return await suspend() + x


async def asynchronous_numbers():
    yield 1
    yield 2


async def gather():
    return [x async for x in asynchronous_numbers()]


def run(awaitable, answer=None):
    try:
        awaitable.send(None)
        while True:
            awaitable.send(answer)
    except StopIteration as stopped:
        return stopped.value


def raise_through():
    def inner():
        raise KeyError("inner")
    try:
        inner()
    except KeyError as error:
        return error.args[0], error.__traceback__.tb_next.tb_frame.f_code.co_name


def closure():
    count = 1

    def step():
        nonlocal count
        count += 1
        return count
    return step() + step()


def generator_left_open():
    closed = []

    def generator():
        try:
            yield 1
        finally:
            closed.append(True)
    opened = generator()
    next(opened)
    del opened
    return closed


def send_and_throw():
    generator = echo()
    next(generator)
    return generator.send(3), generator.throw(ValueError)


def in_with():
    with Thing(4) as value:
        raise KeyError(value)
    return value


def set_item():
    thing = Thing(1)
    thing[0] = 8
    return thing.value


def described():
    holder = Described()
    holder.field = 6
    return holder.field, holder.__dict__["stored"]


def deleted():
    gone = []

    class Dying:
        def __del__(self):
            gone.append("gone")
    Dying()
    return gone


def positional_and_star():
    arguments, keywords = (1, 5), {"e": 6, "z": 7}
    return many(*arguments, 9, 10, **keywords)


def outlives():
    def inner(x):
        return sys._getframe()
    return inner(5).f_locals["x"]


def many_arguments(*arguments):
    return len(arguments)


KINDS = {
    "function": (lambda: add(1, 2), 3),
    "default argument": (lambda: add(1), 11),
    "keyword argument": (lambda: add(b=1, a=5), 6),
    "all kinds of parameters": (lambda: many(1, e=2), (1, 2, 3, (), 4, 2, {})),
    "star arguments": (positional_and_star, (1, 5, 9, (10,), 4, 6, {"z": 7})),
    "a thousand arguments": (lambda: many_arguments(*range(1_000)), 1_000),
    "300 locals": (lambda: locals_300(4), 4),
    "3,000 locals": (lambda: locals_3000(4), 4),
    "method": (lambda: Thing(1).method(2), 3),
    "bound method": (lambda: (Thing(1).method)(2), 3),
    "class method": (lambda: Thing.of_class(1), 8),
    "static method": (lambda: Thing.static(1), 2),
    "initializer": (lambda: Thing(3, 4).other, 4),
    "initializer with super": (lambda: Child(6).other, 6),
    "super method": (lambda: Child(1).method(2), 30),
    "constructor": (lambda: New(5).value, 5),
    "property": (lambda: Thing(4).doubled, 8),
    "property with a closure": (lambda: Thing(4).closed, 4),
    "subscript": (lambda: Thing(4)[2], 6),
    "subscript store": (set_item, 8),
    "callable object": (lambda: Thing(0)(1, b=5), 6),
    "operator": (lambda: Thing(4) + 2, 6),
    "comparison": (lambda: Thing(4) < 5, True),
    "length and truth": (lambda: (len(Thing(0)), bool(Thing(0))), (3, True)),
    "iteration of an object": (lambda: list(Thing(0)), [1, 2, 3]),
    "for loop over a generator": (lambda: sum([x for x in numbers(4)]), 6),
    "generator expression": (lambda: sum(x for x in numbers(4)), 6),
    "generator in C": (lambda: list(numbers(3)), [0, 1, 2]),
    "yield from": (lambda: list(delegate()), [0, 1, 2]),
    "send and throw": (send_and_throw, (3, "thrown")),
    "unfinished generator": (generator_left_open, [True]),
    "coroutine": (lambda: run(coroutine(2), 3), 5),
    "asynchronous generator": (lambda: run(gather()), [1, 2]),
    "closure": (closure, 5),
    "lambda called from C": (lambda: sorted([3, 1, 2], key=lambda x: -x), [3, 2, 1]),
    "partial": (lambda: functools.partial(add, 1)(2), 3),
    "getattribute": (lambda: Dynamic().name, "attribute name"),
    "getattr": (lambda: Missing().name, "no name"),
    "descriptor": (described, (5, 6)),
    "context manager": (in_with, 4),
    "exception": (raise_through, ("inner", "inner")),
    "destructor": (deleted, ["gone"]),
    "class body": (lambda: type("C", (), {}).__name__ + str(_class_body()), "C9"),
    "exec and eval": (lambda: eval("(lambda: 4)()"), 4),
    "frame that outlives its call": (outlives, 5),
    "nested plain calls": (wide, "wide"),
}


def _class_body():
    class C:
        x = (lambda: 9)()
    return C.x


def pushes():
    """How many chunks this thread has pushed; on stock each is one allocation."""
    if framecore is None:
        return arenafault.counts()["allocations"]
    return framecore.datastack_stats()["chunks_pushed"]


def call_at_every_depth(kind, expected, depth):
    """Call at each depth down to `depth`; the number of depths at which an edge was crossed."""
    crossed = 0

    def descend(left):
        nonlocal crossed
        before = pushes()
        for _ in range(3):
            result = kind()
            if result != expected:
                raise AssertionError(f"{left} above the bottom: {result!r}, not {expected!r}")
        crossed += pushes() > before
        if left:
            descend(left - 1)

    # Warm, so that the calls are specialized before the first edge comes.
    for _ in range(100):
        kind()
    descend(depth)
    return crossed


class CallsAtEdges(unittest.TestCase):
    def setUp(self):
        arenafault.install()
        self.addCleanup(arenafault.remove)

    def test_every_kind_of_call_is_right_at_every_depth(self):
        with recursion_limit(DEPTH + 100):
            for name, (kind, expected) in KINDS.items():
                with self.subTest(name):
                    crossed = in_new_thread(call_at_every_depth, kind, expected, DEPTH)
                    self.assertGreaterEqual(crossed, LEAST_CROSSINGS)

    def test_every_kind_of_call_is_right_at_every_depth_while_it_is_traced(self):
        def traced(kind, expected):
            sys.setprofile(lambda frame, event, argument: None)
            try:
                return call_at_every_depth(kind, expected, 300)
            finally:
                sys.setprofile(None)

        with recursion_limit(DEPTH + 100):
            for name, (kind, expected) in KINDS.items():
                with self.subTest(name):
                    self.assertGreaterEqual(in_new_thread(traced, kind, expected), 1)
