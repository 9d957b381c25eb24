"""Asynchronous generators that the event loop's finalizer hook gets, in cycles that the collector frees.

The finalizer hook may keep such a generator, so it is dropped only when the collector has found that it does not. Nothing
is cleared by then, and a drop callback may resurrect what it finds.
"""

import gc
import sys
import weakref

from hook_edges import KINDS, Thing
from hook_variants import SurroundedTestCase, surrounded
from support import needs_hooks

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None

FUNCTION, RUN = KINDS["asynchronous generator"]


def watching(callback, **events):
    """A hook that watches the asynchronous generators, with the attributes of a Thing of each as data."""
    def hook(view):
        if view.code is not FUNCTION.__code__:
            return framehook.DISABLE
        thing = view.argument(0)
        return view.watch(callback, thing, **events)
    return hook


def in_a_cycle(number=0):
    """A Thing that leads to a generator of which it is an argument."""
    thing = Thing()
    thing.number, thing.numbers = number, [1, 2, 3]
    # The order in which the collector clears things is that in which they were made.
    thing.before = None
    if number % 2:
        thing.before, thing.made = thing.__dict__, None
    thing.made = RUN(FUNCTION(thing))
    return thing


@needs_hooks
class FinalizerHooks(SurroundedTestCase):
    collects_often = True

    def run_scenario(self, *scenario):
        before = sys.get_asyncgen_hooks()
        try:
            super().run_scenario(*scenario)
        finally:
            sys.set_asyncgen_hooks(*before)

    @surrounded
    def test_a_callback_finds_whole_what_the_hook_did_not_keep(self):
        found, finalized, references = [], [], []
        sys.set_asyncgen_hooks(finalizer=lambda made: finalized.append(made.__name__))

        def callback(event):
            thing = event.data
            found.append((event.kind, thing.number, thing.numbers, thing.made.ag_running, len(finalized)))

        with framehook.hook(watching(callback)):
            for number in range(6):
                thing = in_a_cycle(number)
                references.append(weakref.ref(thing))
                del thing
                gc.collect()
                self.assertEqual(found, [("dropped", number, [1, 2, 3], False, number + 1)])
                found.clear()
        self.assertEqual([reference() for reference in references], [None] * 6)

    @surrounded
    def test_a_generator_that_the_hook_keeps_is_watched_on(self):
        found, kept = [], []
        sys.set_asyncgen_hooks(finalizer=kept.append)
        with framehook.hook(watching(lambda event: found.append((event.kind, event.data.numbers)), yields=True, resumes=True)):
            reference = weakref.ref(in_a_cycle())
            found.clear()
            gc.collect()
            gc.collect()
            # It is watched on, also where it runs again.
            self.assertEqual((found, len(kept)), ([], 1))
            with self.assertRaises(StopAsyncIteration):
                kept[0].__anext__().send(None)
            self.assertEqual(found, [("resumed", [1, 2, 3]), ("returned", [1, 2, 3])])
            kept.clear()
            gc.collect()
        self.assertEqual(len(found), 2)
        self.assertIsNone(reference())

    @surrounded
    def test_a_generator_that_the_hook_keeps_for_a_time_is_dropped_whole(self):
        """CPython calls a finalizer once; the generator goes in a cycle later, and without it."""
        found, kept = [], []
        sys.set_asyncgen_hooks(finalizer=kept.append)
        with framehook.hook(watching(lambda event: found.append((event.kind, event.data.numbers)))):
            in_a_cycle()
            gc.collect()
            self.assertEqual((found, len(kept)), ([], 1))
            kept.clear()
            gc.collect()
            self.assertEqual((found, kept), ([("dropped", [1, 2, 3])], []))

    @surrounded
    def test_what_a_callback_resurrects_is_not_cleared(self):
        sys.set_asyncgen_hooks(finalizer=lambda made: None)
        found = []
        with framehook.hook(watching(lambda event: found.append((event.kind, event.data)))):
            for number in range(4):
                in_a_cycle(number)
            gc.collect()
            self.assertEqual([kind for kind, _ in found], ["dropped"] * 4)
            for _, thing in found:
                self.assertEqual((thing.numbers, thing.made.ag_frame is not None), ([1, 2, 3], True))
                # It is not watched any more.
                with self.assertRaises(StopAsyncIteration):
                    thing.made.__anext__().send(None)
            self.assertEqual(len(found), 4)
            references = [weakref.ref(thing) for _, thing in found]
            del thing
            found.clear()
            gc.collect()
        self.assertEqual([reference() for reference in references], [None] * 4)

    @surrounded
    def test_callbacks_that_end_the_cycles_of_others(self):
        """A callback ends the cycles of others, which go while the collector goes through them."""
        sys.set_asyncgen_hooks(finalizer=lambda made: None)
        for step in 1, 2, 3, 7:
            found, things = [], []

            def callback(event):
                found.append((event.kind, event.data.number, len(event.data.numbers)))
                for other in event.data.others[::step]:
                    vars(other).pop("made", None)
                    other.others = []
                gc.collect()
                del event

            with framehook.hook(watching(callback)):
                things = [in_a_cycle(number) for number in range(30)]
                for thing in things:
                    thing.others = things
                del thing, things
                gc.collect()
                self.assertEqual(sorted(found), [("dropped", number, 3) for number in range(30)])
                gc.collect()
            self.assertEqual(len(found), 30)

    @surrounded
    def test_hooks_and_callbacks_that_fail(self):
        sys.set_asyncgen_hooks(finalizer=lambda made: 1 / 0)
        reports, before = [], sys.unraisablehook
        sys.unraisablehook = lambda report: reports.append(type(report.exc_value))
        self.addCleanup(setattr, sys, "unraisablehook", before)

        def callback(event):
            raise KeyError(event.data.number)

        with framehook.hook(watching(callback)):
            for number in range(3):
                in_a_cycle(number)
            gc.collect()
        sys.unraisablehook = before
        self.assertEqual(reports, [ZeroDivisionError] * 3 + [KeyError] * 3)
