"""The end of frames: what dies when, what the collector does, and what happens without memory.

All of it is CPython's behaviour. The tests run on stock too, which proves them right.
"""

import ctypes
import gc
import sys
import sysconfig
import unittest

import support
from frame_support import FrameTestCase

WIDE_COUNTS = sys.maxsize > 1 << 32 and not sysconfig.get_config_var("Py_GIL_DISABLED")


class OrderOfDestructors(FrameTestCase):
    def test_locals_die_in_the_order_of_their_slots_and_the_function_last(self):
        def make(last):
            def function(a, b, c):
                d = probe("d")
                a, c = c, a

            function.__defaults__ = (last,) * 3
            return function

        probe = self.probe
        make(probe("function"))(probe("a"), probe("b"), probe("c"))
        self.assertEqual(self.log, ["c", "b", "a", "d", "function"])

    def test_an_object_without_references_is_freed_before_the_locals(self):
        def function(a):
            # Only the frame holds its object, and only the object holds this.
            sys._getframe().f_trace = traces.pop()

        traces = [self.probe("object")]
        function(self.probe("local"))
        self.assertEqual(self.log, ["object", "local"])

    def test_a_destructor_does_not_find_the_frame_that_ends(self):
        def look(probe):
            frame, names = sys._getframe(1), []
            while frame.f_code is not own.f_code:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            found.append(names)

        own, found = sys._getframe(), []

        def outer():
            def inner(a):
                sys._getframe()
            inner(self.probe("a", look))

        outer()
        # The caller of __del__ is the caller of the frame that ended.
        self.assertEqual(found, [["__del__", "outer"]])

    def test_a_destructor_cannot_reach_slots_that_are_given_up(self):
        def look(probe):
            seen.append([type(frames[0].f_locals.get(name)).__name__ for name in "ab"])

        seen, frames = [], []

        def function(a, b):
            frames.append(sys._getframe())

        function(self.probe("a", look), self.probe("b", look))
        frames[0].clear()
        self.assertEqual(self.log, ["a", "b"])
        self.assertEqual(seen, [["NoneType", "Probe"], ["NoneType", "NoneType"]])

    def test_a_destructor_may_call_and_keep_frames_of_its_own(self):
        def keep(probe):
            def deeper(n):
                return sys._getframe() if n == 0 else deeper(n - 1)
            kept.append(deeper(30))

        kept = []

        def function(a, b, c):
            pass

        for _ in range(20):
            function(*(self.probe(name, keep) for name in "abc"))
        self.assertEqual(self.log, list("abc") * 20)
        self.assertEqual([frame.f_back.f_locals["n"] for frame in kept], [1] * 60)

    @unittest.skipUnless(WIDE_COUNTS,
                         "counts are two fields without the GIL, and narrow on a 32-bit machine")
    def test_a_count_beyond_32_bits_is_not_the_end_of_an_object(self):
        # Immortal objects count in 32 bits. Extensions that were compiled before there were any
        # count in 64, so a count may be larger.
        def call(it):
            counts.append(ctypes.c_uint64.from_address(id(it)))
            references.append(counts[0].value)
            counts[0].value += 1 << 32

        counts, references = [], []
        call(self.probe("probe"))
        self.assertEqual(references, [1])
        self.assertEqual(self.log, [])
        self.assertEqual(counts[0].value, 1 << 32)
        counts[0].value = 0
        probe = ctypes.cast(ctypes.addressof(counts[0]), ctypes.py_object).value
        del probe
        self.assertEqual(self.log, ["probe"])

    def test_many_frames_that_hold_each_other_die_without_a_deep_recursion(self):
        def level(n, held):
            if n:
                try:
                    level(n - 1, self.probe("inner"))
                finally:
                    pass
            else:
                frames.append(sys._getframe())

        frames = []
        with support.recursion_limit(5000):
            level(2000, None)
        frames.pop()
        gc.collect()
        self.assertEqual(len(self.log), 2000)


class Resurrection(FrameTestCase):
    def test_a_finalizer_of_a_cycle_may_keep_the_frame(self):
        saved = []

        def save(probe):
            saved.append(probe.frame)

        def function(held, number):
            held.frame = sys._getframe()

        function(self.probe("held", save), 17)
        self.assertEqual(self.log, [])
        gc.collect()
        self.assertEqual(self.log, ["held"])
        frame = saved[0]
        self.assertEqual((frame.f_locals["number"], frame.f_locals["held"].name), (17, "held"))
        self.assertTrue(gc.is_tracked(frame))
        # A finalizer runs once.
        before = sys.getrefcount(frame)
        gc.collect()
        self.assertEqual((len(saved), sys.getrefcount(frame)), (1, before))
        del frame.f_locals["held"].frame
        del frame, saved[:]
        gc.collect()

    def test_a_destructor_may_keep_the_object_of_the_frame_that_holds_it(self):
        # The frame object is kept after the slots of its frame were given up.
        saved = []

        def function(first, second):
            saved.append(sys._getframe())

        def save(probe):
            frame = saved[0]
            saved.append(frame)
            frame.f_locals

        function(self.probe("first", save), self.probe("second", save))
        saved[0].clear()
        self.assertEqual(self.log, ["first", "second"])
        self.assertEqual(len(saved), 3)
        self.assertEqual(dict(saved[0].f_locals), {})


class Collector(FrameTestCase):
    def test_a_cycle_through_a_frame_is_collected(self):
        def function(held):
            frame = sys._getframe()

        for _ in range(10):
            function(self.probe("held"))
        self.assertEqual(self.log, [])
        gc.collect()
        self.assertEqual(self.log, ["held"] * 10)

    def test_a_cycle_through_a_traceback_is_collected(self):
        def function(held):
            try:
                raise ValueError
            except ValueError as error:
                kept = error

        function(self.probe("held"))
        gc.collect()
        self.assertEqual(self.log, ["held"])

    def test_a_cycle_through_a_suspended_generator_is_collected(self):
        def generator(held):
            me = yield
            yield

        running = generator(self.probe("held"))
        next(running)
        running.send(running)
        frame = running.gi_frame
        del running
        self.assertEqual(self.log, [])
        # The frame belongs to the generator, so its object does not keep that alive.
        gc.collect()
        self.assertEqual(self.log, ["held"])
        self.assertEqual(frame.f_code.co_name, "generator")

    def test_what_the_collector_is_shown(self):
        def function(a, b, c=None):
            e = [b]
            return sys._getframe()

        first, second = [1], [2]
        frame = function(first, second)
        shown = gc.get_referents(frame)
        own = [it for it in shown if it is not sys._getframe()]
        self.assertEqual(len(shown), len(own) + 1, "the caller's object is shown once")
        self.assertEqual([type(it).__name__ for it in own][:2], ["function", "code"])
        self.assertIs(own[1], function.__code__)
        self.assertIs(own[2], first)
        self.assertIs(own[3], second)
        self.assertEqual(own[4:], [None, [second]])

    def test_what_a_generator_shows(self):
        def generator(a):
            yield

        argument = [1]
        running = generator(argument)
        frame = running.gi_frame
        shown = gc.get_referents(running)
        self.assertTrue(any(it is frame for it in shown))
        self.assertTrue(any(it is argument for it in shown))
        self.assertTrue(any(it is generator for it in shown))
        next(running)
        self.assertTrue(any(it is argument for it in gc.get_referents(running)))
        running.close()
        self.assertFalse(any(it is argument for it in gc.get_referents(running)))

    def test_a_frame_that_executes_shows_no_slots(self):
        def generator(a):
            yield gc.get_referents(running)

        argument = [1]
        running = generator(argument)
        self.assertFalse(any(it is argument for it in next(running)))
        running.close()


# Each step of this program fails at its first allocation, then at its second, and so on until it
# succeeds. The program prints the kind of each result, and whether all references were given up.
WITHOUT_MEMORY = """
import gc, sys
import _testcapi

class Boom(Exception):
    pass

def get_frame():
    return sys._getframe()

def deep(n):
    return sys._getframe() if n == 0 else deep(n - 1)

def raising(n):
    if n == 0:
        raise BOOM
    raising(n - 1)

def generator():
    yield sys._getframe()

def frame_of_generator():
    running = generator()
    return running.gi_frame

def outlived():
    frame = deep(3)
    names = []
    while frame is not None and frame.f_code is deep.__code__:
        names.append(1)
        frame = frame.f_back
    return names

def local_variables():
    return sys._getframe().f_locals

BOOM = Boom()
STEPS = [get_frame, lambda: deep(5), lambda: raising(3), frame_of_generator,
         lambda: next(generator()), outlived, local_variables, lambda: deep(2).f_back]
COUNTED = (BOOM, deep, deep.__code__, generator.__code__, get_frame.__code__)

def attempt(step, start):
    BOOM.__traceback__ = BOOM.__context__ = None
    result = None
    _testcapi.set_nomemory(start, START_ALONE and start + 1)
    try:
        result = step()
    except BaseException as e:
        result = e
    finally:
        _testcapi.remove_mem_hooks()
    name = type(result).__name__
    BOOM.__traceback__ = BOOM.__context__ = None
    result = None
    return name

gc.disable()
for START_ALONE in (0, 1):
    for step in STEPS:
        for _ in range(3):
            attempt(step, 1000)
        gc.collect()
        names = []
        held = [sys.getrefcount(it) for it in COUNTED]
        for start in range(24):
            names.append(attempt(step, start))
        gc.collect()
        after = [sys.getrefcount(it) for it in COUNTED]
        print(STEPS.index(step), START_ALONE, names, held == after)
"""


LOST = """
import sys
import _testcapi

class Done(Exception):
    pass

def callee(start):
    # The frame has an object that outlives it. So at its end the caller's frame needs one.
    kept.append(sys._getframe())
    error = Done()
    _testcapi.set_nomemory(start, start + 1)
    raise error

def caller(start):
    try:
        callee(start)
    except BaseException as error:
        _testcapi.remove_mem_hooks()
        return type(error).__name__

kept = []
print(*(caller(start) for start in range(12)))
"""


@support.needs_failing_allocations
class WithoutMemory(support.ProgramTestCase):
    @support.not_on_stock_debug
    def test_only_memory_errors_come_and_nothing_is_lost(self):
        lines = self.assert_program_succeeds(WITHOUT_MEMORY).splitlines()
        self.assertEqual(len(lines), 16)
        for line in lines:
            self.assertIn("MemoryError", line)
            self.assertTrue(line.endswith(" True"), line)
            # In the end there is enough memory, and the step succeeds.
            self.assertRegex(line, r"'(frame|Boom|list|FrameLocalsProxy)'\] True$")

    @support.needs_framecore
    def test_an_exception_is_not_lost_where_its_frame_s_caller_gets_no_object(self):
        # Stock CPython loses it: SystemError, and a debug build ends.
        names = self.assert_program_succeeds(LOST).split()
        self.assertEqual(set(names), {"Done", "MemoryError"}, names)

    @support.needs_stock
    @unittest.skipIf(hasattr(sys, "gettotalrefcount"), "a debug build allocates more")
    def test_each_failure_ends_as_on_stock_but_for_lost_exceptions(self):
        ours = self.assert_program_succeeds(WITHOUT_MEMORY).split()
        theirs = self.assert_program_succeeds(WITHOUT_MEMORY, python=support.STOCK_PYTHON).split()
        self.assertEqual(len(ours), len(theirs))
        lost = [here for here, there in zip(ours, theirs) if "SystemError" in there]
        self.assertLessEqual({word.strip("[],") for word in lost}, {"'Boom'", "'MemoryError'"})
        kept = [(here, there) for here, there in zip(ours, theirs) if "SystemError" not in there]
        self.assertEqual(*(list(words) for words in zip(*kept)))
