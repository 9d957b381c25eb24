"""A client of the Debug Adapter Protocol, as small as the tests need it."""

import json
import socket
import time

SECONDS = 60


def free_port():
    """A port without a listener."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port):
    """A connection to a process that is about to listen."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


class Client:
    """Requests and events over one connection."""

    def __init__(self, port):
        self._socket = connect(port)
        self._file = self._socket.makefile("rb")
        self._number = 0
        self._unread = []
        # All that there were.
        self.events = []

    def close(self):
        self._file.close()
        self._socket.close()

    def send(self, command, **arguments):
        """Send a request; its number."""
        self._number += 1
        body = json.dumps(
            {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._number

    def _receive(self):
        length = 0
        while line := self._file.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if not length:
            raise EOFError("the adapter has closed the connection")
        message = json.loads(self._file.read(length))
        if message["type"] == "event":
            self.events.append(message)
            self._unread.append(message)
        elif not message.get("success", True):
            raise RuntimeError(message.get("message"))
        return message

    def answer(self, number):
        """The body of the answer to a request."""
        while True:
            message = self._receive()
            if message["type"] == "response" and message["request_seq"] == number:
                return message.get("body") or {}

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        """The body of the next event of this name; those before it are dropped."""
        while True:
            while self._unread:
                message = self._unread.pop(0)
                if message["event"] == name:
                    return message.get("body") or {}
            self._receive()

    def begin(self, request, path, breakpoints, exceptions=(), **arguments):
        """Begin a session as VS Code does: "launch" or "attach" is answered after the breakpoints are set."""
        self.ask("initialize", adapterID="debugpy", clientID="test", linesStartAt1=True, columnsStartAt1=True, pathFormat="path")
        begun = self.send(request, **arguments)
        self.event("initialized")
        self.ask("setBreakpoints", source={"path": str(path)}, breakpoints=breakpoints)
        self.ask("setExceptionBreakpoints", filters=exceptions)
        self.ask("configurationDone")
        self.answer(begun)

    def stopped(self):
        """The next stop: why, the thread's number, its frames."""
        stop = self.event("stopped")
        frames = self.ask("stackTrace", threadId=stop["threadId"], startFrame=0, levels=20)["stackFrames"]
        return stop["reason"], stop["threadId"], frames

    def variables(self, frame):
        """The local variables, without the groups that the adapter makes of others."""
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        found = self.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        return {one["name"]: one["value"] for one in found if not one["name"].endswith(" variables")}

    def output(self, category):
        """What the program has printed so far, or a logpoint."""
        bodies = [message["body"] for message in self.events if message["event"] == "output"]
        return "".join(body["output"] for body in bodies if body.get("category") == category)
