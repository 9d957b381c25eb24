"""Files that are written whole, digested, locked and removed."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from .messages import note


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(path):
    """Of a file, or of the names and contents of all files below a directory."""
    if not path.is_dir():
        return sha256(path)
    total = hashlib.sha256()
    for name in sorted(file.relative_to(path).as_posix() for file in path.rglob("*")
                       if file.is_file() or file.is_symlink()):
        file = path / name
        content = file.readlink() if file.is_symlink() else sha256(file)
        total.update(f"{name}\0{content}\n".encode())
    return total.hexdigest()


def write_atomically(path, text):
    temp = path.with_name(path.name + ".tmp")
    with temp.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temp.replace(path)


def read_json(path):
    """The object in a file that we wrote, or None: a broken one counts as absent."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def same(one, other):
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


@contextlib.contextmanager
def locked(directory):
    """Keep a second run out of a directory; then what is temporary in it is stale.

    Where nothing can be written no other process writes either.
    """
    if directory.is_dir() and not os.access(directory, os.W_OK, effective_ids=True):
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"another fetch is at work in {directory}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        for stale in directory.glob(".tmp-*"):
            remove(stale)
        yield


@contextlib.contextmanager
def temporary(directory):
    """A directory beside the result, gone afterwards whatever happens."""
    path = Path(tempfile.mkdtemp(prefix=".tmp-", dir=directory))
    try:
        yield path
    finally:
        remove(path)
