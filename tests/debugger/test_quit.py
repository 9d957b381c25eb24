"""quit and run end the program wherever they are typed: in a thread, a task or a callback."""

import unittest

from debugger_support import DebuggerCase, run_python

LOOP = """
    import asyncio
    async def child(n):
        await asyncio.sleep(0)
        return n                # child
    def callback():
        return 1                # callback
    def raises():
        raise ValueError(1)
    async def gathered():
        await asyncio.gather(child(1), asyncio.create_task(child(2)))
    async def grouped():
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(child(n))
    async def called():
        asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(0.01)
    print("begins")
    try:
        asyncio.run({}())
        print("not reached")
    finally:
        print("cleaned up")
"""

THREADS = """
    import queue, threading, time
    for_ever = queue.SimpleQueue()
    def work(n):
        return n                # work
    def busy():
        try:
            while True:
                try:
                    time.sleep(0.001)
                except Exception:
                    pass
        finally:
            print("busy cleaned up")
    print("begins")
    threading.Thread(target=busy).start()
    {}
    thread = threading.Thread(target=work, args=(1,))
    try:
        thread.start()
        {}
        print("not reached")
    finally:
        print("main cleaned up")
"""


class Ends(DebuggerCase):
    def left(self, text, place, *typed):
        program = self.program(text)
        return run_python(["-m", "ferrule_debugger", program.path],
                          "\n".join([f"b {program.line(place)}", "c", *typed, ""]), timeout=60)

    def test_in_a_task_and_in_a_callback(self):
        for function, place in (("gathered", "child"), ("grouped", "child"), ("called", "callback")):
            for commands in (["q"], ["n", "q"], ["EOF"]):
                with self.subTest(function, commands=commands):
                    said = self.left(LOOP.format(function), place, *commands)
                    self.assertEqual((said.count("begins"), said.count("cleaned up")), (1, 1), said)
                    self.assertNotIn("not reached", said)
                    self.assertNotIn("ExceptionGroup", said)
                    self.assertNotIn("never retrieved", said)
                    self.assertNotIn("post mortem", said)

    def test_run_in_a_task_and_in_a_callback(self):
        for function, place in (("gathered", "child"), ("grouped", "child"), ("called", "callback")):
            with self.subTest(function):
                said = self.left(LOOP.format(function), place, "run x", "p sys.argv[1:] if 0 else 'again'", "q")
                self.assertEqual((said.count("begins"), said.count("cleaned up")), (1, 1), said)
                self.assertIn("with arguments:\n\tx\n", said)
                self.assertIn("'again'", said)
                self.assertNotIn("ExceptionGroup", said)

    def test_in_a_thread(self):
        stuck = "threading.Thread(target=for_ever.get).start()"
        for other in ("pass", stuck):
            for waits in ("thread.join()", "for_ever.get()", "time.sleep(1000)", "while True: pass",
                          "threading.Event().wait()"):
                with self.subTest(waits, other=other):
                    said = self.left(THREADS.format(other, waits), "work", "q")
                    self.assertEqual(said.count("main cleaned up"), 1, said)
                    self.assertEqual(said.count("busy cleaned up"), 1, said)
                    self.assertNotIn("not reached", said)
                    self.assertNotIn("Traceback", said)

    def test_in_a_thread_that_is_slow(self):
        slow = "import ferrule_debugger as d; quits = d._stock.do_quit; d._stock.do_quit = lambda *arguments: (time.sleep(0.5), quits(*arguments))[1]"
        said = self.left(THREADS.format(slow, "for_ever.get()"), "work", "q")
        self.assertNotIn("restarted", said)
        self.assertEqual(said.count("main cleaned up"), 1, said)

    def test_at_a_jump(self):
        # CPython finds no handler in the frame for what a callback of such a jump raises.
        program = self.program("""
            def f(n):
                try:
                    while n: n += 1         # loop
                finally:
                    print("cleaned up", n)
            f(1)
        """)
        for typed, n in (("", 1), ("c\n", 2), ("c\nn\n", 3), ("cl 1\nn\nn\n", 3)):
            with self.subTest(typed):
                said = run_python(["-m", "ferrule_debugger", program.path], f"b {program.line('loop')}\nc\n{typed}q\n")
                self.assertEqual(said.count("cleaned up"), 1, said)
                self.assertIn(f"cleaned up {n}\n", said)

    def test_in_a_thread_while_another_one_jumps(self):
        jumps = """
    def jumps():
        try:
            while True: pass
        finally:
            print("jumps cleaned up")
    threading.Thread(target=jumps).start()"""
        said = self.left(THREADS.format(jumps.strip(), "thread.join()"), "work", "q")
        for name in ("main", "busy", "jumps"):
            self.assertEqual(said.count(f"{name} cleaned up"), 1, said)

    def test_run_in_a_thread(self):
        said = self.left(THREADS.format("pass", "for_ever.get()"), "work", "run", "p 'again'", "c", "p 'n', n", "q")
        self.assertEqual((said.count("begins"), said.count("main cleaned up")), (2, 2), said)
        self.assertIn("('n', 1)", said)
        self.assertNotIn("Traceback", said)

    def test_run_in_a_thread_while_the_main_thread_runs(self):
        # It is left at its next line, before the signal that would end a wait.
        slow = "import signal; signal.pthread_kill = lambda *to, sleep=time.sleep, kill=signal.pthread_kill: (sleep(0.2), kill(*to))"
        said = self.left(THREADS.format(slow, "while True:\n            time.sleep(0.001)"), "work", "run", "p 'again'", "c", "p 'n', n", "q")
        self.assertNotIn("Program interrupted", said)
        self.assertIn("('n', 1)", said)
        self.assertEqual((said.count("begins"), said.count("main cleaned up")), (2, 2), said)

    def test_breakpoint_in_a_thread(self):
        program = self.program(THREADS.replace("return n ", "breakpoint() ").format("pass", "for_ever.get()"))
        said = run_python([program.path], "q\n", PYTHONBREAKPOINT="ferrule_debugger.set_trace", timeout=60)
        self.assertEqual((said.count("main cleaned up"), said.count("busy cleaned up")), (1, 1), said)

    def test_a_call_that_is_debugged_in_a_thread_ends_alone(self):
        program = self.program("""
            import io, threading
            import ferrule_debugger
            def work():
                return 1
            def debug():
                debugger = ferrule_debugger.Pdb(stdin=io.StringIO("q\\n"), stdout=io.StringIO(), readrc=False)
                print("value", debugger.runcall(work))
            thread = threading.Thread(target=debug)
            thread.start()
            thread.join()
            print("goes on")
        """)
        self.assertEqual(run_python([program.path]), "value None\ngoes on\n")

    def test_the_exit_status_of_a_program_that_is_quit(self):
        program = self.program("""
            import subprocess, sys
            done = subprocess.run([sys.executable, "-c", "breakpoint()\\nprint('not reached')"], input="q\\n", text=True,
                                  capture_output=True)
            print(done.returncode, "not reached" in done.stdout, repr(done.stderr))
        """)
        said = run_python([program.path], PYTHONBREAKPOINT="ferrule_debugger.set_trace")
        self.assertEqual(said, "1 False ''\n")


if __name__ == "__main__":
    unittest.main()
