"""--live: what a process does now, in a terminal."""

import os
from time import monotonic
from unicodedata import combining, east_asian_width

from ._table import number, seconds
from ._text import short, visible

INTERVAL = 1        # seconds between two looks
# The terminal's other screen, without a cursor; and back.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, END_OF_LINE, END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
SIZE = 80, 24       # where the terminal does not say


def clipped(text, columns):
    """As much of a text as a terminal shows in so many columns."""
    left = columns
    for place, character in enumerate(text):
        left -= 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        if left < 0:
            return text[:place]
    return text


def counted(result):
    """{(file, line, name, qualified name, kind): (calls, own, total)}"""
    return {function[:5]: (function.calls, function.own, function.total) for function in result.functions.values()}


class Live:
    """Shows each result, and what has come to it since the one before. A block: it has the terminal until its end."""

    def __init__(self, options, terminal=1):
        self.sort, self.limit = options.sort, options.limit
        self.terminal = terminal
        self.entered = False
        self.gone = False       # whether the terminal is
        self.last, self.at, self.cpu = {}, monotonic(), 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.entered:
            self.write(LEAVE)

    def write(self, text):
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while left:
                left = left[os.write(self.terminal, left):]
        except OSError:
            self.gone = True

    def size(self):
        try:
            columns, lines = os.get_terminal_size(self.terminal)
        except OSError:
            columns, lines = SIZE
        return (columns or SIZE[0], lines or SIZE[1])

    def show(self, result):
        columns, lines = self.size()
        text = "".join(f"{clipped(line, columns)}{END_OF_LINE}\n" for line in self.text(result)[:lines - 1])
        self.write(("" if self.entered else ENTER) + HOME + text + END_OF_SCREEN)
        self.entered = True

    def text(self, result):
        """The lines of the view."""
        now, found = monotonic(), counted(result)
        took = max(now - self.at, 1e-9)
        rows = []
        for key, counts in found.items():
            calls, own, total = (new - old for new, old in zip(counts, self.last.get(key, (0, 0, 0))))
            if calls or own > 0 or total > 0:
                rows.append((key, calls, own, total, counts))
        order = {"own": lambda row: (-row[2], -row[1]), "total": lambda row: (-row[3], -row[1]), "calls": lambda row: -row[1],
                 "name": lambda row: row[0][3]}["calls" if not result.timed and self.sort in ("own", "total") else self.sort]
        rows.sort(key=order)
        busy = 100 * max(result.cpu - self.cpu, 0) / took
        self.last, self.at, self.cpu = found, now, result.cpu
        program = visible(" ".join(result.program))
        about = (f"process {result.pid}, CPU {busy:.0f} %, {number(len(result.threads), 'thread')}, {seconds(result.wall).strip()}; Ctrl-C ends"
                 f" (Python {result.python}, {result.clock})")
        heads = f"{'own %':>6}  {'calls/s':>11}  {'own of all':>10}  {'total of all':>12}  function"
        if not result.timed:
            heads = f"{'calls/s':>11}  {'calls':>13}  function"
        return [program, about, "", heads, *(self.row(row, took, result.timed) for row in rows[:self.limit or None])]

    @staticmethod
    def row(row, took, timed):
        (file, line, _, qualname, kind), calls, own, _, (all_calls, all_own, all_total) = row
        name = visible(qualname) + (f"  {short(file)}:{line}" if kind not in ("builtin", "label") else "")
        if not timed:
            return f"{calls / took:>11,.0f}  {all_calls:>13,}  {name}"
        return (f"{100 * max(own, 0) / took:>6.1f}  {calls / took:>11,.0f}  {seconds(all_own).strip():>10}"
                f"  {seconds(all_total).strip():>12}  {name}")
