"""Tools that build on pdb, from the package index, unmodified: they have this debugger in its place."""

import importlib.util
import os
import re
import select
import signal
import subprocess
import sys
import unittest

from dap_client import connect
from debugger_support import PACKAGE, DebuggerCase, run_python

try:
    import pty
    import termios
except ImportError:
    pty = None


def needs(name):
    return unittest.skipIf(importlib.util.find_spec(name) is None,
                           f"{name} is not installed for this interpreter: pip install {name}")


def installed_with(name):
    """Where a package and what it needs are installed."""
    return os.pathsep.join([PACKAGE, os.path.dirname(os.path.abspath(importlib.util.find_spec(name).origin)),
                            os.path.dirname(os.path.dirname(os.path.abspath(importlib.util.find_spec(name).origin)))])


class OnTop(DebuggerCase):
    @needs("pytest")
    def test_pdbcls_of_pytest(self):
        program = self.program("""
            def inner(n):
                return n + 1    # inner

            def test():
                breakpoint()
                y = inner(1)
                assert y == 1   # fails
        """)
        said = run_python(
            ["-m", "pytest", "-p", "no:cacheprovider", "--pdb", "--pdbcls=ferrule_debugger:Pdb", program.path],
            f"b {program.line('inner')}\nc\np 'inner', n\nr\nn\nn\nc\np 'post', y\nq\n",
            PYTHONPATH=installed_with("pytest"))
        self.assertIn("('inner', 1)", said)
        self.assertIn(f"({program.line('fails')})test()", said)
        self.assertIn("('post', 2)", said)
        self.assertIn("1 failed", said)

    @needs("remote_pdb")
    def test_remote_pdb(self):
        program = self.program("""
            import ferrule_debugger
            ferrule_debugger.install()
            from remote_pdb import RemotePdb
            def inner(n):
                return n + 1    # inner
            print("subclass", issubclass(RemotePdb, ferrule_debugger.Pdb), flush=True)
            RemotePdb("127.0.0.1", 0).set_trace()
            print("value", inner(41))
        """)
        process = subprocess.Popen(
            [sys.executable, program.path], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": installed_with("remote_pdb"), "PYTHONDONTWRITEBYTECODE": "1"})
        said = ""
        while not (found := re.search(r"127\.0\.0\.1:(\d+)", said)):
            said += process.stdout.readline() or self.fail(said)
        # It prints the port before it listens.
        with connect(int(found[1])) as connection:
            connection.sendall(f"b {program.line('inner')}, nonsense\nc\np 'n is', n\nc\n".encode())
            remote = ""
            while select.select([connection], [], [], 60)[0] and (part := connection.recv(4096)):
                remote += part.decode()
        said += process.communicate()[0]
        self.assertIn("subclass True", said)
        self.assertIn("value 42", said)
        self.assertIn("('n is', 41)", remote)
        self.assertIn("*** The condition of breakpoint 1 has raised NameError", remote)

    @needs("ipdb")
    def test_ipdb(self):
        program = self.program("""
            import ferrule_debugger
            ferrule_debugger.install()
            import ipdb
            def inner(n):
                m = n + 1
                return m        # inner
            def main():
                ipdb.set_trace()
                value = inner(41)
                print("value", value)
            from IPython.core.debugger import Pdb
            print("subclass", issubclass(Pdb, ferrule_debugger.Pdb))
            main()
        """)
        said = run_python([program.path], f"b {program.line('inner')}, nonsense\nc\np 'n is', n\nc\n", PYTHONPATH=installed_with("ipdb"),
                          HOME=os.path.dirname(program.path), TERM="dumb")
        self.assertIn("subclass True", said)
        self.assertIn("('n is', 41)", said)
        self.assertIn("*** The condition of breakpoint 1 has raised NameError", said)
        self.assertIn("value 42", said)

    @needs("pudb")
    @unittest.skipIf(pty is None, "no pseudoterminals")
    def test_pudb(self):
        program = self.program("""
            import bdb
            import ferrule_debugger
            bdb.Bdb = ferrule_debugger.Bdb
            import pudb
            def inner(n):
                m = n + 1
                return m        # inner
            def main():
                pudb.set_trace()
                return inner(inner(41))
            print("value", main(), issubclass(pudb.debugger.Debugger, ferrule_debugger.Bdb))
        """)
        home = os.path.dirname(program.path)
        os.mkdir(os.path.join(home, "pudb"))
        with open(os.path.join(home, "pudb", "pudb.cfg"), "w", encoding="utf-8") as file:
            file.write("[pudb]\nseen_welcome = e999\n")
        with open(os.path.join(home, "pudb", f"saved-breakpoints-{sys.version_info[0]}.{sys.version_info[1]}"), "w", encoding="utf-8") as file:
            file.write(f"b {program.path}:{program.line('inner')}\n")
        child, terminal = pty.fork()
        if not child:
            os.execve(sys.executable, [sys.executable, program.path],
                      {**os.environ, "PYTHONPATH": installed_with("pudb"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": home, "XDG_CONFIG_HOME": home,
                       "TERM": "xterm"})
        termios.tcsetwinsize(terminal, (40, 120))
        printed = ""
        try:
            for expected in ("PuDB", "n: 41", "n: 42", "value 43 True"):
                while expected not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|[\x0e\x0f]", "", printed):
                    self.assertTrue(select.select([terminal], [], [], 60)[0], f"{expected} in {printed}")
                    printed += os.read(terminal, 1 << 16).decode(errors="replace")
                os.write(terminal, b"c")
        finally:
            os.kill(child, signal.SIGKILL)
            os.close(terminal)
            os.waitpid(child, 0)


if __name__ == "__main__":
    unittest.main()
