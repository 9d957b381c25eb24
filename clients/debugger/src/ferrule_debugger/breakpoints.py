"""Which breakpoint stops a frame at a line."""

import bdb
import functools
import os
import traceback

from .index import lines_of


@functools.lru_cache(10_000)
def real_path(file):
    """The path of a file without symbolic links. Names in angle brackets stay as they are."""
    if file[:1] == "<" and file[-1:] == ">":
        return file
    try:
        return os.path.normcase(os.path.realpath(file))
    except (OSError, ValueError):
        return file


_codes = {}     # condition -> its code


def _code_of(condition):
    if not isinstance(condition, str):
        return condition
    if len(_codes) > 1000:
        _codes.clear()
    code = _codes[condition] = compile(condition.strip(" \t"), "<condition>", "eval")
    return code


def effective(place, frame, line):
    """The breakpoint of those listed for a place, (file, line), that stops the frame at a line.

    Returns it, and None or what its condition has raised, as a str; or None. What is counted and
    what is skipped is as bdb has it.
    """
    for point in bdb.Breakpoint.bplist.get(place, ()):
        if not point.enabled:
            continue
        if (point.funcname or point.line != line) and not bdb.checkfuncname(point, frame):
            continue
        point.hits += 1
        condition = point.cond
        if condition:
            try:
                code = _codes.get(condition) or _code_of(condition)
                if not eval(code, frame.f_globals, frame.f_locals):
                    continue
            except BaseException as error:
                return point, traceback.format_exception_only(error)[-1].strip()
        if point.ignore > 0:
            point.ignore -= 1
            continue
        log = getattr(point, "log", None)
        if log is None:
            return point, None
        log(frame)
    return None


def places_in(code, file, wanted):
    """Where a code object may stop: {line: place}. `wanted`: its file's lines with breakpoints."""
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
