"""Watches where memory runs out: as they begin, with arguments and a caller to keep, and as a generator is resumed."""

import contextlib
import gc
import sys
import types
import weakref

from hook_variants import BesideAnEvaluator, Plainly, in_a_child
from support import HookTestCase, Thing, attempt, needs_failing_allocations, needs_hooks

try:
    import _testcapi
except ImportError:     # needs_failing_allocations
    _testcapi = None
try:
    import framehook
except ImportError:     # stock CPython
    framehook = None

KINDS = ("returned", "raised", "yielded", "resumed", "dropped")
TOOL = 3


@types.coroutine
def gives(value):
    yield value


def generator(answer):
    try:
        yield 1
    except MemoryError:
        yield answer
    yield 2


def delegating(answer):
    try:
        yield from [1]
    except MemoryError:
        yield answer
    yield 2


async def coroutine(answer):
    try:
        await gives(1)
    except MemoryError:
        await gives(answer)
    await gives(2)


async def asynchronous(answer):
    try:
        await gives(1)
    except MemoryError:
        await gives(answer)
    await gives(2)
    return
    yield


FUNCTIONS = (generator, delegating, coroutine, asynchronous)


class Log:
    """The kinds of events, which are noted without memory."""

    def __init__(self):
        self.numbers, self.noted, self.count = {kind: number for number, kind in enumerate(KINDS)}, bytearray(100), 0

    def note(self, event):
        self.noted[self.count] = self.numbers[event.kind]
        self.count += 1

    def take(self):
        kinds = [KINDS[number] for number in self.noted[:self.count]]
        self.count = 0
        return kinds


@needs_hooks
@needs_failing_allocations
class Resumed(HookTestCase):
    def resume(self, function, number):
        """What comes of it while allocation `number` fails, the events until then, and those afterwards."""
        log = Log()
        # Such code has no memory for instrumentation yet.
        function.__code__ = function.__code__.replace()
        code = function.__code__

        def hook(view):
            if view.code is not code:
                return framehook.DISABLE
            view.watch(log.note, None, yields=True, resumes=True)

        monitoring, fail, succeed = sys.monitoring, _testcapi.set_nomemory, _testcapi.remove_mem_hooks
        monitoring.use_tool_id(TOOL, "without memory")
        try:
            with framehook.hook(hook):
                made = function(77)
                if function is asynchronous:
                    made = made.__anext__()
                self.assertEqual(made.send(None), 1)
                log.take()
                # At its next RESUME the code needs more memory.
                monitoring.set_events(TOOL, monitoring.events.LINE)
                others = number - 1
                try:
                    fail(others, number)
                    result = made.send(None)
                except MemoryError:
                    result = MemoryError
                finally:
                    succeed()
                    monitoring.set_events(TOOL, 0)
                first = log.take()
                if result is not MemoryError:
                    with contextlib.suppress(StopIteration, StopAsyncIteration):
                        while True:
                            made.send(None)
                del made
                gc.collect()
                return result, first, log.take()
        finally:
            monitoring.free_tool_id(TOOL)

    def in_each_surrounding(self, check):
        for surrounding in (Plainly, BesideAnEvaluator):
            with surrounding():
                for function in FUNCTIONS:
                    with self.subTest(surrounding.__name__, function=function.__name__):
                        check(function)

    @in_a_child
    def test_code_that_cannot_be_instrumented_is_not_resumed_and_watched_on(self):
        def check(function):
            # The exception is raised at the yield, and handled there.
            self.assertEqual(self.resume(function, 1), (77, ["yielded"], ["resumed", "yielded", "resumed", "returned"]))

        self.in_each_surrounding(check)

    @in_a_child
    def test_whichever_allocation_fails_events_have_their_order(self):
        follows = {None: {"resumed", "yielded"}, "resumed": {"resumed", "yielded", "returned", "raised"},
                   "yielded": {"resumed", "returned"}, "returned": set(), "raised": set()}

        def check(function):
            failed = 0
            for number in range(1, 40):
                result, first, later = self.resume(function, number)
                failed += result != 2
                last = None
                for kind in first + later:
                    self.assertIn(kind, follows[last], (number, first, later))
                    last = kind
                self.assertIn(last, ("returned", "raised"), (number, first, later))
            self.assertGreater(failed, 1)
            self.assertLess(failed, 38)

        self.in_each_surrounding(check)


@needs_hooks
@needs_failing_allocations
class Begun(HookTestCase):
    ALLOCATIONS = 120

    def context_of(self, function, finish, expected):
        """Whichever allocation fails, an event has all arguments and the caller or there is none, and nothing is left."""
        code, data, argument = function.__code__, Thing(), Thing()
        events = [None]

        def callback(event):
            # To assign an item needs no memory.
            events[0] = event

        def hook(view):
            if view.code is not code:
                return framehook.DISABLE
            view.watch(callback, data, yields=True, resumes=True, arguments=True, caller=True)

        def operation():
            return finish(function(argument, 2, 3, key=4, other=5))

        line = operation.__code__.co_firstlineno + 1
        failures = 0
        with framehook.hook(hook):
            operation()
            events[0] = None
            gc.collect()
            counts = sys.getrefcount(data), sys.getrefcount(argument), sys.getrefcount(callback)
            for number in range(1, self.ALLOCATIONS):
                function.__code__ = code
                outcome = attempt(number, operation)
                event, events[0] = events[0], None
                failures += outcome is MemoryError
                if outcome is not MemoryError:
                    self.assertIsNotNone(event)
                if event is not None:
                    self.assertEqual((event.caller, event.data is data), ((operation.__code__, line), True), number)
                    self.assertEqual(event.arguments, {"a": argument, "rest": (2, 3), "key": 4, **expected}, number)
                    # Of a generator the last callback may have failed, and that is only reported.
                    self.assertTrue(event.kind == "returned" or outcome is MemoryError or finish is next, (number, event.kind))
                event = outcome = None
                gc.collect()
                self.assertEqual((sys.getrefcount(data), sys.getrefcount(argument), sys.getrefcount(callback)), counts, number)
        self.assertGreater(failures, 3)
        self.assertLess(failures, self.ALLOCATIONS - 2)

    @in_a_child
    def test_a_watch_with_arguments_and_a_caller_is_whole_or_not_there(self):
        def plain(a, *rest, key, **more):
            return a

        def in_cells(a, *rest, key, **more):
            # Neither a function nor a list is made: CPython 3.13 has errors of its own there (test_frame_hooks_without_memory.py).
            if a is None:
                lambda: (a, rest, key, more)
            return a

        def generator(a, *rest, key, **more):
            yield a

        for function, finish in ((plain, lambda value: value), (in_cells, lambda value: value), (generator, next)):
            for surrounding in (Plainly, BesideAnEvaluator):
                with surrounding(), self.subTest(function.__name__, surrounding=surrounding.__name__):
                    self.context_of(function, finish, {"more": {"other": 5}})

    @in_a_child
    def test_what_is_kept_goes_where_the_watch_cannot_begin(self):
        """The callback of one hook fails for want of memory after another one has begun its watch."""
        def function(a):
            return a

        code, gone = function.__code__, []

        def first(view):
            if view.code is code:
                view.watch(gone.append, Thing(), arguments=True, caller=True)

        def second(view):
            if view.code is code:
                raise MemoryError

        with framehook.hook(first), framehook.hook(second):
            thing = Thing()
            reference = weakref.ref(thing)
            with self.assertRaises(MemoryError):
                function(thing)
            del thing
            self.assertEqual([event.kind for event in gone], ["raised"])
            gone.clear()
            gc.collect()
            self.assertIsNone(reference())
