"""Starting and stopping."""

import os
import sys
import threading

from . import _core
from ._greenlets import Greenlets
from ._result import Result

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ProfilerError(RuntimeError):
    """A profile cannot be started or stopped as it was asked for."""


_lock = threading.Lock()
_active = None      # the profile that is being made


def available():
    """None, or a str that says why this interpreter cannot be profiled."""
    if _core.version() == 0:
        return ("this interpreter has no frame hooks: they are a part of Ferrule"
                f" (this is {sys.version.split()[0]}, {sys.executable})")
    if _core.version() < 2:
        return "this interpreter has the first edition of frame hooks; the second one is needed"
    return None


class Profile:
    """A profile: made by start() or profile(). `result` is what it has found until now."""

    def __init__(self, *, count=False):
        self.count = count
        kind = _core.CountProfile if count else _core.ExactProfile
        self._core = kind(OWN)
        self._greenlets = None

    def __repr__(self):
        state = "running" if self is _active else "stopped"
        return f"<ferrule_profiler.Profile, {state}>"

    def start(self):
        global _active
        missing = available()
        if missing:
            raise ProfilerError(missing)
        with _lock:
            if _active is not None:
                raise ProfilerError("a profile is being made already: stop() it first")
            self._core.start()
            _active = self
        if not self.count:
            self._greenlets = Greenlets(self._core)
        return self

    def stop(self):
        """End it. What is still under way counts until now."""
        global _active
        self._core.stop()
        with _lock:
            if _active is self:
                _active = None
        if self._greenlets is not None:
            self._greenlets.stop()
            self._greenlets = None
        return self

    @property
    def result(self):
        return Result(self._core.result())

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()


def profile(**options):
    """A context manager: a profile of what runs in all threads until the block ends."""
    return Profile(**options)


def start(**options):
    """Start a profile of all threads; it is returned. ProfilerError: there is one already."""
    return Profile(**options).start()


def stop():
    """Stop the profile that start() has started; it is returned."""
    running = _active
    if running is None:
        raise ProfilerError("no profile is being made")
    return running.stop()


def _after_fork():
    # The lock may have been held by a thread that is not here.
    global _lock
    _lock = threading.Lock()
    if _active is not None:
        _active._core.after_fork()


os.register_at_fork(after_in_child=_after_fork)
