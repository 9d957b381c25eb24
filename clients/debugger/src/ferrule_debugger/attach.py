"""A prompt for a process that runs: `python -m ferrule_debugger -p PID`, by sys.remote_exec().

The process connects to a socket in a directory that only its user can enter. Both sides write lines of JSON:
{"text": ...} is output; with "prompt" the answer is a command, {"line": ...}, which is empty at the end.
"""

import bdb
import contextlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time

from . import colours, keeping
from .debugger import Pdb
from .session import session

SCRIPT = """\
import os, sys
try:
    os.unlink({script!r})
except OSError:
    pass
try:
    from ferrule_debugger import attach
except ImportError:
    sys.path.append({path!r})
    from ferrule_debugger import attach
attach.{call}
"""

# --- In the process. ----------------------------------------------------------------------------

_attached = None


class Terminal:
    """The terminal of the other side: standard input and output of a debugger."""

    encoding = "utf-8"

    def __init__(self, connection):
        self._connection = connection
        self._status = os.fstat(connection.fileno())
        self._received = connection.makefile("r", encoding="ascii")
        self._line = ""         # what was written and has no end yet

    def write(self, text):
        ended, newline, self._line = (self._line + text).rpartition("\n")
        if newline:
            self._send(text=ended + newline)
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def readline(self):
        prompt, self._line = self._line, ""
        self._send(text="", prompt=prompt)
        try:
            return self.receive()["line"]
        except (OSError, ValueError):       # it was closed, or is gone
            return ""

    def receive(self):
        """The next message of the other side."""
        return json.loads(self._received.readline())

    def _detach_closed(self):
        """Forget the connection if the program has closed it, as daemons close all files: the number may be another file's."""
        try:
            is_open = os.path.samestat(os.fstat(self._connection.fileno()), self._status)
        except OSError:
            is_open = False
        if not is_open:
            self._connection.detach()

    def _send(self, **message):
        self._detach_closed()
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n", socket.MSG_NOSIGNAL)
        except OSError:
            pass        # the next command is the end

    def close(self):
        self._detach_closed()
        self._received.close()
        self._connection.close()

    def replace(self, other):
        """Use the connection of another one from now on."""
        self.close()
        self._connection, self._status, self._received = other._connection, other._status, other._received


class Attached(Pdb):
    """A debugger whose end leaves the program running."""

    def __init__(self, terminal, has_colours):
        self._has_colours = has_colours
        self.first_point = bdb.Breakpoint.next       # the program may have breakpoints of its own
        super().__init__(stdin=terminal, stdout=terminal, nosigint=True, readrc=False)

    def wants_colours(self):
        return self._has_colours

    def do_quit(self, arg):
        """q(uit) | exit

        End the debugger. Its breakpoints are cleared, and the program continues.
        """
        global _attached
        for point in bdb.Breakpoint.bpbynumber[self.first_point:]:
            if point is not None:
                with contextlib.suppress(KeyError, ValueError):     # one that the program has made since
                    self.clear_bpbynumber(point.number)
        self.set_continue()
        session.leave(self, False)
        if _attached is self:
            _attached = None
        self.stdout.close()
        return True

    do_q = do_exit = do_EOF = do_quit

    def do_run(self, arg):
        """run | restart

        A program that was started elsewhere cannot be started again.
        """
        self.error("The program was not started by the debugger")

    do_restart = do_run


def begin(path, frame, has_colours):
    """Connect to the debugger that listens at `path`, and give it a prompt at `frame`."""
    global _attached
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:     # the debugger has ended
        connection.close()
        return
    terminal = Terminal(connection)
    if _attached is not None:
        terminal.write("Another debugger is attached to this process.\n")
        terminal.close()
        return
    _attached = Attached(terminal, has_colours)
    _attached.set_trace(frame)


def interrupt(frame):
    """Give the debugger that is attached a prompt at `frame`."""
    if _attached is not None and getattr(_attached, "curframe", None) is None:      # or it has a prompt already
        _attached.set_trace(frame)


def _leave_to_parent():
    global _attached
    if _attached is not None:
        _attached.stdout.close()        # a breakpoint that the child hits ends the debugger there
        _attached = None


os.register_at_fork(after_in_child=_leave_to_parent)

# --- In the debugger's terminal. ----------------------------------------------------------------


class _Client:
    def __init__(self, pid, directory, commands):
        self._pid = pid
        self._directory = directory
        self._directory_file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._commands = list(commands)
        self._received = b""
        self._sent = None           # the script of the last request
        self._waits_for_stop = False
        self._waits = self._is_interrupted = False

    def at_sigint(self, signum, frame):
        """Interrupt what waits. Elsewhere a message might be lost: Ctrl-C is for the next wait."""
        if self._waits:
            self._waits = False
            raise KeyboardInterrupt
        self._is_interrupted = True

    def _interruptible(self, wait, *arguments):
        self._waits = True
        try:
            if self._is_interrupted:
                self._is_interrupted = False
                raise KeyboardInterrupt
            return wait(*arguments)
        finally:
            self._waits = False

    def _execute(self, name, call):
        path = self._sent = os.path.join(self._directory, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._directory_file)
        # The directory belongs to the process's user: nothing that is there already is opened, nor what a path leads to.
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._directory_file)
        with open(file, "w", encoding="utf-8") as script:
            script.write(SCRIPT.format(script=path, path=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), call=call))
            self._give_away(file)
        try:
            sys.remote_exec(self._pid, path)
        except Exception:
            self._sent = None       # it was refused
            raise

    def _withdraw(self):
        """Take back the last request if the process has not taken it: the script is about to be removed.

        If it has, it may not have read the script yet, which removes itself.
        """
        if self._sent is None or not os.path.exists(self._sent):
            return
        import _remoteexec

        try:
            if not _remoteexec.withdraw(self._pid, self._sent):
                for _ in range(100):
                    if not os.path.exists(self._sent):
                        break
                    time.sleep(0.01)
        except (OSError, RuntimeError):
            pass        # it has ended, or executes another program

    def _give_away(self, file):
        """Let the process's user have a file, where root debugs another user's process."""
        try:
            owner = os.stat(f"/proc/{self._pid}")
        except FileNotFoundError:
            raise ProcessLookupError(f"no process {self._pid}") from None
        if owner.st_uid != os.geteuid():
            try:
                os.chown(file, owner.st_uid, owner.st_gid)
            except PermissionError as error:
                raise PermissionError(error.errno, f"process {self._pid} may not be debugged by this one") from None

    def _wait_for(self, server):
        """The process's connection."""
        try:
            process = os.pidfd_open(self._pid)
        except ProcessLookupError:
            raise ProcessLookupError(f"process {self._pid} has ended") from None
        try:
            ready = self._interruptible(select.select, [server, process], [], [], 2)[0]
            if not ready:
                self._say_that_it_waits()
                ready = self._interruptible(select.select, [server, process], [], [])[0]
        finally:
            os.close(process)
        if server not in ready:
            raise ProcessLookupError(f"process {self._pid} has ended")
        return server.accept()[0]

    def close(self):
        os.close(self._directory_file)

    def run(self):
        path = os.path.join(self._directory, "socket")
        with socket.socket(socket.AF_UNIX) as server:
            before = os.umask(0o177)
            try:
                server.bind(path)
            finally:
                os.umask(before)
            server.listen(1)
            self._give_away(path)
            self._give_away(self._directory_file)
            try:
                self._execute("begin.py", f"begin({path!r}, sys._getframe(1), {colours.are_wanted(sys.stdout)})")
                self._connection = self._wait_for(server)
            except BaseException:
                self._withdraw()
                raise
        with self._connection:
            try:
                self._serve()
            finally:
                self._withdraw()

    def _say_that_it_waits(self):
        print(f"Process {self._pid} waits, or is in a call of C: the prompt comes when Python runs there. Ctrl-C ends the debugger.",
              flush=True)

    def _serve(self):
        while True:
            try:
                message = self._receive()
                if message is None:
                    break
                print(message["text"], end="", flush=True)
                if "prompt" in message:
                    self._waits_for_stop = False
                    self._answer(message["prompt"])
            except KeyboardInterrupt:
                print("\n--KeyboardInterrupt--", flush=True)
                if self._waits_for_stop:
                    raise
                self._waits_for_stop = True
                self._execute("interrupt.py", "interrupt(sys._getframe(1))")
                if not self._interruptible(select.select, [self._connection], [], [], 2)[0]:
                    self._say_that_it_waits()

    def _receive(self):
        while b"\n" not in self._received:
            self._interruptible(select.select, [self._connection], [], [])
            data = self._connection.recv(1 << 16)
            if not data:
                return None
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def _answer(self, prompt):
        while True:
            try:
                if self._commands:
                    line = self._commands.pop(0) + "\n"
                else:
                    shown = colours.prompt(prompt) if colours.are_wanted(sys.stdout) else prompt
                    line = self._interruptible(input, shown) + "\n"
                break
            except EOFError:
                line = ""
                break
            except KeyboardInterrupt:
                print()
        self._connection.sendall(json.dumps({"line": line}).encode() + b"\n", socket.MSG_NOSIGNAL)


def main(pid, commands):
    """Debug the process `pid` in this terminal. Returns an exit status."""
    keeping.keep_history()
    with tempfile.TemporaryDirectory(prefix="ferrule-debugger-", ignore_cleanup_errors=True) as directory:
        client = _Client(pid, directory, commands)
        before = signal.signal(signal.SIGINT, client.at_sigint)
        try:
            client.run()
        except (OSError, RuntimeError, ValueError) as error:
            print(f"ferrule_debugger: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            signal.signal(signal.SIGINT, before)
            client.close()
    print(f"The debugger has left process {pid}.")
    return 0
