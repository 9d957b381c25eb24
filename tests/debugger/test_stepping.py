"""step, next, until, return: where they stop, and what they watch meanwhile."""

import os
import sys
import unittest

from debugger_support import DebuggerCase, Scripted, at, local_events, pdb_session, session

TEXT = """
    def inner(n):
        m = n + 1               # inner first
        return m                # inner last

    def outer(n):
        x = inner(n)            # call
        for i in range(3):      # for
            x += i              # body
        y = inner(x)            # second call
        return y                # outer last

    def top():
        before = 1              # before
        value = outer(1)        # calls outer
        return value            # top last

    def fails():
        inner(1)                # fails first
        raise ValueError(1)     # raises

    def catches():
        try:                    # try
            fails()             # calls fails
        except ValueError:      # except
            pass                # caught
        return 1                # catches last

    def down(n):
        if n:                   # if
            down(n - 1)         # deeper
        return n                # down last

    def numbers():
        yield 1                 # yield 1
        yield 2                 # yield 2
        return 3                # numbers last

    def consume():
        total = 0               # consume first
        for n in numbers():     # consume for
            total += n          # add
        return total            # consume last
"""


class Stepping(DebuggerCase):
    TEXT = TEXT

    def stops(self, function, *actions, **options):
        return self.debug(self.source, self.names[function], *actions, **options).stops

    def test_step(self):
        self.assertEqual(
            self.stops("top", "step", "step", "step", "step", "step", "step"),
            [
                ("line", "before"),
                ("line", "calls outer"),
                ("call", self.source.line("call") - 1),
                ("line", "call"),
                ("call", self.source.line("inner first") - 1),
                ("line", "inner first"),
                ("line", "inner last"),
            ],
        )

    def test_next_from_a_breakpoint(self):
        self.assertEqual(
            self.stops("top", at("call"), "continue", "next", "next", "next"),
            [
                ("line", "before"),
                ("line", "call"),
                ("line", "for"),
                ("line", "body"),
                ("line", "for"),
            ],
        )

    def test_next_watches_one_function_and_does_not_trace(self):
        seen = {}

        def look(debugger, frame):
            seen["inner"] = local_events(self.names["inner"].__code__)
            seen["outer"] = local_events(frame.f_code)

        class Looking(Scripted):
            def _set_stopinfo(self, *arguments, **options):
                super()._set_stopinfo(*arguments, **options)
                if self.actions == ["continue"]:
                    seen["trace"] = sys.gettrace()

        debugger = Looking(self.source, at("call"), "continue", "next", look, "next", "continue")
        debugger.runcall(self.names["top"])
        self.assertEqual(seen["trace"], None)
        self.assertEqual(seen["inner"], 0)
        self.assertTrue(seen["outer"])

    def test_next_stops_at_a_breakpoint_below(self):
        # The second call stops there again.
        self.assertEqual(
            self.stops("top", at("call"), at("inner last"), "continue", "next", "next"),
            [
                ("line", "before"),
                ("line", "call"),
                ("line", "inner last"),
                ("return", "inner last"),
                ("line", "inner last"),
            ],
        )

    def test_next_at_the_end_goes_to_the_caller(self):
        self.assertEqual(
            self.stops("top", at("inner last", temporary=True), "continue", "next", "next", "next"),
            [
                ("line", "before"),
                ("line", "inner last"),
                ("return", "inner last"),
                ("line", "for"),
                ("line", "body"),
            ],
        )

    def test_until_leaves_a_loop(self):
        self.assertEqual(
            self.stops("top", at("body", temporary=True), "continue", "until"),
            [("line", "before"), ("line", "body"), ("line", "second call")],
        )

    def test_return(self):
        self.assertEqual(
            self.stops("top", at("call", temporary=True), "continue", "return", "next"),
            [("line", "before"), ("line", "call"), ("return", "outer last"), ("line", "top last")],
        )

    def test_next_over_an_exception(self):
        self.assertEqual(
            self.stops("catches", at("raises"), "continue", "next", "next", "next", "next"),
            [
                ("line", "try"),
                ("line", "raises"),
                ("exception", "raises"),
                ("return", "raises"),
                ("exception", "calls fails"),
                ("line", "except"),
            ],
        )

    def test_return_from_what_raises(self):
        self.assertEqual(
            self.stops("catches", at("fails first"), "continue", "return", "next"),
            [
                ("line", "try"),
                ("line", "fails first"),
                ("return", "raises"),
                ("exception", "calls fails"),
            ],
        )

    def test_next_stays_in_its_frame_of_a_recursion(self):
        done = self.debug(self.source, self.names["down"], "next", "next", "next", arguments=(3,))
        self.assertEqual(
            done.stops,
            [("line", "if"), ("line", "deeper"), ("line", "down last"), ("return", "down last")],
        )

    def test_up_and_next(self):
        stops = []

        class Upwards(Scripted):
            def user_line(self, frame):
                stops.append(self.program.name_of(frame.f_lineno))
                if len(stops) == 1:
                    self.set("inner first", temporary=True)
                    self.set_continue()
                elif len(stops) == 2:
                    self.set_next(frame.f_back)
                else:
                    self.set_continue()

        Upwards(self.source).runcall(self.names["top"])
        self.assertEqual(stops, ["before", "inner first", "for"])

    def test_step_after_a_breakpoint_and_back_to_full_speed(self):
        traces = []

        def look(debugger, frame):
            traces.append(sys.gettrace() is not None)

        self.debug(
            self.source,
            self.names["top"],
            at("call"),
            at("outer last"),
            "continue",
            look,
            "step",
            look,
            "continue",
            look,
        )
        self.assertEqual(traces, [False, True, False])

    def test_nothing_is_left_on_frames(self):
        frames = []

        def look(debugger, frame):
            frames.append(frame.f_trace)

        self.debug(
            self.source,
            self.names["top"],
            at("call"),
            at("body"),
            "step",
            "continue",
            "step",
            "continue",
            look,
        )
        self.assertEqual(frames, [None])

    def test_skipped_modules_are_not_stepped_into_and_can_be_stopped_in(self):
        self.names["__name__"] = "skipped"

        def outside():
            self.names["inner"](1)
            return 2

        done = self.debug(
            self.source, outside, at("inner last"), "next", "step", "continue", skip=["skipped"]
        )
        first = outside.__code__.co_firstlineno
        self.assertEqual(
            done.stops, [("line", first + 1), ("line", "inner last"), ("line", first + 2)]
        )

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_steps_do_not_show_the_debugger_itself(self):
        program = self.program("""
            import os

            def dies():
                exec(compile("x = 1", __file__, "exec"))

            def run(files):
                dies()
                child = os.fork()
                if child == 0:
                    os._exit("ferrule_debugger" in files)
                return os.waitpid(child, 0)[1]
        """)
        files = set()

        class Everywhere(Scripted):
            def _stop(self, event, frame):
                files.add(os.path.basename(os.path.dirname(frame.f_code.co_filename)))
                self.set_step()

        self.assertEqual(Everywhere(program).runcall(program.load()["run"], files), 0)
        self.assertIn(os.path.basename(os.path.dirname(program.path)), files)
        self.assertNotIn("ferrule_debugger", files)


class Generators(DebuggerCase):
    TEXT = TEXT

    def test_breakpoint(self):
        done = self.debug(self.source, self.names["consume"], at("yield 2"), at("numbers last"))
        self.assertEqual(
            [name for _, name in done.stops], ["consume first", "yield 2", "numbers last"]
        )

    def test_next_continues_when_it_is_resumed(self):
        done = self.debug(
            self.source, self.names["consume"], at("yield 1"), "continue", "next", "next", "next"
        )
        self.assertEqual(
            done.stops,
            [
                ("line", "consume first"),
                ("line", "yield 1"),
                ("line", "yield 2"),
                ("line", "numbers last"),
                ("exception", "consume for"),
            ],
        )

    def test_return_from_a_generator(self):
        done = self.debug(
            self.source, self.names["consume"], at("yield 1"), "continue", "return", "next"
        )
        self.assertEqual(done.stops[2:], [("exception", "consume for"), ("line", "consume last")])

    def test_breakpoint_in_a_suspended_one(self):
        generator = self.names["numbers"]()
        next(generator)

        def program():
            return list(generator)

        done = self.debug(self.source, program, at("numbers last"))
        self.assertEqual(done.stops[1:], [("line", "numbers last")])
        self.assertEqual(done.value, [2])


class Coroutines(DebuggerCase):
    TEXT = """
        import asyncio

        async def leaf(n):
            await asyncio.sleep(0)      # sleep
            return n                    # leaf last

        async def pair():
            first = await leaf(1)       # first
            second = await leaf(2)      # second
            return first + second       # sum

        async def together():
            return await asyncio.gather(pair(), pair(), leaf(5))   # gather

        def run():
            return asyncio.run(together())      # run
    """

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: __import__("asyncio").set_event_loop_policy(None))

    def test_breakpoint_and_next_over_await(self):
        stops = []

        class InOneTask(Scripted):
            def user_line(self, frame):
                stops.append((id(frame), self.program.name_of(frame.f_lineno)))
                if len(stops) == 1:
                    self.set("first", temporary=True)
                    self.set_continue()
                elif len(stops) < 4:
                    self.set_next(frame)
                else:
                    self.set_continue()

        done = InOneTask(self.source)
        self.assertEqual(done.runcall(self.names["run"]), [3, 3, 5])
        self.assertEqual([name for _, name in stops], ["run", "first", "second", "sum"])
        self.assertEqual(len({frame for frame, _ in stops[1:]}), 1)

    def test_each_task_stops(self):
        done = self.debug(self.source, self.names["run"], at("leaf last"))
        self.assertEqual(done.stops, [("line", "run")] + [("line", "leaf last")] * 5)


class PostMortem(DebuggerCase):
    def test_after_an_exception(self):
        import io

        import ferrule_debugger

        program = self.program(TEXT)
        out = io.StringIO()
        debugger = ferrule_debugger.Pdb(
            stdin=io.StringIO("p 'there'\nup\nquit\n"), stdout=out, readrc=False
        )
        try:
            program.load()["fails"]()
        except ValueError as error:
            debugger.reset()
            debugger.interaction(None, error)
        self.assertIn("'there'", out.getvalue())
        self.assertIn(f"({program.line('raises')})fails()", out.getvalue())

    def test_restart_of_what_has_no_breakpoints(self):
        said = pdb_session(lambda: None, "continue")
        self.assertIn("(Pdb)", said)
        self.assertIsNone(session.owner)


if __name__ == "__main__":
    unittest.main()
