"""--children: breakpoints stop in the Pythons that a program starts."""

import os
import pty
import sys
import tempfile
import unittest

from debugger_support import PACKAGE, DebuggerCase, run_python

CHILD = """
    import subprocess, sys
    def f(n):
        m = n + 1
        return m                        # child
    if n := int(sys.argv[1]):
        subprocess.run([sys.executable, __file__, str(n - 1)], check=True)
    print("child", f(n), flush=True)
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

    def test_a_sitecustomize_of_the_program(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write("print('sitecustomize of', __name__, flush=True)\n")
            said = self.session(f"import os; os.environ['PYTHONPATH'] += ':{directory}'; {self.subprocess()}", "b {child}", "c", "c", "q")
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

    def test_a_child_that_dies_at_the_prompt(self):
        said = self.session(self.subprocess(), "b {child}", "c", "!import os; os._exit(3)", "p 'parent'", "c", "q")
        self.assertIn("status 3\nend\n", said)

    def test_control_c_at_a_childs_prompt(self):
        self.parent = self.program(PARENT.format(self.subprocess()))
        pid, terminal = pty.fork()
        if not pid:
            os.environ.update(PYTHONPATH=PACKAGE, TERM="dumb", INPUTRC=os.devnull, XDG_STATE_HOME=os.devnull)
            os.execv(sys.executable, [sys.executable, "-m", "ferrule_debugger", "--children", self.parent.path])
        said = b""
        point = f"b {self.child.path}:{self.child.line('child')}\r".encode()
        try:
            for end, typed in ((b"(Pdb) ", point), (b"(Pdb) ", b"c\r"), (b"(Pdb) ", b"given up"), (b"given up", b"\x03"),
                               (b"--KeyboardInterrupt--\r\n(Pdb) ", b"p ('child', m)\r"), (b"(Pdb) ", b"c\r"), (b"(Pdb) ", b"q\r")):
                while not said.endswith(end):
                    said += os.read(terminal, 1000)
                os.write(terminal, typed)
                said += b"|"
            while True:
                said += os.read(terminal, 1000)
        except OSError:     # its end
            pass
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0, said)
        self.assertIn(b"('child', 1)\r\n(Pdb) ", said)
        self.assertIn(b"status 0", said)

    def test_children_beside_each_other(self):
        body = f"ps = [subprocess.Popen([sys.executable, {self.child.path!r}, '0']) for _ in range(3)]; print([p.wait() for p in ps])"
        said = self.session(body, "b {child}", "c", *["p ('child', m)", "c"] * 3, "q")
        self.assertEqual((said.count("('child', 1)"), said.count("child 1\n")), (3, 3))
        self.assertIn("[0, 0, 0]\nend", said)

    def test_isolated_children_are_left_alone(self):
        body = f"subprocess.run([sys.executable, '-I', {self.child.path!r}, '0'])"
        self.assertNotIn("[process", self.session(body, "b {child}", "c", "q"))

    def test_with_a_process_that_runs(self):
        self.assertIn("-p goes with -c alone", run_python(["-m", "ferrule_debugger", "--children", "-p", str(os.getpid())]))
        self.assertIn("--children", run_python(["-m", "ferrule_debugger", "-h"]))


if __name__ == "__main__":
    unittest.main()
