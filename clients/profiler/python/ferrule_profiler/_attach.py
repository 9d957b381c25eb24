"""python -m ferrule_profiler --pid PID: a profile of a process that runs, by sys.remote_exec().

The process executes _remote.py, connects to a socket in a directory that only its user may enter, and makes the profile:
see _attached.py. The files are written here.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time

from . import _command
from ._attached import LOOK, SAVE, STOP
from ._core import end_by_signal
from ._live import INTERVAL, Live
from ._result import Result
from ._text import visible

PACKAGE = os.path.dirname(os.path.abspath(__file__))
ENDS = (signal.SIGINT, *_command.ENDING)
# After so many seconds without an answer it is said why there may be none.
PATIENCE = 2
WAITS = "it waits, or is in a call of C"


class AttachError(Exception):
    """Why there is no profile."""


class Signals:
    """A block in which signals that end programs are noted; the file `woken` can be read when one has come."""

    def __enter__(self):
        self.came = []
        self.woken, self._write = socket.socketpair()
        self.woken.setblocking(False)
        self._write.setblocking(False)
        self._woken_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._note) for number in ENDS
                        if signal.getsignal(number) is not signal.SIG_IGN}
        return self

    def _note(self, number, frame):
        self.came.append(number)

    def __exit__(self, *exception):
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken_before)
        self.woken.close()
        self._write.close()


class Received:
    """Puts the messages of _attached.py together."""

    def __init__(self):
        self.whole = None       # what was found: the last that was received to its end
        self.why = None         # why it was sent
        self.looked = None      # the last that has functions alone
        self._found = self._last = None

    def take(self, message):
        """Take one of the pieces; whether it was the last one."""
        if "found" in message:
            self._found = self._last = {**message["found"], "objects": [], "threads": []}
        elif "thread" in message:
            self._last = message["thread"]
            self._found["threads"].append(self._last)
        elif "rows" in message:
            self._last.setdefault(message["key"], []).extend(message["rows"])
        elif "end" in message:
            self.why, found, self._found = message["end"], Result(self._found), None
            if self.why == "look":
                self.looked = found
            else:
                self.whole = found
            return True
        return False


class Attachment:
    def __init__(self, options, writer, signals, directory, live=None):
        self.options, self.writer, self.signals, self.live = options, writer, signals, live
        self.pid, self.directory = options.pid, directory
        self.connection = self.process = None
        self.received = Received()
        self.buffer = bytearray()
        self.signals_at_end = None      # how many signals had come when the end was requested
        self.awaited = False    # the script may run yet
        self.notice = None      # when it is said that there is no answer
        self.end = self.save = self.look = None     # when that is to be requested

    def run(self):
        """Have the profile made. AttachError: there is none."""
        try:
            self.process = os.pidfd_open(self.pid)
        except OSError:
            raise AttachError(f"no process {self.pid}") from None
        try:
            with socket.socket(socket.AF_UNIX) as server:
                self.send_script(server)
                self.until_connected(server)
            with self.connection:
                self.until_ended()
        finally:
            os.close(self.process)

    def send_script(self, server):
        path, script = (os.path.join(self.directory, name) for name in ("socket", "script.py"))
        options = self.options
        html = options.format == "html" or any(path.endswith(".html") for path in options.output)
        sources = html or bool(options.lines or options.lines_of)
        with open(os.path.join(PACKAGE, "_remote.py"), encoding="utf-8") as file:
            text = file.read()
        with open(script, "x", encoding="utf-8") as file:
            file.write(f"{text}\n\n_begin{self.directory, PACKAGE, _command.what_of(options), sources!r}\n")
        server.bind(path)
        server.listen(1)
        # Root gives them to the process's user, the directory last: from then on they may be other files.
        try:
            owner = os.stat(f"/proc/{self.pid}")
        except FileNotFoundError:
            raise AttachError(f"no process {self.pid}") from None
        if os.geteuid() == 0 and owner.st_uid != 0:
            for name in (path, script, self.directory):
                os.chown(name, owner.st_uid, owner.st_gid)
        try:
            sys.remote_exec(self.pid, script)
        except (RuntimeError, ValueError) as error:
            raise AttachError(str(error)) from None
        self.awaited = True

    def wait(self, *files):
        """Those of the files that can be read; none when something is due. The process's end is looked for too."""
        due = [moment for moment in (self.notice, self.end, self.save, self.look) if moment is not None]
        left = max(min(due) - time.monotonic(), 0) if due else None
        ready, _, _ = select.select([*files, self.process, self.signals.woken], [], [], left)
        if self.signals.woken in ready:
            self.signals.woken.recv(100)
        if self.notice is not None and time.monotonic() >= self.notice:
            self.notice = None
            _command.say(f"ferrule_profiler: process {self.pid} does not answer: {WAITS}. Ctrl-C gives up")
        return ready

    def until_connected(self, server):
        self.notice = time.monotonic() + PATIENCE
        while True:
            ready = self.wait(server)
            if self.signals.came:
                raise AttachError(f"process {self.pid} is not profiled: interrupted")
            if server in ready:
                self.connection, _ = server.accept()
                self.notice, self.awaited = None, False
                return
            if self.process in ready:
                self.awaited = False
                raise AttachError(f"process {self.pid} has ended before the profile began")

    def until_ended(self):
        while True:
            ready = self.wait(self.connection)
            if self.connection in ready:
                if not self.receive():
                    return
            elif self.process in ready:
                return      # a child may have the connection still
            self.request()

    def receive(self):
        """Take what has come; False at its end."""
        try:
            data = self.connection.recv(1 << 18)
        except ConnectionError:
            data = b""
        self.notice = None
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n") if b"\n" in data else [self.buffer]
        for line in lines:
            message = json.loads(line)
            if "error" in message:
                raise AttachError(f"process {self.pid}: {visible(message['error'])}")
            if "started" in message:
                self.begin()
            elif self.received.take(message):
                self.taken(self.received.why)
        return bool(data)

    def taken(self, why):
        """A result has come that is not the last one."""
        now, goes_on = time.monotonic(), self.signals_at_end is None
        if why == "save":
            self.writer.profile.result = self.received.whole
            self.writer.save()
            self.save = now + self.options.save_every if goes_on else None
        elif why == "look":
            self.live.show(self.received.looked)
            self.look = now + INTERVAL if goes_on else None
            if self.live.gone and goes_on:
                self.end = now

    def begin(self):
        options, now = self.options, time.monotonic()
        if self.signals_at_end is None:
            self.end = now + options.seconds if options.seconds else None
            self.save = now + options.save_every if options.save_every else None
            self.look = now + INTERVAL if self.live else None
        if not options.quiet:
            _command.say(f"ferrule_profiler: process {self.pid} is being profiled; Ctrl-C ends the profile and writes it")

    def request(self):
        """Send the requests that are due."""
        now = time.monotonic()
        if self.signals_at_end is not None:
            if self.signals.came[self.signals_at_end:]:
                raise AttachError(f"the profile of process {self.pid} is given up: interrupted")
        elif self.signals.came or (self.end is not None and now >= self.end):
            self.send(STOP)
            self.end = self.save = self.look = None
            self.signals_at_end = len(self.signals.came)
        elif self.save is not None and now >= self.save:
            self.send(SAVE)
            self.save = None
        elif self.look is not None and now >= self.look:
            self.send(LOOK)
            self.look = None

    def send(self, what):
        try:
            self.connection.send(what)
        except OSError:
            pass        # it has ended, which is seen next
        self.notice = time.monotonic() + PATIENCE


class Found:
    """What Writer takes for a profile."""

    result = None

    def stop(self):
        pass

    leave_out_this_thread = stop


def run(options):
    """Profile a process, and write what was found. Returns an exit status."""
    if not hasattr(sys, "remote_exec"):
        _command.say("ferrule_profiler: --pid needs sys.remote_exec(), which Ferrule has on Linux")
        return 1
    options.child, options.program = False, []
    writer = _command.Writer(Found(), options)
    try:
        directory = tempfile.mkdtemp(prefix="ferrule-profiler-")
    except OSError as error:
        _command.say(f"ferrule_profiler: {error}")
        return 1
    signals = Signals()
    live = Live(options) if options.live else None
    attachment = Attachment(options, writer, signals, directory, live)
    error = None
    try:
        with signals, live or contextlib.nullcontext():
            attachment.run()
    except (AttachError, OSError) as raised:
        error = raised
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as raised:
        error = f"process {options.pid} has sent what is no profile: {type(raised).__name__}: {raised}"
    finally:
        if not attachment.awaited:      # otherwise the script removes it
            shutil.rmtree(directory, ignore_errors=True)
    status = ended(attachment, writer, error)
    for number in signals.came:
        if number != signal.SIGINT:
            end_by_signal(number)
    return status


def ended(attachment, writer, error):
    """Write the result, and say how it was had."""
    received = attachment.received
    if error is None and received.why in (None, "save", "look"):
        error = f"process {attachment.pid} has ended without sending what was found: a signal has ended it, or os._exit(), or it runs another program"
    if error is not None:
        _command.say(f"ferrule_profiler: {error}")
    elif received.why == "exit":
        _command.say(f"ferrule_profiler: process {attachment.pid} has ended")
    if received.whole is None:
        return 1
    if error is not None:
        _command.say("ferrule_profiler: what was saved last is written")
    writer.profile.result = received.whole
    writer.finish()
    return int(error is not None or bool(writer.reported))
