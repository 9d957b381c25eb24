"""Others in the same process: tracers, profilers, tools of sys.monitoring, greenlets."""

import sys
import threading
import unittest

from debugger_support import DebuggerCase, Scripted, at, run_python, session

try:
    from greenlet import greenlet  # not the directory of tests that has this name
except ImportError:
    greenlet = None

TEXT = """
    def inner(n):
        m = n + 1           # inner first
        return m            # inner last

    def outer(n):
        x = inner(n)        # call
        y = x + 1           # after
        return y            # outer last
"""


class Tracers(DebuggerCase):
    TEXT = TEXT

    def test_program_that_traces_itself_keeps_its_tracer(self):
        lines = []

        def tracer(frame, event, argument):
            if frame.f_code.co_filename == self.source.path and event == "line":
                lines.append(self.source.name_of(frame.f_lineno))
            return tracer

        def program():
            sys.settrace(tracer)
            self.names["outer"](1)
            now = sys.gettrace()
            sys.settrace(None)
            return now

        done = self.debug(
            self.source, program, at("inner first"), at("after"), "continue", "continue"
        )
        self.assertEqual(done.stops[1:], [("line", "inner first"), ("line", "after")])
        self.assertEqual(lines, ["call", "inner first", "inner last", "after", "outer last"])
        self.assertIs(done.value, tracer)

    def test_step_borrows_the_tracer_and_gives_it_back(self):
        def tracer(frame, event, argument):
            return tracer

        def program():
            sys.settrace(tracer)
            self.names["outer"](1)
            now = sys.gettrace()
            sys.settrace(None)
            return now

        done = self.debug(
            self.source, program, at("inner first"), "continue", "step", "step", "continue"
        )
        self.assertEqual(
            [name for _, name in done.stops[1:4]], ["inner first", "inner last", "inner last"]
        )
        self.assertIs(done.value, tracer)

    def test_tracer_from_before(self):
        def tracer(frame, event, argument):
            return None

        sys.settrace(tracer)
        try:
            done = self.debug(self.source, self.names["outer"], at("after"), arguments=(1,))
            now = sys.gettrace()
        finally:
            sys.settrace(None)
        self.assertEqual(done.stops[1:], [("line", "after")])
        self.assertIs(now, tracer)

    def test_program_that_ends_all_tracing_ends_a_step_and_no_breakpoint(self):
        def program():
            sys.settrace(None)
            return self.names["outer"](1)

        done = self.debug(self.source, program, at("inner last"), "step")
        self.assertEqual(done.stops[1:], [("line", "inner last")])

    def test_profiler(self):
        seen = []

        def profiler(frame, event, argument):
            seen.append(event)

        def program():
            sys.setprofile(profiler)
            self.names["outer"](1)
            sys.setprofile(None)

        done = self.debug(self.source, program, at("inner first"), "continue", "next", "continue")
        self.assertEqual(done.stops[1:], [("line", "inner first"), ("line", "inner last")])
        self.assertIn("call", seen)


class MonitoringTools(DebuggerCase):
    TEXT = TEXT

    def setUp(self):
        super().setUp()
        monitoring = sys.monitoring
        self.tool = monitoring.COVERAGE_ID
        monitoring.use_tool_id(self.tool, "other")
        self.addCleanup(monitoring.free_tool_id, self.tool)
        self.addCleanup(monitoring.set_events, self.tool, 0)

    def test_each_gets_its_events(self):
        monitoring, events, lines = sys.monitoring, sys.monitoring.events, []

        def line(code, number):
            if code.co_filename == self.source.path:
                lines.append(self.source.name_of(number))
            return monitoring.DISABLE

        monitoring.register_callback(self.tool, events.LINE, line)
        monitoring.set_events(self.tool, events.LINE)
        done = self.debug(
            self.source,
            lambda: [self.names["outer"](n) for n in range(3)],
            at("inner first"),
            at("after"),
        )
        monitoring.register_callback(self.tool, events.LINE, None)
        self.assertEqual(done.stops[1:], [("line", "inner first"), ("line", "after")] * 3)
        self.assertEqual(lines, ["call", "inner first", "inner last", "after", "outer last"])

    def test_restarted_events(self):
        def program():
            for n in range(3):
                self.names["outer"](n)
                sys.monitoring.restart_events()

        done = self.debug(self.source, program, at("after"))
        self.assertEqual(done.stops[1:], [("line", "after")] * 3)

    def test_a_step_in_code_with_a_breakpoint_stops_once_at_a_line(self):
        done = self.debug(
            self.source,
            self.names["outer"],
            at("inner first"),
            at("inner last"),
            at("after"),
            *["step"] * 8,
            arguments=(1,),
        )
        self.assertEqual(
            [name for _, name in done.stops][:7],
            [
                "call",
                self.source.line("inner first") - 1,
                "inner first",
                "inner last",
                "inner last",
                "after",
                "outer last",
            ],
        )
        self.assertEqual([event for event, _ in done.stops][4], "return")

    def test_continue_after_a_step_to_a_breakpoint_does_not_stop_there_again(self):
        done = self.debug(
            self.source,
            self.names["outer"],
            at("after"),
            "next",
            "continue",
            "continue",
            arguments=(1,),
        )
        self.assertEqual(done.stops, [("line", "call"), ("line", "after")])
        done = self.debug(
            self.source,
            self.names["outer"],
            at("call"),
            "step",
            "step",
            "step",
            "step",
            "step",
            "continue",
            arguments=(1,),
        )
        self.assertEqual(done.stops[-1], ("line", "after"))

    def test_next_after_a_step_in_code_with_a_breakpoint(self):
        program = self.program("""
            def work():
                a = 1       # one
                b = 2       # two
                c = 3       # three
                return a    # four
        """)
        work = program.load()["work"]
        done = self.debug(program, work, at("two"), "continue", "step", "next", "continue")
        self.assertEqual([name for _, name in done.stops], ["one", "two", "three", "four"])

    def test_tool_id_of_debuggers_stays_free(self):
        taken = []

        def look(debugger, frame):
            taken.append(sys.monitoring.get_tool(sys.monitoring.DEBUGGER_ID))
            taken.append(sys.monitoring.get_tool(session.events.tool))

        self.debug(self.source, self.names["outer"], look, arguments=(1,))
        self.assertEqual(taken, [None, "ferrule_debugger"])


@unittest.skipIf(greenlet is None, "greenlet is not installed")
class Greenlets(DebuggerCase):
    def test_breakpoints_and_next_in_greenlets(self):
        program = self.program("""
            def first(n):
                a = switch(n)       # first a
                return a + 1        # first b

            def second(n):
                b = n * 2           # second
                return b
        """)

        def switch(n):
            return greenlet(names["second"]).switch(n)

        names = program.load(switch=switch)

        def run():
            return greenlet(names["first"]).switch(4)

        done = self.debug(
            program, run, at("first a"), at("second"), "continue", "next", "next", "continue"
        )
        self.assertEqual([name for _, name in done.stops[1:3]], ["first a", "second"])
        self.assertEqual(done.value, 9)


class SeveralDebuggers(DebuggerCase):
    def test_a_call_from_the_program_takes_over_and_gives_back(self):
        source = self.program(TEXT)
        names = source.load()
        called = Scripted(source, "step", "continue")
        called.breaks = {}

        def program():
            called.set_trace()
            return names["outer"](1)

        done = self.debug(source, program, at("after"))
        self.assertEqual(done.stops[1:], [("line", "after")])
        self.assertEqual(len(called.stops), 2)

    def test_one_in_each_thread(self):
        source = self.program("""
            def work(debugger, here, other):
                debugger.set_trace()    # begin
                here.set()              # here
                other.wait(60)          # wait
                two = 2                 # two
                return two              # three
        """)
        work = source.load()["work"]
        first, second = threading.Event(), threading.Event()

        class Stepping(Scripted):
            def user_line(self, frame):
                self.stops.append(("line", self.program.name_of(frame.f_lineno)))
                if self.stops[-1] == ("line", "three"):
                    self.set_continue()
                else:
                    self.set_next(frame)

            user_opcode = user_line

        class Waiting(Scripted):
            def user_opcode(self, frame):
                self.user_line(frame)

        debuggers = Stepping(source), Waiting(source, at("three"), "continue")
        for debugger in debuggers:
            self.addCleanup(debugger.set_quit)
        threads = [
            threading.Thread(target=work, args=(debuggers[0], first, second)),
            threading.Thread(target=work, args=(debuggers[1], second, first)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = [[name for _, name in debugger.stops] for debugger in debuggers]
        # Where two threads trace instructions of one function CPython may lose the very first stop.
        self.assertEqual(names[0][-4:], ["here", "wait", "two", "three"])
        self.assertIn(names[1], (["begin", "three"], ["here", "three"]))
        for debugger in debuggers:
            debugger.set_quit()

    def test_debug_command_of_one_that_the_program_called(self):
        source = self.program(f"""{TEXT}
    breakpoint()
    outer(1)
    outer(2)
    print("traced:", __import__("sys").gettrace() is not None)
""")
        said = run_python(
            [source.path],
            f"b {source.line('after')}\ndebug outer(5)\ncontinue\np 'in', x\ncontinue\n"
            "continue\np 'out', x\ncontinue\np 'out', x\ncontinue\n",
            PYTHONBREAKPOINT="ferrule_debugger.set_trace",
        )
        for answer in ("('in', 6)", "('out', 2)", "('out', 3)", "traced: False"):
            self.assertIn(answer, said)

    def test_what_is_left_is_replaced(self):
        source = self.program(TEXT)
        names = source.load()
        one, two = Scripted(source, at("after")), Scripted(source, at("after"))
        one.set_trace()
        two.set_trace()
        names["outer"](1)
        self.assertIs(session.owner, two)
        two.set_quit()
        self.assertIsNone(session.owner)
        self.assertEqual([name for _, name in two.stops].count("after"), 1)
        self.assertEqual([name for _, name in one.stops].count("after"), 0)


if __name__ == "__main__":
    unittest.main()
