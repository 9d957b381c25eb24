"""`catch uncaught`: stops where exceptions leave the program or a thread."""

import bdb
import sys
import threading
import unittest

from debugger_support import CatchingCase, Scripted, catch
from ferrule_debugger.session import session


class Uncaught(CatchingCase):
    TEXT = """
        import asyncio, contextlib, sys, threading

        def deep(n):
            if n:
                return deep(n - 1)
            raise ValueError("deep")    # deep

        def leaves():
            try:
                deep(2)
            except KeyError:
                pass
            finally:
                done.append("finally")  # finally

        done = []

        class Property:
            @property
            def value(self):
                raise AttributeError

            def __del__(self):
                deep(0)

        def handled():
            with contextlib.suppress(ValueError):
                deep(1)
            getattr(Property(), "value", None)
            try:
                try:
                    deep(1)
                finally:
                    done.append(1)
            except* ValueError:
                pass
            return done

        def empty():
            next(iter(()))              # empty

        def leave():
            sys.exit(3)                 # exit

        def swallows():
            try:
                deep(1)
            except ValueError:
                pass

        def in_threads():
            threads = [threading.Thread(target=target) for target in (leaves, handled, leave, swallows)]
            for thread in threads:
                thread.start()
                thread.join()

        async def coroutine():
            await asyncio.sleep(0)
            deep(1)

        async def main():
            await asyncio.create_task(coroutine())

        async def handles():
            try:
                await main()
            except ValueError:
                pass

        def tasks():
            asyncio.run(main())         # run

        def handled_tasks():
            asyncio.run(handles())
    """

    def setUp(self):
        super().setUp()
        for hook, threads in (("unraisablehook", sys), ("excepthook", threading)):
            self.addCleanup(setattr, threads, hook, getattr(threads, hook))
            setattr(threads, hook, lambda problem: None)

    def test_leaves_the_program(self):
        self.assertEqual(self.caught("leaves", "uncaught", raises=ValueError), ["finally"])
        self.assertEqual(self.names["done"], ["finally"])
        self.assertEqual(self.caught("leaves", "uncaught", "ValueError", raises=ValueError), ["finally"])
        self.assertEqual(self.caught("leaves", "uncaught", "KeyError", raises=ValueError), [])

    def test_the_condition_is_of_the_frame_that_has_raised(self):
        self.assertEqual(self.caught("leaves", "uncaught", None, "n == 0", raises=ValueError), ["finally"])
        self.assertEqual(self.caught("leaves", "uncaught", None, "n == 2", raises=ValueError), [])

    def test_handled(self):
        self.assertEqual(self.caught("handled", "uncaught"), [])
        self.assertEqual(self.caught("swallows", "uncaught"), [])

    def test_beside_raised(self):
        for function, raises, stops in (("leaves", ValueError, ["finally"]), ("swallows", None, [])):
            debugger = Scripted(self.source, catch("uncaught", "ValueError"), catch("raised", "KeyError"))
            try:
                debugger.runcall(self.names[function])
            except ValueError as error:
                self.assertIs(type(error), raises)
            self.assertEqual([line for _, line in debugger.stops[1:]], stops)
            bdb.Breakpoint.clearBreakpoints()

    def test_iteration_and_exit(self):
        self.assertEqual(self.caught("empty", "uncaught", raises=StopIteration), ["empty"])
        self.assertEqual(self.caught("leave", "uncaught", raises=SystemExit), [])
        self.assertEqual(self.caught("leave", "uncaught", "SystemExit", raises=SystemExit), ["exit"])

    def test_threads(self):
        stops = []

        class Where(Scripted):
            def user_exception(self, frame, exception):
                stops.append((threading.current_thread() is threading.main_thread(), exception[0]))
                super().user_exception(frame, exception)

        debugger = Where(self.source, catch("uncaught"))
        debugger.runcall(self.names["in_threads"])
        self.assertEqual(stops, [(False, ValueError)])

    def test_raised_in_threads(self):
        self.assertEqual(self.caught("in_threads", "raised", "ValueError").count("deep"), 5)

    def test_tasks(self):
        self.assertEqual(self.caught("tasks", "raised", "ValueError", raises=ValueError), ["deep"])
        self.assertEqual(self.caught("tasks", "uncaught", raises=ValueError), ["run"])
        self.assertEqual(self.caught("handled_tasks", "uncaught"), [])
        self.assertEqual(self.caught("handled_tasks", "raised"), ["deep"])

    def test_every_command_goes_on(self):
        """The frames that a step could stop in have ended."""
        for step in ("step", "next", "until", "return", "continue"):
            debugger = Scripted(self.source, catch("uncaught"), "continue", step)
            debugger.runcall(self.names["in_threads"])
            self.assertEqual(len(debugger.stops), 2, step)
            self.assertEqual(session.events.watches, 0)
            bdb.Breakpoint.clearBreakpoints()


if __name__ == "__main__":
    unittest.main()
