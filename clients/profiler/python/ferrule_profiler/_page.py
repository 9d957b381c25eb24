"""One page of HTML with everything in it: a flame graph, a table, callers, callees and source."""

import html
import json
import os
import re
from io import open

from ._source import CHANGED, lines_of
from ._table import heading, sorted_functions, task_name
from ._text import short, visible

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html"),
          encoding="utf-8") as file:
    TEMPLATE = file.read()
MOST_SOURCES = 300      # functions that are shown with their source: those that took most
MOST_LINES = 200        # of a function
MOST_LINED = 10_000     # of one whose lines have times
MOST_COLUMNS = 500      # of a line
MOST_PLACES = 100_000   # of the tree of paths
MOST_NAME = 500         # characters of a name
# The numbers of what is no function in the tree: see page.html.
NO_FUNCTION, FIRST_ROOT = -1, -2
LIBRARIES = ("/site-packages/", "/dist-packages/")
STANDARD = tuple({os.path.join(path(os.path.dirname(os.__file__)), "") for path in (os.path.abspath, os.path.realpath)})


def is_library(function):
    """Whether it is no code of the program: of the standard library, or installed."""
    file = function.file
    return function.kind == "builtin" or function.has_source and (
        file.startswith(("<frozen", *STANDARD)) or any(part in file for part in LIBRARIES))


def clipped(name):
    name = visible(name)
    return name if len(name) <= MOST_NAME else name[:MOST_NAME] + "..."


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
            clipped(function.qualname), clipped(function.file), function.line, function.kind, function.calls,
            function.runs, function.recursive, function.raised,
            round(function.own * 1e9), round(function.total * 1e9), short(function.file),
            source, word,
            [[line, counted.runs, round(counted.own * 1e9)]
             for line, counted in result.lines.get(number, {}).items()],
            int(is_library(function)), *(round(time * 1e9) for time in (function.awaited, function.cpu, function.total_cpu)),
        ])
    return found, places


def edges(result, places):
    return [[-1 if edge.caller is None else places[edge.caller], places[edge.callee], edge.runs,
             round(edge.own * 1e9), round(edge.total * 1e9)]
            for edge in result.edges if edge.runs or edge.total]


def tree(result, places):
    """All paths, and the names of those places that are no functions: the parents, functions and own values
    (nanoseconds or runs) of the places of one tree, in three lists. Threads are below its root."""
    parents, numbers, own = [0], [FIRST_ROOT], [0]
    roots = ["all"]
    for thread in result.pools:
        begins = len(parents)
        for place, node in enumerate(thread.nodes):
            parents.append(begins + node.parent if place else 0)
            numbers.append(places.get(node.function, NO_FUNCTION) if place else FIRST_ROOT - len(roots))
            own.append(round(node.own * 1e9) if result.timed else node.runs)
        roots.append(clipped(thread.name))
    return pruned(parents, numbers, own), roots


def pruned(parents, numbers, own):
    """The tree without the places that have least, if they are too many. Their parents have what they had."""
    if len(own) <= MOST_PLACES:
        return parents, numbers, own
    whole = own[:]
    for place in range(len(own) - 1, 0, -1):
        whole[parents[place]] += whole[place]
    # A parent has not less than its children, and comes before them.
    greatest = set(sorted(range(len(own)), key=lambda place: -whole[place])[:MOST_PLACES])
    at, kept = [0], ([0], numbers[:1], own[:1])
    for place in range(1, len(own)):
        parent = at[parents[place]]
        if place not in greatest:
            kept[2][parent] += own[place]
            at.append(parent)
        else:
            at.append(len(kept[0]))
            for column, value in zip(kept, (parent, numbers[place], own[place])):
                column.append(value)
    return kept


def as_script(value):
    """JSON that is valid in a script element, whatever the program's source says."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def page(result):
    found, places = rows(result)
    program, about = heading(result)
    paths, roots = tree(result, places)
    threads = [[clipped(thread.name), *(round(time * 1e9) for time in (
        thread.seconds, thread.cpu, thread.waiting))] for thread in result.pools]
    values = {
        "@PROGRAM@": html.escape(program),
        "@ABOUT@": "<br>".join(map(html.escape, about)),
        "@DATA@": as_script({"functions": found, "edges": edges(result, places), "tree": paths, "roots": roots,
                             "threads": threads, "timed": result.timed,
                             "with_cpu": result.with_cpu,
                             "tasks": [[task_name(task), task.tasks, task.runs, round(task.seconds * 1e9),
                                        round(task.awaited * 1e9)] for task in result.tasks]}),
    }
    return re.sub("|".join(values), lambda found: values[found[0]], TEMPLATE)
