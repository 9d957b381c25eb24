"""One run at a time in a clone: the next one waits."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from tools import places, progress


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keeps other runs out. The lock is on the directory itself, so that who may only read it can take it too."""
    if not places.BUILD.exists():
        yield
        return
    directory = os.open(places.BUILD, os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("ferrule: another make or configure is at work in this clone; waiting for it")
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)
