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


class Client:
    """Requests and events over one connection."""

    def __init__(self, port):
        until = time.monotonic() + SECONDS
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
                break
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        self._file = self._socket.makefile("rb")
        self._number = 0
        self._events = []

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
        return json.loads(self._file.read(length))

    def answer(self, number):
        """The body of the answer to a request."""
        while True:
            message = self._receive()
            if message["type"] == "event":
                self._events.append(message)
            elif message["type"] == "response" and message["request_seq"] == number:
                if not message["success"]:
                    raise RuntimeError(message.get("message"))
                return message.get("body") or {}

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        """The body of the next event of this name; those before it are dropped."""
        while True:
            while self._events:
                message = self._events.pop(0)
                if message["event"] == name:
                    return message.get("body") or {}
            message = self._receive()
            if message["type"] == "event":
                self._events.append(message)
