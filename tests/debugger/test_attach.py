"""python -m ferrule_debugger -p PID: a prompt for a process that runs."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from debugger_support import PACKAGE, DebuggerCase, run_python, wait_for_sleep
from tests import processes
from tests.remote_debugging import LEFT_OUT, needs_remote

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
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.source = self.program(self.PROGRAM)
        self.process = self.start(self.source.path)
        self.assertEqual(self.process.stdout.readline(), "ready\n")

    def start(self, *arguments, **environment):
        return processes.start(self, [sys.executable, *arguments], **{"PYTHONPATH": PACKAGE, **environment})

    def attach(self, **environment):
        return self.start("-m", "ferrule_debugger", "-p", str(self.process.pid), **environment)

    def session(self, commands):
        """What a debugger prints that is given these commands."""
        client = self.attach()
        output, errors = client.communicate(commands, timeout=90)
        self.assertEqual((client.returncode, errors), (0, ""), output)
        return output

    def program_ends_well(self, typed="\n"):
        output, errors = self.process.communicate(typed, timeout=90)
        self.assertEqual((self.process.returncode, errors, output.splitlines()[-1]), (0, "", "end"))


@needs_remote
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

    def test_colours_are_those_of_the_debuggers_terminal(self):
        output, _ = self.attach(FORCE_COLOR="1").communicate("b step\nc\nq\n", timeout=90)
        self.assertIn(f"\x1b[1;35m(Pdb)\x1b[0m > \x1b[35m{self.source.path}({self.source.line('step')})step()\x1b[0m\n->", output)
        self.program_ends_well()

    def test_breakpoints_of_the_program_stay(self):
        self.session("b step\ncatch raised\n!bdb.Breakpoint(__file__, 2)\nq\n")
        said = self.session("p [(point.number, point.line) for point in bdb.Breakpoint.bpbynumber if point]\nq\n")
        self.assertIn("[(1, 1)]", said)
        self.program_ends_well()


# Waits in C until it reads a line.
WAITS = """
    import os
    print("ready", flush=True)
    for _ in range(3):
        line = os.read(0, 1)
        for _ in range(100):
            print(end="")
        print(line, flush=True)
    print("end", flush=True)
"""


@needs_remote
class Waiting(AttachCase):
    PROGRAM = WAITS

    def write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def waits(self, client):
        while not (line := client.stdout.readline()).startswith(f"Process {self.process.pid} waits"):
            self.assertNotEqual(line, "")

    def reads(self):
        """Wait until the program waits for a line."""
        wait_for_sleep(self.process.pid)

    def is_interrupted(self, client):
        client.send_signal(signal.SIGINT)
        self.assertEqual(client.communicate(timeout=90)[1], "")
        self.assertEqual(client.returncode, 130)

    def test_control_c_withdraws_the_request(self):
        client = self.attach()
        self.waits(client)
        self.is_interrupted(client)
        self.write("x")
        self.assertEqual(self.process.stdout.readline(), "b'x'\n")
        self.program_ends_well("yz")

    def test_an_interruption_that_waits_is_withdrawn(self):
        client = self.attach()
        self.waits(client)
        self.write("x")
        client.stdin.write("c\n")
        client.stdin.flush()
        self.assertEqual(self.process.stdout.readline(), "b'x'\n")
        self.reads()
        client.send_signal(signal.SIGINT)
        self.waits(client)
        self.is_interrupted(client)
        self.program_ends_well("yz")

    def test_the_request_of_another_debugger_stays(self):
        client = self.attach()
        self.waits(client)
        second = self.attach()
        _, errors = second.communicate(timeout=90)
        self.assertIn("has not yet run the script", errors)
        self.assertEqual(second.returncode, 1)
        self.write("x")
        output, errors = client.communicate("p 'here'\nq\n", timeout=90)
        self.assertEqual((client.returncode, errors), (0, ""))
        self.assertIn("'here'", output)
        self.assertEqual(self.process.stdout.readline(), "b'x'\n")
        self.program_ends_well("yz")

    def test_a_debugger_that_is_killed(self):
        client = self.attach()
        self.waits(client)
        client.kill()
        client.wait()
        self.program_ends_well("xyz")


@needs_remote
class AtAnyTime(AttachCase):
    def test_control_c(self):
        """Before the request, while the program takes it, at the prompt: the program never reports an error."""
        for step in range(30):
            client = self.attach()
            if not step % 3:
                client.stdout.readline()
            else:
                time.sleep(step / 100)
            client.send_signal(signal.SIGINT)
            client.communicate("q\n", timeout=90)
        self.program_ends_well()


@contextlib.contextmanager
def run_in_process():
    """The module, in this process."""
    sys.path.insert(0, PACKAGE)
    try:
        from ferrule_debugger import attach
        yield attach
    finally:
        sys.path.remove(PACKAGE)


class Refused(DebuggerCase):
    def refused(self, *arguments):
        run = subprocess.run([sys.executable, "-m", "ferrule_debugger", *arguments], capture_output=True, text=True, check=False,
                             env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertNotEqual(run.returncode, 0)
        return run.stderr

    @needs_remote
    def test_no_such_process(self):
        self.assertIn("no process 1073741824", self.refused("-p", "1073741824"))

    @needs_remote
    def test_a_process_that_has_ended(self):
        process = subprocess.Popen([sys.executable, "-c", ""])
        self.addCleanup(process.wait)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)     # its parent has not waited for it
        self.assertEqual(self.refused("-p", str(process.pid)), f"ferrule_debugger: process {process.pid} has ended\n")

    @needs_remote
    def test_a_process_that_ends_before_it_runs_the_script(self):
        process = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        process.stdout.readline()
        client = subprocess.Popen([sys.executable, "-m", "ferrule_debugger", "-p", str(process.pid)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": PACKAGE})
        self.addCleanup(client.kill)
        self.assertIn("is in a call of C", client.stdout.readline())
        process.kill()
        self.assertEqual(client.communicate(timeout=90)[1], f"ferrule_debugger: process {process.pid} has ended\n")
        self.assertEqual(client.returncode, 1)

    @unittest.skipIf(os.geteuid(), "only root may become another user")
    @needs_remote
    def test_a_process_of_another_user(self):
        refused = subprocess.run([sys.executable, "-m", "ferrule_debugger", "-p", str(os.getpid())], capture_output=True, text=True, check=False,
                                 env={**os.environ, "PYTHONPATH": PACKAGE}, user=65534)
        self.assertIn("may not be debugged", refused.stderr)
        self.assertEqual(refused.stderr.count("\n"), 1)

    @needs_remote
    def test_what_a_process_leaves_in_the_directory_is_not_opened(self):
        """Where root debugs a process, that owns the directory."""
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as elsewhere:
            victim = os.path.join(elsewhere, "victim")
            with open(victim, "w", encoding="ascii") as file:
                file.write("kept")
            mine = os.path.join(directory, "mine")
            os.mkdir(mine)
            process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.addCleanup(process.communicate)
            with run_in_process() as attach:
                client = attach._Client(process.pid, mine, [])
                os.symlink(victim, os.path.join(mine, "begin.py"))
                with contextlib.suppress(RuntimeError):     # it may not have started Python yet
                    client._execute("begin.py", "begin()")
                self.assertFalse(os.path.islink(os.path.join(mine, "begin.py")))
                os.rename(mine, mine + "2")
                os.symlink(elsewhere, mine)
                with self.assertRaises(FileNotFoundError):
                    client._execute("interrupt.py", "interrupt()")
                client.close()
            self.assertEqual(os.listdir(elsewhere), ["victim"])
            with open(victim, encoding="ascii") as file:
                self.assertEqual(file.read(), "kept")

    @unittest.skipUnless(hasattr(sys, "remote_exec"), "only on Ferrule")
    def test_a_program_to_start(self):
        self.assertIn("-p goes with -c alone", self.refused("-p", "1", "-m", "this"))

    @unittest.skipUnless(LEFT_OUT, "this interpreter was built with remote debugging")
    def test_left_out(self):
        self.assertIn("this interpreter was built without remote debugging", self.refused("-p", str(os.getpid())))

    @unittest.skipIf(hasattr(sys, "remote_exec"), "only on stock")
    def test_stock(self):
        self.assertIn("-p needs sys.remote_exec(), which Ferrule has", self.refused("-p", "1"))


if __name__ == "__main__":
    unittest.main()
