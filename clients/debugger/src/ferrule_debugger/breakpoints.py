"""Which breakpoint stops a frame at a line."""

import bdb
import functools

from .index import lines_of


@functools.lru_cache(maxsize=256)
def _compiled(condition):
    return compile(condition.strip(" \t"), "<condition>", "eval")


def _holds(condition, frame):
    if isinstance(condition, str):
        condition = _compiled(condition)
    return eval(condition, frame.f_globals, frame.f_locals)


def effective(place, frame, line):
    """The breakpoint of those listed for a place, (file, line), that stops the frame at a line.

    Returns it, and whether it may be deleted if it is a temporary one; or None. What is counted
    and what is skipped is as bdb has it.
    """
    for point in tuple(bdb.Breakpoint.bplist.get(place, ())):
        if not point.enabled:
            continue
        if (point.funcname or point.line != line) and not bdb.checkfuncname(point, frame):
            continue
        point.hits += 1
        try:
            stops = not point.cond or _holds(point.cond, frame)
        except BaseException:
            return point, False     # let the user see what is wrong with the condition
        if not stops:
            continue
        if point.ignore <= 0:
            return point, True
        point.ignore -= 1
    return None


def places_in(code, file, wanted):
    """Where a code object may stop: {line: place}. `wanted` are the file's lines that have breakpoints."""
    if not wanted:
        return {}
    own = lines_of(code)
    places = {line: (file, line) for line in wanted if line in own}
    first = code.co_firstlineno
    # A breakpoint of a function may be listed at its `def`, and stops at its first line that runs.
    if first in wanted and any(point.funcname == code.co_name
                               for point in bdb.Breakpoint.bplist.get((file, first), ())):
        places = {**dict.fromkeys(own, (file, first)), **places}
    return places
