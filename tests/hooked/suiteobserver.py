"""What the hook "observe" does in Python while a frame is offered: it uses the tools that look for frames.

sitecustomize loads this module. The tools are its own copies, so they may be changed here.
"""

import atexit
import inspect
import itertools
import linecache
import logging
import sys
import traceback
import warnings

# Frames are looked at, not files.
linecache.checkcache = linecache.lazycache = linecache.updatecache = lambda *_: []
inspect.getsourcefile = lambda frame: frame.f_code.co_filename

logging.logAsyncioTasks = logging.logMultiprocessing = logging.logProcesses = logging.logThreads = False
atexit.unregister(logging.shutdown)
LOGGER = logging.Logger("suiteobserver")
LOGGER.addHandler(logging.NullHandler())

LAST = 1 << 30      # a stack level below all frames


class Found(Exception):
    """warnings.warn() has walked to the frame of its stack level."""


class Unseen(Warning):
    """Has no text: so warn() fails once it has found the frame, and before a filter is consulted or anything shown."""

    def __str__(self):
        raise Found


UNSEEN = Unseen()


def take_frames(top):
    depth = 2       # observe() and this function are above
    while top is not None and depth < 6:
        if sys._getframe(depth) is not top:
            raise SystemError("sys._getframe() finds another frame than C")
        sys._getframemodulename(depth)
        top.f_lineno, top.f_locals
        top, depth = top.f_back, depth + 1


def log(top):
    LOGGER.warning("a call", stacklevel=3)


def log_stack(top):
    LOGGER.warning("a call", stacklevel=3, stack_info=True)


def warn(top):
    try:
        warnings.warn(UNSEEN, stacklevel=LAST)
    except Found:
        pass


def walk_stack(top):
    for frame, line in traceback.walk_stack(sys._getframe()):
        pass


def extract_stack(top):
    traceback.extract_stack()


def stack(top):
    inspect.stack(context=0)


def threads(top):
    # CPython mixes up the memory of several interpreters here.
    if alone():
        sys._current_frames()


# By what they cost: the last ones take a hundred microseconds and more.
CHEAP = take_frames, log, warn, walk_stack, threads
TOOLS = (*CHEAP, extract_stack, *CHEAP, stack, *CHEAP, log_stack)
TURNS = itertools.count()


def observe(top):
    """`top` is the topmost frame as C finds it, or None."""
    TOOLS[next(TURNS) % len(TOOLS)](top)
