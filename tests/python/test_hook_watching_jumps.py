"""A debugger sends a generator to another line in the callbacks of its events."""

import contextlib
import sys
import traceback
import unittest
import warnings

from support import framehook, needs_hooks
from test_hook_watching import Watcher

REFUSED = "a yield callback of a frame hook cannot send the generator to another line"


def loops():
    before = [1]
    for x in [1, 2, 3]:
        before.append((yield x))
    yield "after"


def handles():
    for x in [1, 2]:
        try:
            yield x
            with contextlib.nullcontext():
                raise KeyError
        except (KeyError, RuntimeError):
            yield "caught"
        yield "after"
        try:
            yield "within"
        except (KeyError, RuntimeError) as error:
            yield repr(error)


@needs_hooks
class Jumps(unittest.TestCase):
    def jumping(self, function, use, to, where, count, fails=None):
        """What comes of the use of a generator that goes to a line below its `def` in the callback of event `where` after `count`
        other events. The hook fails then, with `fails`."""
        def callback(event):
            if event.kind == where and len(events) == count:
                here = 1
                if fails:
                    raise fails
            events.append(event.kind)

        def trace(frame, event, argument):
            if frame.f_code is callback.__code__ and event == "line" and frame.f_lineno == line_of_here:
                generator.gi_frame.f_trace = trace
                generator.gi_frame.f_lineno = function.__code__.co_firstlineno + to
                jumps.append(event)
            return trace

        line_of_here = callback.__code__.co_firstlineno + 2
        events, jumps, old = [], [], sys.gettrace()
        handle = framehook.add(Watcher(function, on_event=callback), visible=True)
        try:
            generator = function()
            with warnings.catch_warnings():
                # Of names that have no value yet.
                warnings.simplefilter("ignore", RuntimeWarning)
                sys.settrace(trace)
                try:
                    return use(generator)
                finally:
                    sys.settrace(old)
        finally:
            framehook.remove(handle)
            self.assertEqual(jumps, ["line"])

    def test_as_it_begins_and_as_it_is_resumed(self):
        # With a stack that has the loop's iterator, or has nothing.
        self.assertEqual(self.jumping(loops, list, 4, "resumed", 2), [1, "after"])
        self.assertEqual(self.jumping(loops, list, 4, "resumed", 0), ["after"])

    def test_as_it_has_yielded(self):
        found = []

        def collect(generator):
            with self.assertRaisesRegex(RuntimeError, REFUSED):
                for value in generator:
                    found.append(value)

        self.jumping(loops, collect, 4, "yielded", 3)
        self.assertEqual(found, [1])

    def thrown(self, generator):
        return [next(generator), generator.throw(KeyError("thrown"))]

    def resume_it(self, generator):
        return [next(generator), next(generator)]

    def test_with_an_exception_it_raises_at_that_line(self):
        """And not at the one before, whose handlers count on another stack."""
        for what, error, values in (
            (dict(use=self.thrown, where="resumed", count=2), KeyError("thrown"), [1]),
            (dict(use=self.resume_it, where="resumed", count=2, fails=KeyError("callback")), KeyError("callback"), [1]),
            (dict(use=self.resume_it, where="yielded", count=1), RuntimeError(REFUSED), []),
            (dict(use=self.resume_it, where="yielded", count=1, fails=KeyError("callback")), KeyError("callback"), []),
        ):
            with self.subTest(what=what):
                try:
                    self.fail(self.jumping(handles, to=8, **what))
                except type(error) as caught:
                    lines = [entry.lineno - handles.__code__.co_firstlineno
                             for entry in traceback.extract_tb(caught.__traceback__) if entry.name == "handles"]
                    self.assertEqual((repr(caught), lines), (repr(error), [8]))
                # The handlers of the line are in force.
                found = self.jumping(handles, to=10, **what)
                self.assertEqual(found[:len(values) + 1], [*values, repr(error)])
