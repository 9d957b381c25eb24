"""What stays from one session to the next: what was typed, and with --keep the breakpoints."""

import bdb
import hashlib
import json
import linecache
import os
import sys

from .catching import Catch
from .debugger import at_end

_MOST_LINES = 1000


def _path(name):
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):        # such names are ignored by the XDG Base Directory Specification
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "ferrule-debugger", name)


def _make_directory(path):
    if not os.path.isabs(path):
        raise OSError("the user has no home directory, and XDG_STATE_HOME is not set")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)


# --- History. -----------------------------------------------------------------------------------


def keep_history():
    """Have the lines that were typed before at hand at the prompt, where a terminal has one."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    try:
        import readline
    except ImportError:
        return
    path = _path("history")
    try:
        readline.read_history_file(path)
    except OSError:
        pass        # there is none yet
    at_end(_write_history, path)


def _write_history(path):
    import readline

    try:
        _make_directory(path)
        readline.set_history_length(_MOST_LINES)        # only now: it is of the files that the program writes, too
        readline.write_history_file(path)
    except OSError as error:
        print(f"*** The history is not kept: {error}", file=sys.stderr)


# --- Breakpoints. -------------------------------------------------------------------------------


def all_points(debugger=None):
    """All breakpoints, as JSON has them; with a debugger, its commands for them too."""
    points = []
    for point in bdb.Breakpoint.bpbynumber:
        if point is None or point.temporary:
            continue
        kept = {"cond": point.cond, "enabled": bool(point.enabled), "ignore": point.ignore}
        if isinstance(point, Catch):
            kept |= {"catch": point.way, "name": point.name, "pending": point.pending}
        else:
            kept |= {"file": point.file, "line": point.line, "function": point.funcname,
                     "source": linecache.getline(point.file, point.line).strip(), "log": getattr(point, "log_text", None)}
        if debugger is not None and point.number in debugger.commands:
            kept["commands"] = [debugger.commands[point.number], debugger.commands_doprompt[point.number],
                                debugger.commands_silent[point.number]]
        points.append(kept)
    return points


def restore(debugger, points):
    """Set breakpoints; how many there are."""
    number = 0
    for kept in points:
        point = _set(debugger, kept)
        if point is None:
            continue
        number += 1
        point.enabled, point.ignore = kept["enabled"], kept["ignore"]
        if "commands" in kept:
            debugger.commands[point.number], debugger.commands_doprompt[point.number], debugger.commands_silent[point.number] = kept["commands"]
    return number


def _set(debugger, kept):
    if "catch" in kept:
        return debugger.set_catch(kept["catch"], kept["name"], kept["cond"], kept["pending"])
    file, line = kept["file"], _line_of(kept)
    problem = debugger.set_break(file, line, False, kept["cond"], kept["function"])
    if problem:
        debugger.error(f"{file}:{line} is no breakpoint any more: {problem}")
        return None
    point = bdb.Breakpoint.bpbynumber[-1]
    if kept["log"] is not None:
        debugger.set_log(point, kept["log"])
    return point


def _line_of(kept):
    """Where the line of a breakpoint is now: the nearest one with the same text."""
    lines = linecache.getlines(kept["file"])
    same = [number for number, line in enumerate(lines, 1) if line.strip() == kept["source"]]
    return min(same, key=lambda number: abs(number - kept["line"]), default=kept["line"])


class Kept:
    """The file of one program's breakpoints."""

    def __init__(self, program):
        name = hashlib.sha256(os.fsencode(program)).hexdigest()[:16]
        self._path = _path(f"{os.path.basename(program)}-{name}.json")
        self._pid = os.getpid()

    def load(self, debugger):
        try:
            with open(self._path, encoding="utf-8") as file:
                number = restore(debugger, json.load(file))
        except FileNotFoundError:
            return
        except (OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError) as error:
            debugger.error(f"The breakpoints of the last session cannot be read: {error}")
            return
        if number:
            debugger.message(f"{number} breakpoint{'s' if number > 1 else ''} of the last session: `b` lists them")

    def save(self, debugger):
        if os.getpid() != self._pid:        # a forked child
            return
        try:
            _make_directory(self._path)
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                json.dump(all_points(debugger), file, indent=1)
            os.replace(f"{self._path}.new", self._path)
        except OSError as error:
            debugger.error(f"The breakpoints are not kept: {error}")
