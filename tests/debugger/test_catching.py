"""`catch raised`: stops where exceptions are raised."""

import bdb
import gc
import sys
import unittest
import weakref

from debugger_support import CatchingCase, Scripted, at, catch, local_events
from ferrule_debugger.session import session

_E = sys.monitoring.events


class Raised(CatchingCase):
    TEXT = """
        import asyncio, contextlib, json, os

        class Mine(KeyError):
            pass

        def deep(n):
            if n:
                return deep(n - 1)
            raise Mine("deep")      # deep

        def through():              # through
            try:
                try:
                    with contextlib.ExitStack():
                        sorted([3], key=lambda n: deep(n))
                finally:
                    str()
            except Mine as error:
                try:
                    raise
                except Mine as error:
                    try:
                        raise error
                    except LookupError:
                        pass

        def c():
            try:
                1 / 0               # division
            except ZeroDivisionError:
                pass

        ONE = KeyError("one")

        def same():
            for _ in range(2):
                try:
                    raise ONE       # same
                except KeyError:
                    pass

        def stored():
            try:
                deep(0)
            except Mine as error:
                kept = error
            try:
                again(kept)
            except Mine:
                pass

        def again(error):
            raise error             # again

        @contextlib.contextmanager
        def manager():
            yield                   # yield

        def thrown():
            try:
                with manager():
                    deep(1)
            except Mine:
                pass

        def throws():
            generator = numbers()
            next(generator)
            try:
                generator.throw(Mine("thrown"))
            except Mine:
                pass

        def numbers():
            try:
                yield 1             # one
            finally:
                str()

        class Iterator:
            def __iter__(self):
                return self

            def __next__(self):
                raise StopIteration     # next

        def delegate():
            return (yield from numbers())

        def iterate():
            for _ in numbers():
                pass
            list(numbers()), next(iter(()), 0), [*map(str, numbers())], list(Iterator()), list(delegate())
            for _ in Iterator():
                pass
            generator = numbers()
            next(generator)
            generator.close()
            try:
                next(iter(()))      # empty
            except StopIteration:
                pass
            asyncio.run(iterate_async())

        async def numbers_async():
            yield 1
            await asyncio.sleep(0)

        async def iterate_async():
            async for _ in numbers_async():
                pass
            return [number async for number in numbers_async()]

        def library():
            os.environ.get("there is no such variable")
            for path in ["there is no such file"]:
                os.path.exists(path), os.path.realpath(path)
            try:
                json.loads("?")     # loads
            except ValueError:
                pass
            try:
                import there_is_no_such_module  # import
            except ImportError:
                pass

        def leaves():
            deep(2)
    """

    def test_stops_once(self):
        for name in (None, "KeyError", "LookupError", "BaseException"):
            self.assertEqual(self.caught("through", name=name), ["deep"], name)

    def test_other_types_do_not_stop(self):
        self.assertEqual(self.caught("through", name="ValueError"), [])
        self.assertEqual(self.caught("through", name="IndexError"), [])

    def test_raised_by_c(self):
        self.assertEqual(self.caught("c"), ["division"])
        self.assertEqual(self.caught("c", name="ArithmeticError"), ["division"])

    def test_raised_again(self):
        self.assertEqual(self.caught("same"), ["same"] * 2)
        self.assertEqual(self.caught("stored"), ["deep", "again"])

    def test_thrown_into_generators(self):
        self.assertEqual(self.caught("thrown"), ["deep"])
        self.assertEqual(self.caught("throws"), ["one"])

    def test_iteration(self):
        for name in (None, "Exception", "BaseException"):
            self.assertEqual(self.caught("iterate", name=name), [], name)
        self.assertEqual(self.caught("iterate", name="StopIteration"), ["next"] * 2 + ["empty"])
        self.assertEqual(self.caught("iterate", name="GeneratorExit"), ["one"])

    def test_classes_that_compute_their_names(self):
        program = self.program("""
            class Meta(type):
                @property
                def __module__(cls):
                    raise TypeError

            class Odd(KeyError, metaclass=Meta):
                @property
                def __traceback__(self):
                    raise TypeError

                @property
                def __class__(self):
                    raise TypeError

            def run():
                try:
                    raise Odd       # odd
                except KeyError:
                    return 1
        """)
        debugger = Scripted(program, catch("raised", "ValueError"), catch("raised", "LookupError"))
        self.assertEqual(debugger.runcall(program.load()["run"]), 1)

    def test_library(self):
        self.assertEqual(self.caught("library"), ["loads", "import"])

    def test_skip(self):
        self.assertEqual(self.caught("through", skip=["program"]), [])
        text = self.program("def call(function):\n    function()  # call\n")
        outer = Scripted(text, catch("raised"), skip=["program"])
        other = text.load(__name__="other")["call"]
        with self.assertRaises(KeyError):
            outer.runcall(other, self.names["leaves"])
        self.assertEqual(outer.stops[1:], [("exception", "call")])

    def test_conditions(self):
        self.assertEqual(self.caught("through", condition="n == 0"), ["deep"])
        self.assertEqual(self.caught("through", condition="n == 1"), [])
        self.assertEqual(self.caught("same", condition="_exception.args == ('one',)"), ["same"] * 2)
        self.assertEqual(self.caught("same", condition="_exception.args == ()"), [])

    def test_condition_that_raises(self):
        told = []

        class Telling(Scripted):
            def condition_raised(self, point, problem):
                told.append(problem)

        debugger = Telling(self.source, catch("raised", None, "1 / 0"))
        debugger.runcall(self.names["c"])
        self.assertEqual(debugger.stops[1:], [("exception", "division")])
        self.assertEqual(told, ["ZeroDivisionError: division by zero"])

    def test_condition_that_calls_the_program(self):
        self.assertEqual(self.caught("c", condition="[through(), 0][1]"), [])
        self.assertEqual(self.caught("c", condition="[through(), 1][1]"), ["division"])

    def test_ignore_and_disable(self):
        self.assertEqual(self.caught("same", ignore=1), ["same"])
        debugger = Scripted(self.source, catch("raised"), "continue", lambda debugger, frame: point().disable())

        def point():
            return bdb.Breakpoint.bpbynumber[1]

        debugger.runcall(self.names["same"])
        self.assertEqual(debugger.stops[1:], [("exception", "same")])
        self.assertEqual(point().hits, 1)

    def test_clear(self):
        debugger = Scripted(self.source, catch("raised"), "continue", lambda debugger, frame: debugger.do_clear(1))
        debugger.runcall(self.names["same"])
        self.assertEqual(debugger.stops[1:], [("exception", "same")])
        self.assertEqual(debugger.breaks, {})

    def test_steps_stop_once(self):
        for step, lines in (("step", [("line", "division"), ("exception", "division")]),
                            ("next", [("line", "division"), ("exception", "division")])):
            for mode in ("", "caught"):
                actions = [catch("raised")] if mode else []
                debugger = Scripted(self.source, *actions, at("division"), "continue", step, "continue")
                debugger.runcall(self.names["c"])
                self.assertEqual(debugger.stops[1:], lines, (step, mode))
                bdb.Breakpoint.clearBreakpoints()

    def test_steps_go_on_from_a_catch(self):
        for step in ("step", "next"):
            debugger = Scripted(self.source, catch("raised"), "continue", step)
            debugger.runcall(self.names["c"])
            self.assertEqual([event for event, _ in debugger.stops[1:]], ["exception", "line"], step)
            bdb.Breakpoint.clearBreakpoints()

    def test_next_over_a_call_stops(self):
        debugger = Scripted(self.source, catch("raised"), "next", "next", "next", "next", "next", "next")
        debugger.runcall(self.names["thrown"])
        self.assertEqual([stop for stop in debugger.stops if stop[1] == "deep"][:1], [("exception", "deep")])

    def test_the_same_exception_of_another_debuggers_catch(self):
        """A catch is in force for the debugger that follows: breakpoint() makes one each time."""
        debugger = Scripted(self.source, catch("raised"))
        debugger.runcall(self.names["c"])
        other = Scripted(self.source)
        other.runcall(self.names["c"])
        self.assertEqual(other.stops[1:], [("exception", "division")])

    def test_recursion_to_the_limit(self):
        program = self.program("""
            def endless():
                endless()           # endless
        """)
        debugger = Scripted(program, catch("raised", "RecursionError"))
        with self.assertRaises(RecursionError) as caught:
            debugger.runcall(program.load()["endless"])
        self.assertEqual(debugger.stops[1:], [("exception", "endless")])
        entry, names = caught.exception.__traceback__, set()
        while entry is not None:
            names.add(entry.tb_frame.f_code.co_name)
            entry = entry.tb_next
        self.assertNotIn("_at_raise", names)

    def test_exceptions_of_the_debugger(self):
        """Quitting raises an exception: it is none of the program's."""
        debugger = Scripted(self.source, catch("raised", "BaseException"), catch("raised", "SystemExit"),
                            catch("uncaught", "SystemExit"), at("division"), "continue", "quit")
        debugger.runcall(self.names["c"])
        self.assertEqual(debugger.stops[1:], [("line", "division")])

    def test_exceptions_of_another_debugger(self):
        def inner():
            Scripted(self.source, "quit").set_trace()
            self.names["c"]()

        outer = Scripted(self.source, catch("raised", "SystemExit"), catch("uncaught", "SystemExit"))
        outer.runcall(inner)
        self.assertEqual([event for event, _ in outer.stops], ["line"])

    def test_a_stop_is_over(self):
        caught = []

        class Counting(Scripted):
            def user_raised(self, frame, exception):
                caught.append(exception[0])
                super().user_raised(frame, exception)

        def function():
            for error in (KeyError, ValueError):
                try:
                    raise error
                except LookupError:
                    pass
                except ValueError:
                    pass

        debugger = Counting(self.source, catch("raised", "KeyError"), "continue", *["step"] * 20)
        debugger.runcall(function)
        self.assertEqual(caught, [KeyError])
        self.assertEqual([event for event, _ in debugger.stops].count("exception"), 2)

    def test_near_the_limit_of_recursion(self):
        """The program's exceptions are its own, except in the last frame, where nothing can be called."""
        program = self.program("""
            def down(n, error):
                if n == 0:
                    raise error
                return down(n - 1, error)

            def run(depths):
                return [outcome(depth) for depth in depths]

            def outcome(depth):
                try:
                    down(depth, ValueError("here"))
                except Exception as error:
                    return type(error)
        """)
        limit, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(depth + 300)
        run, depths = program.load()["run"], range(240, 300)
        usual = self.debug(program, run, arguments=(depths,)).value
        self.assertEqual(set(usual), {ValueError, RecursionError})
        for condition in ("False", None):
            done = self.debug(program, run, catch("raised", "ValueError", condition), arguments=(depths,))
            self.assertLessEqual(sum(one is not other for one, other in zip(usual, done.value)), 1)
            self.assertEqual(len(done.stops) - 1, 0 if condition else done.value.count(ValueError))
            bdb.Breakpoint.clearBreakpoints()

    def test_exceptions_are_released(self):
        class Held(Exception):
            pass

        held = []

        def function():
            try:
                error = Held()
                held.append(weakref.ref(error))
                raise error
            except Held:
                del error

        debugger = Scripted(self.source, catch("raised", None, "False"))
        debugger.runcall(function)
        gc.collect()
        self.assertIsNone(held[0]())


class Costs(CatchingCase):
    TEXT = """
        def work():
            return sum(range(9))
    """

    def test_events(self):
        """Only those of exceptions are set; they are gone with the last catch."""
        seen = []

        def look(debugger, frame):
            events = sys.monitoring.get_events(session.events.tool)
            seen.append((events & (_E.RAISE | _E.PY_UNWIND), local_events(self.names["work"].__code__) & _E.LINE))

        def stop_watching(debugger, frame):
            debugger._watch([])

        def clear(number):
            return lambda debugger, frame: debugger.do_clear(number)

        self.debug(self.source, self.names["work"], stop_watching, look, catch("raised"), look, catch("uncaught"), look,
                   clear(1), look, clear(2), look, catch("raised"), look,
                   lambda debugger, frame: debugger.clear_all_breaks(), look)
        self.assertEqual(seen, [(0, 0), (_E.RAISE, 0), (_E.RAISE | _E.PY_UNWIND, 0), (_E.PY_UNWIND, 0), (0, 0),
                                (_E.RAISE, 0), (0, 0)])

    def test_events_while_a_thread_steps(self):
        """They are gone with the debugger in force, also where one that is not steps."""
        seen = []

        def leave(debugger, frame):
            seen.append(session.events.catching)
            session.leave(debugger, True)
            seen.append(session.events.catching)

        program = self.program("""
            def work():
                one = 1
                return one
        """)
        self.debug(program, program.load()["work"], catch("raised"), "next", leave)
        self.assertEqual(seen, [_E.RAISE, 0])

    def test_events_that_the_program_has_taken(self):
        program = self.program("""
            def run(take):
                take()
                stopped = 1         # stopped
                try:
                    raise ValueError    # raise
                except ValueError:
                    return stopped
        """)

        def take():
            sys.monitoring.set_events(session.events.tool, 0)

        done = self.debug(program, program.load()["run"], catch("raised"), at("stopped"), "continue", "continue",
                          arguments=(take,))
        self.assertEqual(done.stops[1:], [("line", "stopped"), ("exception", "raise")])


if __name__ == "__main__":
    unittest.main()
