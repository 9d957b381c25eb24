"""Starting and stopping."""

import os
import sys
from _thread import TIMEOUT_MAX, RLock, get_ident

from ._builtins import Builtins
from ._chosen import Chosen
from ._greenlets import Greenlets
from ._loaded import core, missing
from ._result import Result
from ._sample import INTERVAL, Sampler

# What makes subinterpreters. Frame hooks belong to one interpreter, and none of them has this package.
INTERPRETERS = "_interpreters"
OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ProfilerError(RuntimeError):
    """A profile cannot be started or stopped as requested."""


_lock = RLock()      # a signal handler may start a profile while one is being started
_active = None      # the profile that is being made


def available():
    """None, or a str that says why this interpreter cannot be profiled."""
    if core is None:
        return missing
    if core.version() == 0 and not core.can_monitor():
        return ("calls can be counted on Ferrule, and on CPython 3.13 with the GIL"
                f" (this is {sys.version.split()[0]}, {sys.executable})")
    return None


class Profile:
    """A profile: made by start() or profile(). `result` is what it has found until now.

    count: only count calls, without times
    sample: count calls, and take times from a timer; True, or its seconds
    builtins: C functions too
    trace: how many of the last events of each thread are kept for a timeline
    arguments: the timeline has the arguments of calls
    cpu: functions have CPU time too
    lines: functions, or their names, whose lines have times: "method", "Class.method", "file.py:function"
    lines_of: files of which all functions have
    """

    def __init__(self, *, count=False, sample=False, builtins=False, trace=0, arguments=False, lines=(),
                 lines_of=(), cpu=False):
        if core is None:
            raise ProfilerError(missing)
        self._chosen = Chosen(lines, lines_of)
        if (count or sample) and (builtins or trace or cpu or self._chosen.all):
            raise ValueError("C functions, timelines, lines and CPU time need exact times")
        if trace < 0 or not 0 <= sample < TIMEOUT_MAX:
            raise ValueError("a number of events, or of seconds between two looks, is not negative")
        if arguments and not trace:
            raise ValueError("arguments are a part of a timeline: say how many events it has")
        self.timed = not count
        self.program = None     # the command line, if it is not sys.argv
        self._parts = []
        if count or sample:
            self._core = core.CountProfile(OWN)
        else:
            self._core = core.ExactProfile(OWN, trace, arguments, self._chosen.all, cpu)
        self._exact = not (count or sample)
        self._builtins, self._cpu = builtins, cpu
        self._sampler = None
        if sample:
            self._sampler = Sampler(OWN, self.leave_out_this_thread,
                                    INTERVAL if sample is True else sample)

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
            _active = self
        try:
            self._core.start()
            # C functions come last, and end first: what we call ourselves is unseen.
            for part in self._wanted_parts():
                self._parts.append(part)
                part.start()
        except BaseException as error:
            self.stop()
            if isinstance(error, RuntimeError):
                raise ProfilerError(str(error)) from None
            raise
        return self

    def _wanted_parts(self):
        if self._exact:
            yield Greenlets(self._core)
        if self._sampler is not None:
            yield self._sampler
        if self._builtins:
            yield Builtins(self._core)

    def stop(self):
        """End it. What is still under way counts until now."""
        global _active
        while self._parts:
            self._parts.pop().stop()
        self._core.stop()
        with _lock:
            if _active is self:
                _active = None
        return self

    def leave_out_this_thread(self):
        """Profile nothing that the calling thread begins from now on."""
        self._core.leave_out_this_thread()
        if self._sampler is not None:
            self._sampler.left_out.add(get_ident())

    def found(self):
        """What Result is made of."""
        found = self._core.result()
        found["timed"], found["with_cpu"] = self.timed, self._cpu
        found["missing"] = self._chosen.missing(found.pop("chosen"))
        found["program"] = [*map(str, self.program or getattr(sys, "argv", ()))]
        found["interpreters"] = INTERPRETERS in sys.modules
        found["pid"], found["python"] = os.getpid(), sys.version.split()[0]
        if self._sampler is not None:
            found["clock"] = f"a look each {self._sampler.interval * 1e3:g} ms"
            self._sampler.add_to(found)
        return found

    @property
    def result(self):
        return Result(self.found())

    def _after_fork(self):
        self._core.after_fork()
        if self._sampler in self._parts:
            self._sampler.after_fork()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()

    async def __aenter__(self):
        return self.start()

    async def __aexit__(self, *exception):
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


def running():
    """What counts, in the core; None: no profile is being made."""
    return None if _active is None else _active._core


def _after_fork():
    # The lock may have been held by a thread that is not here.
    global _lock
    _lock = RLock()
    if _active is not None:
        _active._after_fork()


os.register_at_fork(after_in_child=_after_fork)
