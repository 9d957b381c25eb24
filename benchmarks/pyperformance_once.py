"""Runs a script of pyperformance without pyperf's measuring: what each benchmark does is handed over as a function."""

import builtins
import os
import runpy
import sys


class NotHere(Exception):
    """The program is none that can be run like this."""


def run_script(script, arguments, handle):
    """Call handle(name, work) for each benchmark of a script. NotHere: it has none, or is another kind of program."""
    import pyperf
    handled = []

    class Once(pyperf.Runner):
        def bench_func(self, name, function, *args, **options):
            self.hand_over(name, lambda: function(*args))

        def bench_time_func(self, name, function, *args, **options):
            self.hand_over(name, lambda: function(1, *args))

        def bench_async_func(self, name, function, *args, loop_factory=None, **options):
            import asyncio

            def work():
                with asyncio.Runner(loop_factory=loop_factory) as runner:
                    runner.run(function(*args))
            self.hand_over(name, work)

        def bench_command(self, name, command):
            raise NotHere("it is a command")

        timeit = bench_command

        @staticmethod
        def hand_over(name, work):
            handled.append(name)
            handle(name, work)

    pyperf.Runner = Once
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    # A program has the module itself, and one of them adds to it.
    runpy.run_path(script, {"__builtins__": builtins}, "__main__")
    if not handled:
        raise NotHere("it measures nothing")
