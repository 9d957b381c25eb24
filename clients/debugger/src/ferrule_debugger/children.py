"""Breakpoints in the Pythons that a program starts: `python -m ferrule_debugger --children script.py`.

A child finds a sitecustomize module on its path, takes the breakpoints over a socket, and has its prompt in the terminal
of the process that was started first. The messages are those of `attach`.
"""

import bdb
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

import _thread

from . import keeping, turns
from .at_events import thread
from .attach import Attached, Terminal
from .debugger import at_end, forget_last_thread
from .session import session

VARIABLE = "FERRULE_DEBUGGER_CHILDREN"
# Set for children that an expression at the prompt starts, and for theirs.
AT_PROMPT = "FERRULE_DEBUGGER_AT_PROMPT"
SITECUSTOMIZE = """\
def _make_way(directory):
    import importlib.machinery, importlib.util, sys

    # The module that this one has hidden takes its place.
    sys.path[:] = [path for path in sys.path if path != directory]
    theirs = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if theirs is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(theirs)
        theirs.loader.exec_module(module)

def _begin(package):
    import sys

    if sys.version_info[:2] != {version}:
        return
    sys.path.append(package)        # it may be there already
    try:
        from ferrule_debugger import children
    finally:
        del sys.path[-1]
    children.begin()

try:
    _make_way({directory!r})
finally:
    _begin({package!r})
"""
# What breakpoint() may be set to for the debugger.
BREAKPOINTS = "", "pdb.set_trace", "ferrule_debugger.set_trace"

# --- In the process that was started first. -----------------------------------------------------

_follows = False        # whether this process, or the one that has forked it, was started first
_sockets = {}           # in that process: where children connect, and what leads to them, with os.fstat()
_accepting = threading.Lock()
_has_ended = False


def follow():
    """Have the Pythons that are started from now on stop at breakpoints, too."""
    global _follows
    _follows = True
    directory = tempfile.mkdtemp(prefix="ferrule-debugger-")
    at_end(shutil.rmtree, directory, True)
    if os.pathsep in directory:
        raise OSError(f"{directory} cannot be a part of PYTHONPATH")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(directory, "socket"))
    server.listen()
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(directory, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(SITECUSTOMIZE.format(directory=directory, package=package, version=tuple(sys.version_info[:2])))
    os.environ[VARIABLE] = server.getsockname()
    os.environ["PYTHONPATH"] = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
    session.evaluating = _evaluating
    _sockets[server] = os.fstat(server.fileno())
    at_end(_end, server)
    # Not one of `threading`: the program does not see it there.
    _thread.start_new_thread(_accept, (server, sys.stdout))


def _accept(server, stdout):
    thread.serves = True
    ready = select.poll()
    ready.register(server, select.POLLIN)
    while not _has_ended:
        try:
            ready.poll()
            with _accepting:
                connection = server.accept()[0]
                _sockets[connection] = os.fstat(connection.fileno())
            _thread.start_new_thread(_serve, (connection, stdout))
        except (OSError, RuntimeError):
            time.sleep(0.1)     # there are too many files or threads for now


def _serve(connection, stdout):
    """Answer a child until it ends, or sends what is no message."""
    thread.serves = True
    ended = select.poll()
    ended.register(connection, select.POLLRDHUP)
    try:
        with connection, connection.makefile("rb") as messages:
            first = json.loads(messages.readline())
            pid, at_prompt = first["pid"], first.get("at_prompt") is True
            _answer(connection, points=keeping.all_points())
            for message in map(json.loads, messages):
                if not all(isinstance(text, str) for text in (message["text"], message.get("prompt", ""))):
                    break
                with contextlib.nullcontext() if at_prompt else turns.mine(), turns.terminal.used(borrowed=at_prompt):
                    if "prompt" in message and ended.poll(0):
                        break
                    line = _show(pid, message, stdout)
                    if line and line.strip() and ended.poll(0):
                        print(f"*** Process {pid} has ended and has not executed: {line.strip()}", file=stdout, flush=True)
                        break
                if line is not None:
                    _answer(connection, line=line)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    finally:
        _sockets.pop(connection, None)


def _open_sockets():
    """The sockets that the program has not closed, as daemons close all files: the number may be another file's."""
    for one, status in list(_sockets.items()):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(one.fileno()), status):
                yield one


def _end(server):
    """Close the connections. While the interpreter is finalized no thread answers, and multiprocessing waits for a child there."""
    global _has_ended
    with _accepting:
        _has_ended = True
        for one in _open_sockets():
            with contextlib.suppress(OSError):      # its thread has closed it meanwhile
                one.shutdown(socket.SHUT_RDWR)
            if one is server:
                one.close()     # with the connections that were not accepted


def _answer(connection, **message):
    connection.sendall(json.dumps(message).encode() + b"\n", socket.MSG_NOSIGNAL)


def _show(pid, message, stdout):
    """Print what a child says; the line that is typed at its prompt, if it is one."""
    print(message["text"], end="", file=stdout, flush=True)
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


@contextlib.contextmanager
def _evaluating(debugger):
    """While what was typed is evaluated, the children that it starts may have the prompt: it may wait for them."""
    def at_sigint(signum, frame):
        if not debugger.interrupt_child():
            before(signum, frame)

    outer = os.environ.get(AT_PROMPT)
    os.environ[AT_PROMPT] = "1"
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if callable(before):
        signal.signal(signal.SIGINT, at_sigint)
    try:
        with turns.terminal.lent():
            yield
    finally:
        if outer is None:
            os.environ.pop(AT_PROMPT, None)
        if callable(before) and signal.getsignal(signal.SIGINT) is at_sigint:
            signal.signal(signal.SIGINT, before)


def _leave_sockets():
    """In a forked child: it would keep a connection open that the other process has closed."""
    for one in _open_sockets():
        os.close(one.detach())
    _sockets.clear()


# --- In a child. --------------------------------------------------------------------------------


class _Terminal(Terminal):
    is_at_prompt = False
    _said = ""

    def _send(self, text, **prompt):
        # The output of a stop is sent with the prompt, so that no other process prints in between.
        self._said += text
        if prompt or not self.is_at_prompt:
            text, self._said = self._said, ""
            super()._send(text=text, **prompt)

    def flush(self):
        if self._said:
            self._send("")

    def readline(self):
        # Ctrl-C is for all processes of the terminal. A handler of C cannot be set again.
        in_main = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
        try:
            return super().readline()
        finally:
            if in_main:
                signal.signal(signal.SIGINT, before)


class Child(Attached):
    """The debugger of a process that a debugged program has started."""

    def interaction(self, frame, tb_or_exc):
        self.stdout.is_at_prompt = True
        try:
            self.stdout.write(f"[process {os.getpid()}]\n")
            super().interaction(frame, tb_or_exc)
        finally:
            self.stdout.is_at_prompt = False
            self.stdout.flush()


_child = None       # the debugger of this process, if it is a child


def _connect():
    """The prompt of this process, and the breakpoints; or None."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[VARIABLE])
        connection.sendall(json.dumps({"pid": os.getpid(), "at_prompt": AT_PROMPT in os.environ}).encode() + b"\n", socket.MSG_NOSIGNAL)
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
    if os.environ.get("PYTHONBREAKPOINT", "") in BREAKPOINTS:
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
    session.evaluating = contextlib.nullcontext
    _leave_sockets()
    connected = _connect()
    if _child is None:
        if thread.stepper is not None:
            thread.stepper._end_step()      # it has the other process's terminal
        if connected is None:
            session.leave_all()
        else:
            _begin(connected[0], 1)
    elif connected is None:
        _child.stdout.close()       # the next prompt ends the debugger
    else:
        _child.stdout.replace(connected[0])


os.register_at_fork(after_in_child=_begin_after_fork)
