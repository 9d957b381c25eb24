"""--children: breakpoints stop in the Pythons that a program starts."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from debugger_support import PACKAGE, DebuggerCase, run_python

CHILD = """
    import subprocess, sys
    def f(n):
        m = n + 1
        return m                        # child
    if n := int(sys.argv[1]):
        subprocess.run([sys.executable, __file__, str(n - 1)], check=True)
    # In one piece, also where output is not buffered: several children may print.
    sys.stdout.write(f"child {f(n)}\\n")
    sys.stdout.flush()
"""
PARENT = """
    import multiprocessing, subprocess, sys
    def work(n):
        y = n * 2
        return y                        # work
    if __name__ == "__main__":
        {}
        print("end")                    # end
"""
STARTS = "p = multiprocessing.get_context({!r}).Process(target=work, args=(5,)); p.start(); p.join(); print('status', p.exitcode)"
# The tracker has connected, and sends its first message when the debugger's atexit callbacks have been called.
LATE = """
import os, socket, sys, time
send = socket.socket.sendall
def late(*arguments):
    while os.path.exists(os.environ["FERRULE_DEBUGGER_CHILDREN"]):
        time.sleep(0.01)
    time.sleep(0.5)
    send(*arguments)
if any("resource_tracker" in argument for argument in sys.orig_argv):
    socket.socket.sendall = late
"""


class Follows(DebuggerCase):
    def setUp(self):
        super().setUp()
        self.child = self.program(CHILD)

    def session(self, body, *commands, options=("--children",), **environment):
        self.parent = self.program(PARENT.format(body))
        lines = {"child": f"{self.child.path}:{self.child.line('child')}", "work": self.parent.line("work"), "end": self.parent.line("end")}
        return run_python(["-m", "ferrule_debugger", *options, self.parent.path], "\n".join(commands).format(**lines) + "\n", timeout=90, **environment)

    def subprocess(self, n=0):
        return f"print('status', subprocess.run([sys.executable, {self.child.path!r}, {str(n)!r}], stdin=subprocess.DEVNULL).returncode)"

    def test_subprocess(self):
        said = self.session(self.subprocess(1), "b {child}", "b {end}", "c", "p ('grandchild', n, m)", "w",
                            "c", "p ('child', n, m)", "n", "c", "p 'parent'", "c", "q")
        order = [said.index(text) for text in ("[process ", "('grandchild', 0, 1)", "child 1", "('child', 1, 2)", "--Return--", "child 2",
                                               "status 0", "[MainThread]", "'parent'")]
        self.assertEqual(order, sorted(order))

    def test_multiprocessing(self):
        for method in ("spawn", "forkserver", "fork"):
            with self.subTest(method):
                said = self.session(STARTS.format(method), "b {work}", "c", "p ('child', y)", "c", "q")
                self.assertIn("('child', 10)", said)
                self.assertIn("status 0\nend\n", said)

    def test_without_the_option(self):
        said = self.session(self.subprocess(), "b {child}", "c", "q", options=())
        self.assertNotIn("[process", said)
        self.assertIn("child 1\nstatus 0", said)

    def test_quit_and_the_end_of_the_input_let_the_child_go_on(self):
        for commands in (("q", "c", "q"), ()):
            with self.subTest(commands):
                said = self.session(self.subprocess(1), "b {child}", "c", *commands)
                self.assertIn("child 1\n", said)
                self.assertIn("status 0\n", said)
                self.assertNotIn("Traceback", said)

    def test_all_kinds_of_breakpoints(self):
        said = self.session(self.subprocess(1), "b {child}, n == 1", 'log {child} "log {{n}}"', "catch raised ZeroDivisionError", "b {work}", "disable 4", "c",
                            "b", "!1 / 0", "c", "q")
        self.assertIn("log 0\n", said)
        self.assertEqual(said.count("[process"), 1)
        self.assertIn("stop only if n == 1", said)
        self.assertIn("raised builtins.ZeroDivisionError", said)
        self.assertRegex(said, r"4   breakpoint   keep no ")
        self.assertIn("ZeroDivisionError: division by zero", said)

    def test_breakpoint_function(self):
        child = self.program("def f():\n    x = 17\n    breakpoint()\n    return x\nprint('child', f())\n")
        said = self.session(f"subprocess.run([sys.executable, {child.path!r}], stdin=subprocess.DEVNULL)", "c", "p ('x', x)", "c", "q")
        self.assertIn("('x', 17)", said)
        self.assertIn("child 17", said)

    def with_sitecustomize(self, text):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            return self.session(f"import os; os.environ['PYTHONPATH'] += ':{directory}'; {self.subprocess()}", "b {child}", "c", "c", "q")

    def test_a_sitecustomize_of_the_program(self):
        said = self.with_sitecustomize("print('sitecustomize of', __name__, flush=True)")
        self.assertIn("sitecustomize of sitecustomize\n", said)
        self.assertIn("[process", said)

    def test_nothing_is_left(self):
        with tempfile.TemporaryDirectory() as directory:
            self.session(self.subprocess(), "b {child}", "c", "c", "q", TMPDIR=directory)
            self.assertEqual(os.listdir(directory), [])

    def test_a_child_that_outlives_the_debugger(self):
        body = f"p = subprocess.Popen([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)"
        said = self.session(body + "; p.stdin.close()", "b {end}", "c", "q")
        self.assertNotIn("Traceback", said)

    def test_a_child_that_connects_while_the_debugger_ends(self):
        # multiprocessing waits for its resource tracker where the interpreter is finalized.
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write(LATE)
            said = self.session(STARTS.format("spawn"), "c", "q", PYTHONPATH=os.pathsep.join((PACKAGE, directory)))
        self.assertIn("status 0\nend\n", said)
        self.assertNotIn("Traceback", said)

    def test_a_child_that_dies_at_the_prompt(self):
        said = self.session(self.subprocess(), "b {child}", "c", "!import os; os._exit(3)", "p 'parent'", "c", "q")
        self.assertIn("status 3\nend\n", said)

    def typed_on_a_terminal(self, *steps):
        """What a terminal shows: each step is what to wait for, and what is typed then, or a function that makes it of what was shown."""
        pid, terminal = pty.fork()
        if not pid:
            os.environ.update(PYTHONPATH=PACKAGE, TERM="dumb", INPUTRC=os.devnull, XDG_STATE_HOME=os.devnull)
            os.execv(sys.executable, [sys.executable, "-m", "ferrule_debugger", "--children", self.parent.path])
        said = b""
        try:
            for end, typed in steps:
                while not said.endswith(end):
                    said += os.read(terminal, 1000)
                os.write(terminal, typed(said) if callable(typed) else typed)
                said += b"|"
            while True:
                said += os.read(terminal, 1000)
        except OSError:     # its end
            pass
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0, said)
        return said

    def test_a_child_that_is_killed_at_its_prompt(self):
        def kill(said):
            child = int(re.findall(rb"\[process (\d+)\]", said)[-1])
            os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                while True:         # until its parent has waited for it
                    os.kill(child, 0)
                    time.sleep(0.01)
            return b"p ('not', 'executed')\r"

        self.parent = self.program(PARENT.format(self.subprocess()))
        prompt = b"(Pdb) "
        said = self.typed_on_a_terminal((prompt, f"b {self.child.path}:{self.child.line('child')}\r".encode()), (prompt, b"c\r"), (prompt, kill),
                                        (prompt, b"q\r"))
        self.assertRegex(said, rb"\*\*\* Process \d+ has ended and has not executed: p \('not', 'executed'\)\r\n")
        self.assertIn(b"status -9", said)

    def control_c(self, body, run):
        self.parent = self.program(PARENT.format(body))
        prompt = b"(Pdb) "
        point = f"b {self.child.path}:{self.child.line('child')}\r".encode()
        return self.typed_on_a_terminal(
            (prompt, point), *((prompt, typed + b"\r") for typed in run), (prompt, b"given up"), (b"given up", b"\x03"),
            (b"--KeyboardInterrupt--\r\n(Pdb) ", b"p ('child', m)\r"), (prompt, b"c\r"), (prompt, b"q\r"))

    def test_control_c_at_a_childs_prompt(self):
        said = self.control_c(self.subprocess(), [b"c"])
        self.assertIn(b"('child', 1)\r\n(Pdb) ", said)
        self.assertIn(b"status 0", said)

    def test_control_c_at_the_prompt_of_a_child_that_an_expression_has_started(self):
        run = f"p subprocess.run([sys.executable, {self.child.path!r}, '0']).returncode + 70"
        said = self.control_c("pass", [b"n", run.encode()])
        self.assertIn(b"('child', 1)\r\n(Pdb) ", said)
        self.assertIn(b"70\r\n(Pdb) ", said)

    def test_children_beside_each_other(self):
        body = f"ps = [subprocess.Popen([sys.executable, {self.child.path!r}, '0']) for _ in range(3)]; print([p.wait() for p in ps])"
        said = self.session(body, "b {child}", "c", *["p ('child', m)", "c"] * 3, "q")
        self.assertEqual((said.count("('child', 1)"), said.count("child 1\n")), (3, 3))
        self.assertIn("[0, 0, 0]\nend", said)

    def test_children_that_are_started_at_the_prompt(self):
        # One child waits for the prompt meanwhile.
        body = f"p = subprocess.Popen([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL); breakpoint(); p.wait()"
        said = self.session(body, "b {child}", "c", "!import time; time.sleep(1)", "p subprocess.run([sys.executable, '-c', ''], timeout=20).returncode + 70",
                            "c", "p ('child', m)", "c", "q")
        self.assertIn("(Pdb) 70\n", said)
        self.assertIn("('child', 1)", said)

    def test_an_expression_that_waits_for_its_children(self):
        run = f"subprocess.run([sys.executable, {self.child.path!r}, '1'], stdin=subprocess.DEVNULL).returncode + 70"
        stops = "p ('grandchild', m)", "c", "p ('child', m)", "c"
        for typed, after in ((f"p {run}", "70\n"), (f"!value = {run}", ""), (f"!(lambda: print({run}))()", "70\n"), (f"display {run}", "display "),
                             (f"whatis {run}", "<class 'int'>"), (f"debug {run}", "ENTERING")):
            with self.subTest(typed):
                last = ("c",) if typed.startswith("debug") else ()
                commands = (typed, *last, *stops) if last else (typed, *stops)
                said = self.session("pass", "b {child}", "b {end}", "c", *commands, "p 'parent'", "undisplay", "c", "q")
                order = [said.index(text) for text in ("('grandchild', 1)", "child 1\n", "('child', 2)", "child 2\n", "'parent'")]
                self.assertEqual(order, sorted(order))
                self.assertIn(after, said)

    def test_multiprocessing_at_the_prompt(self):
        for method in ("spawn", "forkserver"):
            with self.subTest(method):
                said = self.session("pass", "b {work}", "b {end}", "c", "!" + STARTS.format(method), "p ('child', y)", "c", "p 'parent'", "c", "q")
                order = [said.index(text) for text in ("[process ", "('child', 10)", "status 0\n", "'parent'")]
                self.assertEqual(order, sorted(order))
        # As the expression itself.
        said = self.session("pass", "b {work}", "b {end}", "c", "!" + STARTS.format("fork"), "p 'parent'", "c", "q")
        self.assertIn("status 0\n", said)
        self.assertNotIn("[process ", said)
        start = "(p := multiprocessing.get_context('fork').Process(target=work, args=(5,)), p.start(), p.join())"
        said = self.session("pass", "b {work}", "b {end}", "c", "debug " + start, "c", "p ('child', y)", "c", "p 'parent'", "q")
        self.assertIn("('child', 10)", said)

    def test_a_child_that_no_expression_waits_for(self):
        # It has the prompt while the next one is evaluated, and before the prompt that follows.
        popen = f"!p = subprocess.Popen([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL)"
        said = self.session("pass", "b {child}", "b {end}", "c", popen, "!p.wait()", "p ('child', m)", "c", "p 'parent'", "c", "q")
        order = [said.index(text) for text in ("[process ", "('child', 1)", "child 1\n", "'parent'")]
        self.assertEqual(order, sorted(order))

    def test_children_of_the_program_wait_while_an_expression_is_evaluated(self):
        body = f"p = subprocess.Popen([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL); breakpoint(); p.wait()"
        run = f"p subprocess.run([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL).returncode + 70"
        said = self.session(body, "b {child}", "c", "!import time; time.sleep(1)", run, "p ('child of the prompt', m)", "c", "p 'parent'", "c",
                            "p ('child of the program', m)", "c", "q")
        order = [said.index(text) for text in ("('child of the prompt', 1)", "70\n", "'parent'", "('child of the program', 1)")]
        self.assertEqual(order, sorted(order))

    def test_a_child_that_was_killed_while_it_waited(self):
        body = f"p = subprocess.Popen([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL); breakpoint(); p.wait()"
        said = self.session(body, "b {child}", "b {end}", "c", "!import time; time.sleep(1)", "!p.kill()", "!p.wait()", "c", "p 'parent'", "q")
        self.assertIn("'parent'", said)
        self.assertNotIn("[process", said)

    def test_post_mortem(self):
        # A child of the program waits there too.
        body = f"p = subprocess.Popen([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL); breakpoint(); 1 / 0"
        said = self.session(body, "b {child}", "c", "c", "!import time; time.sleep(1)", "p ('parent', p.pid > 0)", "q")
        self.assertIn("Entering post mortem debugging", said)
        self.assertIn("('parent', True)", said)

    def test_a_forked_child_does_not_step(self):
        # Also where it cannot connect, as when the debugger ends meanwhile.
        for first in ("", "os.environ.pop('FERRULE_DEBUGGER_CHILDREN'); "):
            with self.subTest(first):
                body = f"import os; {first}pid = os.fork()\n        pid or os._exit(0)"
                said = self.session(body, "b 7", "c", "n", "p ('parent', pid > 0)", "c", "q")
                self.assertIn("('parent', True)", said)
                self.assertEqual(said.count("\n-> "), 4)     # at the beginning, twice in the parent, at the restart

    def test_a_forked_child_keeps_no_connection(self):
        # The debugger is killed while one child has the prompt, and a forked one lives on.
        body = f"""import os, signal, time
        parent = os.getpid()
        if not os.fork():
            subprocess.run([sys.executable, {self.child.path!r}, '0'], stdin=subprocess.DEVNULL)
            os._exit(0)
        time.sleep(1)
        if not os.fork():
            time.sleep(1)
            os.kill(parent, signal.SIGKILL)
            time.sleep(20)
            os._exit(0)
        time.sleep(60)"""
        parent = self.program(PARENT.format(body))
        arguments = ["--children", "-c", f"b {self.child.path}:{self.child.line('child')}", "-c", "c", parent.path]
        with subprocess.Popen([sys.executable, "-m", "ferrule_debugger", *arguments], env={**os.environ, "PYTHONPATH": PACKAGE},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            said = b""
            try:
                while b"child 1" not in said:
                    self.assertTrue(select.select([process.stdout], [], [], 15)[0], said)
                    said += os.read(process.stdout.fileno(), 1000)
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    def test_messages_that_are_none(self):
        body = """import os, socket
        for data in (b"", b"5", b"[]", b'{{"text": 1}}', b"[" * 100_000, b'{{"pid": 1}}\\n5', b'{{"pid": 1}}\\n{{"text": 5, "prompt": 6}}'):
            one = socket.socket(socket.AF_UNIX)
            one.connect(os.environ["FERRULE_DEBUGGER_CHILDREN"])
            one.sendall(data + b"\\n")
            one.close()
        """
        said = self.session(body.replace("{{", "{").replace("}}", "}").replace("\\\\", "\\") + self.subprocess(), "b {child}", "c", "p ('child', m)", "c", "q")
        self.assertIn("('child', 1)", said)
        self.assertIn("(Pdb) [process ", said)
        self.assertIn("status 0", said)

    def test_the_path_of_children(self):
        child = self.program("import sys; print(sys.path[1:])")
        body = f"subprocess.run([sys.executable, {child.path!r}], stdin=subprocess.DEVNULL)"
        path = os.pathsep.join([PACKAGE, "/other"])
        said = [self.session(body, "c", "q", options=options, PYTHONPATH=path) for options in ((), ("--children",))]
        self.assertIn(f"['{PACKAGE}', '/other'", said[0])
        self.assertEqual(*(re.search(r"\[.*\]", each)[0] for each in said))

    def test_a_sitecustomize_that_raises(self):
        said = self.with_sitecustomize("1 / 0")
        self.assertIn("Error in sitecustomize", said)
        self.assertIn("[process", said)

    def test_breakpoint_that_is_something_else(self):
        child = self.program("breakpoint()\nprint('child ended')\n")
        body = f"import os; os.environ['PYTHONBREAKPOINT'] = '0'; subprocess.run([sys.executable, {child.path!r}], stdin=subprocess.DEVNULL)"
        self.assertNotIn("[process", self.session(body, "c", "c", "q"))

    def test_directories_in_which_it_cannot_be(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("a:b", 100 * "x"):
                with self.subTest(name):
                    os.mkdir(path := os.path.join(directory, name))
                    said = self.session(self.subprocess(), "c", "q", TMPDIR=path)
                    self.assertIn("error: --children", said)
                    self.assertEqual(os.listdir(path), [])

    def test_nothing_is_left_where_threads_wait_for_ever(self):
        with tempfile.TemporaryDirectory() as directory:
            self.session("import threading; threading.Thread(target=threading.Event().wait).start()", "b {end}", "c", "q", TMPDIR=directory)
            self.assertEqual(os.listdir(directory), [])

    def test_a_breakpoint_in_what_the_debugger_uses(self):
        body = "import json; json.loads('1'); " + self.subprocess()
        said = self.session(body, "b {child}", "b json.loads", "c", "p 'parent'", "c", "p ('child', m)", "c", "q")
        self.assertIn("'parent'", said)
        self.assertIn("('child', 1)", said)

    def test_threads_wait(self):
        said = self.session(self.subprocess(), "b 7", "c", "threads wait", "n", "p 'next'", "c", "q")
        self.assertIn("child 1\nstatus 0", said)
        self.assertIn("'next'", said)

    def test_a_daemon_that_closes_all_files(self):
        with tempfile.TemporaryDirectory() as directory:
            body = f"""import os
        if pid := os.fork():
            os.waitpid(pid, 0)
        else:
            os.closerange(3, 100)
            files = [open(os.path.join({directory!r}, str(n)), "w+") for n in range(20)]
            work(1)
            print("daemon", {{file.read() for file in files}}, flush=True)
            os._exit(0)"""
            said = self.session(body, "b {work}", "c", "c", "q")
        self.assertIn("daemon {''}", said)

    def test_isolated_children_are_left_alone(self):
        body = f"subprocess.run([sys.executable, '-I', {self.child.path!r}, '0'])"
        self.assertNotIn("[process", self.session(body, "b {child}", "c", "q"))

    def test_with_a_process_that_runs(self):
        self.assertIn("-p goes with -c alone", run_python(["-m", "ferrule_debugger", "--children", "-p", str(os.getpid())]))
        self.assertIn("--children", run_python(["-m", "ferrule_debugger", "-h"]))


if __name__ == "__main__":
    unittest.main()
