"""Every way in which a frame starts, and what tests of evaluators (PEP 523) share.

A scenario returns a function, and the names of the functions whose frames start when it is called.
"""

import sys
import traceback
import unittest

from support import ON_STOCK, use_extensions

use_extensions()
import evaluators

# Enough calls for code to be specialized, also where an earlier attempt has failed.
WARM_UP = 200
DEBUG = hasattr(sys, "gettotalrefcount")
# Each frame under an evaluator takes C stack. A debug build has room for few of them.
DEEP = 150 if DEBUG else 1_500


class EvaluatorTestCase(unittest.TestCase):
    def setUp(self):
        self.addCleanup(evaluators.record_into, None)
        self.addCleanup(evaluators.set, "default")
        if not ON_STOCK:
            self.addCleanup(evaluators.allow_specialization, False)


def warm_up(run):
    for _ in range(WARM_UP):
        run()


# --- Scenarios. -----------------------------------------------------------------------------------

def functions():
    def seen(a, b=2):
        return a + b

    def seen_keywords(a, *, key):
        return a - key

    def seen_star(*args, **kwargs):
        return args, sorted(kwargs)

    def run():
        pair, named = (1, 5), {"a": 1}
        return [seen(1), seen(1, 3), seen(b=1, a=2), seen(*pair), seen(**named),
                seen_keywords(3, key=1), seen_star(1, 2, x=3), seen_star()]
    return run, ["seen"] * 5 + ["seen_keywords"] + ["seen_star"] * 2


def closures():
    count = 0

    def seen():
        nonlocal count
        count = (count + 1) % 2
        return lambda seen_argument: seen_argument

    def run():
        return [seen()(7), seen()(8)]
    return run, ["seen", "<lambda>"] * 2


def methods():
    class Thing:
        def seen(self, a):
            return a

        def seen_default(self, a=3):
            return a

        @classmethod
        def seen_class(cls):
            return cls.__name__

        @staticmethod
        def seen_static(a):
            return a

    thing = Thing()
    bound, bound_default = thing.seen, thing.seen_default

    def run():
        return [thing.seen(1), bound(2), thing.seen_default(), bound_default(), thing.seen_class(),
                thing.seen_static(4)]
    return run, ["seen", "seen", "seen_default", "seen_default", "seen_class", "seen_static"]


def attributes():
    class Thing:
        @property
        def seen(self):
            return 5

    class Overridden:
        def __getattribute__(self, name):
            return name

    class Fallback:
        def __getattr__(self, name):
            return name * 2

    thing, overridden, fallback = Thing(), Overridden(), Fallback()

    def run():
        return [thing.seen, overridden.x, fallback.y]
    return run, ["seen", "__getattribute__", "__getattr__"]


def special_methods():
    class Thing:
        def __getitem__(self, index):
            return index

        def __call__(self):
            return "called"

        def __add__(self, other):
            return other

        def __eq__(self, other):
            return True

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return True

    thing = Thing()

    def run():
        with thing:
            raise KeyError
        return [thing[1], thing(), thing + 2, thing == 3]
    return run, ["__enter__", "__exit__", "__getitem__", "__call__", "__add__", "__eq__"]


def generators():
    def seen(n):
        yield from range(n)

    def seen_loop(n):
        for i in range(n):
            yield i

    def run():
        result = []
        for i in seen_loop(3):
            result.append(i)
        result += [i * 2 for i in seen(2)]
        return result
    # The call that makes a generator starts a frame. So does each resumption, and the last of them
    # comes to the end.
    return run, ["seen_loop"] * (1 + 4) + ["seen"] * (1 + 3)


def delegation():
    def seen_inner():
        got = yield 1
        return got

    def seen_outer():
        return (yield from seen_inner())

    def run():
        generator = seen_outer()
        result = [generator.send(None)]
        try:
            generator.send("sent")
        except StopIteration as stop:
            result.append(stop.value)
        return result
    return run, ["seen_outer", "seen_outer", "seen_inner", "seen_inner", "seen_outer", "seen_inner"]


def coroutines():
    class Once:
        def __await__(self):
            yield "pause"
            return 3

    async def seen_inner():
        return await Once()

    async def seen_outer():
        return 1 + await seen_inner()

    def run():
        coroutine = seen_outer()
        result = [coroutine.send(None)]
        try:
            coroutine.send(None)
        except StopIteration as stop:
            result.append(stop.value)
        return result
    return run, ["seen_outer", "seen_outer", "seen_inner", "seen_inner", "__await__", "__await__",
                 "seen_outer", "seen_inner", "__await__"]


def from_c():
    def seen(value):
        return -value

    def run():
        return [sorted([1, 2, 3], key=seen), list(map(seen, [4, 5])), max([6, 7], key=seen)]
    return run, ["seen"] * 7


def exceptions():
    def seen_raises():
        raise KeyError("seen")

    def seen_passes_on():
        return seen_raises()

    def seen_generator():
        yield 1
        raise ValueError("end")

    def run():
        result = []
        try:
            seen_passes_on()
        except KeyError as error:
            result.append([frame.name for frame in traceback.extract_tb(error.__traceback__)][1:])
        try:
            for i in seen_generator():
                result.append(i)
        except ValueError as error:
            result.append([frame.name for frame in traceback.extract_tb(error.__traceback__)][1:])
        return result
    return run, ["seen_passes_on", "seen_raises"] + ["seen_generator"] * 3


def class_bodies():
    def run():
        class seen:
            value = [i for i in range(3)]
        return seen.value
    return run, ["seen"]


def inits():
    class Plain:
        def __init__(self, a):
            self.a = a

    class Derived(Plain):
        def __init__(self, a):
            super().__init__(a)
            self.b = a

    class Failing:
        def __init__(self):
            raise KeyError

    class Wrong:
        def __init__(self):
            return 3

    def run():
        result = [Plain(1).a, Derived(2).b]
        for broken in (Failing, Wrong):
            try:
                broken()
            except (KeyError, TypeError) as error:
                result.append(repr(error))
        return result
    return run, ["__init__"] * 5


SCENARIOS = (functions, closures, methods, attributes, special_methods, generators, delegation,
             coroutines, from_c, exceptions, class_bodies)
INTERESTING = ("__init__", "__getitem__", "__call__", "__add__", "__eq__", "__enter__", "__exit__",
               "__getattr__", "__getattribute__", "__await__", "<lambda>")


def frames_of(run):
    """The result of run(), and the names of the functions whose frames start meanwhile.

    The evaluator `record` must be set. Only functions of this file are reported.
    """
    codes = []
    evaluators.record_into(codes)
    try:
        result = run()
    finally:
        evaluators.record_into(None)
    return result, [code.co_name for code in codes if code.co_filename == __file__
                    and (code.co_name.startswith("seen") or code.co_name in INTERESTING)]
