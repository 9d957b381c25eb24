"""Frames that continue from records, and what observes them: trace, profile and monitoring functions, hooks, evaluators, signals."""

import signal
import sys
import threading
import unittest

import support

if not support.ON_STOCK:
    support.use_extensions()
    import evaluators
    import framehook

    from continuing_support import after, continued, continuing, index_of, nothing, record

TOOL = 3
EVENTS = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_UNWIND", "PY_THROW", "RAISE", "EXCEPTION_HANDLED", "LINE", "CALL", "JUMP", "BRANCH")


def callee(x):
    return x + 1


def lines(x):
    a = x
    b = callee(a)
    c = a + b
    return c


def loop(n):
    while n:
        n -= 1
    return "over"


def waits(x):
    return (
        callee(x))


def endless(log):
    while True:
        log.append(1)


def monitored(work, *names, codes=None):
    """The events of monitoring for the code of this file meanwhile: (event, function, line or offset or value)."""
    reported = []
    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL, "tests")
    try:
        mask = 0
        for name in names:
            event = getattr(monitoring.events, name)
            mask |= event

            def callback(code, *arguments, name=name):
                if code.co_filename == __file__ and code.co_name in ("callee", "lines", "loop", "waits"):
                    reported.append((name, code.co_name, arguments[0] if name == "LINE" else None))
            monitoring.register_callback(TOOL, event, callback)
        if codes is None:
            monitoring.set_events(TOOL, mask)
        for code in codes or ():
            monitoring.set_local_events(TOOL, code, mask)
        result = work()
    finally:
        monitoring.set_events(TOOL, 0)
        for code in codes or ():
            monitoring.set_local_events(TOOL, code, 0)
        monitoring.free_tool_id(TOOL)
    return result, reported


@support.needs_framecore
class Tools(unittest.TestCase):
    def setUp(self):
        self.first = lines.__code__.co_firstlineno
        # Where the line `b = callee(a)` begins, and a place within it.
        self.begins = after(lines, "STORE_FAST")
        self.within = index_of(lines, "LOAD_FAST", 1)

    def at(self, instruction, stack=()):
        return record(lines, instruction, stack, x=1, a=1)

    def test_monitoring_sees_what_the_frames_do_from_now_on(self):
        expected = [("LINE", "lines", self.first + 2), ("CALL", "lines", None), ("PY_START", "callee", None),
                    ("LINE", "callee", callee.__code__.co_firstlineno + 1), ("PY_RETURN", "callee", None),
                    ("LINE", "lines", self.first + 3), ("LINE", "lines", self.first + 4), ("PY_RETURN", "lines", None)]
        for codes in (None, (lines.__code__, callee.__code__)):
            with self.subTest(codes):
                for _ in range(3):
                    events = ("PY_START", "PY_RESUME", "PY_RETURN", "LINE", "CALL")
                    result, reported = monitored(lambda: continued(self.at(self.begins)), *events, codes=codes)
                    self.assertEqual((result, reported), (3, expected))
                    result, reported = monitored(lambda: continued(self.at(self.within, [callee, nothing])), *events, codes=codes)
                    self.assertEqual((result, reported), (3, expected[1:]))

    def test_a_line_that_begins_at_the_instruction_is_reported_in_a_loop_too(self):
        head = after(loop, "RESUME")
        result, reported = monitored(lambda: continued(record(loop, head, n=2)), "LINE")
        first = loop.__code__.co_firstlineno
        self.assertEqual(reported, [("LINE", "loop", first + step) for step in (1, 2, 1, 2, 1, 3)])

    def test_an_exception(self):
        def fails():
            with self.assertRaises(KeyError):
                continued(self.at(self.begins), exception=KeyError(1))
        _, reported = monitored(fails, "PY_START", "PY_THROW", "RAISE", "PY_UNWIND", "LINE")
        self.assertEqual(reported, [("RAISE", "lines", None), ("PY_UNWIND", "lines", None)])

    def test_waiting_frames(self):
        chain = [record(waits, index_of(waits, "CALL"), x=1), record(callee, index_of(callee, "LOAD_FAST"), x=1)]
        result, reported = monitored(lambda: continued(*chain), "PY_START", "LINE", "PY_RETURN")
        self.assertEqual(result, 2)
        self.assertEqual(reported, [("LINE", "callee", callee.__code__.co_firstlineno + 1), ("PY_RETURN", "callee", None),
                                ("LINE", "waits", waits.__code__.co_firstlineno + 1), ("PY_RETURN", "waits", None)])

    def test_trace_functions(self):
        reported = []

        def tracer(frame, event, argument):
            if frame.f_code in (lines.__code__, callee.__code__):
                reported.append((event, frame.f_code.co_name))
                return tracer
        sys.settrace(tracer)
        try:
            continued(self.at(self.begins))
        finally:
            sys.settrace(None)
        self.assertEqual(reported, [("call", "callee"), ("line", "callee"), ("return", "callee")])

    def test_profile_functions(self):
        reported = []

        def profiler(frame, event, argument):
            if frame.f_code in (lines.__code__, callee.__code__):
                reported.append((event, frame.f_code.co_name))
        sys.setprofile(profiler)
        try:
            continued(self.at(self.begins))
        finally:
            sys.setprofile(None)
        self.assertEqual(reported, [("call", "callee"), ("return", "callee"), ("return", "lines")])

    def test_a_tool_that_came_before_and_went(self):
        monitored(lambda: lines(1), *EVENTS)
        self.assertEqual(continued(self.at(self.begins)), 3)

    def test_hooks(self):
        seen = []

        def hook(view):
            seen.append(view.code.co_name)
        with framehook.hook(hook):
            result = continued(self.at(self.begins))
        self.assertEqual(result, 3)
        self.assertIn("callee", seen)
        self.assertNotIn("lines", seen)
        # At or before its first RESUME a frame starts.
        seen.clear()
        with framehook.hook(hook):
            continued(record(lines, 0, x=1))
        self.assertIn("lines", seen)

    def test_hooks_that_watch_what_the_frames_call(self):
        ended = []

        def hook(view):
            if view.code is callee.__code__:
                view.watch(lambda event: ended.append((event.kind, event.value)))
        with framehook.hook(hook):
            self.assertEqual(continued(self.at(self.begins)), 3)
        self.assertEqual(len(ended), 1)

    def test_within_a_callback_of_a_hook(self):
        got = []

        def hook(view):
            if view.code is callee.__code__ and not got:
                got.append(None)
                got[0] = continued(self.at(self.begins))
        with framehook.hook(hook):
            self.assertEqual(callee(4), 5)
        self.assertEqual(got, [3])

    def test_evaluators_see_what_the_frames_call(self):
        seen = []
        evaluators.record_into(seen)
        evaluators.set("record")
        try:
            result = continued(self.at(self.begins))
        finally:
            evaluators.set("default")
            evaluators.record_into(None)
        self.assertEqual(result, 3)
        self.assertIn(callee.__code__, seen)
        self.assertNotIn(lines.__code__, seen)

    @unittest.skipUnless(hasattr(signal, "raise_signal"), "needs signals")
    def test_a_signal_that_is_pending(self):
        log = []

        def handler(number, frame):
            self.assertIs(frame.f_code, endless.__code__)
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            # What is pending is looked at where the loop turns, and not before.
            with self.assertRaises(KeyboardInterrupt):
                pend_and_continue(log)
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertLess(len(log), 3)

    def test_in_many_threads(self):
        results = []

        def work():
            for _ in range(300):
                results.append(continued(record(waits, index_of(waits, "CALL"), x=1), record(callee, index_of(callee, "LOAD_FAST"), x=1)))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            monitored(lambda: lines(1), "LINE", "CALL")
        for thread in threads:
            thread.join()
        self.assertEqual(results, [2] * 1200)


def pend_and_continue(log):
    return continuing.with_signal(signal.SIGUSR1, [record(endless, after(endless, "RESUME"), log=log)])
