"""python -m ferrule_debugger -p PID: a prompt for a process that runs."""

import os
import signal
import subprocess
import sys
import threading
import unittest

from debugger_support import PACKAGE, DebuggerCase, needs_hooks, run_python

PROGRAM = """
    import bdb, os, select, sys

    bdb.Breakpoint(__file__, 1)     # of the program's own

    def step(n):
        m = n + 1               # step
        return m

    def fork():
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        step(0)
        os._exit(0)

    print("ready", flush=True)
    n = 0
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        n = step(n)             # loop
        print("tick", flush=True)
    print("end", flush=True)
"""


class AttachCase(DebuggerCase):
    def setUp(self):
        super().setUp()
        self.source = self.program(PROGRAM)
        self.process = self.start(self.source.path)
        self.assertEqual(self.process.stdout.readline(), "ready\n")

    def start(self, *arguments):
        process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "PYTHONPATH": PACKAGE})
        watchdog = threading.Timer(100, process.kill)
        watchdog.start()

        def end():
            watchdog.cancel()
            watchdog.join()
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def attach(self):
        return self.start("-m", "ferrule_debugger", "-p", str(self.process.pid))

    def session(self, commands):
        """What a debugger prints that is given these commands."""
        client = self.attach()
        output, errors = client.communicate(commands, timeout=90)
        self.assertEqual((client.returncode, errors), (0, ""), output)
        return output

    def program_ends_well(self):
        output, errors = self.process.communicate("\n", timeout=90)
        self.assertEqual((self.process.returncode, errors, output.splitlines()[-1]), (0, "", "end"))


@needs_hooks
class Attached(AttachCase):
    def test_a_session(self):
        said = self.session(f"b step\nc\np ('n', n > 0)\nw\ncl 2\nb {self.source.line('loop')}\nc\np sorted(globals())[-2:]\nq\n")
        self.assertIn(f"> {self.source.path}({self.source.line('step')})step()", said)
        self.assertIn("('n', True)", said)
        self.assertIn(f"> {self.source.path}({self.source.line('loop')})<module>()", said)
        self.assertIn("['step', 'sys']", said)
        self.assertIn(f"The debugger has left process {self.process.pid}.", said)
        self.program_ends_well()

    def test_one_after_the_other(self):
        for _ in range(3):
            said = self.session("b step\nc\nc\n")      # and the end of the input
            self.assertEqual(said.count("step()\n-> m = n + 1"), 2, said)
            self.assertIn("Breakpoint", said)
        self.program_ends_well()

    def test_only_one_at_a_time(self):
        client = self.attach()
        client.stdin.write("b step\nc\n")
        client.stdin.flush()
        while "Breakpoint" not in client.stdout.readline():
            pass
        while "-> m" not in client.stdout.readline():
            pass
        client.stdin.write("disable 2\nc\n")
        client.stdin.flush()
        self.assertIn("Another debugger is attached", self.session(""))
        client.kill()
        client.wait()
        self.program_ends_well()

    def test_a_debugger_that_is_killed(self):
        client = self.attach()
        client.stdin.write("b step\nc\np 'here'\n")
        client.stdin.flush()
        while "here" not in client.stdout.readline():
            pass
        client.kill()
        self.assertIn("'again'", self.session("p 'again'\nq\n"))
        self.program_ends_well()

    def test_control_c_returns_to_the_prompt(self):
        client = self.attach()
        for _ in range(3):
            while "->" not in client.stdout.readline():
                pass
            client.stdin.write("!print('here', file=sys.__stdout__, flush=True)\nc\n")
            client.stdin.flush()
            while self.process.stdout.readline() != "here\n":
                pass
            self.assertEqual(self.process.stdout.readline(), "tick\n")      # so it runs
            client.send_signal(signal.SIGINT)
        output, errors = client.communicate("p 'last'\nq\n", timeout=90)
        self.assertEqual((client.returncode, errors), (0, ""))
        self.assertIn("'last'", output)
        self.program_ends_well()

    def test_the_program_ends(self):
        client = self.attach()
        while "->" not in client.stdout.readline():
            pass
        client.stdin.write("c\n")
        client.stdin.flush()
        self.program_ends_well()
        output, errors = client.communicate(timeout=90)
        self.assertEqual((client.returncode, errors), (0, ""))
        self.assertIn("has left process", output)

    def test_a_child_is_not_stopped(self):
        said = self.session("b step\nc\np fork()\nq\n")
        self.assertIn("(Pdb) 0\n", said)
        self.program_ends_well()

    def test_run_and_commands_of_the_command_line(self):
        said = run_python(["-m", "ferrule_debugger", "-p", str(self.process.pid), "-c", "p 'first'", "-c", "run"], "q\n")
        self.assertIn("'first'", said)
        self.assertIn("*** The program was not started by the debugger", said)
        self.program_ends_well()

    def test_breakpoints_of_the_program_stay(self):
        self.session("b step\ncatch raised\n!bdb.Breakpoint(__file__, 2)\nq\n")
        said = self.session("p [(point.number, point.line) for point in bdb.Breakpoint.bpbynumber if point]\nq\n")
        self.assertIn("[(1, 1)]", said)
        self.program_ends_well()


class Refused(DebuggerCase):
    def refused(self, *arguments):
        run = subprocess.run([sys.executable, "-m", "ferrule_debugger", *arguments], capture_output=True, text=True, check=False,
                             env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertNotEqual(run.returncode, 0)
        return run.stderr

    @needs_hooks
    def test_no_such_process(self):
        self.assertIn("no process 1073741824", self.refused("-p", "1073741824"))

    @needs_hooks
    def test_a_program_to_start(self):
        self.assertIn("a process that runs, and a program to start", self.refused("-p", "1", "-m", "this"))

    @unittest.skipIf(hasattr(sys, "remote_exec"), "only on stock")
    def test_stock(self):
        self.assertIn("-p needs sys.remote_exec(), which Ferrule has", self.refused("-p", "1"))


if __name__ == "__main__":
    unittest.main()
