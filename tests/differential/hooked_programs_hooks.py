"""Frame hooks in Python that must not change what a program does.

A hook leaves no mark on a trace. So hooks that look for frames drop what they found before they
return.
"""

import inspect
import logging
import sys
import threading
import traceback
import warnings

import hooked_programs_helpers
import programs_worker as worker
from programs_worker import PROGRAM

framehook = None        # the worker imports it, unless there is to be no hook

# The hook returns Disable at once for code of these files. The worker adds its own.
HELPERS = {__file__, worker.__file__, hooked_programs_helpers.__file__}


def answer_nothing(view):
    return framehook.DISABLE if view.code.co_filename in HELPERS else None


def disable_all(view):
    return framehook.DISABLE


def read_everything(view):
    if view.code.co_filename in HELPERS:
        return framehook.DISABLE
    view.function, view.globals, view.builtins, view.argument_names, view.arguments()
    return None


def make_copier(look=None):
    # There is one copy of each code object. With more, calls would be specialized later than on
    # stock. Where a call is not specialized, arguments die later.
    copies = {}         # id(code) -> code, its copy

    def copy(view):
        code = view.code
        # A class body with an inlined comprehension cannot be copied: what replace() makes does not
        # show which locals are the comprehension's.
        cannot_be_copied = code.co_varnames and not code.co_flags & inspect.CO_OPTIMIZED
        if code.co_filename in HELPERS or cannot_be_copied:
            return framehook.DISABLE
        if look is not None:
            look()
        known = copies.get(id(code))
        if known is None:
            known = copies[id(code)] = code, code.replace()
        return known[1]

    return copy


class Found(Exception):
    """warnings.warn() has walked to the frame of its stack level."""


class Unseen(Warning):
    """A warning without a text, which ends warn() as soon as that has found the frame.

    No filter is consulted, and nothing is shown.
    """

    def __str__(self):
        raise Found


UNSEEN = Unseen()
# A stack level below all frames. At a real level, warn() would leave its registry in the globals of
# the program.
LAST = 1 << 30
OBSERVER = logging.Logger("observer")
OBSERVER.addHandler(logging.NullHandler())


def take_frames():
    frame, depth = sys._getframe(2), 0
    while frame is not None and depth < 6:
        frame.f_lineno, frame.f_lasti, frame.f_trace, frame.f_code
        if frame.f_code.co_filename == PROGRAM:
            dict(frame.f_locals)
        frame, depth = worker.below(frame), depth + 1


def log(stacklevel=3, stack_info=False):
    # Of a thread that threading does not know, or not any more, logging has it make an object in the thread's locals. Where
    # these have died already, CPython loses it.
    if threading.get_ident() in threading._active:
        OBSERVER.warning("a call", stacklevel=stacklevel, stack_info=stack_info)


def log_stack():
    log(stacklevel=4, stack_info=True)


def warn():
    try:
        warnings.warn(UNSEEN, stacklevel=LAST)
    except Found:
        pass


def walk_stack():
    for frame, line in traceback.walk_stack(None):
        pass


def extract_stack():
    traceback.extract_stack(limit=8)


def stack():
    inspect.stack(0)


def threads():
    sys._current_frames()


def raise_and_catch():
    try:
        raise Found
    except Found as error:
        traceback.extract_tb(error.__traceback__)


# Tools that cost little are used more often.
CHEAP = take_frames, log, warn, walk_stack, threads
TOOLS = (*CHEAP, extract_stack, *CHEAP, raise_and_catch, *CHEAP, log_stack, *CHEAP, stack)
# These read the source of each frame of the whole stack. In programs of many calls far down they would take minutes.
WHOLE, MOST_WHOLE = (log_stack, stack), 400


def make_looker():
    """A function that uses one tool after another."""
    turn = whole = 0

    def look():
        nonlocal turn, whole
        turn += 1
        # Some tools make functions, which CPython 3.13 gets wrong where there is no memory.
        use = TOOLS[turn // 6 % len(TOOLS)] if turn % 6 == 0 and not worker.current.quiet else take_frames
        if use in WHOLE:
            whole += 1
            if whole > MOST_WHOLE:
                use = take_frames
        use()

    return look


def make_observer():
    look = make_looker()

    def observe(view):
        if view.code.co_filename in HELPERS:
            return framehook.DISABLE
        look()
        return None

    return observe
