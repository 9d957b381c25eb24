"""The report: what the results say, and one HTML page that shows it and needs nothing else."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

import hooks
from suite import plots, ratios
from suite.ratios import Ratio
from suite.results import Results

PAGE = "report.html"
PYPERFORMANCE = "pyperformance/"
# Groups whose benchmarks have the same name in every interpreter: (prefix, heading, what it says).
PLAIN_GROUPS = (
    ("frames/", "Frames: objects, locals, tracebacks, generators, coroutines", ""),
    ("integers/", "Long integers", "Of 60 digits in base 2**30, and of 1,000."),
    ("texts/", "Texts", "What findall() of a regular expression finds, JSON, and the pieces of a text."),
    ("code extra/", "Values on code objects", "PyUnstable_Code_GetExtra, from a loop in C."),
    ("start/", "Start-up", "Of a process, from its start to its end; CPU time, where both ran at the same time."),
    ("memory/", "Memory", "The most that was resident, as the kernel counts, and what of it is of no file at the end."
                          " How much is mapped of the interpreter's file depends on what the kernel has of it already."),
    ("recursion/", "Deep recursion", "100,000 calls deep and back: time per call, then the memory that it took, and what"
                                     " of it was still resident after the return, and after a collection."),
    ("descents/", "Recursions, again and again", "Down so many levels and up again, and again: time per level. Most recursions"
                                                " count with numbers, which take memory as well; those that are uncounted do not."),
    ("threads/", "Threads", "To start one and join it."),
)


@dataclass
class Plot:
    name: str           # of its file, and of its ids
    svg: str
    text: str           # for who does not see it


@dataclass
class Section:
    title: str
    text: str = ""
    plots: list[Plot] = field(default_factory=list)
    headings: tuple[str, ...] = ()
    rows: list[Any] = field(default_factory=list)
    after: str = ""


def time_text(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def value_text(value: float, unit: str) -> str:
    if unit == "byte":
        return f"{value / 2 ** 20:.1f} MiB"
    return time_text(value) if unit == "second" else f"{value:,.0f}"


def ratio_text(ratio: Ratio | None, digits: int = 3) -> str:
    return f"{ratio.value:.{digits}f}" if ratio else "–"


def interval_text(ratio: Ratio | None) -> str:
    return f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio else "–"


class Report:
    """Everything that the page says, from results alone."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.facts = results.facts
        self.base = self.facts["base"]
        self.others = [name for name in self.facts["pythons"] if name != self.base]
        self.ferrules = [name for name in self.others if self.facts["builds"][name]["ferrule"]]

    # --- Comparisons.

    def ratio(self, python: str, name: str, base_name: str | None = None, base: str | None = None) -> Ratio | None:
        return ratios.compare(self.results.figures(python, name),
                              self.results.figures(base or self.base, base_name or name), self.facts["layouts"])

    def common(self, python: str, prefix: str) -> list[str]:
        mine = set(self.results.names(python, prefix))
        return [name for name in self.results.names(self.base, prefix) if name in mine]

    def mean(self, python: str, names: Iterable[str], base_names: Iterable[str] | None = None, base: str | None = None) -> Ratio | None:
        figures = self.results.figures
        return ratios.mean_of(((figures(python, name), figures(base or self.base, base_name))
                               for name, base_name in zip(names, base_names or names)), self.facts["layouts"])

    def ratio_rows(self, prefix: str) -> list[tuple[str, list[Ratio | None]]]:
        """[(name, [Ratio or None for each other interpreter])]"""
        return [(name.removeprefix(prefix), [self.ratio(python, name) for python in self.others])
                for name in self.results.names(self.base, prefix)
                if any(name in self.results.names(python, prefix) for python in self.others)]

    # --- Sections.

    def label(self, what: str = "time") -> str:
        return f"{what} ÷ {what} of {self.base}"

    def figure_rows(self, prefix: str) -> list[Any]:
        """Rows of a table: one for each benchmark and other interpreter."""
        rows = []
        for python in self.others:
            for name in self.common(python, prefix):
                unit = self.results.unit(self.base, name)
                mine, base = self.results.figures(python, name), self.results.figures(self.base, name)
                ratio = ratios.compare(mine, base, self.facts["layouts"])
                if ratio is None:
                    continue
                rows.append((name.removeprefix(prefix), *((python,) if len(self.others) > 1 else ()),
                             value_text(statistics.median(base.values()), unit),
                             value_text(statistics.median(mine.values()), unit), ratio_text(ratio), interval_text(ratio),
                             ratio.verdict))
        return rows

    @property
    def figure_headings(self) -> tuple[str, ...]:
        return ("benchmark", *(("python",) if len(self.others) > 1 else ()), self.base,
                self.others[0] if len(self.others) == 1 else "other", "ratio", "95 % interval", "verdict")

    def pyperformance(self) -> Iterator[Section]:
        rows = self.ratio_rows(PYPERFORMANCE)
        if not rows:
            return
        section = Section("pyperformance")
        means, listed = [], []
        for place, python in enumerate(self.others):
            names = self.common(python, PYPERFORMANCE)
            mean = self.mean(python, names)
            if mean:
                means.append(f"{python}: geometric mean of {len(names)} benchmarks {ratio_text(mean)}"
                             f" ({interval_text(mean)}), {mean.verdict}.")
            for name, found in rows:
                ratio = found[place]
                if ratio and ratio.is_beyond:
                    listed.append((name, python, ratio_text(ratio), interval_text(ratio), ratio.verdict))
        compared = sum(ratio is not None for _, found in rows for ratio in found)
        noisy = sum(ratio is not None and ratio.verdict in (ratios.NOISY, ratios.FEW)
                    for _, found in rows for ratio in found)
        section.text = " ".join(means)
        section.headings = ("beyond 1.02", "python", "ratio", "95 % interval", "verdict")
        section.rows = sorted(listed, key=lambda row: -float(row[2]))
        section.after = (f"Listed is what is more than 2 % off either way, with an interval that says so:"
                         f" {len(listed)} of {compared}. Of {noisy} nothing can be said. Intervals of"
                         f" {ratios.CONFIDENCE:.0%} err: were all benchmarks equal, about"
                         f" {round(compared * (1 - ratios.CONFIDENCE) / 2)} would be listed as slower by chance, and as"
                         " many as faster. Measure those again, alone (--only), before you believe it.")
        rows.sort(key=lambda row: row[1][0].value if row[1][0] else 1)
        section.plots.append(Plot("pyperformance", plots.ratio_bars("pyperformance", rows, self.label(), self.others),
                                  "Ratio and interval of each pyperformance benchmark."))
        yield section

    def calls(self) -> Iterator[Section]:
        rows = self.ratio_rows("calls/")
        if not rows:
            return
        section = Section("Calls", "Microbenchmarks of calls.")
        section.plots.append(Plot("calls", plots.ratio_bars("calls", rows, self.label(), self.others),
                                  "Ratio and interval of each call benchmark."))
        control = self.mean(self.base, self.results.names(self.base, "control/"),
                            [name.replace("control/", "calls/") for name in self.results.names(self.base, "control/")])
        for python in self.others:
            mean = self.mean(python, self.common(python, "calls/"))
            if mean:
                section.text += f" {python}: geometric mean {ratio_text(mean)} ({interval_text(mean)}), {mean.verdict}."
        if control:
            section.text += (f" Control: {self.base} against itself {ratio_text(control)} ({interval_text(control)});"
                             " what that is off 1.00 is the machine.")
        section.headings, section.rows = self.figure_headings, self.figure_rows("calls/")
        yield section
        counted = self.ratio_rows("instructions/")
        if counted:
            section = Section("Instructions of the same calls", "Counted by valgrind, in one run each, start-up taken off:"
                              " these repeat on a busy machine.")
            for place, python in enumerate(self.others):
                found = [ratio.value for _, row in counted if (ratio := row[place])]
                if found:
                    section.text += f" {python}: geometric mean {statistics.geometric_mean(found):.4f}."
            section.headings = ("benchmark", "python", self.base, "other", "ratio")
            section.rows = [
                (name, python, *(f"{next(iter(self.results.figures(which, 'instructions/' + name).values())):,.0f}"
                                 for which in (self.base, python)), ratio_text(ratio, 4))
                for name, found in counted for python, ratio in zip(self.others, found) if ratio]
            section.plots.append(Plot("instructions", plots.ratio_bars(
                "instructions", counted, self.label("instructions"), self.others), "Ratio of instructions of each call."))
            yield section

    def depth(self) -> Iterator[Section]:
        names = self.results.names(self.base, "depth/")
        if not names:
            return
        section = Section("Cost of a call by depth", "A call at each depth of the stack from 0 to 2,000: of all sweeps the"
                          " best at each depth, so that what is left is a cost that the depth always has.")
        section.headings = ("function", "python", "median", "worst", "at depth", "worst ÷ median")
        for name in names:
            curves = {}
            for python in self.facts["pythons"]:
                sweeps = self.results.runs(python, name)
                if not sweeps:
                    continue
                best = [min(times) * 1e9 for times in zip(*sweeps.values())]
                curves[python] = best
                worst = max(range(len(best)), key=best.__getitem__)
                section.rows.append((name.removeprefix("depth/"), python, f"{statistics.median(best):.1f} ns",
                                     f"{best[worst]:,.1f} ns", f"{worst:,}",
                                     f"{best[worst] / statistics.median(best):.2f}"))
            place = name.removeprefix("depth/").replace(" ", "-")
            section.plots.append(Plot(f"depth-{place}", plots.depth_lines(
                f"depth-{place}", curves, f"A function with {name.removeprefix('depth/')}"),
                f"Cost of a call by depth, {name.removeprefix('depth/')}, on a log axis."))
        yield section

    def hooks(self) -> Iterator[Section]:
        for python in self.ferrules:
            rows, lines = [], []
            for setup, (role, *_) in hooks.SETUPS.items():
                if setup == hooks.BASE:
                    continue
                which = self.base if role == "base" else python
                names = self.results.names(which, f"hooks/{setup}/")
                yardsticks = [name.replace(f"/{setup}/", f"/{hooks.BASE}/") for name in names]
                mean = self.mean(which, names, yardsticks)
                if mean is None:
                    continue
                parts = [self.ratio(which, name, yardstick) for name, yardstick in zip(names, yardsticks)]
                rows.append((setup, mean, [part for part in parts if part], 0 if role == "base" else 1))
                lines.append((setup, which, ratio_text(mean), interval_text(mean),
                              " · ".join(f"{name.rpartition('/')[2]} {ratio_text(part, 2)}"
                                         for name, part in zip(names, parts))))
            if rows:
                section = Section("Frame hooks against PEP 523",
                                  f"Calls with hooks on {python}, against {self.base} without anything. “PEP 523” is"
                                  f" {self.base} with an evaluator that does nothing. Bars are geometric means, dots the"
                                  " benchmarks.")
                section.plots.append(Plot("hooks", plots.mean_and_parts("hooks", rows, f"time ÷ time of {self.base},"
                                                                                       " without hooks"),
                                          "Cost of calls with hooks and with an evaluator."))
                section.headings = ("setup", "python", "mean", "95 % interval", "benchmarks")
                section.rows = lines
                yield section

    def evaluators(self) -> Iterator[Section]:
        rows, lines = [], []
        for place, python in enumerate(self.facts["pythons"]):
            for mode in ("evaluator", "allowing"):
                names = self.results.names(python, f"evaluator/{mode}/")
                plain = [name.replace(f"evaluator/{mode}/", "calls/") for name in names]
                mean = self.mean(python, names, plain, python)
                if mean:
                    parts = [self.ratio(python, name, other, python) for name, other in zip(names, plain)]
                    title = f"{python}, {mode}"
                    rows.append((title, mean, [part for part in parts if part], min(place, 3)))
                    lines.append((title, ratio_text(mean), interval_text(mean),
                                  " · ".join(f"{name.rpartition('/')[2]} {ratio_text(part, 2)}"
                                             for name, part in zip(names, parts))))
        if rows:
            section = Section("An evaluator (PEP 523) that does nothing", "Calls under it, against the same interpreter"
                              " without one. “Allowing” lets instructions be specialized.")
            section.plots.append(Plot("evaluator", plots.mean_and_parts(
                "evaluator", rows, "time ÷ time without an evaluator"), "Cost of calls under an evaluator."))
            section.headings, section.rows = ("setup", "mean", "95 % interval", "benchmarks"), lines
            yield section

    def plain_groups(self) -> Iterator[Section]:
        for prefix, title, text in PLAIN_GROUPS:
            rows = self.ratio_rows(prefix)
            if rows:
                name = prefix.strip("/").replace(" ", "-")
                memory = {self.results.unit(self.base, prefix + row[0]) for row in rows} == {"byte"}
                section = Section(title, text, headings=self.figure_headings, rows=self.figure_rows(prefix))
                section.plots.append(Plot(name, plots.ratio_bars(
                    name, rows, self.label("memory" if memory else "figure" if prefix == "recursion/" else "time"),
                    self.others), f"{title}: ratios and intervals."))
                yield section

    def scaling(self) -> Iterator[Section]:
        section = Section("Two threads without the GIL", "How much more two threads do than one: 2.00 is all there is to"
                          " have. Each calls the same functions, with nothing shared but these.")
        section.headings = ("benchmark", "python", "two against one", "95 % interval")
        for python in self.facts["free_threaded"]:
            for name in self.results.names(python, "scaling/"):
                if name.endswith(", 2 threads"):
                    one = self.results.figures(python, name.replace(", 2 threads", ", 1 thread"))
                    two = self.results.figures(python, name)
                    found = ratios.median_with_interval([2 * one[key] / two[key] for key in sorted(two)])
                    section.rows.append((name.removeprefix("scaling/").removesuffix(", 2 threads"), python,
                                         f"{found.value:.2f}", f"{found.low:.2f} to {found.high:.2f}"))
        if section.rows:
            yield section

    def sections(self) -> Iterator[Section]:
        for part in (self.pyperformance, self.calls, self.depth, self.hooks, self.evaluators, self.plain_groups,
                     self.scaling):
            yield from part()

    # --- The run as a whole.

    def noise(self) -> tuple[Any, str]:
        """How far the pairs of one benchmark reach (the median over benchmarks and interpreters), and a sentence about it."""
        of_pairs, of_base = [], []
        for name in self.results.names(self.base):
            base = self.results.figures(self.base, name)
            if self.results.unit(self.base, name) != "second" or name.startswith("depth/") or len(base) < 3:
                continue
            of_base.append(ratios.spread(list(base.values())))
            of_pairs += [ratios.spread(pairs) for pairs in (
                list(ratios.pair(self.results.figures(python, name), base).values()) for python in self.others)
                if len(pairs) > 2]
        if not of_pairs:
            return None, "Too few rounds to tell how noisy the machine was."
        middle = statistics.median(of_pairs)
        text = (f"The middle half of a benchmark’s ratios, pair by pair, is {100 * middle:.1f} % wide (median"
                f"{'; its links differ too' if self.facts['layouts'] > 1 else ''}), of {self.base}’s own times"
                f" {100 * statistics.median(of_base):.1f} %.")
        if middle > ratios.WIDEST:
            text = "The machine was too noisy for figures of a few per cent. " + text
        return middle, text

    def rounds(self) -> str:
        found = [len(self.results.figures(self.base, name)) for name in self.results.names(self.base)
                 if not name.startswith("instructions/")]
        fewest, most = (min(found), max(found)) if found else (0, 0)
        text = f"{fewest} rounds" if fewest == most else f"{fewest} to {most} rounds"
        links = min(self.facts["layouts"], most)
        return f"{text} over {links} links of each build" if links > 1 else text

    def all_figures(self) -> list[Any]:
        rows = []
        for python in (*self.facts["pythons"], *self.facts["free_threaded"]):
            for name in self.results.names(python):
                if name.startswith("depth/"):
                    continue
                unit, found = self.results.unit(python, name), self.results.figures(python, name)
                values = list(found.values())
                rows.append((name, python, str(len(values)), value_text(min(values), unit),
                             value_text(statistics.median(values), unit), f"{100 * ratios.spread(values):.1f} %"))
        return rows


def render(report: Report) -> str:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    template = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
                                  undefined=jinja2.StrictUndefined).get_template("page.html.jinja")
    return template.render(report=report, facts=report.facts, sections=list(report.sections()), rule=ratios.RULE)


def write(results: Results) -> Path:
    path = results.directory / PAGE
    path.write_text(render(Report(results)), encoding="utf-8")
    return path


def summary(results: Results) -> str:
    """A few lines for the terminal."""
    report = Report(results)
    lines = []
    for section in (*report.pyperformance(), *report.calls()):
        if section.text:
            lines.append(f"{section.title}: {section.text}")
    lines.append(report.noise()[1])
    lines += [f"failed: {name}" for name in report.facts["failures"]]
    return "\n".join(lines + report.facts["remarks"])
