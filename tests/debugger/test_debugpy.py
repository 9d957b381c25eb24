"""debugpy from the package index, unmodified, driven as VS Code drives it: it launches a program, attaches to a process by its number, and by a script.

The stops are the same on stock CPython.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import unittest

from dap_client import SECONDS, Client, free_port
from debugger_support import PACKAGE, Program, has_hooks, needs_debugpy, needs_hooks
from tests.remote_debugging import needs_remote

LAUNCHED = """
    import asyncio
    import threading

    OTHER

    def add(a, b):
        total = a + b               # sum
        return total                # result

    def count(n):
        for i in range(n):
            add(i, i)               # loop
        return n                    # counted

    def catches():
        try:
            raise KeyError("known") # known
        except KeyError:            # expected
            return None             # handled

    async def job(name):
        await asyncio.sleep(0)      # asleep
        return name                 # awake

    async def jobs():
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(job(name), name=f"task {name}")

    def main():
        print(f"count {count(5)}\\n", end="")     # count
        catches()                   # catch
        other = threading.Thread(target=add, args=(20, 22), name="other")
        other.start()
        other.join()
        asyncio.run(jobs())         # run
        {}["unknown"]               # unknown

    main()                          # main
"""
# What else there may be in the process.
HOOK = "import framehook; framehook.add(lambda view: framehook.DISABLE)"
DEBUGGER = "import ferrule_debugger as d; d.session.session.enter(d.Bdb(), True)"
# A service: a thread, tasks, and exceptions that are handled. It ends when its input does.
SERVICE = """
    import asyncio
    import select
    import sys
    import threading
    import time

    end = threading.Event()

    def add(a, b):
        total = a + b               # sum
        return total                # result

    def work():
        n = 0
        while not end.wait(0.01):
            n = add(n, 1)           # work

    async def serve(name):
        try:
            raise LookupError(name) # lookup
        except LookupError:
            await asyncio.sleep(0.01)  # asleep
        return name                 # awake

    async def main():
        while not select.select([sys.stdin], [], [], 0)[0]:
            await asyncio.gather(serve("a"), serve("b"))    # gather

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    print("ready", flush=True)
    asyncio.run(main())             # run
    end.set()
    thread.join()
    print("end", flush=True)
"""


class SessionCase(unittest.TestCase):
    def start(self, *arguments, **options):
        process = subprocess.Popen([sys.executable, *arguments], text=True, **options)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def connect(self, port):
        self.client = Client(port)
        self.addCleanup(self.client.close)

    def connect_adapter(self):
        """Start debugpy's adapter, as VS Code does for "launch" and for "attach" with a process's number."""
        port = free_port()
        self.start("-m", "debugpy.adapter", "--port", str(port), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.connect(port)

    def point(self, name, **options):
        return {"line": self.program.line(name), **options}

    def threads(self):
        return {one["id"]: one["name"] for one in self.client.ask("threads")["threads"]}

    def stop(self, reason, thread, *lines, **variables):
        """The next stop is this one: the lines of the frames by their names, innermost first; of the local variables, these."""
        why, self.thread, frames = self.client.stopped()
        self.frame = frames[0]
        names = tuple(self.program.name_of(frame["line"]) for frame in frames)
        self.assertEqual((why, self.threads()[self.thread], names), (reason, thread, lines))
        if variables:
            found = self.client.variables(self.frame)
            self.assertEqual({name: found.get(name) for name in variables}, variables)

    def go(self, command):
        self.client.ask(command, threadId=self.thread)

    def evaluate(self, expression):
        return self.client.ask("evaluate", frameId=self.frame["id"], expression=expression, context="repl")["result"]

    def exception(self):
        found = self.client.ask("exceptionInfo", threadId=self.thread)
        return found["exceptionId"], found["description"], found["breakMode"]


@needs_debugpy
class Launched(SessionCase):
    def drive(self, other):
        self.program = Program(self, LAUNCHED.replace("OTHER", other))
        self.connect_adapter()
        client = self.client
        points = [
            self.point("sum", condition="a == 2 or a == 20"),
            self.point("loop", hitCondition="3"),
            self.point("counted", logMessage="{n} were counted"),
            self.point("asleep", condition="name == 'b'"),
        ]
        client.begin("launch", self.program.path, points, ["raised", "uncaught"], program=self.program.path, python=[sys.executable],
                     console="internalConsole", env={"PYTHONPATH": PACKAGE}, rules=[{"path": os.path.join(PACKAGE, "**"), "include": False}])
        self.stop("breakpoint", "MainThread", "loop", "count", "main", i="2", n="5")
        self.go("stepIn")
        self.stop("breakpoint", "MainThread", "sum", "loop", "count", "main", a="2", b="2")
        scope = client.ask("scopes", frameId=self.frame["id"])["scopes"][0]["variablesReference"]
        client.ask("setVariable", variablesReference=scope, name="b", value="40")
        self.go("next")
        self.stop("step", "MainThread", "result", "loop", "count", "main", b="40", total="42")
        self.assertEqual(self.evaluate("total / (a + 40)"), "1.0")
        self.go("stepOut")
        self.stop("step", "MainThread", "loop", "count", "main")
        self.go("continue")

        self.stop("exception", "MainThread", "known", "catch", "main")
        self.assertEqual(self.exception(), ("KeyError", "'known'", "always"))
        self.go("next")
        self.stop("step", "MainThread", "expected", "catch", "main")
        self.go("continue")

        self.stop("breakpoint", "other", "sum", a="20", b="22")
        self.assertEqual(sorted(self.threads().values()), ["MainThread", "other"])
        other = self.thread
        self.go("next")
        self.stop("step", "other", "result", total="42")
        self.go("continue")

        self.stop("breakpoint", "MainThread", "asleep", "run", "main", name="'b'")
        self.assertEqual(self.evaluate("asyncio.current_task().get_name()"), "'task b'")
        self.go("next")  # over an await: another task runs meanwhile
        self.stop("step", "MainThread", "awake", "run", "main")
        self.assertEqual(self.evaluate("len(asyncio.all_tasks())"), "3")
        self.go("continue")

        for lines, mode in (["unknown", "main"], "always"), (["main"], "always"), (["unknown", "main"], "unhandled"):
            self.stop("exception", "MainThread", *lines)
            self.assertEqual(self.exception(), ("KeyError", "'unknown'", mode))
            self.go("continue")
        self.assertEqual(client.event("exited")["exitCode"], 1)
        client.event("terminated")
        self.assertEqual("".join(sorted(client.output("stdout").splitlines(True))), "5 were counted\ncount 5\n")
        self.assertIn("KeyError: 'unknown'\n", client.output("stderr"))
        kinds = [message["event"] for message in client.events]
        self.assertEqual([kinds.count(kind) for kind in ("stopped", "continued", "process", "exited")], [13, 13, 1, 1])
        # The main thread may end with the process, without an event.
        threads = [message["body"] for message in client.events if message["event"] == "thread"]
        self.assertEqual([one["reason"] for one in threads if one["threadId"] == other], ["started", "exited"])

    def test_alone(self):
        self.drive("pass")

    def test_beside_the_debugger_and_a_frame_hook(self):
        self.drive(f"{DEBUGGER}; {HOOK}" if has_hooks else DEBUGGER)


class AttachedCase(SessionCase):
    def serve(self):
        self.program = Program(self, SERVICE)
        self.service = self.start(self.program.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"})
        self.assertEqual(self.service.stdout.readline(), "ready\n")

    def drive(self, **arguments):
        """Attaches, stops in the thread, in a task, and for an exception, and lets the process continue."""
        client = self.client
        client.begin("attach", self.program.path, [self.point("sum", condition="a % 2 == 0")], **arguments)
        self.stop("breakpoint", "worker", "sum", "work", b="1")
        self.assertEqual(sorted(self.threads().values()), ["MainThread", "worker"])
        self.go("next")
        self.stop("step", "worker", "result", "work")
        self.assertEqual(self.evaluate("total - a"), "1")
        self.go("stepOut")
        self.stop("step", "worker", "work")
        client.ask("setBreakpoints", source={"path": self.program.path}, breakpoints=[self.point("asleep", condition="name == 'b'")])
        self.go("continue")

        self.stop("breakpoint", "MainThread", "asleep", "run", name="'b'")
        self.assertEqual(self.evaluate("len(asyncio.all_tasks())"), "3")
        client.ask("setBreakpoints", source={"path": self.program.path}, breakpoints=[])
        self.go("next")
        self.stop("step", "MainThread", "awake", "run", name="'b'")
        client.ask("setExceptionBreakpoints", filters=["raised"])
        self.go("continue")

        self.stop("exception", "MainThread", "lookup", "run", name="'a'")
        self.assertEqual(self.exception(), ("LookupError", "a", "always"))
        client.ask("setExceptionBreakpoints", filters=[])
        self.go("continue")
        client.ask("pause", threadId=self.thread)
        self.assertEqual(client.stopped()[0], "pause")
        client.ask("disconnect", terminateDebuggee=False)

    def ends_well(self):
        output, errors = self.service.communicate("\n", timeout=SECONDS)
        self.assertEqual((self.service.returncode, output, errors), (0, "end\n", ""))


@needs_debugpy
class AttachedByNumber(AttachedCase):
    """debugpy has gdb call functions in the process, by ptrace."""

    def test_a_session(self):
        self.serve()
        try:
            done = subprocess.run(["gdb", "--batch", "--nx", "-ex", "print (int)getpid()", "--pid", str(self.service.pid)],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        except FileNotFoundError:
            self.skipTest("gdb is not there")
        if f"= {self.service.pid}" not in done.stdout:
            self.skipTest("gdb cannot call a function in a process here")
        self.connect_adapter()
        self.drive(processId=self.service.pid)
        self.ends_well()


@needs_remote
@needs_hooks
@needs_debugpy
class AttachedByScript(AttachedCase):
    """sys.remote_exec() has the process listen; nothing stops it from outside."""

    @contextlib.contextmanager
    def executed(self, text):
        """The process executes a script, at the latest before the block ends."""
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete_on_close=False) as script:
            script.write(text)
            script.close()
            sys.remote_exec(self.service.pid, script.name)
            yield

    def test_two_sessions(self):
        self.serve()
        port = free_port()
        with self.executed(f"import debugpy; debugpy.listen({port})"):
            self.connect(port)
        where = {"connect": {"host": "127.0.0.1", "port": port}}
        self.drive(**where)
        self.client.close()
        self.connect(port)
        # The frame hook is called for the functions of the service, and of debugpy.
        with self.executed("import framehook; framehook.add(lambda view: None)"):
            self.drive(**where)
        self.ends_well()


if __name__ == "__main__":
    unittest.main()
