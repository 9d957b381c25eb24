"""What stays between sessions: breakpoints with --keep, and the history of what was typed."""

import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest

from debugger_support import LOOP, PACKAGE, TypedCase, run_python

TEXT = LOOP + 'f(3)\nprint("end")\n'


class KeepingCase(TypedCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.source = self.program(TEXT)

    def files(self):
        return [os.path.join(directory, name) for directory, _, names in os.walk(self.directory) for name in names]

    def typed(self, *commands, options=("--keep",)):
        return super().typed(*commands, options=options, XDG_STATE_HOME=self.directory)


class Breakpoints(KeepingCase):
    def test_all_kinds(self):
        self.typed("b {body}, i == 2", "tbreak {last}", "ignore 1 0", 'log {body} "at {{i}}"', "catch raised KeyError, n > 1", "b f", "disable 5",
                   "commands 1", "silent", "p ('total', total)", "end", "q")
        said = self.typed("b", "c", "p 'here'", "q")
        self.assertIn("4 breakpoints of the last session", said)
        listed = [line.split(None, 4) for line in said.splitlines() if line[:1].isdigit() and "keep" in line]
        self.assertEqual([(kind, enabled) for _, kind, _, enabled, _ in listed],
                         [("breakpoint", "yes"), ("breakpoint", "yes"), ("catch", "yes"), ("breakpoint", "no")])
        for text in ("stop only if i == 2", 'log "at {i}"', "raised builtins.KeyError", "stop only if n > 1", "at 0\n", "('total', 1)", "'here'"):
            self.assertIn(text, said)

    def test_lines_that_have_moved(self):
        self.typed("b {body}", "b {last}", "q")
        with open(self.source.path, "w", encoding="utf-8") as file:
            file.write("# new\n# lines\n" + self.source.text.replace("# last", "# changed"))
        said = self.typed("b", "q")
        body, last = self.source.line("body"), self.source.line("last")
        self.assertIn(f"{self.source.path}:{body + 2}\n", said)
        self.assertIn(f"{self.source.path}:{last}\n", said)

    def test_a_line_that_is_gone(self):
        self.typed("b {last}", "q")
        with open(self.source.path, "w", encoding="utf-8") as file:
            file.write("x = 1\n")
        said = self.typed("b", "c", "q")
        self.assertIn("is no breakpoint any more", said)

    def test_cleared(self):
        self.typed("b {body}", "q")
        self.typed("cl 1", "q")
        self.assertNotIn("of the last session", self.typed("b", "q"))

    def test_a_restart_sets_them_once(self):
        self.typed("b {body}", "q")
        said = self.typed("b", "run", "b", "q")
        self.assertEqual(said.count("of the last session"), 1)
        self.assertEqual(said.count("1   breakpoint"), 2)
        self.assertNotIn("2   breakpoint", said)

    def test_only_with_the_option_and_for_this_program(self):
        self.typed("b {body}", "q")
        self.assertNotIn("of the last session", self.typed("b", "q", options=()))
        self.source = self.program(TEXT)
        self.assertNotIn("of the last session", self.typed("b", "q"))

    def test_a_file_that_is_damaged(self):
        self.typed("b {body}", "q")
        path, = self.files()
        for text in ("", "{", '[{"file": 3}]', "[3]"):
            with self.subTest(text):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                said = self.typed("p 'works'", "q")
                self.assertIn("*** The breakpoints of the last session cannot be read", said)
                self.assertIn("'works'", said)

    def test_a_directory_that_cannot_be_written(self):
        self.directory = os.devnull
        said = self.typed("b {body}", "p 'works'", "q")
        self.assertIn("'works'", said)
        self.assertIn("*** The breakpoints are not kept", said)
        self.assertNotIn("Traceback", said)

    def test_a_forked_child_keeps_none(self):
        self.typed("b {body}", "q")
        path, = self.files()
        before = os.stat(path)
        code = f"import os; from ferrule_debugger import keeping; kept = keeping.Kept({self.source.path!r}); pid = os.fork() or os._exit(bool(kept.save(None)))"
        run_python(["-c", code + "; os.waitpid(pid, 0)"], XDG_STATE_HOME=self.directory)
        self.assertEqual(os.stat(path), before)

    def test_the_program_exits(self):
        self.source = self.program("import sys\nx = 1   # body\nsys.exit(3)     # last\n")
        self.typed("b {body}", "c", "c", "q")
        path, = self.files()
        with open(path, encoding="utf-8") as file:
            self.assertEqual([point["line"] for point in json.load(file)], [2])


class History(KeepingCase):
    def terminal(self, *lines):
        """What a terminal shows."""
        pid, terminal = pty.fork()
        if not pid:
            os.environ.update(PYTHONPATH=PACKAGE, XDG_STATE_HOME=self.directory, TERM="dumb", INPUTRC=os.devnull)
            os.execv(sys.executable, [sys.executable, "-m", "ferrule_debugger", self.source.path])
        said = b""
        try:
            for line in lines:
                while not said.endswith(b"(Pdb) "):
                    said += os.read(terminal, 1000)
                os.write(terminal, line + b"\r")
                said += os.read(terminal, 1)
            while True:
                said += os.read(terminal, 1000)
        except OSError:     # its end
            pass
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        return said.decode()

    def test_it_is_there_again(self):
        self.terminal(b"p 'typed ' + 'before'", b"q")
        path, = self.files()
        self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o077, 0)
        said = self.terminal(b"\x10\x10", b"q")      # the line before the last one
        self.assertIn("'typed before'", said)

    def test_where_threads_wait_for_ever(self):
        self.source = self.program("import threading\nthreading.Thread(target=threading.Event().wait).start()\n")
        self.terminal(b"n", b"n", b"n", b"q")
        self.assertEqual(len(self.files()), 1)

    def test_histories_of_the_program(self):
        path = os.path.join(self.directory, "theirs")
        self.source = self.program(f"""
            import readline
            for n in range(1500):
                readline.add_history(str(n))
            readline.write_history_file({path!r})
        """)
        self.terminal(b"c", b"q")
        with open(path, encoding="utf-8") as file:
            self.assertGreaterEqual(len(file.readlines()), 1500)

    def test_without_a_home_directory(self):
        code = ("import os; os.environ.pop('HOME', None); os.path.expanduser = lambda path: path\n"
                "from ferrule_debugger import keeping\nkept = keeping.Kept('program'); kept.save(type('D', (), {'error': print}))")
        for state in ("", "relative"):
            with self.subTest(state):
                said = run_python(["-c", code], cwd=self.directory, XDG_STATE_HOME=state)
                self.assertIn("The breakpoints are not kept: the user has no home directory", said)
                self.assertEqual(os.listdir(self.directory), [])

    def test_without_input(self):
        done = subprocess.run([sys.executable, "-c", f"import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, '-m', 'ferrule_debugger', "
                               f"'-c', 'c', '-c', 'q', {self.source.path!r}])"],
                              env={**os.environ, "PYTHONPATH": PACKAGE}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertIn("end\nThe program finished", done.stdout + done.stderr)

    def test_none_without_a_terminal(self):
        self.typed("p 1", "q", options=())
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
