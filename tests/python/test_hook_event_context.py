"""watch(arguments=True, caller=True): events with the arguments as they were on entry, and with the caller."""

import asyncio
import gc
import sys
import weakref

from support import HookTestCase, framehook, needs_hooks


def target(a, *args, key=3, **kwargs):
    a, key = None, None
    return "value"


def counts(n):
    while n:
        n -= 1
        yield n


async def awaits(n):
    n -= 1
    await asyncio.sleep(0)


class Watcher:
    def __init__(self, function, **options):
        self.code, self.options, self.events = function.__code__, options, []

    def __call__(self, view):
        if view.code is self.code:
            view.watch(self.events.append, **self.options)


@needs_hooks
class EventContext(HookTestCase):
    def events_of(self, function, program, **options):
        watcher = Watcher(function, **options)
        with framehook.hook(watcher):
            program()
        return watcher.events

    def test_arguments_are_those_of_the_entry(self):
        event, = self.events_of(target, lambda: target(1, 2, other=4), arguments=True)
        self.assertEqual(event.arguments, {"a": 1, "key": 3, "args": (2,), "kwargs": {"other": 4}})
        self.assertIsNone(event.caller)
        self.assertEqual(tuple(event), ("returned", "value", target.__code__, None))

    def test_the_caller_is_code_and_line(self):
        def calls():
            return target(1)

        event, = self.events_of(target, calls, caller=True)
        self.assertEqual(event.caller, (calls.__code__, calls.__code__.co_firstlineno + 1))
        self.assertIsNone(event.arguments)

    def test_nothing_is_kept_where_nothing_is_requested(self):
        event, = self.events_of(target, lambda: target(1))
        self.assertEqual((event.arguments, event.caller), (None, None))

    def test_each_event_of_a_generator_and_of_a_coroutine_has_them(self):
        for function, program in ((counts, lambda: list(counts(2))), (awaits, lambda: asyncio.run(awaits(2)))):
            with self.subTest(function.__name__):
                events = self.events_of(function, program, data=5, arguments=True, caller=True, yields=True, resumes=True)
                self.assertGreater(len(events), 2)
                self.assertEqual({event.kind for event in events} & {"yielded", "returned"}, {"yielded", "returned"})
                for event in events:
                    self.assertEqual((event.arguments, event.data), ({"n": 2}, 5))
                    self.assertIsInstance(event.caller, tuple)

    def test_arguments_in_cells(self):
        def function(a):
            a, inner = 8, lambda: a
            return inner()

        event, = self.events_of(function, lambda: function(7), arguments=True)
        self.assertEqual((event.value, event.arguments), (8, {"a": 7}))

    def test_what_is_kept_goes_with_the_frame_and_in_a_cycle(self):
        class Thing:
            pass

        thing = Thing()
        watcher = Watcher(counts, arguments=True, caller=True)
        with framehook.hook(watcher):
            generator = counts(thing)
        thing.generator = generator
        gone = weakref.ref(thing)
        watcher.events.clear()
        del thing, generator
        gc.collect()
        watcher.events.clear()
        gc.collect()
        self.assertIsNone(gone())

    def test_wrong_arguments(self):
        def outcome(*arguments, **options):
            def hook(view):
                if view.code is target.__code__:
                    view.watch(*arguments, **options)
            with framehook.hook(hook):
                target(1)

        for arguments, options in (((), {}), ((print, 1, True), {}), ((print,), {"other": 1}), ((print,), {"callback": print}),
                                   ((print, 1), {"data": 2}), ((), {"data": 2}), ((3,), {})):
            with self.subTest(arguments, **options):
                self.assertRaises(TypeError, outcome, *arguments, **options)

        class Unsure:
            def __bool__(self):
                raise LookupError("unsure")

        for name in "yields", "resumes", "arguments", "caller":
            with self.subTest(name):
                self.assertRaises(LookupError, outcome, print, **{name: Unsure()})
        references = sys.getrefcount(outcome)
        for _ in range(10):
            self.assertRaises(LookupError, outcome, outcome, arguments=True, caller=Unsure())
        self.assertEqual(sys.getrefcount(outcome), references)

    def test_by_keyword(self):
        events = []
        with framehook.hook(lambda view: view.watch(data=1, callback=events.append) if view.code is target.__code__ else None):
            target(1)
        self.assertEqual([event.data for event in events], [1])
