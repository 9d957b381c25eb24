"""threads, tasks and log: what else there is, and what passes by."""

import bdb
import unittest

from debugger_support import LOOP, DebuggerCase, pdb_session, run_python
from ferrule_debugger.turns import WITHOUT_GIL


class Lists(DebuggerCase):
    def test_threads(self):
        program = self.program("""
            import sys, threading, time
            go, started = threading.Event(), threading.Event()
            def waits():
                started.set()
                go.wait()               # waits
            def work():
                while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "join":
                    time.sleep(0.001)
                return 1                # work
            threading.Thread(target=waits, name="waiter", daemon=True).start()
            started.wait()
            thread = threading.Thread(target=work, name="worker")
            thread.start()
            thread.join()               # joins
        """)
        said = run_python(["-m", "ferrule_debugger", program.path],
                          f"b {program.line('work')}\nc\nthreads\np 'wait'\nthreads wait\nthreads\nthreads x\nhelp threads\nq\n")
        places = rf"program\.py\({program.line('waits')}\)waits", rf"program\.py\({program.line('joins')}\)<module>"
        # Without the GIL the innermost frame is all that is known, unless threads wait.
        innermost = (r"threading\.py\(\d+\)wait", r"threading\.py\(\d+\)join") if WITHOUT_GIL else places
        for text, (waiter, main) in zip(said.split("'wait'"), (innermost, places), strict=True):
            self.assertRegex(text, r"\n(\(Pdb\) )?> \d+ worker: .*program\.py\(%d\)work\(\)\n" % program.line("work"))
            self.assertRegex(text, rf"  \d+ waiter \(daemon\): .*{waiter}\(\)\n")
            self.assertRegex(text, rf"  1 MainThread: .*{main}\(\)\n")
        self.assertIn("*** Invalid argument: x", said)
        self.assertIn("List the threads", said)

    def test_tasks(self):
        program = self.program("""
            import asyncio
            async def child(n):
                await asyncio.sleep(n)          # sleeps
                return n                        # child
            async def main():
                tasks = [asyncio.create_task(child(n), name=f"child {n}") for n in (0, 1000)]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)      # main
            asyncio.run(main())
        """)
        said = run_python(["-m", "ferrule_debugger", program.path],
                          f"tasks\nb {program.line('child')}\nc\ntasks\ntasks x\nhelp tasks\nq\n")
        self.assertIn("(Pdb) *** No loop of asyncio runs in this thread", said)
        for mark, name, line, function in ((">", "child 0", "child", "child"), (" ", "child 1000", "sleeps", "child"),
                                           (" ", "Task-1", "main", "main")):
            self.assertRegex(said, rf"{mark} \d+ {name}: .*program\.py\({program.line(line)}\){function}\(\)\n")
        self.assertIn("*** Invalid argument: x", said)
        self.assertIn("List the asyncio tasks", said)

    def test_without_tasks(self):
        self.assertIn("No loop of asyncio", pdb_session(lambda: 1, "tasks", "threads", "c"))


class Logs(DebuggerCase):
    TEXT = f"""
{LOOP}
def g():
    value = f(3)            # calls
    return value            # g last
"""

    def typed(self, *commands):
        return pdb_session(self.names["g"], *commands)

    def test_it_prints_and_goes_on(self):
        place = f"{self.source.path}:{self.source.line('body')}"
        said = self.typed('log %s "i={i} of {n}, {i + 1:03}"' % place, f"log {place}, i == 2 'it is {{i}}'", "b", "c")
        self.assertEqual([line for line in said.splitlines() if " of 3" in line],
                         ["(Pdb) i=0 of 3, 001", "i=1 of 3, 002", "i=2 of 3, 003"])
        self.assertEqual(said.count("it is 2"), 1)
        self.assertIn('\tlog "i={i} of {n}, {i + 1:03}"', said)
        self.assertEqual(said.count("body"), 0)

    def test_a_step_goes_on_over_it(self):
        for command in ("n", "unt"):
            with self.subTest(command):
                said = self.typed(f'log {self.source.path}:{self.source.line("body")} "at {{i}}"', command)
                self.assertEqual(said.count("at "), 3 + said.count("Breakpoint"), said)
                self.assertIn("# g last", said)
                bdb.Breakpoint.clearBreakpoints()

    def test_it_is_cleared_disabled_and_ignored(self):
        place = f"{self.source.path}:{self.source.line('body')}"
        for commands, times in (("cl 1", 0), ("disable 1", 0), ("ignore 1 2", 1), ("condition 1 i > 0", 2)):
            with self.subTest(commands):
                said = self.typed(f'log {place} "seen {{i}}"', commands, "c")
                self.assertEqual(said.count("seen "), times)
                bdb.Breakpoint.clearBreakpoints()

    def test_what_is_wrong(self):
        place = f"{self.source.path}:{self.source.line('body')}"
        said = self.typed("log", f"log {place}", f'log {place} "{{i"', 'log nothing "x"', f'log {place} "{{nothing}}"', "c")
        self.assertEqual(said.count("*** Invalid argument"), 2)
        self.assertIn("*** Invalid text", said)
        self.assertIn("is not a function", said)
        self.assertEqual(said.count("*** The log of breakpoint 1 has raised NameError"), 3)
        self.assertNotIn("# g last", said)


if __name__ == "__main__":
    unittest.main()
