"""The times of lines beside their source, in a terminal."""

from ._source import CHANGED, lines_of
from ._text import short, visible

# So many lines without a count are shown; of more, none.
MOST_UNCOUNTED = 8
MOST_COLUMNS = 200


def blocks(result):
    """(file, first line, last line, functions, {line: Line}) of functions, with those that are in them: those that
    have taken most first."""
    found = []
    by_place = sorted(result.lines, key=lambda number: (result.functions[number].file, result.functions[number].line))
    for number in by_place:
        function, lines = result.functions[number], result.lines[number]
        last = max(result.last_line_of(number) or 0, *lines)
        if found and found[-1][0] == function.file and function.line <= found[-1][2]:
            file, first, end, functions, sums = found.pop()
            for line, (runs, own) in lines.items():
                known = sums.get(line, (0, 0))
                sums[line] = known[0] + runs, known[1] + own
            found.append((file, first, max(last, end), [*functions, function], sums))
        else:
            found.append((function.file, function.line, last, [function], dict(lines)))
    return sorted(found, key=lambda block: -sum(function.own for function in block[3]))


def listing(result, seconds):
    """The lines of all blocks as text; `seconds` makes a time a text."""
    text = []
    for file, first, last, functions, sums in blocks(result):
        source, unchanged = lines_of(file, result.date)
        whole = sum(function.own for function in functions) or 1
        text += ["", f"{short(file)}:{first}  {visible(functions[0].qualname)}, own time by line"]
        if not unchanged and source:
            text.append(CHANGED)
        text.append(f"{'runs':>11}  {'own':>9}  {'%':>5}  {'line':>5}")
        uncounted = []
        for line in range(first, last + 1):
            code = visible(source[line - 1].rstrip("\r\n").expandtabs(8))[:MOST_COLUMNS] if line <= len(source) else ""
            if line not in sums:
                uncounted.append(f"{line:>36}  {code}".rstrip())
                continue
            text += uncounted if len(uncounted) <= MOST_UNCOUNTED else [f"{'...':>36}"]
            uncounted = []
            runs, own = sums[line]
            text.append(f"{runs:>11,}  {seconds(own)}  {100 * own / whole:>5.1f}  {line:>5}  {code}".rstrip())
        text += uncounted if len(uncounted) <= MOST_UNCOUNTED else [f"{'...':>36}"]
    return text
