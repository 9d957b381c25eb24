"""Catches: breakpoints for exceptions, where they are raised or leave the program."""

import bdb
import collections
import opcode
import os
import pdb
import sys
import threading
import types

from . import breakpoints
from .events import CATCH_RAISED, CATCH_UNCAUGHT

# The file that catches are listed by.
FILE = "<exceptions>"
WAYS = {"raised": CATCH_RAISED, "uncaught": CATCH_UNCAUGHT}

# Catches that do not name these, or a subclass of one, ignore them.
_BY_NAME_ONLY = {
    "raised": (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit),
    "uncaught": (GeneratorExit, SystemExit),
}
# By which debuggers leave the program.
_OF_DEBUGGERS = bdb.BdbQuit, pdb.Restart
_RAISE = opcode.opmap["RAISE_VARARGS"]
# The frames below the program: those that run it, and that of a thread.
RUNNERS = {function.__code__ for function in (bdb.Bdb.run, bdb.Bdb.runeval, bdb.Bdb.runcall)}
_BELOW_PROGRAM = {*RUNNERS, threading.Thread._bootstrap_inner.__code__}
_LIBRARY = os.path.dirname(os.__file__) + os.sep
# A subclass may have another attribute of that name.
traceback_of = BaseException.__traceback__.__get__
# Frames that the prompt needs.
_ROOM = 200


class Catch(bdb.Breakpoint):
    """A breakpoint for exceptions. It is numbered, listed, disabled and cleared as others are."""

    def __init__(self, way, name=None, condition=None, pending=False):
        super().__init__(FILE, bdb.Breakpoint.next, cond=condition)
        self.way = way              # one of WAYS
        self.name = name            # module.qualname of the class. A restart makes the class anew
        self.pending = pending      # there was no such class: the name may lack the module

    @property
    def what(self):
        return f"{self.way} {self.name or 'exceptions'}"

    def bpformat(self):
        listed = super().bpformat().replace("breakpoint", "catch     ", 1)
        return listed.replace(f"at {self.file}:{self.line}", self.what, 1)

    def __str__(self):
        return f"catch {self.number} of {self.what}"

    def _names(self, cls):
        try:
            return f"{cls.__module__}.{cls.__qualname__}" == self.name or (
                self.pending and cls.__qualname__ == self.name)
        except Exception:       # its metaclass computes them
            return False

    def wants(self, exception):
        """Whether an exception is of this catch's class, or of a subclass."""
        cls, by_name_only = type(exception), _BY_NAME_ONLY[self.way]
        named = BaseException if self.name is None else next(filter(self._names, cls.__mro__), None)
        return named is not None and (issubclass(named, by_name_only) or not issubclass(cls, by_name_only))


def catches(way=None):
    """All catches, or those of one way."""
    return [point for point in bdb.Breakpoint.bpbynumber
            if isinstance(point, Catch) and way in (None, point.way)]


def events():
    """The events that all catches need."""
    found = 0
    for point in catches():
        found |= WAYS[point.way]
    return found


def wanted(way, exception):
    """The catches that an exception is of."""
    if issubclass(type(exception), _OF_DEBUGGERS):
        return []
    return [point for point in catches(way) if point.wants(exception)]


def effective(points, frame, exception):
    """The first of these that stops, and None or what its condition has raised; or None."""
    view = types.SimpleNamespace(
        f_globals=frame.f_globals, f_locals=collections.ChainMap({"_exception": exception}, frame.f_locals))
    for point in points:
        stop = breakpoints.effective((point.file, point.line), view, point.line)
        if stop is not None:
            return stop
    return None


def is_own(frame):
    """Whether a frame is the debugger's own.

    The program's thread runs such frames where a code object dies, and in a child after a fork.
    """
    return frame is not None and frame.f_globals.get("__package__") == __package__


def is_library(code):
    """Whether code is of the standard library."""
    name = code.co_filename
    return name.startswith("<frozen ") or (
        name.startswith(_LIBRARY) and "site-packages" not in name and "dist-packages" not in name)


def is_others(code):
    """Whether code is of the standard library or an installed package, not of the program."""
    name = code.co_filename
    return is_library(code) or "site-packages" in name or "dist-packages" in name


def is_programs(frame):
    """Whether a frame is the program's, and not called by the debugger."""
    while frame is not None and frame.f_code not in _BELOW_PROGRAM:
        if is_own(frame):
            return False
        frame = frame.f_back
    return True


def is_outermost(frame):
    """Whether no frame of the program has called this one."""
    return frame.f_back is None or frame.f_back.f_code in _BELOW_PROGRAM


def has_room():
    """Whether the stack has room for the prompt."""
    limit, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth + min(_ROOM, limit // 2) < limit


def is_new(frame, exception, is_passed):
    """Whether an exception is raised by this frame, or by such as are passed, not handed on to it.

    A `raise` of an exception that has a traceback raises it anew, except where the frame had it already.
    """
    entry = traceback_of(exception)
    if entry is None:
        return False        # the interpreter handles the end of an iterator in C
    if entry.tb_frame is frame:
        place, entry = entry.tb_lasti, entry.tb_next
        if entry is not None and frame.f_code.co_code[place] == _RAISE:
            return entry.tb_frame is not frame or entry.tb_lasti == place
    while entry is not None:
        if not is_passed(entry.tb_frame):
            return False
        entry = entry.tb_next
    return True
