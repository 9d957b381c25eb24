"""debugpy from the package index, unmodified: breakpoints, stepping, variables."""

import importlib.util
import os
import subprocess
import sys
import unittest

from dap_client import SECONDS, Client, free_port
from debugger_support import PACKAGE, Program

TEXT = """
    import os
    import threading

    def add(a, b):
        total = a + b               # sum
        return total                # result

    def loop(n):
        value = 0
        for i in range(n):
            value = add(value, i)   # call
        return value                # end

    def threaded():
        thread = threading.Thread(target=add, args=(20, 22))
        thread.start()
        thread.join()

    OTHER
    print("value", loop(3))
    threaded()
    print("over", flush=True)
"""

# What else there may be in the process.
ALONE = "pass"
HOOKED = """import framehook; framehook.add(lambda view: framehook.DISABLE)"""
DEBUGGED = "import ferrule_debugger as d; d.session.session.enter(d.Bdb(), True)"


@unittest.skipIf(
    importlib.util.find_spec("debugpy") is None,
    "debugpy is not installed for this interpreter: pip install debugpy",
)
class Debugpy(unittest.TestCase):
    def start(self, other):
        self.program = Program(self, TEXT.replace("OTHER", other))
        port = free_port()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-Xfrozen_modules=off",
                "-m",
                "debugpy",
                "--listen",
                f"127.0.0.1:{port}",
                "--wait-for-client",
                self.program.path,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": PACKAGE},
        )
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.client = Client(port)
        self.addCleanup(self.client.close)

    def stopped(self):
        """Where it stopped: thread, name of the line, frame."""
        thread = self.client.event("stopped")["threadId"]
        frame = self.client.ask("stackTrace", threadId=thread, startFrame=0, levels=1)[
            "stackFrames"
        ][0]
        return thread, self.program.name_of(frame["line"]), frame["id"]

    def variables(self, frame):
        scopes = self.client.ask("scopes", frameId=frame)["scopes"]
        found = self.client.ask("variables", variablesReference=scopes[0]["variablesReference"])
        return {one["name"]: one["value"] for one in found["variables"]}

    def drive(self, other):
        self.start(other)
        ask = self.client.ask
        ask(
            "initialize",
            adapterID="test",
            clientID="test",
            linesStartAt1=True,
            columnsStartAt1=True,
            pathFormat="path",
        )
        attached = self.client.send("attach", justMyCode=False)
        self.client.event("initialized")
        ask(
            "setBreakpoints",
            source={"path": self.program.path},
            breakpoints=[{"line": self.program.line("sum"), "condition": "b == 2 or a == 20"}],
        )
        ask("configurationDone")
        self.client.answer(attached)

        thread, line, frame = self.stopped()
        self.assertEqual((line, self.variables(frame)), ("sum", {"a": "1", "b": "2"}))
        ask("next", threadId=thread)
        _, line, frame = self.stopped()
        self.assertEqual((line, self.variables(frame)["total"]), ("result", "3"))
        self.assertEqual(ask("evaluate", frameId=frame, expression="total * 14")["result"], "42")
        ask("stepOut", threadId=thread)
        _, line, frame = self.stopped()
        self.assertEqual((line, self.variables(frame)["i"]), ("call", "2"))
        ask("continue", threadId=thread)

        other_thread, line, frame = self.stopped()
        self.assertEqual((line, self.variables(frame)), ("sum", {"a": "20", "b": "22"}))
        self.assertNotEqual(other_thread, thread)
        ask("continue", threadId=other_thread)
        self.client.event("terminated")
        ask("disconnect")  # the adapter lives until then, and its output is the program's
        said = self.process.communicate(timeout=SECONDS)[0]
        self.assertIn("value 3", said)
        self.assertIn("over", said)
        self.assertEqual(self.process.returncode, 0)

    def test_alone(self):
        self.drive(ALONE)

    @unittest.skipIf(
        importlib.util.find_spec("framehook") is None, "this interpreter has no frame hooks"
    )
    def test_beside_a_frame_hook(self):
        try:
            import framehook  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        self.drive(HOOKED)

    def test_beside_the_debugger(self):
        self.drive(DEBUGGED)


if __name__ == "__main__":
    unittest.main()
