"""Steps that arrive: whatever traces a caller, whatever resumes a generator, however a thread stops."""

import bdb
import sys
import threading
import unittest

from debugger_support import DebuggerCase, LikePdbCase, Scripted, at, ferrule_debugger, run_python, session

TEXT = """
    import asyncio
    import sys

    def inner(n):
        if n < 0:
            raise ValueError(n)     # raises
        return n + 1                # inner last

    def outer(n):
        try:
            x = inner(n)            # call
        except ValueError:
            x = 0                   # caught
        return x                    # outer last

    def numbers():
        yield 1                     # yield
        y = 2                       # numbers last

    def fails():
        yield 1                     # fails first
        raise KeyError(1)           # fails last

    def by_list():
        numbers_ = list(numbers())  # list
        return numbers_             # by_list last

    def by_map():
        for n in map(abs, numbers()):   # map
            n += 1
        return n                    # by_map last

    def by_next():
        iterator = numbers()
        next(iterator)
        found = next(iterator, None)    # next
        return found                # by_next last

    def swallowed():
        try:
            list(fails())           # fails
        except KeyError:            # except
            pass
        return 1

    async def asynchronous():
        yield 1                     # asynchronous first
        y = 2                       # asynchronous last

    async def all_of():
        async for n in asynchronous():  # async for
            n += 1
        return n                    # all_of last

    async def child(n):
        await asyncio.sleep(0)
        x = n                       # child first
        return x                    # child last

    async def together():
        return await asyncio.gather(asyncio.create_task(child(1)), asyncio.create_task(child(2)))
"""


class ArrivalCase(DebuggerCase):
    TEXT = TEXT

    def stops(self, function, *actions, arguments=()):
        """Where it stops after the first `continue`."""
        return self.debug(self.source, function, *actions, arguments=arguments).stops[1:]


class TracedCallers(ArrivalCase):
    """A caller that the program, or a tool of its, traces."""

    def traced(self, *arguments):
        def tracer(frame, event, argument):
            return tracer

        def program():
            sys.settrace(tracer)
            try:
                return self.names["outer"](*arguments)
            finally:
                self.now = sys.gettrace()
                sys.settrace(None)

        self.tracer = tracer
        return program

    def test_a_step_out_of_a_function(self):
        for command in ("step", "next"):
            with self.subTest(command):
                stops = self.stops(self.traced(1), at("inner last"), "continue", *[command] * 3)
                self.assertEqual(stops, [("line", "inner last"), ("return", "inner last"),
                                         ("line", "outer last"), ("return", "outer last")])
                self.assertIs(self.now, self.tracer)

    def test_a_step_out_by_an_exception(self):
        stops = self.stops(self.traced(-1), at("raises"), "continue", *["step"] * 5)
        self.assertEqual([name for _, name in stops][:5],
                         ["raises", "raises", "raises", "call", self.source.line("caught") - 1])

    def test_the_callers_tracer_is_back_afterwards(self):
        seen = []

        def program():
            def tracer(frame, event, argument):
                seen.append((event, self.source.name_of(frame.f_lineno)))
                return tracer

            sys.settrace(tracer)
            self.names["outer"](1)
            sys.settrace(None)

        self.stops(program, at("inner last"), "continue", "step", "step", "continue")
        self.assertIn(("return", "outer last"), seen)

    def test_the_lowest_frame(self):
        program = self.program("""
            def f():
                breakpoint()
                return 1
            x = f()
            y = 2           # arrives
            print("end")
        """)
        said = run_python([program.path], "n\nn\nn\nq\n", PYTHONBREAKPOINT="ferrule_debugger.set_trace")
        self.assertIn(f"program.py({program.line('arrives')})<module>()", said)

    def test_the_programs_tracer_ends_with_the_program(self):
        program = self.program("""
            import sys
            print("traced", sys.gettrace() is not None)
            def tracer(frame, event, argument):
                return None
            sys.settrace(tracer)
            x = 1           # last
        """)
        said = run_python(["-m", "ferrule_debugger", program.path],
                          f"b {program.line('last')}\nc\nn\nn\nn\nn\nc\nq\n")
        self.assertEqual(said.count("traced False"), 2, said)
        self.assertNotIn("Traceback", said)

    def test_a_tracer_from_before_sees_what_runs_after_continue(self):
        seen = set()

        def tracer(frame, event, argument):
            if event == "line":
                seen.add(self.source.name_of(frame.f_lineno))
            return tracer

        for commands in (["continue"], ["next", "continue"], ["step", "continue"], [at("inner last"), "continue", "continue"]):
            with self.subTest(commands):
                seen.clear()
                sys.settrace(tracer)
                try:
                    self.stops(lambda: self.names["outer"](1), *commands)
                finally:
                    sys.settrace(None)
                self.assertIn("inner last", seen)
                bdb.Breakpoint.clearBreakpoints()

    def test_a_tracer_from_before_is_back(self):
        def tracer(frame, event, argument):
            return None

        def program():
            sys.settrace(None)
            return self.names["outer"](1)

        sys.settrace(tracer)
        try:
            self.stops(program, at("inner last"), "continue", "step")
            now = sys.gettrace()
        finally:
            sys.settrace(None)
        self.assertIs(now, tracer)


class EndsOfGenerators(ArrivalCase):
    def test_of_one_that_c_consumes(self):
        for command in ("next", "until"):
            with self.subTest(command):
                stops = self.stops(self.names["by_list"], at("numbers last", temporary=True),
                                   "continue", command, "next")
                self.assertEqual(stops, [("line", "numbers last"), ("return", "numbers last"),
                                         ("line", "by_list last")])

    def test_return(self):
        # It may be a call of next(), which raises StopIteration: so nothing stops at the end itself.
        stops = self.stops(self.names["by_list"], at("numbers last", temporary=True), "continue", "return")
        self.assertEqual(stops, [("line", "numbers last"), ("line", "by_list last")])

    def test_of_one_behind_another_iterator(self):
        for command in ("next", "until", "return"):
            with self.subTest(command):
                stops = self.stops(self.names["by_map"], at("numbers last", temporary=True),
                                   "continue", command)
                self.assertEqual(stops, [("line", "numbers last"), ("line", "by_map last")])

    def test_of_one_that_ends_quietly(self):
        stops = self.stops(self.names["by_next"], at("numbers last", temporary=True), "continue", "return")
        self.assertEqual(stops, [("line", "numbers last"), ("line", "by_next last")])

    def test_by_an_exception(self):
        stops = self.stops(self.names["swallowed"], at("fails last", temporary=True), "continue",
                           "next", "next")
        self.assertEqual(stops, [("line", "fails last"), ("exception", "fails last"),
                                 ("exception", "fails")])

    def test_a_yield_is_no_end(self):
        stops = self.stops(self.names["by_list"], at("yield", temporary=True), "continue", "next")
        self.assertEqual(stops, [("line", "yield"), ("line", "numbers last")])


class EndsOfCoroutines(ArrivalCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: __import__("asyncio").set_event_loop_policy(None))

    def run_all(self, name):
        import asyncio

        return asyncio.run(self.names[name]())

    def test_of_a_task(self):
        for command in ("next", "until", "return"):
            with self.subTest(command):
                debugger = Scripted(self.source, at("child last", temporary=True), "continue", command)
                self.assertEqual(debugger.runcall(self.run_all, "together"), [1, 2])
                self.assertEqual(debugger.stops[1:], [("line", "child last"), ("return", "child last")])

    def test_of_an_asynchronous_generator(self):
        debugger = Scripted(self.source, at("asynchronous last", temporary=True), "continue", "next", "next")
        debugger.runcall(self.run_all, "all_of")
        self.assertEqual(debugger.stops[1:3],
                         [("line", "asynchronous last"), ("return", "asynchronous last")])
        self.assertEqual(len(debugger.stops), 4)


class LeavingTheProgram(LikePdbCase):
    """The debugger's own exceptions are not shown as the program's, and no breakpoint stops them."""

    def test_run_and_quit(self):
        program = self.program("""
            def f():
                try:
                    a = 1
                    return a            # last
                finally:
                    b = 2               # finally
            def g():
                for i in range(3):
                    a = i               # body
            f()
            g()
        """)
        last, end, body = (program.line(name) for name in ("last", "finally", "body"))
        self.assert_sessions_like_pdb(program, [
            f"b {place};b {end};c;{command};{leave};p 'after'"
            for place in (last, body) for leave in ("run", "q")
            for command in ("n", "r", "unt", "s", "n;n;n", "c")])

    def test_an_exception_of_a_subclass(self):
        class Failing(Scripted):
            def user_return(self, frame, value):
                self.stops.append("user_return")
                raise LookupError("of the debugger")

        program = self.program("""
            def f():
                return 1        # last
        """)
        debugger = Failing(program, at("last"), "next")
        with self.assertRaisesRegex(LookupError, "of the debugger"):
            debugger.runcall(program.load()["f"])
        self.assertEqual(debugger.stops, [("line", "last"), "user_return"])


class BreakpointInThreads(DebuggerCase):
    TEXT = """
        def work(n, barrier, stop):
            try:
                barrier.wait()
                raise ValueError(n)
            except ValueError as error:
                stop()              # stop
    """
    THREADS, ROUNDS = 4, 50

    def test_each_stops_where_it_is_called(self):
        stopped = []

        class Once(ferrule_debugger.Bdb):
            def user_line(self, frame):
                stopped.append((threading.get_ident(), source.name_of(frame.f_lineno), "error" in frame.f_locals))
                self.set_continue()

            user_opcode = user_line

            def user_return(self, frame, value):
                self.user_line(frame)

        def stop():
            Once().set_trace(sys._getframe(1))

        source, interval = self.source, sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        self.addCleanup(sys.setswitchinterval, interval)
        for _ in range(self.ROUNDS):
            barrier = threading.Barrier(self.THREADS)
            threads = [threading.Thread(target=self.names["work"], args=(n, barrier, stop))
                       for n in range(self.THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len({thread for thread, *_ in stopped}), self.THREADS)
            self.assertEqual({tuple(stop) for _, *stop in stopped}, {("stop", True)})
            stopped.clear()
            self.assertIsNone(session.owner)

    def test_the_prompt_names_the_thread(self):
        program = self.program("""
            import threading
            barrier = threading.Barrier(3)
            def work(n):
                barrier.wait()
                breakpoint()
                return n
            threads = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            breakpoint()
            print("end")
        """)
        said = run_python([program.path], "c\n" * 4, PYTHONBREAKPOINT="ferrule_debugger.set_trace")
        for name in ("worker 0", "worker 1", "worker 2", "MainThread"):
            self.assertEqual(said.count(f"[{name}]\n"), 1, said)

    def test_a_program_without_threads_is_not_told(self):
        program = self.program("breakpoint()\nx = 1\nbreakpoint()\n")
        said = run_python([program.path], "n\nc\nc\n", PYTHONBREAKPOINT="ferrule_debugger.set_trace")
        self.assertNotIn("MainThread", said)


if __name__ == "__main__":
    unittest.main()
