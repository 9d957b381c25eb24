"""What a debugger keeps for each thread."""

import enum
import threading
from operator import attrgetter
import types


class Mode(enum.Enum):
    """How a thread continues."""

    RUNNING = "to the next breakpoint"
    WATCHING = "to an event of some frames: next, until, return"
    STEPPING = "to the next event of any frame: step"


# By plain names: they are compared for each line with a breakpoint.
RUNNING, WATCHING, STEPPING = Mode

# What bdb takes for the frame below all frames of a thread that it does not follow.
BELOW_ALL = types.SimpleNamespace(f_code=types.SimpleNamespace(co_flags=0))


class Watched:
    """A frame whose events are watched."""

    __slots__ = ("frame", "first", "paused", "shown")

    def __init__(self, frame, first, shown=None):
        self.frame = frame
        self.shown = shown or frame     # the frame to stop in at its instructions
        self.first = first          # the first line whose events are needed
        self.paused = False         # while its code runs in another frame, called from it


class Here:
    """What a debugger knows of one thread."""

    def __init__(self):
        self.mode = RUNNING
        self.watched = []           # Watched
        self.task = None            # the asyncio task in which the last command was given
        self.interrupted = []       # commands that a stop in another task has interrupted: (task, arguments of _set_stop)
        self.pauses = 0             # how often that was paused
        self.in_place = False       # the watches of the last command are, and nothing has changed them
        self.ended = False          # the frame to stop in has ended: the next event stops
        self.passed = None          # (frame, line, instruction): its breakpoints were looked at already
        self.found = None           # (frame, breakpoint, what its condition has raised)
        self.catch = None           # (frame, catch, what its condition has raised)
        self.shown = None           # (id of an exception, of its traceback): a step has just stopped for it
        self.can_await = False      # the prompt is a coroutine's, which awaits what is typed
        self.awaits = None          # Awaited: what was typed
        self.is_shown = False       # the place to stop at was printed at the prompt before
        self.tracer = None          # what the program traces itself with
        self.local_tracers = {}     # and what it traces frames with
        self.stopframe = BELOW_ALL
        self.returnframe = None
        self.stoplineno = -1
        self.botframe = BELOW_ALL
        self.enterframe = None
        self.frame_returning = None
        self.trace_opcodes = False
        self.frame_trace_lines_opcodes = {}


    def __enter__(self):
        """What bdb has a generator for, at each event: the debugger is at work in a frame, `enterframe`, until the block ends."""

    def __exit__(self, *exception):
        self.enterframe = None

    def watches(self, frame):
        """The Watched of a frame, or None."""
        if self.mode is WATCHING:
            for one in self.watched:
                if one.frame is frame:
                    return one
        return None


class OfThreads(threading.local):
    """What a debugger knows of each thread. An object of its own has it: attributes of a threading.local are slow."""

    def __init__(self):
        self.here = Here()


def of_thread(name):
    """An attribute of bdb.Bdb that each thread has for itself."""
    def set_here(debugger, value):
        setattr(debugger._here, name, value)

    return property(attrgetter(f"_of_threads.here.{name}"), set_here)


class MadeOnce:
    """An attribute that is made at its first access: no __init__ has to be called for it."""

    def __init__(self, make):
        self._make = make

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, debugger, owner=None):
        if debugger is None:
            return self
        return debugger.__dict__.setdefault(self._name, self._make())
