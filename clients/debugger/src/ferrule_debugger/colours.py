"""Colours of the prompt, of places and of source lines, where CPython's own tracebacks have them."""

import re
import sys

try:
    from _colorize import ANSIColors, can_colorize
except ImportError:
    can_colorize = None

_LISTED = re.compile(r"( *\d+ *)(B?)( ?)(->|>>)?(\t.*)", re.DOTALL)


def are_wanted(file):
    """What CPython decides for a file: NO_COLOR, FORCE_COLOR, PYTHON_COLORS, TERM, and whether it is a terminal."""
    if can_colorize is None:
        return False
    try:
        return can_colorize(file=file)
    except TypeError:       # older ones test standard output only
        return file is sys.stdout and can_colorize()


def _in(colour, text):
    return f"{colour}{text}{ANSIColors.RESET}" if text else ""


def prompt(text):
    """The prompt, for input(). readline has to know what takes no place on the line."""
    start, end = ANSIColors.BOLD_MAGENTA, ANSIColors.RESET
    if "readline" in sys.modules and sys.stdin.isatty() and sys.stdout.isatty():
        start, end = f"\1{start}\2", f"\1{end}\2"
    shown = text.rstrip()
    return start + shown + end + text[len(shown):]


def place(text):
    """An entry of the stack: its place is in the first line."""
    first, newline, rest = text.partition("\n")
    return first[:2] + _in(ANSIColors.MAGENTA, first[2:]) + newline + rest


def listed(text):
    """A line that `list` prints: the current one, one that has raised, or one with a breakpoint."""
    parts = _LISTED.fullmatch(text)
    if parts is None:
        return text
    number, point, space, mark, source = parts.groups()
    mark_colour = ANSIColors.BOLD_RED if mark == ">>" else ANSIColors.BOLD_GREEN
    return number + _in(ANSIColors.BOLD_RED, point) + space + _in(mark_colour, mark) + source


def error(text):
    return _in(ANSIColors.BOLD_RED, text)
