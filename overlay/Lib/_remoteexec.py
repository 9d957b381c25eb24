"""The sender's side of sys.remote_exec(): rust-core/src/remote.rs is the receiver's.

The request is written through /proc/PID/mem, which stays with the memory that the process had when it was opened: a
process that ends, executes another program or whose number is given to another one is never written to.
"""

import contextlib
import errno
import fcntl
import operator
import os
import struct
import sys
import time

_MAGIC = b"FERRULE-REMOTE\0\x01"
_HEAD = struct.Struct("=16sIHHQQ")      # magic, version, room, events, here, breaker
_REQUEST = struct.Struct("=QI")         # checksum, length
_PENDING = _HEAD.size + _REQUEST.size
_PATH = _PENDING + 4
# The event of EVENTS that announces a script: CPython's _PY_ASYNC_EXCEPTION_BIT.
_ANNOUNCED = 1 << 3
# The area lies in the interpreter's own data, of which a mapping has at most this size.
_LARGEST_DATA = 64 << 20


def remote_exec(pid, script):
    """Execute the file script in the process pid, as soon as its main thread comes to a safe point."""
    pid = operator.index(pid)
    path = os.fsencode(script)
    sys.audit("sys.remote_exec", pid, script)
    if b"\0" in path:
        raise ValueError("embedded null byte")
    with open(path, "rb"):
        pass
    path = os.path.abspath(path)
    with _memory(pid) as memory:
        _send(pid, memory, path)


def withdraw(pid, script):
    """Take back a request that the process has not taken. False: it runs the script, or has run it, or did not have it."""
    with _memory(pid) as memory:
        return _withdraw(pid, memory, os.path.abspath(os.fsencode(script)))


@contextlib.contextmanager
def _memory(pid):
    """The memory of a process, which other senders do not write to meanwhile."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    except ProcessLookupError:      # its parent has not waited for it
        raise ProcessLookupError(f"process {pid} has ended") from None
    except PermissionError as error:
        raise PermissionError(error.errno, f"process {pid} may not be debugged by this one{_hint()}") from None
    try:
        # Other senders wait for no more than a few writes.
        fcntl.flock(memory, fcntl.LOCK_EX)
        yield memory
    finally:
        fcntl.flock(memory, fcntl.LOCK_UN)      # a forked child may have the file too
        os.close(memory)


def _hint():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as scope:
            number = scope.read().strip()
    except OSError:
        return ""
    return "" if number == "0" else f"; see ptrace_scope, which is {number}"


def _send(pid, memory, path):
    area = _find(pid, memory)
    _, version, room, events, _, breaker = _HEAD.unpack(_read(memory, area, _HEAD.size))
    if version >> 16 != sys.hexversion >> 16:
        raise RuntimeError(f"process {pid} is of another version of Python: {version >> 24}.{version >> 16 & 255}")
    if not breaker:
        raise RuntimeError(f"remote debugging is not enabled in process {pid}")
    if len(path) >= room:
        raise ValueError(f"the path of the script is too long: {len(path)} bytes of {room - 1} possible")
    event = bytes([events & 0x7f])
    if _read(memory, area + _PENDING, 4) != bytes(4):
        _write(memory, breaker, event)      # its sender may have ended before it announced the script
        raise RuntimeError(f"process {pid} has not yet run the script that was sent to it before")
    _write(memory, area + _PATH, path)
    _write(memory, area + _HEAD.size, _request(path))
    _write(memory, area + _PENDING, struct.pack("=I", 1))
    _write(memory, breaker, event)


def _request(path):
    checksum = 0xcbf29ce484222325
    for byte in path:
        checksum = (checksum ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return _REQUEST.pack(checksum, len(path))


def _withdraw(pid, memory, path):
    area = _find(pid, memory)
    breaker = _HEAD.unpack(_read(memory, area, _HEAD.size))[-1]
    if not breaker or _read(memory, area + _PENDING, 4) == bytes(4):
        return False
    if _read(memory, area + _HEAD.size, _REQUEST.size) != _request(path) or _read(memory, area + _PATH, len(path)) != path:
        return False
    _write(memory, area + _PENDING, bytes(4))
    # The process clears the event before it looks for a request.
    if _read(memory, breaker, 1)[0] & _ANNOUNCED:
        return True
    time.sleep(0.01)        # it may be about to copy the path, which the next sender overwrites
    return False


def _read(memory, address, size):
    try:
        data = os.pread(memory, size, address)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        data = b""
    return _whole(data, len(data) == size)


def _write(memory, address, data):
    try:
        written = os.pwrite(memory, data, address)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        written = 0
    _whole(data, written == len(data))


def _whole(data, is_whole):
    if not is_whole:
        raise ProcessLookupError("the process has ended, or executes another program")
    return data


def _find(pid, memory):
    """The address of the area in the process, which has its own address in it where Python has started."""
    for start, size in _mappings(pid):
        try:
            data = os.pread(memory, size, start)
        except OSError:
            continue
        at = data.find(_MAGIC)
        while at >= 0:
            if len(data) - at >= _HEAD.size and _HEAD.unpack_from(data, at)[4] == start + at:
                return start + at
            at = data.find(_MAGIC, at + 1)
    try:
        os.pread(memory, 1, 0)
    except OSError:     # there is memory, but none at this address
        raise RuntimeError(f"process {pid} is no Ferrule that takes scripts, or it has not started Python yet") from None
    raise ProcessLookupError(f"process {pid} has ended, or executes another program")


def _mappings(pid):
    """Where the data of the program, and of a libpython, is mapped: addresses and sizes."""
    try:
        program = os.fsencode(os.readlink(f"/proc/{pid}/exe"))
        with open(f"/proc/{pid}/maps", "rb") as maps:
            lines = maps.read().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1] == b"rw-p" and (fields[5] == program or b"python" in os.path.basename(fields[5])):
            start, end = (int(address, 16) for address in fields[0].split(b"-"))
            if end - start <= _LARGEST_DATA:
                yield start, end - start
