"""Breakpoints in the Pythons that a program starts: `python -m ferrule_debugger --children script.py`.

A child finds a sitecustomize module on its path, takes the breakpoints over a socket, and has its prompt in the terminal
of the process that was started first. The messages are those of `attach`.
"""

import atexit
import bdb
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading

import _thread

from . import keeping, turns
from .attach import Attached, Terminal
from .debugger import forget_last_thread
from .session import session

VARIABLE = "FERRULE_DEBUGGER_CHILDREN"
SITECUSTOMIZE = """\
def _begin(directory, package):
    import importlib.machinery, importlib.util, sys

    # The module that this one has hidden takes its place.
    sys.path[:] = [path for path in sys.path if path != directory]
    theirs = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if theirs is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(theirs)
        theirs.loader.exec_module(module)
    if sys.version_info[:2] != {version}:
        return
    sys.path.append(package)
    try:
        from ferrule_debugger import children
    finally:
        sys.path.remove(package)
    children.begin()

_begin({directory!r}, {package!r})
"""

# --- In the process that was started first. -----------------------------------------------------

_follows = False        # whether this process, or the one that has forked it, was started first


def follow():
    """Have the Pythons that are started from now on stop at breakpoints, too."""
    global _follows
    _follows = True
    directory = tempfile.mkdtemp(prefix="ferrule-debugger-")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(directory, "socket"))
    server.listen()
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(directory, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(SITECUSTOMIZE.format(directory=directory, package=package, version=tuple(sys.version_info[:2])))
    os.environ[VARIABLE] = server.getsockname()
    os.environ["PYTHONPATH"] = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
    atexit.register(_remove, directory, os.getpid())
    # Not one of `threading`: the program does not see it there.
    _thread.start_new_thread(_serve, (server,))


def _remove(directory, pid):
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)


def _serve(server):
    received, pids = {}, {}     # of each connection: what is no whole line yet, and the number of its process
    while True:
        for ready in select.select([server, *received], [], [])[0]:
            if ready is server:
                received[server.accept()[0]] = b""
                continue
            try:
                data = ready.recv(1 << 16)
                *lines, received[ready] = (received[ready] + data).split(b"\n")
                for line in lines:
                    _handle(ready, json.loads(line), pids)
            except (OSError, ValueError):
                data = b""
            if not data:
                del received[ready]
                pids.pop(ready, None)
                ready.close()


def _handle(connection, message, pids):
    if "pid" in message:
        pids[connection] = message["pid"]
        reply = {"points": keeping.all_points()}
    else:
        with turns.mine():
            line = _show(pids[connection], message)
        if line is None:
            return
        reply = {"line": line}
    connection.sendall(json.dumps(reply).encode() + b"\n", socket.MSG_NOSIGNAL)


def _show(pid, message):
    """Print what a child says; the line that is typed at its prompt, if it is one."""
    print(message["text"], end="", flush=True)
    if "prompt" not in message:
        return None
    forget_last_thread()
    session.prompting_child = pid
    try:
        line = input(message["prompt"])
        given_up, session.given_up = session.given_up, ""
        return line.removeprefix(given_up) + "\n"
    except EOFError:
        return ""
    finally:
        session.prompting_child = None


# --- In a child. --------------------------------------------------------------------------------


class _Terminal(Terminal):
    def readline(self):
        # Ctrl-C is for all processes of the terminal.
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
        try:
            return super().readline()
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)


class Child(Attached):
    """The debugger of a process that a debugged program has started."""

    def interaction(self, frame, tb_or_exc):
        self.stdout.write(f"[process {os.getpid()}]\n")
        super().interaction(frame, tb_or_exc)


_child = None       # the debugger of this process, if it is a child


def _connect():
    """The prompt of this process, and the breakpoints; or None."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[VARIABLE])
        connection.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n", socket.MSG_NOSIGNAL)
        terminal = _Terminal(connection)
        return terminal, terminal.receive()["points"]
    except (OSError, ValueError, KeyError):     # the debugger has ended
        connection.close()
        return None


def _begin(terminal, first):
    """Debug this process: the breakpoints from number `first` on are the debugger's."""
    global _child
    _child = Child(terminal, False)
    _child.first_point = first
    _child.reset()
    session.enter(_child, False)
    sys.breakpointhook = _breakpoint


def begin():
    """Stop at the breakpoints of the process that was started first."""
    connected = _connect() if VARIABLE in os.environ else None
    if connected is not None:
        terminal, points = connected
        _begin(terminal, bdb.Breakpoint.next)
        keeping.restore(_child, points)


def _breakpoint(*arguments, **keywords):
    _child.set_trace(sys._getframe(1))


def _begin_after_fork():
    """A forked child has a prompt of its own, and the breakpoints already."""
    if _child is None and not _follows:
        return
    connected = _connect()
    if _child is None:
        if connected is not None:
            _begin(connected[0], 1)
    elif connected is None:
        _child.stdout.close()       # the next prompt ends the debugger
    else:
        _child.stdout.replace(connected[0])


os.register_at_fork(after_in_child=_begin_after_fork)
