"""A profile that another process has requested, in the process that is profiled. _attach.py is the other side.

That sends bytes: SAVE asks for what was found until now, LOOK for the functions in it, STOP ends the profile, and so does the end of the connection.
What is sent to it are lines of JSON: {"started": true} or {"error": text}, and each time what was found, in pieces, as
one long call would hold the GIL: {"found": dict}, {"thread": dict}, {"key": name, "rows": list} for a list of what came
before, and {"end": why}.
"""

import atexit
import os
import sys
# The module json, of the same name as one of the program's perhaps, is not needed for this.
from _json import encode_basestring_ascii, make_encoder
from _socket import MSG_NOSIGNAL, SHUT_RDWR, SO_SNDTIMEO, SOL_SOCKET
from _thread import allocate_lock, start_new_thread

from ._profile import Profile, ProfilerError
from ._result import last_line

SAVE, LOOK, STOP = b"r", b"l", b"s"
# What a look has not: it is made each second.
DETAILS = ("nodes", "edges", "events", "lines")
ROWS = 1000
# So many seconds the end of the program waits for a reader that does not read.
PATIENCE = 10

_encode = make_encoder(None, str, encode_basestring_ascii, None, ":", ",", False, False, False)
_attached = None


class Attached:
    def __init__(self, connection, options, sources):
        self.connection = connection
        self.sources = sources      # whether the lines of functions are needed
        self.profile = Profile(**options)
        self.ended = False
        self.lock = allocate_lock()
        connection.setsockopt(SOL_SOCKET, SO_SNDTIMEO, PATIENCE.to_bytes(8, sys.byteorder) + bytes(8))

    def start(self):
        global _attached
        self.profile.start()
        _attached = self
        atexit.register(self.finish, "exit")
        try:
            start_new_thread(self.serve, ())
        except BaseException:
            self.leave()
            raise

    def serve(self):
        """The thread that waits for requests."""
        self.profile.leave_out_this_thread()
        try:
            self.send(started=True)
            while request := self.connection.recv(1):
                if request == STOP:
                    self.finish("stop")
                else:
                    with self.lock:
                        if not self.ended:
                            self.send_result("save" if request == SAVE else "look")
        except OSError:
            pass        # the reader is gone, or reads nothing
        finally:
            self.finish(None)
            self.leave()
            self.connection.close()

    def finish(self, why):
        """Stop the profile, and send what was found; with None, drop it."""
        with self.lock:
            if self.ended:
                return
            self.ended = True
            self.profile.stop()
            try:
                if why is not None:
                    self.send_result(why)
                self.connection.shutdown(SHUT_RDWR)
            except OSError:
                pass

    def leave(self):
        global _attached
        self.profile.stop()
        atexit.unregister(self.finish)
        if _attached is self:
            _attached = None

    def forked(self):
        """In the child, which is not profiled."""
        self.ended, self.lock = True, allocate_lock()
        self.leave()
        self.connection.close()

    def send(self, **message):
        self.connection.sendall("".join(_encode(message, 0)).encode() + b"\n", MSG_NOSIGNAL)

    def send_rows(self, of):
        """Send the lists of a dict."""
        for key, rows in of.items():
            if type(rows) is list:
                for first in range(0, max(len(rows), 1), ROWS):
                    self.send(key=key, rows=rows[first:first + ROWS])

    def send_result(self, why):
        found = self.profile.found()
        threads, objects = found.pop("threads"), found.pop("objects")
        if why == "look":
            objects = []
            for thread in threads:
                thread.update({key: [] for key in DETAILS if key in thread})
        # Another process has no code objects, and other files where a name is relative.
        found["lines"] = [(number, last_line(code)) for number, code in objects
                          if hasattr(code, "co_positions") and os.path.isabs(code.co_filename)] if self.sources else []
        for kind, one in ("found", found), *(("thread", thread) for thread in threads):
            self.send(**{kind: {key: value for key, value in one.items() if type(value) is not list}})
            self.send_rows(one)
        self.send(end=why)


def begin(connection, options, sources):
    """Start a profile, and serve it to the other side of the connection."""
    attached = Attached(connection, options, sources)
    try:
        if type(start_new_thread) is not type(len):
            raise ProfilerError("its threads are not the interpreter's")
        attached.start()
    except Exception as error:      # an audit hook may raise any
        try:
            attached.send(error=str(error) if isinstance(error, ProfilerError) else f"{type(error).__name__}: {error}")
        except OSError:
            pass        # the reader has closed its end
        connection.close()


def _after_fork():
    if _attached is not None:
        _attached.forked()


os.register_at_fork(after_in_child=_after_fork)
