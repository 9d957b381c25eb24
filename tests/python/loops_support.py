"""Loops that a hook watches, for tests."""

import contextlib
import dis

from support import use_extensions

use_extensions()
try:
    import compilers
except ImportError:     # stock CPython
    compilers = None


@contextlib.contextmanager
def watched(callback, *codes, turns=10, flags=0):
    """Has `callback` called at hot loops of the functions or code objects."""
    hook = compilers.add_hook(callback, flags)
    try:
        for code in codes:
            compilers.watch_loops(hook, getattr(code, "__code__", code), turns)
        yield hook
    finally:
        with contextlib.suppress(ValueError):
            compilers.remove(hook)


def answering(verdict, **rest):
    """A callback with one answer."""
    def callback(hot):
        hot["verdict"] = verdict
        hot.update(rest)
    return callback


def jumps(code):
    """The JUMP_BACKWARDs of a code object, and where they lead: indices in code units."""
    return {instruction.offset // 2: instruction.jump_target // 2 for instruction in dis.get_instructions(code)
            if instruction.opname == "JUMP_BACKWARD"}


def index_of(code, opname, nth=0):
    """The index of the nth instruction of that kind."""
    return [instruction.offset // 2 for instruction in dis.get_instructions(code) if instruction.opname == opname][nth]


def index_at(code, line):
    """The index of the first instruction of a line, counted from the first line of the function."""
    return min(instruction.offset // 2 for instruction in dis.get_instructions(code)
               if instruction.positions.lineno == code.co_firstlineno + line and instruction.opname != "RESUME")


class Slots:
    """What a callback has got of its frame."""

    def __init__(self, hot):
        code = hot["code"]
        self.names = (*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)
        self.values = dict(zip(self.names, hot["slots"], strict=False))
        self.stack = hot["slots"][len(self.names):]


def total(n):
    s = 0
    for i in range(n):
        s += i
    return s


def nested(n):
    s = 0
    for i in range(n):
        j = 0
        while j < n:
            j += 1
            s += i
    return s
