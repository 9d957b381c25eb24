"""What docs/benchmarks.md shows of a run: its main plots as files, and its figures between two marks."""

from pathlib import Path

from measuring import ROOT
from suite.page import Report
from suite.results import Results

PAGE = Path(ROOT, "docs", "benchmarks.md")
PLOTS = Path(ROOT, "docs", "benchmarks")
BEGIN, END = "<!-- benchmarks: begin (make bench-publish) -->", "<!-- benchmarks: end -->"
SHOWN = {"pyperformance": "pyperformance, each benchmark", "calls": "Call microbenchmarks",
         "depth-3-locals": "Cost of a call by depth, 3 locals", "hooks": "Frame hooks against PEP 523"}


def text(report: Report, names: list[str]) -> str:
    """The page's part."""
    facts = report.facts
    lines = [BEGIN, ""]
    for section in (*report.pyperformance(), *report.calls()):
        lines += [f"{section.title}: {section.text}", ""]
        if section.title == "pyperformance" and section.rows:
            lines += ["| beyond 1.02 | ratio | 95 % interval |", "|---|---|---|",
                      *(f"| {name}{f' ({python})' if len(report.others) > 1 else ''} | {ratio} | {interval} |"
                        for name, python, ratio, interval, _ in section.rows), ""]
    lines += [f"![{SHOWN[name]}](benchmarks/{name}.svg)" for name in names]
    lines += ["", f"{report.noise()[1]} Measured on {facts['date'][:10]} with `{facts['command']}`, {report.rounds()},"
              f" on {facts['machine']['cpu']}, {facts['machine']['cores']} cores"
              f"{' of a virtual machine' if facts['machine']['virtual'] else ''}, {facts['machine']['os']};"
              f" {facts['builds'][report.base]['compiler']}"
              + "".join(f", rustc {facts['builds'][name]['ferrule']['rustc']}" for name in report.ferrules[:1]) + ".",
              "", END]
    return "\n".join(lines)


def publish(results: Results) -> list[Path]:
    """Writes the plots and the page's part; returns what was written."""
    if results.facts["quick"] or results.facts["only"]:
        raise SystemExit(f"{results.directory} is not a whole run: what is published comes from `make bench`")
    report = Report(results)
    found = {plot.name: plot.svg for section in report.sections() for plot in section.plots if plot.name in SHOWN}
    PLOTS.mkdir(parents=True, exist_ok=True)
    written = []
    for name, svg in found.items():
        written.append(PLOTS / f"{name}.svg")
        written[-1].write_text(svg, encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} lacks its marks: {BEGIN} and {END}")
    PAGE.write_text(before + text(report, [name for name in SHOWN if name in found]) + after, encoding="utf-8")
    return [*written, PAGE]
