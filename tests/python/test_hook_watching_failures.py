"""Callbacks that fail, about every form of call: the call fails, and nothing is left of it."""

import gc
import random
import sys
import unittest

from support import framehook, needs_hooks


class Failed(Exception):
    pass


class Thing:
    """Python code for all kinds of operations."""

    def __init__(self, value=1):
        self.value = value

    @property
    def shown(self):
        return self.value

    def __getitem__(self, index):
        return index

    def __getattr__(self, name):
        return name

    def method(self, *args, **kwargs):
        return args, kwargs

    def __add__(self, other):
        return other

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False

    def __iter__(self):
        return iter([1])

    def __call__(self, value):
        return value

    def __len__(self):
        return 1

    def __bool__(self):
        return True

    def __contains__(self, value):
        return True


def generator(n):
    for i in range(n):
        yield i


def delegating():
    return (yield from generator(3))


def closing(log):
    try:
        yield 1
    finally:
        log.append("closed")


def delegating_after(log):
    """The last local variable lies below what handlers within `yield from` find."""
    result = None
    last = "last"
    try:
        result = yield from closing(log)
    except KeyError:
        result = "caught"
    yield result, last


def keywords(a, *, b=1):
    return a, b


def starred(*args):
    return args


def loop():
    total = 0
    for value in generator(4):
        total += value
    return total


def with_block(thing):
    with thing as same:
        return same


FORMS = {
    "class": lambda thing: Thing().value,
    "property": lambda thing: thing.shown,
    "item": lambda thing: thing[3],
    "attribute": lambda thing: thing.nothing,
    "method": lambda thing: thing.method(1, k=2),
    "addition": lambda thing: thing + 1,
    "equality": lambda thing: thing == 2,
    "hash": lambda thing: len({thing: 1}),
    "with": lambda thing: with_block(thing) is thing,
    "iteration": lambda thing: list(thing),
    "call": lambda thing: thing(4),
    "length": lambda thing: len(thing),
    "truth": lambda thing: not thing,
    "in": lambda thing: 3 in thing,
    "from C": lambda thing: max([1, 2], key=thing),
    "keywords": lambda thing: keywords(1, b=2),
    "starred": lambda thing: starred(*[1, 2]),
    "generator in C": lambda thing: sum(generator(4)),
    "generator in a loop": lambda thing: loop(),
    "generator unpacked": lambda thing: [*generator(2)],
    "generator delegating": lambda thing: list(delegating()),
}
CODES = [function.__code__ for function in (*vars(Thing).values(), generator, delegating, keywords,
                                            starred) if hasattr(function, "__code__")]
CODES.append(Thing.shown.fget.__code__)
ROUNDS = 60     # so that calls are specialized on the way


class Failing:
    """A hook that watches all of that, and fails in its callbacks, as often as a test wants."""

    def __init__(self, often):
        self.often, self.chance = often, random.Random(22)
        self.begun = self.ended = 0

    def __call__(self, view):
        if any(view.code is code for code in CODES):
            self.begun += 1
            view.watch(self.delivered, None, yields=True, resumes=True)
            return None
        return framehook.DISABLE

    def delivered(self, event):
        self.ended += event.kind in ("returned", "raised", "dropped")
        if event.kind != "dropped" and self.chance.random() < self.often:
            raise Failed(event.kind)


@needs_hooks
class EveryForm(unittest.TestCase):
    def run_each(self, often):
        """What came out of each form of call, and the hook."""
        thing, hook, found = Thing(), Failing(often), {}
        with framehook.hook(hook):
            for name, use in FORMS.items():
                outcomes = set()
                for _ in range(ROUNDS):
                    try:
                        outcomes.add(repr(use(thing)))
                    except Failed:
                        outcomes.add("failed")
                found[name] = outcomes
        return found, hook

    def test_a_call_fails_where_each_callback_fails(self):
        found, hook = self.run_each(1)
        self.assertEqual({name: outcomes for name, outcomes in found.items()
                          if outcomes != {"failed"}}, {})
        self.assertEqual(hook.begun, hook.ended)

    def test_a_call_has_its_value_or_fails_where_some_callbacks_fail(self):
        thing = Thing()
        expected = {name: {repr(use(thing)), "failed"} for name, use in FORMS.items()}
        found, hook = self.run_each(0.1)
        self.assertEqual(found, expected)
        self.assertEqual(hook.begun, hook.ended)

    def test_what_is_thrown_into_a_generator_that_delegates_is_raised_there(self):
        def use():
            try:
                return list(delegating_after(log))[-1]
            except (OSError, RuntimeError):
                return "raised"

        log = []
        for kind in ("yielded", "resumed"):
            for error, expected in ((KeyError, ("caught", "last")), (OSError, "raised"),
                                    (StopIteration, "raised")):
                delivered = []

                def on_event(event):
                    delivered.append(event.kind)
                    turn = 1 if kind == "yielded" else 2
                    if event.kind == kind and delivered.count(kind) == turn:
                        raise error("value")

                def hook(view):
                    if view.code is delegating_after.__code__:
                        delivered.clear()
                        view.watch(on_event, None, yields=True, resumes=True)

                with self.subTest(kind, error=error), framehook.hook(hook):
                    for _ in range(ROUNDS):
                        self.assertEqual(use(), expected)
                        self.assertEqual(log, ["closed"])
                        log.clear()

    def test_no_callback_ends_an_iteration(self):
        async def coroutine():
            return 1

        async def asynchronous():
            yield 1

        async def iterates():
            return [value async for value in asynchronous()]

        def hook(view):
            if view.code is use.__code__:
                view.watch(on_event, None, yields=True, resumes=True)

        def on_event(event):
            if event.kind == kind:
                raise error("end")

        ways = ((generator, lambda: list(generator(1))), (coroutine, lambda: coroutine().send(None)),
                (asynchronous, lambda: iterates().send(None)))
        for error in (StopIteration, StopAsyncIteration):
            for use, run in ways:
                for kind in ("resumed", "yielded", "returned"):
                    if use is coroutine and kind == "yielded":
                        continue
                    with self.subTest(use.__name__, error=error, kind=kind), framehook.hook(hook):
                        for _ in range(ROUNDS):
                            with self.assertRaises(RuntimeError) as raised:
                                run()
                            self.assertIsInstance(raised.exception.__cause__, error)

    def test_what_is_thrown_into_a_coroutine_that_awaits_is_raised_there(self):
        class Waits:
            def __await__(self):
                yield 1

        async def inner():
            await Waits()

        async def outer():
            try:
                await inner()
            except KeyError:
                return "caught"

        def on_event(event):
            if event.kind == "yielded":
                raise KeyError

        def hook(view):
            if view.code is outer.__code__:
                view.watch(on_event, None, yields=True)

        with framehook.hook(hook):
            for _ in range(ROUNDS):
                with self.assertRaises(StopIteration) as stop:
                    outer().send(None)
                self.assertEqual(stop.exception.value, "caught")

    def test_nothing_is_left_of_a_call_that_has_failed(self):
        values = [object() for _ in range(3)]

        def uses(thing):
            yield lambda: thing(values[0])
            yield lambda: thing + values[0]
            yield lambda: thing.method(*values, k=values[1])
            yield lambda: keywords(values[0], b=values[1])
            yield lambda: starred(*values)
            yield lambda: Thing(values[2])
            yield lambda: [thing[value] for value in values]

        counts = [sys.getrefcount(value) for value in values]
        with framehook.hook(Failing(1)):
            for use in uses(Thing.__new__(Thing)):
                for _ in range(ROUNDS):
                    with self.assertRaises(Failed):
                        use()
        del use
        gc.collect()
        self.assertEqual([sys.getrefcount(value) for value in values], counts)
