"""What the tests of sys.remote_exec() share: target processes, scripts for them, and their request areas."""

import os
import sys
import tempfile
import time
import unittest

import _remoteexec

from support import PATIENCE
from tests import processes
from tests.remote_debugging import needs_remote

# Runs until it reads a line. There is no other thread, so that a GIL that is waited for is never released.
LOOP = """
import select, sys
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    sum(range(50))
print("end", flush=True)
"""
# Waits in C, where nothing looks at events, until it reads a line.
WAIT = """
import os, sys
print("ready", flush=True)
os.read(0, 1)
for i in range(10):
    pass
print("end", flush=True)
"""


def state(pid):
    """The state of a process, as `ps` names it."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@needs_remote
class RemoteTestCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def script(self, text, name="script.py"):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def target(self, program=LOOP, python=sys.executable, options=(), environment=None):
        process = processes.start(self, [python, *options, "-c", program], 100 * PATIENCE, **(environment or {}))
        self.assertEqual(process.stdout.readline(), "ready\n")
        if "os.read(0, 1)" in program:
            while state(process.pid) == "R":        # on its way there it would look at events
                time.sleep(0.001)
        return process

    def ends_well(self, process, expected="end\n"):
        """What the process has written to its standard error; it runs to its end."""
        output, errors = process.communicate("\n", timeout=120)
        self.assertEqual((process.returncode, output), (0, expected), errors)
        return errors

    def send(self, pid, path):
        """Sends the script as soon as the one before it has been taken."""
        while True:
            try:
                return sys.remote_exec(pid, path)
            except RuntimeError as error:
                self.assertIn("has not yet run", str(error))


class Area:
    """The request area of a process, read and written like a sender that errs."""

    def __init__(self, test, pid):
        self.memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        test.addCleanup(os.close, self.memory)
        self.address = _remoteexec._find(pid, self.memory)

    def head(self):
        """Magic, version, room, events, address, address of eval_breaker."""
        head = _remoteexec._HEAD
        return head.unpack(os.pread(self.memory, head.size, self.address))

    def set_head(self, **changed):
        names = ("magic", "version", "room", "events", "here", "breaker")
        fields = dict(zip(names, self.head(), strict=True))
        os.pwrite(self.memory, _remoteexec._HEAD.pack(*(fields | changed).values()), self.address)

    def events(self):
        """The events that are announced to the main thread."""
        return os.pread(self.memory, 1, self.head()[5])[0]

    def request(self, path, checksum=None, length=None, announced=True):
        """Leaves a request, without the checks of a sender."""
        if checksum is None:
            checksum = 0xcbf29ce484222325
            for byte in path:
                checksum = (checksum ^ byte) * 0x100000001b3 & 0xffffffffffffffff
        os.pwrite(self.memory, path, self.address + _remoteexec._PATH)
        request = _remoteexec._REQUEST.pack(checksum, len(path) if length is None else length)
        os.pwrite(self.memory, request, self.address + _remoteexec._HEAD.size)
        os.pwrite(self.memory, b"\1\0\0\0", self.address + _remoteexec._PENDING)
        if announced:
            self.announce()

    def announce(self):
        _, _, _, events, _, breaker = self.head()
        os.pwrite(self.memory, bytes([events]), breaker)

    def is_pending(self):
        return os.pread(self.memory, 4, self.address + _remoteexec._PENDING) != bytes(4)
