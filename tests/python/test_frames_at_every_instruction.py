"""Frames are whole between any two instructions of the processor: who walks them from a signal's handler finds no half of one.

The same on stock, but for hooks: what an optimizing compiler makes of an order of writes is not in any source.
"""

import contextlib
import sys
import types
import unittest

import support

support.use_extensions()

import evaluators
import singlestep

if not support.ON_STOCK:
    import framehook


# A debug build takes five times as many instructions; there hooks and an evaluator are looked at apart.
EVALUATORS = ("default",) if hasattr(sys, "gettotalrefcount") else ("default", "count")


def leaf(n):
    return n


def recurse(n):
    return recurse(n - 1) + 1 if n else leaf(0)


def numbers(n):
    yield n
    yield leaf(n)


def delegates(n):
    yield from numbers(n)


def catches(n):
    try:
        while True:
            n += yield n
    except KeyError:
        yield leaf(n)
    finally:
        leaf(n)


@types.coroutine
def pause(n):
    return (yield n)


async def waits(n):
    return await pause(n) + 1


async def gives(n):
    yield n
    yield await waits(n)


async def takes(n):
    return [leaf(i) async for i in gives(n)]


def finish(coroutine):
    try:
        while True:
            coroutine.send(None if coroutine.cr_frame.f_lasti < 3 else 1)
    except StopIteration as stop:
        return stop.value


def raises(n):
    raise KeyError(n)


def collects(a, b=2, *args, c=3, **kwargs):
    def inner():
        return a
    return inner() + b + c + len(args) + len(kwargs)


class Thing:
    def __init__(self, n):
        self.n = leaf(n)

    @property
    def value(self):
        return leaf(self.n)

    def __getitem__(self, index):
        return leaf(index)

    def __contains__(self, n):
        return leaf(n) == self.n

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return error[0] is KeyError


MODULE = compile("x = leaf(1)", "module", "exec")


class Other:
    def __getattribute__(self, name):
        return leaf(name)


def every_call(n=3):
    thing = Thing(n)
    total = recurse(2) + thing.value + thing[n] + (n in thing) + len(Other().x)
    total += collects(1) + collects(1, c=n) + collects(*(1, 2, 3), **{"c": 4, "d": 5})
    total += sum(delegates(n)) + sum([leaf(i) for i in range(1)])
    running = catches(n)
    next(running)
    running.send(1)
    running.throw(KeyError)
    running.close()
    numbers(n).close()
    del running
    with thing:
        list(map(raises, (1,)))
    total += finish(waits(n)) + len(finish(takes(n)))
    total += sorted([1], key=lambda one: leaf(-one))[0]
    exec(MODULE, {"leaf": leaf})
    return total


FUNCTIONS = (leaf, recurse, numbers, delegates, catches, waits, gives, takes, raises, collects, Thing.__init__, Thing.__getitem__,
             Thing.__contains__, Thing.__enter__, every_call)


def big(n):
    return big(n - 1) if n else leaf(0)


# Three of these frames do not fit into the first chunk of a data stack.
big.__code__ = big.__code__.replace(co_stacksize=800)


def fills(n):
    yield n


# Words of a frame that has a chunk of its own, which is not kept.
TOO_LARGE = support.CACHED_CHUNK_BYTES // 8 + 10_000
fills.__code__ = fills.__code__.replace(co_stacksize=TOO_LARGE)


def many_calls():
    return every_call(), big(3)


def copies(stack):
    """Each function's code, and a copy whose frames are so many words larger."""
    return {code: code.replace(co_stacksize=code.co_stacksize + stack)
            for code in (function.__code__ for function in (*FUNCTIONS, big))}


@contextlib.contextmanager
def evaluator(name):
    evaluators.set(name)
    try:
        yield
    finally:
        evaluators.set("default")


@unittest.skipUnless(singlestep.available, "one instruction at a time: on Linux on x86-64 alone")
class SteppedTestCase(unittest.TestCase):
    def look(self, expected):
        result, steps = singlestep.run(many_calls)
        self.assertEqual(result, expected)
        self.assertGreater(steps, 10_000)


class EveryInstruction(SteppedTestCase):
    def test_calls(self):
        expected = many_calls()
        self.look(expected)
        for _ in range(support.WARM):
            many_calls()
        self.look(expected)

    @unittest.skipIf(support.ON_STOCK, "only on Ferrule: stock gives the chunk back before it leaves the frame")
    def test_a_generator_whose_frame_fills_a_chunk(self):
        singlestep.run(lambda: fills(1) and None)

    def test_an_exception_comes_through(self):
        with self.assertRaises(ZeroDivisionError):
            singlestep.run(lambda: 1 / 0)

    def test_with_an_evaluator(self):
        expected = many_calls()
        for name in ("pass", "count"):
            with self.subTest(name), evaluator(name):
                self.look(expected)

    def test_with_a_trace_function(self):
        expected = many_calls()
        sys.settrace(lambda *event: None)
        try:
            self.look(expected)
        finally:
            sys.settrace(None)


@support.needs_hooks
class EveryInstructionWithHooks(SteppedTestCase):
    def look_with(self, *hooks, replacing=()):
        expected = many_calls()
        for name in EVALUATORS:
            with self.subTest(evaluator=name):
                with evaluator(name), contextlib.ExitStack() as installed:
                    for hook in hooks:
                        installed.enter_context(framehook.hook(hook))
                    self.look(expected)
                    entries = framehook.hooks()
                self.assertGreater(min(hook.calls for hook in entries), 0)
                self.assertEqual([hook.replacements > 10 for hook in entries], [hook in replacing for hook in hooks])

    def test_that_pass(self):
        self.look_with(lambda view: None)

    def test_that_disable(self):
        self.look_with(lambda view: framehook.DISABLE)

    def test_that_replace(self):
        for stack in (1, 3000):
            chosen = copies(stack)
            with self.subTest(stack):
                def replace(view):
                    return chosen.get(view.code)

                self.look_with(replace, replacing=[replace])

    def test_that_replace_and_answer(self):
        chosen = copies(30)

        def replace(view):
            return chosen.get(view.code)

        self.look_with(replace, lambda view: view.result(view.argument(0)) if view.code is chosen[leaf.__code__] else None,
                       replacing=[replace])

    def test_that_replace_by_what_fills_a_chunk(self):
        code, other = numbers.__code__, numbers.__code__.replace(co_stacksize=TOO_LARGE)
        for name in EVALUATORS:
            with self.subTest(name), evaluator(name), framehook.hook(lambda view: other if view.code is code else None):
                self.assertEqual(singlestep.run(lambda: numbers(1).gi_code is other)[0], True)

    def test_that_watch(self):
        self.look_with(lambda view: view.watch(lambda event: None, None, yields=True, resumes=True))

    def test_that_replace_and_watch(self):
        chosen = copies(3000)

        def replace(view):
            view.watch(lambda event: None, None, yields=True, resumes=True)
            return chosen.get(view.code)

        self.look_with(lambda view: view.watch(lambda event: None), replace, lambda view: view.exclude_callees(), replacing=[replace])

    def test_that_answer(self):
        self.look_with(lambda view: view.result(view.argument(0)) if view.code is leaf.__code__ else None,
                       lambda view: view.watch(lambda event: None))

    def test_that_are_not_called(self):
        entries = []

        def unhooked_calls():
            return [framehook.unhooked(leaf)(1), *framehook.unhooked(numbers)(2), framehook.unhooked(recurse, callees=True)(3),
                    framehook.unhooked(max)(4, 3, key=leaf)]

        def refused():
            with self.assertRaises(TypeError):
                framehook.unhooked(leaf)()

        expected = unhooked_calls()
        for name in EVALUATORS:
            with self.subTest(name), evaluator(name), framehook.hook(lambda view: entries.append(view.code)):
                self.assertEqual(singlestep.run(unhooked_calls)[0], expected)
                singlestep.run(refused)
        self.assertEqual(entries.count(recurse.__code__) + entries.count(numbers.__code__), 0)
        self.assertEqual(entries.count(leaf.__code__), 3 * len(EVALUATORS))   # called by numbers() and max()

    def test_that_fail(self):
        failed = 0

        def fail(view):
            if view.code is recurse.__code__:
                raise ZeroDivisionError

        def calls():
            nonlocal failed
            for call in (every_call, lambda: [*map(recurse, [1])]):
                try:
                    call()
                except ZeroDivisionError:
                    failed += 1

        for name in EVALUATORS:
            with self.subTest(name), evaluator(name), framehook.hook(fail):
                failed = 0
                singlestep.run(calls)
                self.assertEqual(failed, 2)
