"""Frame objects as Python sees them: what they show, and what outlives a call or a generator.

All of it is CPython's behaviour. The tests run on stock too, which proves them right.
"""

import gc
import sys
import threading
import unittest

from frame_support import FrameTestCase

try:
    import _testinternalcapi
except ImportError:
    _testinternalcapi = None


class FrameObjects(FrameTestCase):
    def test_a_frame_has_one_object_that_is_made_on_request(self):
        def inner():
            return sys._getframe(), sys._getframe(), sys._getframe(1)

        own = sys._getframe()
        first, second, caller = inner()
        self.assertIs(first, second)
        self.assertIs(caller, own)
        self.assertIs(first.f_back, own)
        this_test = FrameObjects.test_a_frame_has_one_object_that_is_made_on_request
        self.assertIs(own.f_code, this_test.__code__)

    def test_the_collector_knows_an_object_from_the_end_of_its_call_on(self):
        def running():
            frame = sys._getframe()
            return gc.is_tracked(frame), frame

        tracked, frame = running()
        self.assertEqual((tracked, gc.is_tracked(frame)), (False, True))
        frame.clear()

    def test_who_holds_an_object(self):
        def running():
            return sys.getrefcount(sys._getframe())

        # The frame itself, and the argument.
        self.assertEqual(running(), 2)

    def test_an_exception_on_its_way_gets_objects_for_its_frames_and_stays_what_it_was(self):
        error = KeyError("the one")

        def raising(n):
            if n == 0:
                raise error
            raising(n - 1)

        try:
            raising(10)
        except KeyError as caught:
            self.assertIs(caught, error)
        frames, traceback = [], error.__traceback__.tb_next
        while traceback:
            frames.append(traceback.tb_frame)
            traceback = traceback.tb_next
        self.assertEqual([frame.f_locals["n"] for frame in frames], list(range(10, -1, -1)))
        for frame, callee in zip(frames, frames[1:]):
            self.assertIs(callee.f_back, frame)
        self.assertIs(frames[0].f_back, sys._getframe())

    @unittest.skipIf(_testinternalcapi is None, "no _testinternalcapi")
    def test_the_c_interface_returns_the_same_as_the_object(self):
        def running():
            frame = sys._getframe()
            return (frame.f_lineno, frame.f_code, _testinternalcapi.iframe_getline(frame),
                    _testinternalcapi.iframe_getcode(frame))

        line, code, c_line, c_code = running()
        self.assertEqual((line, code), (c_line, c_code))
        frame = (lambda: sys._getframe())()
        self.assertEqual(frame.f_lasti, _testinternalcapi.iframe_getlasti(frame))
        before = sys.getrefcount(code)
        _testinternalcapi.iframe_getcode(frame)
        self.assertEqual(sys.getrefcount(code), before)


class OutlivingTheCall(FrameTestCase):
    def test_the_frame_is_as_it_was_when_the_call_ended(self):
        def function(a, b=2):
            c = a + b
            frame = sys._getframe()
            lines.append(frame.f_lineno)
            return frame

        lines = []
        frame = function(1)
        self.assertEqual({name: value for name, value in frame.f_locals.items() if name in "abc"},
                         {"a": 1, "b": 2, "c": 3})
        self.assertEqual(frame.f_lineno, lines[0] + 1)
        self.assertIs(frame.f_back, sys._getframe())
        self.assertIs(frame.f_globals, globals())
        frame.clear()
        self.assertEqual(dict(frame.f_locals), {})

    def test_callers_are_held_and_found_in_order(self):
        def level(n):
            return sys._getframe() if n == 0 else level(n - 1)

        frame = level(20)
        found = []
        while frame.f_code is level.__code__:
            found.append(frame.f_locals["n"])
            frame = frame.f_back
        self.assertEqual(found, list(range(21)))
        self.assertIs(frame, sys._getframe())

    def test_callers_beyond_c_code_are_found(self):
        def key(n):
            frames.append(sys._getframe())
            return n

        frames = []
        sorted([1], key=key)
        max(map(key, [2]))
        for frame in frames:
            self.assertIs(frame.f_back, sys._getframe())

    def test_a_frame_of_another_thread_has_no_caller_but_that_threads(self):
        frames = []

        def body():
            frames.append(sys._getframe())

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        names, frame = [], frames[0]
        while frame:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        self.assertEqual((names[0], names[-1]), ("body", "_bootstrap"))

    def test_what_it_holds_dies_with_the_object_and_not_before(self):
        def function(held):
            return sys._getframe()

        frame = function(self.probe("held"))
        self.assertEqual(self.log, [])
        del frame
        self.assertEqual(self.log, ["held"])

    def test_locals_can_be_written_after_the_call(self):
        def function(held):
            return sys._getframe()

        frame = function(self.probe("first"))
        frame.f_locals["held"] = self.probe("second")
        frame.f_locals["other"] = 1
        self.assertEqual((frame.f_locals["held"].name, frame.f_locals["other"]), ("second", 1))
        self.assertEqual(self.log, ["first"])
        del frame
        self.assertEqual(self.log, ["first", "second"])

    def test_a_frame_that_runs_cannot_be_cleared(self):
        with self.assertRaisesRegex(RuntimeError, "executing"):
            sys._getframe().clear()


class Generators(FrameTestCase):
    @staticmethod
    def count(held):
        yield 1
        yield 2

    def test_a_generator_has_a_frame_as_long_as_it_may_be_resumed(self):
        generator = self.count(None)
        frame = generator.gi_frame
        self.assertIs(frame, generator.gi_frame)
        self.assertIsNone(frame.f_back)
        next(generator)
        self.assertIs(frame, generator.gi_frame)
        with self.assertRaisesRegex(RuntimeError, "suspended"):
            frame.clear()
        self.assertEqual(list(generator), [2])
        self.assertIsNone(generator.gi_frame)
        self.assertTrue(gc.is_tracked(frame))
        self.assertEqual(frame.f_code.co_name, "count")

    def test_a_frame_outlives_a_generator_that_ran_to_its_end(self):
        generator = self.count(self.probe("held"))
        frame = generator.gi_frame
        list(generator)
        del generator
        self.assertEqual(self.log, [])
        self.assertEqual(frame.f_locals["held"].name, "held")
        del frame
        self.assertEqual(self.log, ["held"])

    def test_a_frame_outlives_a_generator_that_never_started(self):
        generator = self.count(self.probe("held"))
        frame = generator.gi_frame
        line = generator.gi_code.co_firstlineno
        del generator
        # Its line is that of the first statement, below the decorator and the header.
        self.assertEqual(frame.f_lineno, line + 2)
        self.assertIsNone(frame.f_back)
        self.assertGreaterEqual(frame.f_lasti, 0)
        del frame
        self.assertEqual(self.log, ["held"])

    def test_slots_of_a_generator_die_in_order(self):
        def generator(a, b):
            c = probe("c")
            yield
            yield

        probe = self.probe
        running = generator(probe("a"), probe("b"))
        next(running)
        del running
        self.assertEqual(self.log, ["a", "b", "c"])

    def test_a_closed_generator_gives_up_what_it_holds_at_once(self):
        generator = self.count(self.probe("held"))
        next(generator)
        generator.close()
        self.assertEqual(self.log, ["held"])
        self.assertIsNone(generator.gi_frame)

    def test_a_frame_taken_inside_a_generator_has_the_caller_of_then(self):
        def generator():
            yield sys._getframe().f_back
            yield sys._getframe().f_back

        def step(running):
            return next(running), sys._getframe()

        running = generator()
        for caller, expected in (step(running), step(running)):
            self.assertIs(caller, expected)
        self.assertIsNone(running.gi_frame.f_back)
        running.close()

    def test_a_coroutine_and_an_asynchronous_generator_keep_theirs_too(self):
        async def coroutine(held):
            return sys._getframe()

        async def asynchronous(held):
            yield sys._getframe()

        frames = []
        for running in (coroutine(self.probe("coroutine")),
                        asynchronous(self.probe("asynchronous")).__anext__()):
            try:
                running.send(None)
            except StopIteration as stop:
                frames.append(stop.value)
        del running
        self.assertEqual(frames[0].f_locals["held"].name, "coroutine")
        # CPython 3.13.15 unlinks the frame of a coroutine that ends before the frame moves into its object.
        self.assertIs(frames[0].f_back, None if sys.version_info >= (3, 13, 15) else sys._getframe())
        del frames
        gc.collect()
        self.assertEqual(sorted(self.log), ["asynchronous", "coroutine"])


class HiddenLocals(FrameTestCase):
    """Variables of an inlined comprehension (PEP 709) are locals only while it runs."""

    def test_in_a_class_body_they_are_seen_while_they_run(self):
        class Body:
            before = type(locals()).__name__
            inside = [(type(sys._getframe().f_locals).__name__,
                       sys._getframe().f_locals.get("hidden")) for hidden in (1, 2)]
            after = (type(sys._getframe().f_locals).__name__, "hidden" in locals())

        self.assertEqual(Body.before, "dict")
        self.assertEqual(Body.inside, [("FrameLocalsProxy", 1), ("FrameLocalsProxy", 2)])
        self.assertEqual(Body.after, ("dict", False))

    def test_in_a_module_with_a_cell_of_the_same_name(self):
        namespace = {}
        exec("import sys\n"
             "x = 'global'\n"
             "seen = [(type(sys._getframe().f_locals).__name__, (lambda: x)()) for x in (1, 2)]\n"
             "after = type(sys._getframe().f_locals).__name__\n", namespace)
        self.assertEqual(namespace["seen"], [("FrameLocalsProxy", 1), ("FrameLocalsProxy", 2)])
        self.assertEqual((namespace["after"], namespace["x"]), ("dict", "global"))

    def test_one_that_is_cut_short_leaves_none(self):
        namespace = {}
        exec("import sys\n"
             "try: [1 / x for x in (1, 0)]\n"
             "except ZeroDivisionError: pass\n"
             "after = type(sys._getframe().f_locals).__name__, 'x' in locals()\n", namespace)
        self.assertEqual(namespace["after"], ("dict", False))
