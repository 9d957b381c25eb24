"""debugpy in a live process: it attaches to one by its number, or one waits for it; breakpoints, the stack, variables, steps, an exception."""

import contextlib
import subprocess
import sys

from seen import HERE, check, check_with_gdb, expect, marked_lines, running, said

sys.path.insert(0, str(HERE.parent.parent / "debugger"))
from dap_client import Client, free_port

PROGRAM = HERE / "debugged.py"
LINES = marked_lines(PROGRAM)


def names(frames):
    return [(frame["name"], frame["line"]) for frame in frames]


def drive(client):
    """Stops at a breakpoint with a condition, looks, steps out of the function, stops at an exception, and lets go."""
    ask = client.ask
    client.begin("attach", PROGRAM, [{"line": LINES["sum"], "condition": "a % 2 == 0"}], justMyCode=False)
    _, thread, frames = client.stopped()
    stack = names(frames)
    expect(stack[:3] == [("add", LINES["sum"]), ("turn", LINES["turn"]), ("main", stack[2][1])], f"the stack is {stack}")
    found = client.variables(frames[0])
    expect(found.get("a") == found.get("b") and int(found["a"]) % 2 == 0, f"variables are {found}")
    ask("next", threadId=thread)
    frames = client.stopped()[2]
    stack = names(frames)
    expect(stack[0] == ("add", LINES["result"]), f"after a step: {stack[:2]}")
    expect(ask("evaluate", frameId=frames[0]["id"], expression="total - a - b")["result"] == "0", "the sum is wrong")
    ask("setBreakpoints", source={"path": str(PROGRAM)}, breakpoints=[])
    ask("stepOut", threadId=thread)
    stack = names(client.stopped()[2])
    expect(stack[0][0] == "turn", f"after a step out: {stack[:2]}")
    ask("setExceptionBreakpoints", filters=["raised"])
    ask("continue", threadId=thread)
    reason, _, frames = client.stopped()
    expect(reason == "exception", "it did not stop for the exception")
    stack = names(frames)
    expect(stack[:2] == [("fail", LINES["fail"]), ("turn", stack[1][1])], f"at the exception: {stack[:2]}")
    ask("setExceptionBreakpoints", filters=[])
    ask("disconnect", terminateDebuggee=False)


def waits(kind):
    port = free_port()
    command = [sys.executable, "-Xfrozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client", PROGRAM, kind]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with contextlib.closing(Client(port)) as client:
                drive(client)
            expect(process.poll() is None, f"the process has ended: {process.poll()}")
        finally:
            process.kill()


def attaches(kind):
    port = free_port()
    with running("-Xfrozen_modules=off", PROGRAM, kind) as process:
        # gdb stops it, and has it run Python code.
        said(sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--pid", str(process.pid))
        with contextlib.closing(Client(port)) as client:
            drive(client)


check("waits", waits, "plain")
check("waits, with a hook", waits, "hooked", needs_hooks=True)
check_with_gdb("attaches", attaches, "plain")
check_with_gdb("attaches, with a hook", attaches, "hooked", needs_hooks=True)
