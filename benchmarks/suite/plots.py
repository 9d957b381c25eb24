"""The page's plots, as SVG. Narrow, so that a phone shows them at full size; text is outlines, so no font is needed."""

import io
import re
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from suite.ratios import Ratio

WIDTH = 4.6         # inches: 331 points
COLORS = ("#b3541e", "#1f5fa8", "#3a7d44", "#7a4fa0")     # the base first; distinguished without colour by their marks too
MARKS = ("o", "s", "^", "D")
GRAY = "#888888"

matplotlib.rcParams.update({
    "svg.fonttype": "path", "svg.hashsalt": "ferrule", "font.size": 8, "axes.titlesize": 9, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": GRAY, "xtick.color": "#333333", "ytick.color": "#333333",
    "legend.frameon": False, "legend.fontsize": 8,
})


def as_svg(figure: Figure, prefix: str) -> str:
    """The figure as an SVG element to be put into HTML or written to a file. `prefix` keeps ids apart on one page."""
    out = io.StringIO()
    # No date: the same figures give the same file.
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    return re.sub(r"url\(#", f"url(#{prefix}-", text)


def plain(value: float, _: object) -> str:
    return f"{value:g}"


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios from 1 outwards, none so near to the one before that their labels would touch."""
    apart = (high / low) ** (1 / 9)
    ticks: list[float] = [1]
    for ladder in ((1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 300, 1000),
                   (0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)):
        last: float = 1
        for step in ladder:
            if low <= step <= high and max(step / last, last / step) >= apart:
                ticks.append(step)
                last = step
    return sorted(ticks)


def ratio_axis(axes: Axes, values: list[float]) -> None:
    """A log axis with plain numbers, and a line at 1.00. A ratio of 2 and one of 1/2 are equally far from it."""
    low, high = min(values + [0.98]), max(values + [1.02])
    axes.set_xscale("log")
    axes.set_xlim(low / 1.01, high * 1.01)
    axes.xaxis.set_major_locator(FixedLocator(ratio_ticks(low / 1.01, high * 1.01)))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.axvline(1, color=GRAY, linewidth=0.8, zorder=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def ratio_bars(prefix: str, rows: Sequence[tuple[str, Sequence[Ratio | None]]], label: str, series: Sequence[str] | None = None) -> str:
    """Horizontal bars from 1.00 to the ratio, with intervals. `rows` is [(name, [Ratio or None, one for each series])]."""
    count = max(len(ratios) for _, ratios in rows)
    height = 0.9 + len(rows) * (0.085 + 0.085 * count)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    values: list[float] = []
    for place, (_, ratios) in enumerate(rows):
        for number, ratio in enumerate(ratios):
            if ratio is None:
                continue
            y = place + (number - (count - 1) / 2) * 0.8 / count
            color = COLORS[number + 1]
            axes.barh(y, ratio.value - 1, left=1, height=0.7 / count, color=color, alpha=0.45)
            axes.plot([ratio.low, ratio.high], [y, y], color=color, linewidth=1.2)
            axes.plot([ratio.value], [y], MARKS[number + 1], color=color, markersize=2.6)
            values += [ratio.low, ratio.high]
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    ratio_axis(axes, values)
    axes.set_xlabel(label)
    if series and len(series) > 1:
        for number, name in enumerate(series):
            axes.plot([], [], MARKS[number + 1], color=COLORS[number + 1], markersize=4, label=name)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
    return as_svg(figure, prefix)


def depth_lines(prefix: str, curves: Mapping[str, Sequence[float]], title: str) -> str:
    """Cost of a call by depth on a log axis. `curves` is {interpreter: [ns at each depth]}."""
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, times) in enumerate(curves.items()):
        axes.plot(range(len(times)), times, color=COLORS[number], linewidth=1.0 if number else 1.4, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("depth of the stack, in frames")
    axes.set_ylabel("ns per call")
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.set_title(title, loc="left")
    axes.legend(loc="upper right", bbox_to_anchor=(1, 1.18), ncols=4, borderaxespad=0)
    return as_svg(figure, prefix)


def mean_and_parts(prefix: str, rows: Sequence[tuple[str, Ratio, Sequence[Ratio], int]], label: str) -> str:
    """A mean with its interval, and the single benchmarks as dots. `rows` is [(name, mean Ratio, [Ratio], colour)]."""
    figure = Figure(figsize=(WIDTH, 0.8 + 0.27 * len(rows)), layout="constrained")
    axes = figure.subplots()
    values: list[float] = []
    for place, (_, mean, parts, color) in enumerate(rows):
        axes.barh(place, mean.value - 1, left=1, height=0.6, color=COLORS[color], alpha=0.45)
        axes.plot([part.value for part in parts], [place] * len(parts), "o", color=COLORS[color], markersize=2.5,
                  alpha=0.7)
        axes.plot([mean.low, mean.high], [place, place], color="black", linewidth=1.4)
        values += [mean.low, mean.high, *(part.value for part in parts)]
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    ratio_axis(axes, values)
    axes.set_xlabel(label)
    return as_svg(figure, prefix)


def times_as_fast(prefix: str, names: Sequence[str], series: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """How many times as fast as the base each of the series is, on a log axis: a bar for the first one, marks for the others. 0: unknown."""
    figure = Figure(figsize=(WIDTH, 0.9 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for number, name in enumerate(series):
        found = [(place, row[number]) for place, row in enumerate(rows) if row[number]]
        places, values = [place for place, _ in found], [value for _, value in found]
        color = COLORS[number + 1]
        if number == 0:
            axes.barh(places, [value - 1 for value in values], left=1, height=0.7, color=color, alpha=0.45)
        axes.plot(values, places, MARKS[number + 1], color=color, markersize=4, label=name)
    axes.set_yticks(range(len(rows)), list(names))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    ratio_axis(axes, [value for row in rows for value in row if value])
    axes.set_xlabel("times as fast as stock CPython")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=len(series))
    return as_svg(figure, prefix)
