"""One HTML page: the source of a program, with what became of each line. The style is that of Cython's annotation."""

import html
import linecache
import math
import string
from pathlib import Path

TEMPLATE = string.Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
LINE = string.Template('<details class="line $kind"$style><summary><i>$number</i><code>$source</code></summary>$notes</details>')
PLAIN = string.Template('<div class="line $kind"><i>$number</i><code>$source</code></div>')
ROW = string.Template('<tr><td><a href="#$anchor">$name</a></td><td>$status</td><td>$entered</td><td>$left</td><td>$seconds</td>'
                      "<td>$reason</td></tr>")


def kind_of(line, functions):
    """Of a line: in compiled code, in code that is interpreted, or in none that was seen. Inner functions come last."""
    found = [function for function in functions if line in function.lines and line != function.line]
    if not found:
        return ""
    return "compiled" if found[-1].is_compiled(line) else "interpreted"


def of_line(number, source, functions):
    notes = [note for function in functions for note in function.notes().get(number, ())]
    left = sum(function.exits.get(number, 0) for function in functions)
    kind = kind_of(number, functions)
    if left:
        kind = "left"
    elif any(function.reason_line == number for function in functions):
        kind = "refused"
    values = {"kind": kind, "number": number, "source": html.escape(source)}
    if not notes:
        return PLAIN.substitute(values)
    # As yellow as it was left often.
    style = f' style="--left: {min(100, 15 + 15 * math.log10(left)):.0f}%"' if left else ""
    return LINE.substitute(values, style=style, notes="".join(f"<p>{html.escape(note)}</p>" for note in notes))


def anchor(file, line):
    return html.escape(f"{file}:{line}", quote=True)


def of_file(file, functions):
    lines = linecache.getlines(file) or ["(the source is not there)"]
    body = "".join(f'<a id="{anchor(file, number)}"></a>{of_line(number, line.rstrip(chr(10)), functions)}'
                   for number, line in enumerate(lines, 1))
    return f"<h2>{html.escape(file)}</h2>\n<div class=source>{body}</div>\n"


def page(title, summary, functions):
    """The page, as text. `functions` are in the order in which they are listed."""
    files = {}
    for function in functions:
        files.setdefault(function.file, []).append(function)
    rows = [ROW.substitute(anchor=anchor(function.file, function.line), name=html.escape(function.name), status=function.status,
                           entered=function.facts.get("entered", ""), left=function.facts.get("left", ""),
                           seconds=f"{function.seconds * 1000:.2f}", reason=html.escape(function.reason or ""))
            for function in functions]
    sources = [of_file(file, sorted(found, key=lambda function: function.line)) for file, found in sorted(files.items())]
    return TEMPLATE.substitute(title=html.escape(title), summary=html.escape(summary), rows="\n".join(rows), sources="\n".join(sources))
