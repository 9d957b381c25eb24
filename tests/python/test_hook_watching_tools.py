"""Frames that hooks watch, beside tracers, debuggers, monitoring and signals."""

import io
import os
import pdb
import signal
import sys
import unittest

from support import framehook, needs_hooks
from test_hook_watching import Watcher

TOOL = 4
EVENTS = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_THROW", "LINE", "RAISE",
          "EXCEPTION_HANDLED")


def steps(a, x=None, y=None):
    x = 1
    y = 2
    if a:
        x = 3
    return x, y, a


def patient():
    try:
        yield 1
    except KeyError:
        pass
    yield 2


def line_of(function, number):
    """So many lines below the def."""
    return function.__code__.co_firstlineno + number


def jump_once(function, at, to):
    """A trace function that jumps from one line to another, once."""
    jumped = []

    def trace(frame, event, argument):
        if frame.f_code is function.__code__ and event == "line" and not jumped \
                and frame.f_lineno == line_of(function, at):
            jumped.append(frame.f_lineno)
            frame.f_lineno = line_of(function, to)
        return trace
    return trace


def traced(trace, call):
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        return call()
    finally:
        sys.settrace(previous)


@needs_hooks
class Jumps(unittest.TestCase):
    def test_a_frame_that_a_tracer_sends_back_or_on_ends_once(self):
        watcher = Watcher(steps)
        with framehook.hook(watcher):
            for at, to in ((5, 1), (3, 5), (2, 1)):
                trace = jump_once(steps, at, to)
                self.assertEqual(traced(trace, lambda: steps(0))[2], 0)
                self.assertEqual(watcher.kinds(), ["returned"], (at, to))

    def test_a_generator_that_is_sent_back_yields_again(self):
        def counts():
            yield 1
            yield 2

        watcher = Watcher(counts)
        with framehook.hook(watcher):
            found = traced(jump_once(counts, 2, 1), lambda: list(counts()))
        self.assertEqual(found, [1, 1, 2])
        self.assertEqual(watcher.kinds(), ["resumed", "yielded"] * 3 + ["resumed", "returned"])

    def test_a_debugger_shows_the_same(self):
        commands = f"s\nn\nn\nw\njump {line_of(steps, 1)}\nn\nw\nup\ndown\nreturn\nw\nc\n"

        def session():
            out = io.StringIO()
            debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=out, nosigint=True,
                               readrc=False)
            debugger.use_rawinput = False
            debugger.runcall(steps, 1)
            return out.getvalue()

        expected = session()
        self.assertEqual(expected.count("-> y = 2"), 4, expected)
        watcher = Watcher(steps)
        with framehook.hook(watcher):
            self.assertEqual(session(), expected)
        self.assertEqual(watcher.kinds(), ["returned"])


@needs_hooks
class ToolsThatComeInACallback(unittest.TestCase):
    """A callback sets, or changes, what traces and monitors."""

    def setUp(self):
        self.found = []
        for restore, value in ((sys.settrace, sys.gettrace()), (sys.setprofile, sys.getprofile())):
            self.addCleanup(restore, value)

    def note(self, frame, event, argument):
        if frame.f_code.co_filename == __file__:
            self.found.append((frame.f_code.co_name, event))
        return self.note

    def test_a_tracer_sees_the_calls_that_come_after(self):
        def leaf():
            return 1

        def program():
            leaf()
            leaf()

        with framehook.hook(Watcher(leaf, on_event=lambda event: sys.settrace(self.note))):
            program()
        sys.settrace(None)
        self.assertEqual(self.found, [("leaf", "call"), ("leaf", "line"), ("leaf", "return")])

    def test_a_profiler_sees_the_end_of_the_caller(self):
        def leaf():
            return 1

        def program():
            leaf()
            leaf()

        with framehook.hook(Watcher(leaf, on_event=lambda event: sys.setprofile(self.note))):
            program()
        sys.setprofile(None)
        self.assertEqual([event for event in self.found if event[1] in ("call", "return")],
                         [("leaf", "call"), ("leaf", "return"), ("program", "return")])

    def test_taking_the_tracer_away_leaves_no_trace(self):
        def leaf():
            return 1

        def program():
            leaf()
            leaf()

        sys.settrace(self.note)
        with framehook.hook(Watcher(leaf, on_event=lambda event: sys.settrace(None))):
            program()
        self.assertEqual([name for name, event in self.found if event == "call"],
                         ["program", "leaf"])

    def monitor(self, code):
        """What turns monitoring of the code on; the events are in `found`."""
        monitoring = sys.monitoring
        monitoring.use_tool_id(TOOL, "test")
        self.addCleanup(monitoring.free_tool_id, TOOL)
        wanted = 0
        for name in EVENTS:
            event = getattr(monitoring.events, name)
            wanted |= event

            def note(where, *details, name=name):
                if where is code:
                    line = details[0] - code.co_firstlineno if name == "LINE" else None
                    self.found.append(name if line is None else f"line {line}")
            monitoring.register_callback(TOOL, event, note)
        self.addCleanup(monitoring.set_events, TOOL, 0)

        def turn_on():
            monitoring.set_events(TOOL, 0)
            monitoring.set_events(TOOL, wanted)
        return turn_on

    def test_monitoring_begins_with_the_generator_that_is_resumed(self):
        turn_on = self.monitor(patient.__code__)
        with framehook.hook(Watcher(
                patient, on_event=lambda event: event.kind == "resumed" and turn_on())):
            next(patient())
        # It has begun before anybody monitored, and nothing of it has run.
        events = [event for event in self.found if event not in ("PY_START", "line 0")]
        self.assertEqual(events[:3], ["line 1", "line 2", "PY_YIELD"])

    def test_monitoring_begins_where_an_exception_is_thrown_in(self):
        turn_on = self.monitor(patient.__code__)
        events = []

        def on_event(event):
            events.append(event.kind)
            if events == ["resumed", "yielded", "resumed"]:
                turn_on()

        with framehook.hook(Watcher(patient, on_event=on_event)):
            generator = patient()
            next(generator)
            self.assertEqual(generator.throw(KeyError), 2)
        self.assertEqual(self.found[self.found.index("EXCEPTION_HANDLED"):],
                         ["EXCEPTION_HANDLED", "line 3", "line 4", "line 5", "PY_YIELD"])

    def test_monitoring_begins_where_a_callback_fails_about_a_yield(self):
        # In the callback of the yield, and of the resumption with its exception.
        for wanted in (["yielded"], ["yielded", "resumed"]):
            turn_on, events = self.monitor(patient.__code__), []

            def on_event(event):
                if event.kind == "yielded" or events:
                    events.append(event.kind)
                if events == wanted:
                    turn_on()
                if events == ["yielded"]:
                    raise KeyError

            with framehook.hook(Watcher(patient, on_event=on_event)):
                generator = patient()
                self.assertEqual(next(generator), 2)
            self.assertEqual(self.found[self.found.index("EXCEPTION_HANDLED"):],
                             ["EXCEPTION_HANDLED", "line 3", "line 4", "line 5", "PY_YIELD"])
            self.doCleanups()
            self.found.clear()

    def seen_by_each_tool(self, use):
        """What monitoring, a trace function and a profile function see of `patient`."""
        def monitored():
            turn_on = self.monitor(patient.__code__)
            turn_on()
            use()
            sys.monitoring.set_events(TOOL, 0)

        def called():
            sys.setprofile(note)
            use()
            sys.setprofile(None)

        def note(frame, event, argument):
            if frame.f_code is patient.__code__:
                self.found.append((event, frame.f_lineno))
            return note

        seen = []
        for watch in (monitored, lambda: traced(note, use), called):
            watch()
            seen.append(self.found[:])
            self.found.clear()
            self.doCleanups()
        return seen

    def test_tools_see_the_exception_of_a_callback_thrown_in_as_by_throw(self):
        def by_hand():
            generator = patient()
            next(generator)
            generator.throw(KeyError)

        expected = self.seen_by_each_tool(by_hand)
        self.assertEqual([len(seen) > 3 for seen in expected], [True] * 3)
        for wanted in (["yielded"], ["resumed", "yielded", "resumed"]):
            def on_event(event):
                events.append(event.kind)
                if events == wanted:
                    raise KeyError

            def use():
                events.clear()
                generator = patient()
                found = next(generator)
                if len(wanted) > 1:
                    found = next(generator)
                self.assertEqual(found, 2)

            events = []
            with framehook.hook(Watcher(patient, on_event=on_event, resumes=len(wanted) > 1)):
                self.assertEqual(self.seen_by_each_tool(use), expected)

    def test_a_tool_that_fails_or_closes_the_generator_as_a_callbacks_exception_is_thrown_in(self):
        def on_event(event):
            if event.kind == "yielded":
                raise KeyError

        def thrown(code, offset, exception):
            if code is patient.__code__:
                try:
                    generator.close()
                except ValueError as error:
                    self.found.append(str(error))
                raise LookupError("of a tool")

        monitoring = sys.monitoring
        monitoring.use_tool_id(TOOL, "test")
        self.addCleanup(monitoring.free_tool_id, TOOL)
        monitoring.register_callback(TOOL, monitoring.events.PY_THROW, thrown)
        monitoring.set_events(TOOL, monitoring.events.PY_THROW)
        self.addCleanup(monitoring.set_events, TOOL, 0)
        with framehook.hook(Watcher(patient, on_event=on_event)):
            generator = patient()
            with self.assertRaisesRegex(LookupError, "of a tool"):
                next(generator)
        self.assertEqual(self.found, ["generator already executing"])

    def test_monitoring_that_is_switched_with_each_event_does_no_harm(self):
        def recurse(n):
            return n and recurse(n - 1)

        turn_on, on = self.monitor(patient.__code__), []

        def turn(event):
            if on:
                on.clear()
                sys.monitoring.set_events(TOOL, 0)
            else:
                on.append(True)
                turn_on()

        watcher = Watcher(patient, recurse, on_event=turn)
        with framehook.hook(watcher):
            for n in range(30):
                self.assertEqual((list(patient()), recurse(n)), ([1, 2], 0))
        kinds = watcher.kinds()
        self.assertEqual((kinds.count("returned"), kinds.count("yielded")),
                         (30 + sum(range(31)), 60))


class Stopped(Exception):
    pass


@needs_hooks
@unittest.skipUnless(hasattr(signal, "setitimer"), "needs timers")
class Signals(unittest.TestCase):
    def setUp(self):
        def stop(number, frame):
            raise Stopped
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, stop))

    def interrupt(self):
        os.kill(os.getpid(), signal.SIGALRM)
        for _ in range(1000):
            pass

    def test_a_handler_that_raises_ends_the_frame_that_it_interrupts(self):
        def runs(self):
            self.interrupt()

        watcher = Watcher(runs)
        with framehook.hook(watcher), self.assertRaises(Stopped):
            runs(self)
        self.assertEqual(watcher.taken(), [("raised", "Stopped()")])

    def test_a_keyboard_interrupt_is_an_exception_like_others(self):
        def runs():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass

        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, previous)
        watcher = Watcher(runs)
        with framehook.hook(watcher), self.assertRaises(KeyboardInterrupt):
            runs()
        self.assertEqual(watcher.taken(), [("raised", "KeyboardInterrupt()")])

    def test_a_handler_that_raises_in_a_callback_makes_the_call_fail(self):
        def leaf():
            return 1

        others = Watcher(leaf)
        watcher = Watcher(leaf, on_event=lambda event: self.interrupt())
        with framehook.hook(others), framehook.hook(watcher), self.assertRaises(Stopped):
            leaf()
        self.assertEqual((watcher.kinds(), others.taken()),
                         (["returned"], [("raised", "Stopped()")]))

    def test_a_handlers_own_frame_may_be_watched(self):
        def runs(self):
            self.interrupt()

        handler = signal.getsignal(signal.SIGALRM)
        watcher = Watcher(runs, handler)
        with framehook.hook(watcher), self.assertRaises(Stopped):
            runs(self)
        self.assertEqual(watcher.taken(), [("raised", "Stopped()")] * 2)

    def test_whenever_a_signal_comes_each_frame_ends_at_most_once_and_no_data_is_left(self):
        class Data(list):
            """What it becomes is noted in it by one call of C."""

        def leaf():
            return 1

        def generator():
            yield leaf()
            yield leaf()

        def program():
            for _ in range(20):
                leaf()
                next(generator())
                list(generator())

        words = []
        # Nothing of a callback that has begun can be interrupted: it is a function of C.
        codes = [function.__code__ for function in (leaf, generator, program)]

        def hook(view):
            if view.code in codes:
                data = Data()
                words.append(data)
                view.watch(data.append, None)

        stopped = 0
        with framehook.hook(hook):
            for number in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.00005 + number % 60 * 0.00002)
                    program()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Stopped:
                    stopped += 1
        self.assertGreater(len(words), 300)
        # A hook that was interrupted before it watched the frame gets no callback.
        ends = [len(data) for data in words]
        self.assertLessEqual(set(ends), {0, 1})
        self.assertLessEqual(ends.count(0), stopped)
