"""python -m ferrule_debugger, breakpoint(), the module's functions, and a terminal."""

import io
import os
import pdb
import select
import signal
import sys
import unittest
from unittest import mock

from debugger_support import PACKAGE, DebuggerCase, ferrule_debugger, has_hooks, run_python

try:
    import pty
except ImportError:
    pty = None


class CommandLine(DebuggerCase):
    SCRIPT = """
        import sys

        def work(n):
            total = n * 2           # total
            return total            # result

        for n in range(3):
            print("worked", work(n), sys.argv[1:])
    """

    def setUp(self):
        super().setUp()
        self.source = self.program(self.SCRIPT)

    def test_a_script(self):
        said = run_python(
            ["-m", "ferrule_debugger", self.source.path, "argument"],
            "tbreak work\ncontinue\np n\nnext\nreturn\ncontinue\nquit\n",
        )
        self.assertIn("(Pdb) 0\n", said)
        self.assertIn(f"({self.source.line('result')})work()->0", said)
        self.assertIn("worked 4 ['argument']", said)

    def test_commands_in_the_command_line(self):
        said = run_python(
            [
                "-m",
                "ferrule_debugger",
                "-c",
                "break work, n == 2",
                "-c",
                "continue",
                self.source.path,
            ],
            "p ('n', n)\nquit\n",
        )
        self.assertIn("('n', 2)", said)

    def test_breakpoint_by_the_environment(self):
        source = self.program("""
            def work(n):
                breakpoint()
                return n            # after

            print(work(1), type(__import__("sys").gettrace()))
        """)
        said = run_python(
            [source.path],
            "p type(self)\nbreak 4\ncontinue\np n + 40\ncontinue\n",
            PYTHONBREAKPOINT="ferrule_debugger.set_trace",
        )
        self.assertIn("(Pdb) 41\n", said)
        self.assertIn("1 <class 'NoneType'>", said)

    def test_breakpoint_after_install(self):
        source = self.program("""
            import ferrule_debugger, pdb
            ferrule_debugger.install()
            breakpoint()
            print("kind", pdb.Pdb is ferrule_debugger.Pdb)
            ferrule_debugger.uninstall()
            print("kind", pdb.Pdb is ferrule_debugger.Pdb)
        """)
        said = run_python([source.path], "continue\n")
        self.assertIn("kind True\nkind False", said)

    def test_post_mortem(self):
        source = self.program("""
            def fails(n):
                raise ValueError(n)     # raises

            fails(6)
        """)
        said = run_python(
            ["-m", "ferrule_debugger", "-c", "continue", source.path], "p n * 7\nquit\n"
        )
        self.assertIn("Uncaught exception. Entering post mortem debugging", said)
        self.assertIn("(Pdb) 42\n", said)

    def test_says_what_is_missing(self):
        said = run_python(["-m", "ferrule_debugger", self.source.path], "continue\nquit\n")
        self.assertEqual("needs an interpreter that has frame hooks" in said, not has_hooks)
        self.assertIn("worked 4", said)

    def test_thread_is_named(self):
        source = self.program("""
            import threading

            def work():
                return 1        # work

            thread = threading.Thread(target=work, name="worker thread")
            thread.start()
            thread.join()
        """)
        said = run_python(
            ["-m", "ferrule_debugger", source.path], "break work\ncontinue\ncontinue\nquit\n"
        )
        self.assertIn("[worker thread]", said)

    def test_help(self):
        for arguments in (["--help"], ["-h"], ["-c", "continue", "--help"], []):
            with self.subTest(arguments):
                said = run_python(["-m", "ferrule_debugger", *arguments])
                self.assertTrue(said.startswith("usage: python -m ferrule_debugger [-h]"), said)
                self.assertIn("without its price", said)

    def test_wrong_arguments(self):
        for arguments, problem in ((["--nonsense", self.source.path], "unrecognized arguments: --nonsense"),
                                   (["-c", "continue"], "no module or script to run"),
                                   (["-c"], "expected one argument"), (["-m"], "expected one argument")):
            with self.subTest(arguments):
                said = run_python(["-m", "ferrule_debugger", *arguments])
                self.assertIn("python -m ferrule_debugger: error: ", said)
                self.assertIn(problem, said)

    def test_arguments_of_the_program_are_its_own(self):
        said = run_python(["-m", "ferrule_debugger", "-cc", self.source.path, "--help", "-c", "-m"],
                          "run -x y\nc\nq\n")
        self.assertIn("worked 4 ['--help', '-c', '-m']", said)
        self.assertIn("worked 4 ['-x', 'y']", said)
        said = run_python(["-m", "ferrule_debugger", "-c", "c", "-m", "this", "-h"], "q\n")
        self.assertIn("The Zen of Python", said)


class Functions(DebuggerCase):
    """import ferrule_debugger as pdb."""

    TEXT = """
        def double(n):
            return n * 2        # double

        def fails(n):
            raise ValueError(n)
    """

    def typed(self, *commands):
        """Have these commands typed into standard input; a file with what is printed."""
        printed = io.StringIO()
        for name, file in (("stdin", io.StringIO("\n".join(commands) + "\n")), ("stdout", printed)):
            patch = mock.patch.object(sys, name, file)
            patch.start()
            self.addCleanup(patch.stop)
        return printed

    def test_all_of_pdbs_are_there(self):
        for name in pdb.__all__:
            self.assertIn(name, ferrule_debugger.__all__)
            self.assertTrue(hasattr(ferrule_debugger, name), name)

    def test_runcall_and_runeval(self):
        printed = self.typed("s", "p 'n is', n", "c", "s", "s", "p 'n is', n", "c")
        self.assertEqual(ferrule_debugger.runcall(self.names["double"], 4), 8)
        self.assertEqual(ferrule_debugger.runeval("double(5)", self.names), 10)
        self.assertIn("('n is', 4)", printed.getvalue())
        self.assertIn("('n is', 5)", printed.getvalue())

    def test_run_and_runctx(self):
        self.typed("c", "c")
        namespace = dict(self.names)
        ferrule_debugger.run("x = double(2)", namespace)
        ferrule_debugger.runctx("y = double(x)", namespace, namespace)
        self.assertEqual((namespace["x"], namespace["y"]), (4, 8))

    def test_post_mortem(self):
        printed = self.typed("p 'n is', n", "q", "p 'n is', n", "q", "p 'n is', n", "q")
        try:
            self.names["fails"](1)
        except ValueError as error:
            ferrule_debugger.post_mortem()
            ferrule_debugger.post_mortem(error.__traceback__)
            with mock.patch.object(sys, "last_exc", error, create=True):
                ferrule_debugger.pm()
        self.assertEqual(printed.getvalue().count("('n is', 1)"), 3)
        for nothing in (None, ValueError()):
            with self.assertRaises(ValueError):
                ferrule_debugger.post_mortem(nothing)


@unittest.skipIf(pty is None, "no pseudoterminals")
class Terminal(DebuggerCase):
    SECONDS = 60

    def session(self, path, *steps):
        """Type each text when the one before it is seen: all that was printed."""
        child, terminal = pty.fork()
        if child == 0:
            os.execve(sys.executable, [sys.executable, "-m", "ferrule_debugger", path],
                      {**os.environ, "PYTHONPATH": PACKAGE, "TERM": "dumb"})
        printed = ""
        try:
            for wait_for, typed in steps:
                begin = len(printed)
                while wait_for not in printed[begin:]:
                    ready, _, _ = select.select([terminal], [], [], self.SECONDS)
                    self.assertTrue(ready, f"{wait_for!r} is not printed: {printed}")
                    printed += os.read(terminal, 4096).decode()
                os.write(terminal, typed.encode())
        finally:
            os.kill(child, signal.SIGKILL)
            os.close(terminal)
            os.waitpid(child, 0)
        return printed

    def test_ctrl_c_at_the_prompt_of_a_thread(self):
        program = self.program("""
            import threading, time
            def work(n):
                x = n           # work
                return x
            thread = threading.Thread(target=work, args=(1,))
            thread.start()
            thread.join()
            print("joined")
        """)
        again = "--KeyboardInterrupt--\r\n(Pdb) "
        self.session(
            program.path,
            ("(Pdb) ", f"b {program.line('work')}\n"),
            ("(Pdb) ", "c\n"),
            ("(Pdb) ", "p 'given up"),
            ("given up", "\x03"),
            (again, "p n + 40\n"),
            ("41\r\n(Pdb) ", "print('be' 'gun'); [time.sleep(0.01) for _ in range(10**6)]\n"),
            ("begun", "\x03"),
            ("KeyboardInterrupt\r\n(Pdb) ", "p n + 41\n"),
            ("42\r\n(Pdb) ", "cl 1\ny\n"),
            ("(Pdb) ", "c\n"),
            ("joined", ""),
        )


if __name__ == "__main__":
    unittest.main()
