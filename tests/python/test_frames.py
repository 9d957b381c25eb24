"""What Python sees of frames: their objects, what outlives a call, what dies when, and what the collector does.

All of it is CPython's behaviour, so these tests run on stock as well, and prove themselves there.
"""

import ctypes
import gc
import sys
import sysconfig
import threading
import unittest

import support

try:
    import _testcapi
    import _testinternalcapi
except ImportError:
    _testcapi = _testinternalcapi = None


WIDE_COUNTS = sys.maxsize > 1 << 32 and not sysconfig.get_config_var("Py_GIL_DISABLED")


class Probe:
    """Writes its name down when it dies, and may do something besides."""

    def __init__(self, name, log, action=None):
        self.name, self.log, self.action = name, log, action

    def __del__(self):
        self.log.append(self.name)
        if self.action is not None:
            self.action(self)


class FrameTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        gc.collect()
        self.log = []

    def probe(self, name, action=None):
        return Probe(name, self.log, action)


class FrameObjects(FrameTestCase):
    def test_a_frame_has_one_object_that_is_made_when_it_is_asked_for(self):
        def inner():
            return sys._getframe(), sys._getframe(), sys._getframe(1)

        own = sys._getframe()
        first, second, caller = inner()
        self.assertIs(first, second)
        self.assertIs(caller, own)
        self.assertIs(first.f_back, own)
        self.assertIs(own.f_code, FrameObjects.test_a_frame_has_one_object_that_is_made_when_it_is_asked_for.__code__)

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
    def test_the_c_interface_tells_the_same_as_the_object(self):
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

    def test_an_object_that_nobody_has_dies_before_the_locals(self):
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
        # From __del__, whose caller is who called the frame that ended.
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

    @unittest.skipUnless(WIDE_COUNTS, "counts are two fields without the GIL, and narrow on a 32-bit machine")
    def test_a_count_beyond_32_bits_is_not_the_end_of_an_object(self):
        # Extensions from before there were immortal objects count in 64 bits, and so beyond those objects' 32.
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
        # The frame's object is kept while the slots of its frame are already given up.
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


class Generators(FrameTestCase):
    @staticmethod
    def count(held):
        yield 1
        yield 2

    def test_a_generator_has_a_frame_as_long_as_it_may_go_on(self):
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
        # It looks as if it had come to its first statement, below the decorator and the header.
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
        for running in (coroutine(self.probe("coroutine")), asynchronous(self.probe("asynchronous")).__anext__()):
            try:
                running.send(None)
            except StopIteration as stop:
                frames.append(stop.value)
        del running
        self.assertEqual(frames[0].f_locals["held"].name, "coroutine")
        self.assertIs(frames[0].f_back, sys._getframe())
        del frames
        gc.collect()
        self.assertEqual(sorted(self.log), ["asynchronous", "coroutine"])


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


class HiddenLocals(FrameTestCase):
    """Comprehensions are part of the code around them (PEP 709): their variables are locals only while they run."""

    def test_in_a_class_body_they_are_seen_while_they_run(self):
        class Body:
            before = type(locals()).__name__
            inside = [(type(sys._getframe().f_locals).__name__, sys._getframe().f_locals.get("hidden"))
                      for hidden in (1, 2)]
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


# Each step of this program fails at its first allocation, then at its second, and so on until it succeeds. It prints
# what came of it: the kind of exception, and whether every reference is back where it was.
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
STEPS = [get_frame, lambda: deep(5), lambda: raising(3), frame_of_generator, lambda: next(generator()), outlived,
         local_variables, lambda: deep(2).f_back]

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
        held = [sys.getrefcount(it) for it in (BOOM, deep, deep.__code__, generator.__code__, get_frame.__code__)]
        for start in range(24):
            names.append(attempt(step, start))
        gc.collect()
        after = [sys.getrefcount(it) for it in (BOOM, deep, deep.__code__, generator.__code__, get_frame.__code__)]
        print(STEPS.index(step), START_ALONE, names, held == after)
"""


@unittest.skipIf(hasattr(sys, "gettotalrefcount"), "an exception that has no memory for its frame gets lost in CPython, "
                                                   "which its own assertions stop at")
@support.needs_failing_allocations
class WithoutMemory(support.ProgramTestCase):
    def test_only_memory_errors_come_and_nothing_is_lost(self):
        lines = self.assert_program_succeeds(WITHOUT_MEMORY).splitlines()
        self.assertEqual(len(lines), 16)
        for line in lines:
            self.assertIn("MemoryError", line)
            self.assertTrue(line.endswith(" True"), line)
            # With enough memory, each step gets what it is about.
            self.assertRegex(line, r"'(frame|Boom|list|FrameLocalsProxy)'\] True$")

    @support.needs_stock
    def test_each_failure_ends_as_on_stock(self):
        ours = self.assert_program_succeeds(WITHOUT_MEMORY)
        theirs = self.assert_program_succeeds(WITHOUT_MEMORY, python=support.STOCK_PYTHON)
        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    unittest.main()
