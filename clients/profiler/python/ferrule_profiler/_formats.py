"""What a result is in the formats of other programs."""

import json
import marshal

from ._table import table
from ._text import CUT, CUT_NAME, named, visible

# --- pstats --------------------------------------------------------------------------------------

def label(function):
    """What pstats and its readers call a function."""
    if function.kind == "builtin":
        return "~", 0, function.name
    return function.file, function.line, function.name


def pstats(result):
    """What cProfile writes: a piece of a generator counts as a call there."""
    stats, labels = {}, {}
    for number, function in result.functions.items():
        labels[number] = key = label(function)
        if not function.runs or function.kind == "label":
            continue        # a generator that has not begun, or no function
        row = (function.runs - function.recursive, function.runs, function.own, function.total)
        known = stats.get(key)
        # Functions of one line and name are one for pstats.
        stats[key] = (*map(sum, zip(known, row)), known[-1]) if known else (*row, {})
    for edge in result.edges:
        if edge.caller is None or not edge.runs or has_label(result, edge):
            continue
        callers = stats[labels[edge.callee]][-1]
        row = (edge.runs, edge.runs - edge.recursive, edge.own, edge.total)
        known = callers.get(labels[edge.caller])
        callers[labels[edge.caller]] = tuple(map(sum, zip(known, row))) if known else row
    return marshal.dumps(stats)


def has_label(result, edge):
    return "label" in (result.functions[edge.callee].kind, edge.caller is not None and result.functions[edge.caller].kind)


# --- speedscope ----------------------------------------------------------------------------------

def speedscope(result):
    frames, places = [{"name": CUT_NAME}], {CUT: 0}
    for number, function in result.functions.items():
        places[number] = len(frames)
        frame = {"name": visible(function.qualname)}
        if function.has_source:
            frame |= {"file": visible(function.file), "line": function.line}
        frames.append(frame)
    profiles = []
    for thread in result.pools:
        # Each path is opened and closed, with its weight between: so the size is the tree's.
        events, open_, at = [], [], 0
        weights = weights_of(thread, result.timed)
        for path, place in thread.walk():
            while len(open_) >= len(path):
                events.append({"type": "C", "frame": open_.pop(), "at": at})
            open_.append(places[path[-1]])
            events.append({"type": "O", "frame": open_[-1], "at": at})
            at += weights[place]
        events += [{"type": "C", "frame": frame, "at": at} for frame in reversed(open_)]
        profiles.append({
            "type": "evented", "name": visible(thread.name), "startValue": 0, "endValue": at,
            "unit": "nanoseconds" if result.timed else "none", "events": events,
        })
    return json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": visible(" ".join(result.program)), "exporter": "ferrule_profiler", "activeProfileIndex": 0,
        "shared": {"frames": frames}, "profiles": profiles,
    })


# --- callgrind -----------------------------------------------------------------------------------

def callgrind(result):
    lines = ["# callgrind format", "version: 1", "creator: ferrule_profiler", "positions: line",
             "event: ns : nanoseconds" if result.timed else "event: runs : runs",
             "events: ns" if result.timed else "events: runs"]
    called = {}
    for edge in result.edges:
        if not has_label(result, edge):
            called.setdefault(edge.caller, []).append(edge)

    def cost(timed, untimed):
        return round(timed * 1e9) if result.timed else untimed

    for number, function in result.functions.items():
        if function.kind == "label":
            continue
        # Readers take functions of one name for one, whatever their files.
        own = result.lines.get(number, {function.line: function})
        lines += ["", f"fl={visible(function.file)}", f"fn={named(function)}",
                  *(f"{line} {cost(counted.own, counted.runs)}" for line, counted in own.items())]
        for edge in called.get(number, ()):
            callee = result.functions[edge.callee]
            lines += [f"cfl={visible(callee.file)}", f"cfn={named(callee)}",
                      f"calls={edge.runs} {callee.line}",
                      f"{function.line} {cost(edge.total, edge.runs)}"]
    return "\n".join(lines) + "\n"


# --- paths, one a line ---------------------------------------------------------------------------

def weights_of(thread, timed):
    """The weight of each node: nanoseconds or runs."""
    return [round(node.own * 1e9) if timed else node.runs for node in thread.nodes]


def folded(result):
    """What flame graphs are made of: a path and its nanoseconds (or runs) on each line."""
    names = {number: named(function).replace(";", ",")
             for number, function in result.functions.items()}
    names[CUT] = CUT_NAME
    lines = []
    for thread in result.pools:
        first = visible(thread.name).replace(";", ",")
        weights = weights_of(thread, result.timed)
        for path, place in thread.walk():
            if weights[place]:
                lines.append(";".join([first, *(names[number] for number in path)])
                             + f" {weights[place]}\n")
    return "".join(lines)


def whole_table(result):
    return table(result, limit=0) + "\n"
