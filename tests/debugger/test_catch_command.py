"""The command `catch`, typed into the prompt."""

import bdb
import io
import threading
import unittest

from debugger_support import DebuggerCase, ferrule_debugger, pdb_session, run_python


class Prompt(DebuggerCase):
    """The command, in sessions of both kinds."""

    TEXT = """
        import sys, threading

        class Mine(ValueError):
            pass

        def deep(n):
            if n:
                return deep(n - 1)
            raise Mine("deep")

        def work():
            for n in range(2):
                try:
                    deep(n)
                except Mine:
                    pass
            return "done"

        def thread():
            worker = threading.Thread(target=deep, args=(1,), name="worker")
            worker.start()
            worker.join()

        def leaves():
            deep(1)
    """

    def type(self, function, *commands):
        return pdb_session(self.names[function], *commands)

    def run_script(self, text, typed, *arguments):
        return run_python([*(arguments or ["-m", "ferrule_debugger"]), self.program(text).path], typed)

    def test_list_and_clear(self):
        said = self.type("work", "catch", "catch raised Mine, n == 0", "catch uncaught", "b deep", "catch", "b",
                         "disable 2", "catch", "clear 1", "catch", "clear 2 3", "catch", "c")
        self.assertIn("Catch 1: raised program.Mine\n(Pdb) Catch 2: uncaught exceptions\n", said)
        header = "Num Type         Disp Enb   Where\n"
        first = "1   catch        keep yes   raised program.Mine\n\tstop only if n == 0\n"
        self.assertIn(f"(Pdb) {header}{first}2   catch        keep yes   uncaught exceptions\n(Pdb) ", said)
        self.assertIn(f"(Pdb) {header}{first}2   catch        keep yes   uncaught exceptions\n3   breakpoint   keep yes   at ", said)
        self.assertIn("2   catch        keep no    uncaught exceptions\n(Pdb) Deleted catch 1 of raised program.Mine\n", said)
        self.assertTrue(said.endswith("(Pdb) (Pdb) "), said)

    def test_errors(self):
        for typed, answer in (
            ("catch thrown", "*** Invalid argument: thrown"),
            ("catch raised,", "*** Invalid argument: raised,"),
            ("catch raised Mine, 1 +", "*** Invalid condition 1 +: SyntaxError: invalid syntax"),
            ("catch raised int", "*** int is not a class of exceptions"),
            ("catch raised deep(1)", "*** deep(1) is not a name"),
        ):
            said = self.type("work", typed, "catch", "c")
            self.assertIn(answer + "\n", said)
            self.assertNotIn("Catch", said)

    def test_help(self):
        said = self.type("work", "help catch", "help", "c")
        self.assertIn("where it is about to leave the program or a thread", said)
        self.assertIn(" catch ", said)

    def test_a_stop(self):
        said = self.type("work", "catch raised ValueError, $_exception.args[0] == 'deep'", "c", "p n, $_exception", "up",
                         "p n", "catch", "c", "p n", "p 1/0", "c")
        self.assertIn("(Pdb) program.Mine: deep\n> ", said)
        self.assertIn("(Pdb) (0, Mine('deep'))\n", said)
        self.assertIn("stop only if _exception.args[0] == 'deep'\n\tbreakpoint already hit 1 time\n", said)
        # The prompt's own exception does not stop.
        self.assertEqual(said.count("program.Mine: deep\n"), 2)
        self.assertIn("*** ZeroDivisionError: division by zero\n(Pdb) ", said)

    def test_a_condition_that_raises(self):
        said = self.type("work", "catch raised Mine, nothing", "c", "clear 1", "c")
        self.assertIn("*** The condition of catch 1 has raised NameError: name 'nothing' is not defined\n", said)
        self.assertEqual(said.count("program.Mine: deep\n"), 1)

    def test_commands(self):
        said = self.type("work", "catch raised Mine", "commands 1", "silent", "p ('seen', n)", "c", "end", "c")
        self.assertEqual(said.count("('seen', 0)\n"), 2)
        bdb.Breakpoint.clearBreakpoints()
        hook, threading.excepthook = threading.excepthook, lambda problem: None
        self.addCleanup(setattr, threading, "excepthook", hook)
        said = self.type("thread", "catch uncaught Mine", "commands 1", "silent", "p ('seen', n)", "c", "end", "c")
        self.assertEqual(said.count("('seen', 0)\n"), 1)
        self.assertNotIn("Uncaught", said)

    def test_library_frames_are_below(self):
        program = self.program("""
            import json

            def load():
                try:
                    json.loads("?")     # loads
                except ValueError:
                    return None
        """)
        for function in (program.load()["load"], self.in_thread(program.load()["load"])):
            said = pdb_session(function, "catch raised ValueError", "c", "down", "c")
            self.assertIn(f"(Pdb) json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
                          f"{self.switch(said)}> {program.path}({program.line('loads')})load()\n", said)
            self.assertRegex(said, r"\(Pdb\) > .*json.__init__.py\(\d+\)loads\(\)\n")
            bdb.Breakpoint.clearBreakpoints()

    @staticmethod
    def in_thread(function):
        def run():
            thread = threading.Thread(target=function, name="other")
            thread.start()
            thread.join()
        return run

    @staticmethod
    def switch(said):
        return "[other]\n" if "[other]\n" in said else ""

    def test_uncaught_in_a_thread(self):
        hook, threading.excepthook = threading.excepthook, lambda problem: None
        self.addCleanup(setattr, threading, "excepthook", hook)
        said = self.type("thread", "catch uncaught Mine", "c", "p n", "up", "p n", "exceptions", "step")
        self.assertRegex(said, r"\(Pdb\) Uncaught: program.Mine: deep\n\[worker\]\n> .*deep\(\)\n")
        self.assertIn("(Pdb) 0\n", said)
        self.assertIn("(Pdb) 1\n", said)
        self.assertIn("(Pdb) >   0 Mine('deep')\n(Pdb) ", said)

    def test_uncaught_without_a_traceback(self):
        def function():
            try:
                self.names["deep"](0)
            except ValueError as error:
                error.__traceback__ = None
                raise

        out = io.StringIO()
        debugger = ferrule_debugger.Pdb(stdin=io.StringIO("catch uncaught\nc\np 'here', error\nc\n"), stdout=out,
                                        nosigint=True, readrc=False)
        with self.assertRaises(ValueError):
            debugger.runcall(function)
        self.assertIn("(Pdb) Uncaught: program.Mine: deep\n> ", out.getvalue())
        self.assertNotIn("AssertionError", out.getvalue())

    def test_debug_and_post_mortem(self):
        def function():
            try:
                self.names["deep"](0)
            except ValueError as error:
                inner = ferrule_debugger.Pdb(stdin=io.StringIO("p 1/0\np int('?')\nq\n"), stdout=out,
                                             nosigint=True, readrc=False)
                inner.reset()
                inner.interaction(None, error)

        out = io.StringIO()
        said = pdb_session(function, "catch raised Mine", "catch raised ArithmeticError", "catch raised ValueError", "c", "c")
        self.assertEqual(said.count("program.Mine: deep\n"), 1)
        self.assertNotIn("ZeroDivisionError", said)
        self.assertNotIn("invalid literal", said)
        self.assertIn("*** ZeroDivisionError", out.getvalue())
        bdb.Breakpoint.clearBreakpoints()
        said = self.type("work", "catch raised Mine", "debug deep(1)", "c", "p 'inner', n", "c", "clear 1", "c")
        self.assertIn("((Pdb)) ('inner', 0)\n", said)

    def test_a_restart_keeps_them(self):
        said = self.run_script("""
            class Mine(Exception):
                pass
            try:
                raise Mine("now")
            except Mine:
                print("handled")
        """, "catch raised Mine\ncatch raised there.Is, True\nc\nrun\nc\nclear 1\nc\nq\n")
        self.assertIn("Catch 1 is pending: there is no Mine yet.", said)
        self.assertEqual(said.count("Mine: now\n> "), 2)
        self.assertEqual(said.count("handled\n"), 1)

    def test_a_class_is_found_again_after_a_restart(self):
        said = self.run_script("""
            class Mine(Exception):
                pass
            ready = 1
            try:
                raise Mine("now")
            except Mine:
                print("handled")
        """, "until 4\ncatch raised Mine\nc\nrun\nc\nc\nq\n")
        self.assertNotIn("pending", said)
        self.assertEqual(said.count("Mine: now\n> "), 2)

    def test_post_mortem_of_the_program(self):
        """It follows in any case, and is the only stop."""
        said = self.run_script("1 / 0\n", "catch uncaught\nc\np 'here'\nq\n")
        self.assertIn("Entering post mortem debugging", said)
        self.assertNotIn("Uncaught: ", said)
        self.assertIn("(Pdb) 'here'\n", said)
        said = self.run_script("import sys\nsys.exit(3)\n", "catch uncaught SystemExit\nc\np 'here'\nc\nq\n")
        self.assertIn("(Pdb) Uncaught: SystemExit: 3\n", said)
        self.assertIn("(Pdb) 'here'\n", said)

    def test_breakpoint_in_a_program(self):
        text = """
            import ferrule_debugger
            ferrule_debugger.install()
            breakpoint()
            value = 5
            breakpoint()
            value = 6
            def leaves(n):
                assert n
            leaves(0)
        """
        said = self.run_script(text, "catch uncaught\nc\nc\np value, n\nc\n", "-u")
        self.assertIn("(Pdb) Uncaught: AssertionError\n> ", said)
        self.assertIn("(Pdb) (6, 0)\n", said)
        self.assertTrue(said.endswith("AssertionError\n"), said)
        said = self.run_script(text, "catch uncaught\nc\nc\np value, n\nq\n", "-u")
        self.assertIn("(Pdb) (6, 0)\n", said)

    def test_recursion_to_the_limit(self):
        said = self.run_script("""
            def endless(n):
                return endless(n + 1)
            try:
                endless(0)
            except RecursionError as error:
                print("handled", error)
        """, "catch raised RecursionError\nc\np n > 500\nc\nq\n")
        self.assertEqual(said.count("RecursionError: maximum recursion depth exceeded\n> "), 1)
        self.assertIn("(Pdb) True\n", said)
        self.assertIn("handled maximum recursion depth exceeded\n", said)


if __name__ == "__main__":
    unittest.main()
