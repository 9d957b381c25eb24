"""One page of HTML with everything in it: a flame graph, a table, callers, callees and source."""

import base64
import html
import json
import os
import re
from io import open

from . import _core
from ._formats import folded
from ._source import CHANGED, lines_of
from ._table import heading, sorted_functions
from ._text import short, visible

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html"),
          encoding="utf-8") as file:
    TEMPLATE = file.read()
# Its own script wants to change the address, which a data: document may not. Calls grow upward, and
# the names of those below the pointer are at the lower edge: so that is what is shown first.
FLAME_SCRIPT = b"""<script><![CDATA[
history.replaceState = () => {};
addEventListener("load", () => scrollTo(0, document.documentElement.scrollHeight));
]]></script>
"""
MOST_SOURCES = 300      # functions that are shown with their source: those that took most
MOST_LINES = 200        # of a function
MOST_LINED = 10_000     # of one whose lines have times
MOST_COLUMNS = 500      # of a line
NARROWEST = 1e-4        # a smaller part of the whole is no bar of the flame graph


def source_of(number, function, result, known):
    """The lines of a function, if they are there, and a word about them. `known` has the lines of files."""
    last = result.last_line_of(number)
    if not function.line or not function.has_source or last is None:
        return [], ""
    if function.file not in known:
        known[function.file] = lines_of(function.file, result.date)
    lines, unchanged = known[function.file]
    block = lines[function.line - 1:max(last, function.line)]
    most = MOST_LINED if number in result.lines else MOST_LINES
    return ([visible(line.rstrip("\n").expandtabs(8))[:MOST_COLUMNS] for line in block[:most]],
            "" if unchanged else CHANGED)


def rows(result):
    """What the page's script shows, one list for each function, and the place of each number."""
    ordered = sorted_functions(result, "own")
    places = {number: place for place, (number, _) in enumerate(ordered)}
    found, known = [], {}
    for number, function in ordered:
        source, word = (source_of(number, function, result, known)
                        if len(found) < MOST_SOURCES or number in result.lines else ([], ""))
        found.append([
            visible(function.qualname), visible(function.file), function.line, function.kind, function.calls,
            function.runs, function.recursive, function.raised,
            round(function.own * 1e9), round(function.total * 1e9), short(function.file),
            source, word,
            [[line, counted.runs, round(counted.own * 1e9)]
             for line, counted in result.lines.get(number, {}).items()],
        ])
    return found, places


def edges(result, places):
    return [[-1 if edge.caller is None else places[edge.caller], places[edge.callee], edge.runs,
             round(edge.own * 1e9), round(edge.total * 1e9)]
            for edge in result.edges if edge.runs or edge.total]


def flame_graph(result):
    """The picture's address, and its height."""
    whole = sum(function.own * 1e9 if result.timed else function.runs
                for function in result.functions.values())
    lines = folded(result, least=whole * NARROWEST)
    if not lines.strip():
        return "about:blank", 0
    picture = _core.flame_graph(lines, "", "ns" if result.timed else "runs")
    picture = picture.replace(b"<script", FLAME_SCRIPT + b"<script", 1)
    height = re.search(rb'<svg[^>]* height="(\d+)"', picture)
    address = "data:image/svg+xml;base64," + base64.b64encode(picture).decode("ascii")
    return address, int(height[1]) if height else 600


def as_script(value):
    """JSON that is valid in a script element, whatever the program's source says."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def page(result):
    found, places = rows(result)
    program, about = heading(result)
    flame, height = flame_graph(result)
    threads = [[visible(thread.name), *(round(time * 1e9) for time in (
        thread.seconds, thread.cpu, thread.waiting))] for thread in result.threads]
    values = {
        "@PROGRAM@": html.escape(program),
        "@ABOUT@": "<br>".join(map(html.escape, about)),
        "@FLAME@": flame,
        "@HEIGHT@": str(height + 4),
        "@DATA@": as_script({"functions": found, "edges": edges(result, places),
                             "threads": threads, "timed": result.timed,
                             "tasks": [[visible(task.name), visible(task.coroutine), task.tasks,
                                        task.runs, round(task.seconds * 1e9)]
                                       for task in result.tasks]}),
    }
    text = TEMPLATE
    for name, value in values.items():
        text = text.replace(name, value)
    return text
