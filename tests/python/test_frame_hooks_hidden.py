"""While hooks are called for a frame, no other code finds it; once it runs, it is seen as usual.

This holds for all that looks for frames: loggers, tracers, samplers, functions of C. It does not
depend on what the hook answers.
"""

import gc
import inspect
import logging
import sys
import tempfile
import threading
import traceback
import types
import warnings

from hook_variants import EVERYWHERE, HERE, TWO, VariantTestCase, extension, in_a_child, installed, varied
from looking import ANSWERS, CALLERS_FILE, WAYS, Call, Records, calls_dispatched, names_back
from support import needs_hooks

NO_GIL = not getattr(sys, "_is_gil_enabled", lambda: True)()


@needs_hooks
class Looking(VariantTestCase):
    def look(self, api, kind, way, answer):
        seen = []
        call = Call(api, kind, answer, lambda view: seen.extend(look()))
        with WAYS[way]() as look, installed(api, call.hook):
            result = call.run()
        self.assertEqual((result, call.entries), (call.expected(), 1))
        self.assertIn("calls_dispatched", seen)
        self.assertNotIn("offered", seen)

    def test_no_walk_finds_a_frame_during_its_dispatch(self):
        for way in WAYS:
            for answer in ANSWERS:
                self.in_every_variant(self.look, way, answer, kinds=TWO, surroundings=HERE)

    def test_each_kind_of_function_is_hidden_during_its_dispatch(self):
        self.in_every_variant(self.look, "sys._getframe at each depth", "other code")
        self.in_every_variant(self.look, "f_back", "None")

    def test_each_way_of_looking_finds_a_frame_that_runs(self):
        for way, prepare in WAYS.items():
            with self.subTest(way), prepare() as look:
                def offered():
                    return look()
                code = offered.__code__.replace(co_filename="<offered>")
                offered = types.FunctionType(code, {"__name__": "offered_module"},
                                             closure=offered.__closure__)
                seen = calls_dispatched(offered)
                self.assertIn("calls_dispatched", seen)
                self.assertIn("offered", seen)

    @varied()
    def test_the_frame_below_the_hook_is_the_callers(self, api, kind):
        """The frame below the hook's own is the caller's, at each level that tools count."""
        logger, records = logging.Logger("a logger of a test"), Records()
        logger.addHandler(records)
        seen = []

        def look(view):
            seen.append(sys._getframe(2).f_code.co_name)
            seen.append(sys._getframe(1).f_back.f_code.co_name)
            seen.append(inspect.currentframe().f_back.f_back.f_code.co_name)
            seen.append(sys._getframemodulename(2))
            logger.warning("a message", stacklevel=3)
            seen.append(records.records[0].funcName)

        call = Call(api, kind, "other code", look)
        with installed(api, call.hook):
            call.run()
        self.assertEqual(seen, ["calls_dispatched"] * 3 + [calls_dispatched.__module__, "calls_dispatched"])

    def kept_frames(self, api, kind, answer):
        """Frames around a hook that it keeps are whole when their calls are over."""
        kept = []

        def keep(view):
            for depth in range(6):
                frame = sys._getframe(depth)
                kept.append((frame, frame.f_code, frame.f_back, set(frame.f_locals)))

        def deeper(n):
            return deeper(n - 1) if n else call.run(n)

        def overwrite(n):
            return n and overwrite(n - 1)

        call = Call(api, kind, answer, keep)
        with installed(api, call.hook):
            self.assertEqual(deeper(20), call.expected(0))
        overwrite(60)
        self.assertEqual(len(kept), 6)
        for frame, code, back, locals_ in kept:
            self.assertIs(frame.f_code, code)
            self.assertIs(frame.f_back, back)
            self.assertLessEqual(locals_, set(frame.f_locals))
            self.assertNotIn(code.co_name, ("offered", "stand_in"))
            self.assertGreaterEqual(frame.f_lineno, code.co_firstlineno)

    @in_a_child
    def test_frames_that_a_hook_keeps_stay_whole_when_the_call_is_replaced(self):
        self.in_every_variant(self.kept_frames, "other code")
        # The collector visits all frames that are left.
        gc.collect()

    @in_a_child
    def test_frames_that_a_hook_keeps_stay_whole_when_the_call_continues_or_fails(self):
        for answer in ("None", "an exception"):
            self.in_every_variant(self.kept_frames, answer, kinds=TWO)

    def leaks(self, api, kind, way, answer):
        calls, warm = 300, 30
        with WAYS[way]() as look:
            call = Call(api, kind, answer, lambda view: look())
            with installed(api, call.hook):
                counted = [call.offered, call.offered.__code__, call.stand_in,
                           calls_dispatched.__code__]
                for _ in range(warm):
                    call.run(counted)
                gc.collect()
                before = [sys.getallocatedblocks(), *map(sys.getrefcount, counted)]
                for _ in range(calls):
                    call.run(counted)
                gc.collect()
                grown = [now - then for then, now in zip(before, [sys.getallocatedblocks(),
                                                                  *map(sys.getrefcount, counted)])]
        self.assertEqual(grown[1:], [0] * len(counted))
        if not NO_GIL:      # without the GIL 3.13 has no allocator that counts blocks
            self.assertLess(grown[0], calls // 4)

    # These keep what they have seen, or measure memory themselves, or take too long.
    KEEPING = ("logging", "warnings", "sys.settrace", "sys.setprofile", "sys.monitoring",
               "tracemalloc", "the collector", "inspect.stack", "traceback.extract_stack")

    def test_looking_leaks_nothing_whatever_the_answer(self):
        for way in WAYS.keys() - set(self.KEEPING):
            for answer in ANSWERS:
                self.in_every_variant(self.leaks, way, answer, kinds=TWO, apis=("Python",),
                                      surroundings=HERE)

    @varied(kinds=TWO, surroundings=HERE)
    def test_a_hook_that_logs_and_warns_leaks_nothing(self, api, kind):
        """Hooks of programs log with a stack and warn: neither keeps memory or references."""
        logger = logging.Logger("a logger of a test")
        logger.addHandler(logging.NullHandler())

        def look(view):
            logger.warning("a message", stacklevel=2, stack_info=True)
            warnings.warn("a message", stacklevel=3)
            inspect.stack(0)
            traceback.extract_stack()

        call = Call(api, kind, "other code", look)
        with warnings.catch_warnings(), installed(api, call.hook):
            warnings.simplefilter("ignore")
            for _ in range(20):
                call.run()
            gc.collect()
            before = sys.getallocatedblocks(), sys.getrefcount(call.offered.__code__)
            for _ in range(200):
                call.run()
            gc.collect()
            after = sys.getallocatedblocks(), sys.getrefcount(call.offered.__code__)
        self.assertEqual(after[1], before[1])
        if not NO_GIL:
            self.assertLess(after[0] - before[0], 50)

    def dumps(self, api, kind, answer):
        import faulthandler  # cannot be imported in every interpreter

        def dump(view):
            faulthandler.dump_traceback(file)

        call = Call(api, kind, answer, dump)
        with tempfile.TemporaryFile("w+") as file:
            with installed(api, call.hook):
                self.assertEqual(call.run(), call.expected())
            file.seek(0)
            self.assertIn("in calls_dispatched", file.read())

    @in_a_child
    def test_faulthandler_gets_past_a_frame_during_its_dispatch(self):
        for answer in ANSWERS:
            self.in_every_variant(self.dumps, answer, surroundings=HERE)

    @in_a_child
    @varied(kinds=TWO, surroundings=HERE)
    def test_a_sampling_thread_never_finds_a_frame_that_was_replaced(self, api, kind):
        """Another thread takes all frames: whenever the hook waits for it, and at other times."""
        turn, answered, ends = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
        def wait(view):
            turn.release()
            answered.acquire(timeout=60)

        call = Call(api, kind, "other code", wait)
        here, found, kept, calls = threading.get_ident(), set(), [], 50

        def sample():
            while not ends.is_set():
                waits = turn.acquire(timeout=0.0002)
                frame = sys._current_frames()[here]
                kept[:] = kept[-50:] + [frame]
                found.update(names_back(frame))
                if waits:
                    answered.release()

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            with installed(api, call.hook):
                for _ in range(calls):
                    self.assertEqual(call.run(), call.expected())
        finally:
            ends.set()
            thread.join()
        self.assertEqual(call.entries, calls)
        self.assertIn("calls_dispatched", found)
        self.assertNotIn("offered", found)
        for frame in kept:
            # This crashes if the frame is not whole.
            dict(frame.f_locals)
            self.assertIn(frame.f_code.co_name, found)

    @varied()
    def test_a_frame_is_seen_from_its_first_instruction_on(self, api, kind):
        """Once it runs, the frame is seen where it belongs, and has one object."""
        frames = []

        def note():
            frames.append(sys._getframe(1))
            return names_back(sys._getframe(1))

        call = Call(api, kind, "None", lambda view: sys._getframe(1).f_back)
        call.offered = kind.make("names = note()\n{give} names, note()", note=note)
        with installed(api, call.hook):
            first, second = call.run()
        self.assertEqual((call.entries, first[0], first), (1, "offered", second))
        self.assertIs(frames[0], frames[1])
        self.assertEqual(frames[0].f_locals["a"], None)


@needs_hooks
class LookingInC(VariantTestCase):
    def look(self, api, kind, answer):
        call = Call(api, kind, answer)
        found = []
        stand_in = call.stand_in if answer == "other code" else None
        handle = extension("neighbourhooks").add_looker(call.offered.__code__, stand_in, found)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = call.run("argument")
        finally:
            api.remove(handle)
        self.assertEqual(result, call.expected("argument"))
        current, same, back, globals_, locals_ = found
        self.assertIs(current.f_code, calls_dispatched.__code__)
        self.assertIs(same, current)
        self.assertIs(back, current.f_back)
        self.assertIs(globals_, calls_dispatched.__globals__)
        self.assertEqual(locals_, {"function": call.offered, "arguments": ("argument",)})
        self.assertEqual([warning.filename for warning in caught], [CALLERS_FILE])
        # The caller's frame object is still in order.
        self.assertIs(current.f_locals["function"], call.offered)

    @in_a_child
    def test_functions_of_c_find_the_caller_during_a_dispatch(self):
        for answer in ("None", "other code"):
            self.in_every_variant(self.look, answer, apis=("C",))
            self.in_every_variant(self.look, answer, apis=("Python",),
                                  surroundings=EVERYWHERE[-1:])
