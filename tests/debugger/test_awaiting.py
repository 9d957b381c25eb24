"""`await` at the prompt of `await set_trace_async()`."""

import os
import signal
import subprocess
import sys
import threading
import unittest

from debugger_support import PACKAGE, DebuggerCase, run_python, wait_for_sleep

PROGRAM = """
    import asyncio, sys, threading
    import ferrule_debugger as pdb
    WIDTH = 3
    async def inc(n):
        await asyncio.sleep(0.001)
        return n + 1                # inc
    async def fail():
        await asyncio.sleep(0.001)
        raise ValueError("fails")
    async def cancelled():
        task = asyncio.create_task(asyncio.sleep(100))
        task.cancel()
        await task
    async def other(event):
        await event.wait()
        print("other", flush=True)  # other
    def sync():
        breakpoint()
        return 1                    # sync
    async def stops():
        breakpoint()
        return 2                    # stops
    async def main():
        k, event = 5, asyncio.Event()
        task = asyncio.create_task(other(event))
        await pdb.set_trace_async()     # here
        after = 1                   # after
        print("k is", k, flush=True)
        event.set()
        await task
    if __name__ != "__main__":
        pass
    elif sys.argv[1:] == ["thread"]:
        thread = threading.Thread(target=asyncio.run, args=(main(),), name="Loop")
        thread.start()
        thread.join()
    else:
        asyncio.run(main())
"""


class Awaiting(DebuggerCase):
    def setUp(self):
        super().setUp()
        self.source = self.program(PROGRAM)

    def session(self, *commands, arguments=()):
        """What each command has printed at the prompt, and at last the program."""
        said = run_python([self.source.path, *arguments], "\n".join(commands) + "\n", PYTHONBREAKPOINT="ferrule_debugger.set_trace")
        first, *printed = said.split("(Pdb) ")
        self.assertTrue(first.endswith(self.at("here", "main") + '-> await pdb.set_trace_async()     # here\n'), said)
        return [text.strip() for text in printed]

    def at(self, line, function):
        return f"> {self.source.path}({self.source.line(line)}){function}()\n"

    def test_expressions_and_statements(self):
        self.assertEqual(self.session("await inc(k)", "k = await inc(k)", "! await inc(k)", "await asyncio.sleep(0)", "new = await inc(1); k += new",
                                      "p new", "c")[:-1],
                         ["6", "", "7", "", "", "2"])

    def test_the_program_continues_with_what_was_set(self):
        self.assertEqual(self.session("k = await inc(k)", "c")[-1], "k is 6\nother")

    def test_inner_functions_have_the_variables(self):
        self.assertEqual(self.session("await asyncio.gather(*(inc(k + i) for i in range(WIDTH)))", "[await inc(i + k) async for i in gen()]",
                                      "gs = await asyncio.gather(*map(lambda i: inc(i + k), [1, 2]))", "gs", "c")[:-1],
                         ["[6, 7, 8]", "*** NameError: name 'gen' is not defined", "", "[7, 8]"])

    def test_with_and_for(self):
        self.assertEqual(self.session("async with asyncio.timeout(10): k = await inc(k)", "for i in range(WIDTH): k = await inc(k)", "k", "c")[:-1],
                         ["", "", "9"])

    def test_exceptions(self):
        self.assertEqual(self.session("await fail()", "await cancelled()", "await k", "k = await fail()", "await 1 +", "k", "c")[:-1],
                         ["*** ValueError: fails", "*** asyncio.exceptions.CancelledError", "*** TypeError: object int can't be used in 'await' expression",
                          "*** ValueError: fails", "*** SyntaxError: invalid syntax", "5"])

    def test_other_tasks_run_meanwhile(self):
        self.assertEqual(self.session("event.set()", "await task", "c"), ["", "other", "k is 5"])

    def test_a_breakpoint_in_what_is_awaited(self):
        printed = self.session(f"b {self.source.line('inc')}", "await inc(k)", "p n", "r", "c", "k", "c")
        self.assertEqual(printed[1].splitlines(), [self.at("inc", "inc").strip(), "-> return n + 1                # inc"])
        self.assertEqual(printed[2], "5")
        self.assertTrue(printed[3].startswith("Internal StopIteration: 6\n> <stdin>(1)"), printed)
        self.assertEqual(printed[4], "6\n" + self.at("here", "main") + "-> await pdb.set_trace_async()     # here")
        self.assertEqual(printed[5], "5")

    def test_a_breakpoint_is_not_hit_at_the_prompt_itself(self):
        printed = self.session(f"b {self.source.line('inc')}", "p inc(1).send(None)", "c")
        self.assertRegex(printed[1], "^<Future pending")

    def test_a_stop_that_cannot_be_suspended_says_so(self):
        refused = "*** await works only at the prompt of `await ferrule_debugger.set_trace_async()`: no other stop can be suspended"
        for command in ("sync()", "await stops()"):
            with self.subTest(command):
                printed = self.session("n", "await inc(k)", "x = await inc(k)", "c")
                self.assertEqual(printed[1:3], [refused] * 2)
        printed = self.session("await stops()", "await inc(1)", "c", "await inc(1)", "c")
        self.assertEqual((printed[1], printed[3]), (refused, "2"))

    def test_in_another_frame(self):
        printed = self.session("up", "await __import__('asyncio').sleep(0, type(self).__name__)", "k", "c")
        self.assertEqual(printed[1], "'Handle'\n" + self.at("here", "main") + "-> await pdb.set_trace_async()     # here")
        self.assertEqual(printed[2], "5")

    def test_steps_go_to_the_next_line(self):
        for command in ("n", "s", "unt"):
            for first in ([], ["await inc(k)"]):
                with self.subTest(command, first=first):
                    printed = self.session(*first, command, "c")
                    self.assertEqual(printed[-2], self.at("after", "main") + "-> after = 1                   # after")

    def test_return(self):
        self.assertEqual(self.session("await inc(1)", "r", "c")[1].splitlines()[:3], ["k is 5", "other", "--Return--"])

    def test_quit(self):
        for first in ([], ["await inc(k)"]):
            with self.subTest(first=first):
                self.assertEqual(self.session(*first, "q")[len(first):], [""])

    def test_another_thread(self):
        said = run_python([self.source.path, "thread"], "await inc(k)\nk = await inc(k)\nc\n")
        self.assertEqual(said, f"[Loop]\n{self.at('here', 'main')}-> await pdb.set_trace_async()     # here\n(Pdb) 6\n(Pdb) (Pdb) k is 6\nother\n")

    def test_a_header_and_no_free_tool_id(self):
        program = self.program("""
            import asyncio, sys
            import ferrule_debugger as pdb
            for tool in range(6):
                sys.monitoring.use_tool_id(tool, "x")
            async def main():
                await pdb.set_trace_async(header="header")      # here
                after = 1
            asyncio.run(main())
        """)
        said = run_python([program.path], "await asyncio.sleep(0)\nn\nc\n")
        self.assertTrue(said.startswith(f"header\n> {program.path}({program.line('here')})main()\n"), said)
        self.assertIn("*** await works only", said)
        self.assertIn("-> after = 1", said)

    def test_the_task_is_cancelled_meanwhile(self):
        program = self.program("""
            import asyncio
            import ferrule_debugger as pdb
            async def main():
                try:
                    async with asyncio.timeout(0.05):
                        await pdb.set_trace_async()
                except TimeoutError:
                    print("timeout")
            asyncio.run(main())
        """)
        self.assertTrue(run_python([program.path], "await asyncio.sleep(100)\n").endswith("(Pdb) timeout\n"))

    def test_a_loop_that_is_not_of_asyncio(self):
        program = self.program("""
            import types
            import ferrule_debugger as pdb
            @types.coroutine
            def ask(question):
                return (yield question)
            async def main():
                await pdb.set_trace_async()
                return answer
            answer = None
            coroutine = main()
            question = coroutine.send(None)
            try:
                coroutine.send(question * 2)
            except StopIteration as end:
                print("value", end.value)
        """)
        said = run_python([program.path], "await ask(4)\nc\n")
        self.assertTrue(said.endswith("(Pdb) 8\n(Pdb) value None\n"), said)

    def test_control_c_while_it_waits(self):
        process = subprocess.Popen([sys.executable, "-u", self.source.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "PYTHONPATH": PACKAGE})
        watchdog = threading.Timer(100, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        process.stdin.write("await asyncio.sleep(1_000, print('waits', flush=True))\n")
        process.stdin.flush()
        while "waits" not in (line := process.stdout.readline()):
            self.assertNotEqual(line, "")
        wait_for_sleep(process.pid)     # a signal in the loop's own code would be raised there
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate("q\n", timeout=90)
        self.assertIn("Program interrupted.", output)
        self.assertEqual((process.returncode, errors), (1, ""))

    def test_nothing_is_left(self):
        names = self.source.load()
        asyncio, pdb = names["asyncio"], names["pdb"]

        async def main():
            import io
            out = io.StringIO()
            debugger = pdb.Pdb(stdin=io.StringIO("await inc(1)\nawait fail()\nc\n"), stdout=out, nosigint=True, readrc=False)
            names["debugger"] = debugger
            inc, fail = names["inc"], names["fail"]
            await debugger.set_trace_async()
            return out.getvalue(), inc, fail
        said = asyncio.run(main())[0]
        self.assertTrue(said.endswith("(Pdb) 2\n(Pdb) *** ValueError: fails\n(Pdb) "), said)


if __name__ == "__main__":
    unittest.main()
