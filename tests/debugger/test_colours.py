"""Colours: where CPython has them, of what the debugger prints, and of nothing else."""

import os
import re
import select
import subprocess
import sys
import unittest

from debugger_support import PACKAGE, DebuggerCase, run_python

try:
    import pty
except ImportError:
    pty = None

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = ["b 4", "l", "n", "c", "w", "1 ++ )", "p x", "interact", "exit()", "commands", "end", "ll", "c", "q"]


class Colours(DebuggerCase):
    PROGRAM = """
        def work(n):
            x = n * 2
            return x
        for n in range(2):
            print("worked", work(n))
    """

    def environment(self, **changes):
        theirs = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS", "TERM")}
        return {**theirs, "PYTHONPATH": PACKAGE, "TERM": "xterm", "INPUTRC": "/dev/null", **changes}

    def setUp(self):
        super().setUp()
        self.source = self.program(self.PROGRAM)

    def on_terminal(self, *arguments, **environment):
        """What a session prints on a terminal, without what is typed."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([sys.executable, *(arguments or ("-m", "ferrule_debugger", self.source.path))], stdin=theirs, stdout=theirs,
                                   stderr=theirs, env=self.environment(**environment), start_new_session=True)
        os.close(theirs)
        printed, commands = "", list(COMMANDS)
        try:
            while True:
                self.assertTrue(select.select([ours], [], [], 20)[0], printed)
                try:
                    data = os.read(ours, 4096)
                except OSError:     # the last one that had it open is gone
                    break
                if not data:
                    break
                printed += data.decode()
                plain = re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", printed)
                if commands and re.search(r"(\((Pdb|com)\)|>>>) $", plain):
                    os.write(ours, commands.pop(0).encode() + b"\n")
                    printed += "\0"
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        return re.sub(r"\x1b\[\?2004[hl]\r?", "", printed)

    @unittest.skipIf(pty is None, "no pseudoterminals")
    def test_a_terminal(self):
        printed = self.on_terminal()
        for part in ("\x1b[1;35m(Pdb)\x1b[0m ", f"> \x1b[35m{self.source.path}(2)<module>()\x1b[0m\r\n-> def work", "\x1b[1;31mB\x1b[0m",
                     "\x1b[1;32m->\x1b[0m\t", "\x1b[1;31m***\x1b[0m SyntaxError"):
            self.assertIn(part, printed)
        self.assertNotRegex(printed, "[\1\2]")
        self.assertRegex(printed, "\nworked 0\r\n")

    @unittest.skipIf(pty is None, "no pseudoterminals")
    def test_nothing_else_differs(self):
        coloured = self.on_terminal()
        self.assertEqual(ESCAPES.sub("", coloured), self.on_terminal(NO_COLOR="1"))

    @unittest.skipIf(pty is None, "no pseudoterminals")
    def test_terminals_without(self):
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"PYTHON_COLORS": "0", "FORCE_COLOR": "1"}):
            with self.subTest(environment):
                self.assertNotRegex(self.on_terminal(**environment), ESCAPES)

    def piped(self, **environment):
        run = subprocess.run([sys.executable, "-m", "ferrule_debugger", self.source.path], input="\n".join(COMMANDS) + "\n",
                             capture_output=True, text=True, timeout=90, env=self.environment(**environment))
        return run.stdout

    def test_pipes(self):
        plain = self.piped()
        self.assertNotRegex(plain, ESCAPES)
        for environment in ({"FORCE_COLOR": "1"}, {"PYTHON_COLORS": "1", "NO_COLOR": "1"}):
            with self.subTest(environment):
                coloured = self.piped(**environment)
                self.assertIn("\x1b[1;35m(Pdb)\x1b[0m ", coloured)
                self.assertEqual(ESCAPES.sub("", coloured), plain)
        self.assertNotRegex(self.piped(FORCE_COLOR="1", NO_COLOR="1"), ESCAPES)

    def test_files_have_none(self):
        program = self.program("""
            import io
            import ferrule_debugger
            out = io.StringIO()
            debugger = ferrule_debugger.Pdb(stdin=io.StringIO("w\\nl\\n1 ++ )\\nc\\n"), stdout=out, nosigint=True, readrc=False)
            debugger.set_trace()
            print("(Pdb)" in out.getvalue(), "\\x1b" in out.getvalue(), debugger.prompt)
        """)
        self.assertEqual(run_python([program.path], FORCE_COLOR="1"), "True False (Pdb) \n")

    def test_the_prompt_is_as_it_was_set(self):
        program = self.program("""
            import ferrule_debugger
            debugger = ferrule_debugger.Pdb()
            debugger.prompt = "(mine) "
            debugger.set_trace()
            print(debugger.prompt)
        """)
        said = run_python([program.path], "p debugger.prompt\nc\n", FORCE_COLOR="1")
        self.assertIn("\x1b[1;35m(mine)\x1b[0m ", said)
        self.assertTrue(said.endswith("'(mine) '\n\x1b[1;35m(mine)\x1b[0m (mine) \n"), said)

    def test_a_subclass_that_reads_in_its_own_way(self):
        program = self.program("""
            import ferrule_debugger
            class Own(ferrule_debugger.Pdb):
                def cmdloop(self, intro=None):
                    print(repr(self.prompt))
                    self.onecmd("c")
            Own().set_trace()
            print("end")
        """)
        self.assertEqual(run_python([program.path], FORCE_COLOR="1"), "'(Pdb) '\nend\n")


if __name__ == "__main__":
    unittest.main()
