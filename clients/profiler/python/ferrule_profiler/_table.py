"""The table in a terminal."""

from time import localtime, strftime

from ._lines import listing
from ._text import short, visible

SORTS = ("own", "total", "calls", "name")


def sorted_functions(result, sort):
    """(number, Function) pairs, the greatest first."""
    if sort not in SORTS:
        raise ValueError(f"sort is one of {', '.join(SORTS)}, not {sort!r}")
    if sort == "name":
        return sorted(result.functions.items(), key=lambda item: item[1].qualname)
    if not result.timed and sort != "calls":
        sort = "calls"
    return sorted(result.functions.items(),
                  key=lambda item: (-getattr(item[1], sort), item[1].qualname))


def seconds(value):
    """A time with a unit, in seven characters."""
    for unit, scale in (("s ", 1), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:6.4g} {unit}"
    return f"{value * 1e9:6.4g} ns"


def calls_of(function):
    """`10`, or `10 (25 runs)` for a generator."""
    text = f"{function.calls:,}"
    return text if function.runs == function.calls else f"{text} ({function.runs:,} runs)"


def number(count, noun):
    """`1 call`, `2,000 calls`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def heading(result):
    """What was profiled, and for how long: the command line and lines about it."""
    functions = [function for function in result.functions.values() if function.kind != "label"]
    calls = sum(function.calls for function in functions)
    date = strftime("%Y-%m-%d %H:%M:%S", localtime(result.date))
    count = (f"{number(calls, 'call')} of {number(len(functions), 'function')} in"
             f" {number(len(result.threads), 'thread')}, {seconds(result.wall).strip()} wall,"
             f" {seconds(result.cpu).strip()} CPU")
    if result.timed:
        count += f", {seconds(result.waiting).strip()} waiting ({result.clock})"
    about = f"process {result.pid}, Python {result.python}, {date}"
    return visible(" ".join(result.program)), [
        about, count, *cuts(result),
        *hidden(result),
        *(f"no lines of {visible(name)}: it was not called" for name in result.missing),
        *(["code of subinterpreters is not counted"] if result.interpreters else [])]


def hidden(result):
    """A line that says what is hidden, if something is."""
    if not result.hidden:
        return []
    lost = f"; {seconds(result.lost).strip()} of them is in none that is shown" if result.lost >= 1e-9 else ""
    return [f"{number(result.hidden, 'function')} hidden, with the time in what has called them{lost}"]


def cuts(result):
    """A line that says where paths are missing, if they are."""
    if not result.cuts:
        return []
    return [f"paths are cut at {number(result.cuts, 'place')}, below which they are too many or too deep"]


def aligned(rows):
    """Rows of texts as lines: numbers to the right, and the name that is last."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([*(text.rjust(width) for text, width in zip(numbers, widths)), name]) for *numbers, name in rows]


def tasks(result, limit):
    """A table of asyncio's tasks, if there are any."""
    rows = result.tasks
    if not rows:
        return []
    shown = rows[:limit] if limit else rows
    cells = [["tasks", "runs", "time", "awaited", "task of asyncio"]]
    cells += [[f"{task.tasks:,}", f"{task.runs:,}", seconds(task.seconds), seconds(task.awaited), task_name(task)] for task in shown]
    more = [f"... and {len(rows) - len(shown):,} more tasks"] if len(shown) < len(rows) else []
    return ["", *aligned(cells), *more]


def task_name(task):
    return visible(task.name if task.name == task.coroutine else f"{task.name}  {task.coroutine}")


def labels(result, limit):
    """A table of labels, if there are any."""
    rows = result.labels
    if not rows:
        return []
    shown = rows[:limit] if limit else rows
    if result.timed:
        cells = [["calls", "total", "each", "raised", "label"]]
        cells += [[f"{label.calls:,}", seconds(label.total), seconds(label.total / label.calls if label.calls else 0), f"{label.raised:,}",
                   visible(label.name)] for label in shown]
    else:
        cells = [["calls", "label"], *([f"{label.calls:,}", visible(label.name)] for label in shown)]
    more = [f"... and {len(rows) - len(shown):,} more labels"] if len(shown) < len(rows) else []
    return ["", *aligned(cells), *more]


def table(result, sort="own", limit=40):
    rows = [(number, function) for number, function in sorted_functions(result, sort) if function.kind != "label"]
    shown = rows[:limit] if limit else rows
    whole = result.seconds or 1
    program, about = heading(result)
    lines = [program, *about, ""]
    awaited = any(function.awaited for _, function in shown)
    cells = []
    for _, function in shown:
        cell = [calls_of(function)]
        if result.timed:
            cell += [seconds(function.own), f"{100 * function.own / whole:.1f}", *([seconds(function.cpu)] if result.with_cpu else []),
                     seconds(function.total), *([seconds(function.total_cpu)] if result.with_cpu else []),
                     *([seconds(function.awaited) if function.awaited else ""] if awaited else [])]
        where = f"  {short(function.file)}:{function.line}" if function.has_source else ""
        cells.append([*cell, visible(function.qualname) + where])
    heads = ["calls", "own", "%", "total", "function"] if result.timed else ["calls", "function"]
    if awaited:
        heads.insert(4, "awaited")
    if result.with_cpu:
        heads[3:4] = ["CPU", "total", "CPU"]
    lines += aligned([heads, *cells])
    if len(shown) < len(rows):
        lines.append(f"... and {len(rows) - len(shown):,} more (--limit 0 shows all)")
    lines += labels(result, limit)
    lines += tasks(result, limit)
    lines += listing(result, seconds)
    return "\n".join(lines)
