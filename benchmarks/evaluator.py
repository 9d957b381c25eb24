#!/usr/bin/env python3
"""What a PEP 523 evaluator costs that does nothing: stock and Ferrule, with and without its permission to specialize.

    python3 benchmarks/evaluator.py --base build/stock-release/python --python build/release/python
    python3 benchmarks/evaluator.py --base ... --python ... --instructions

The benchmarks are those of calls.py. Each runs plainly, under an evaluator that passes every frame on to the eval
loop, and under one that allows specialization (Ferrule only); each number is a ratio against the same interpreter's
plain run, but for the column that says so. Times come from fresh processes that take turns. Instructions are counted
by valgrind on copies without debug information, less those of a run with no iterations.
"""

import sys

from workloads import BENCHMARKS, print_times


def use_mode(mode: str, extensions: str) -> None:
    if mode == "plain":
        return
    sys.path.insert(0, extensions)
    import evaluators
    evaluators.set("pass")
    if mode == "allowing":
        evaluators.allow_specialization(True)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    _, _, kind, mode, extensions, *rest = sys.argv
    use_mode(mode, extensions)
    if kind == "times":
        print_times(int(rest[0]), int(rest[1]))
    else:
        BENCHMARKS[rest[0]](int(rest[1]))
    sys.exit(0)


import os
import statistics
import time
from collections.abc import Iterable

import measuring

SCRIPT = os.path.abspath(__file__)
DEFAULT_TURNS = 15
# column: (interpreter, mode, the column it is compared with, heading)
COLUMNS: dict[str, tuple[str, str, str | None, str]] = {
    "stock": ("base", "plain", None, ""),
    "stock, evaluator": ("base", "evaluator", "stock", "evaluator/plain, stock"),
    "plain": ("python", "plain", "stock", "plain/plain of stock"),
    "evaluator": ("python", "evaluator", "plain", "evaluator/plain"),
    "allowing": ("python", "allowing", "plain", "allowing/plain"),
}


def measure_times(pythons: measuring.Pythons, extensions: measuring.Pythons, turns: int) -> measuring.Results:
    """Interleaved runs: {benchmark: {column: [ns]}}."""
    def measure(column: str) -> dict[str, float]:
        which, mode, *_ = COLUMNS[column]
        return measuring.parse_times(measuring.run([pythons[which], *measuring.QUIET, SCRIPT, "--child", "times", mode, extensions[which],
                                str(measuring.ITERATIONS), str(measuring.ROUNDS)]).stdout)
    return measuring.measure_in_turns(COLUMNS, turns, measure)


def measure_instructions(pythons: measuring.Pythons, extensions: measuring.Pythons, names: Iterable[str]) -> measuring.Results:
    """{benchmark: {column: [instructions]}} for the work alone."""
    counts = measuring.count_each(names, {column: which for column, (which, *_) in COLUMNS.items()}, pythons, 0, measuring.CALLGRIND_ITERATIONS,
                        lambda column, name, count: (SCRIPT, "--child", "count", COLUMNS[column][1], extensions[COLUMNS[column][0]], name, count))
    return {name: {column: [counted.all] for column, counted in row.items()} for name, row in counts.items()}


def report(results: measuring.Results, unit: str) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Print the ratios; return {benchmark: {column: ratio}} and the geometric means."""
    compared = {column: against for column, (_, _, against, _) in COLUMNS.items() if against}
    rows = {name: {column: measuring.ratio_of_pairs(found[column], found[against]).median for column, against in compared.items()}
            for name, found in results.items()}
    means = {column: statistics.geometric_mean(row[column] for row in rows.values()) for column in compared}
    measuring.print_table(("benchmark", "stock plain", *(COLUMNS[column][3] for column in compared)),
                [*((name, f"{statistics.median(results[name]['stock']):,.0f} {unit}",
                    *(f"{row[column]:.3f}" for column in compared)) for name, row in rows.items()),
                 ("geom. mean", "", *(f"{means[column]:.3f}" for column in compared))])
    return rows, means


def main() -> int:
    parser = measuring.argument_parser("The cost of a PEP 523 evaluator, as ratios.", DEFAULT_TURNS)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), metavar="NAME",
                        help="count only this benchmark's instructions; may be repeated")
    arguments = measuring.parse(parser)
    pythons = {"base": arguments.base, "python": arguments.python}
    extensions = measuring.build_extensions(pythons)
    started = time.monotonic()
    if arguments.instructions:
        print(f"Instructions for {measuring.CALLGRIND_ITERATIONS} iterations, start-up taken off\n")
        rows, means = report(measure_instructions(pythons, extensions, arguments.only or list(BENCHMARKS)), "in")
    else:
        measuring.pin_to_one_core()
        print(f"Time per call benchmark, median of the ratios of {arguments.turns} rounds that took turns\n")
        rows, means = report(measure_times(pythons, extensions, arguments.turns), "ns")
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        measuring.write_json(arguments.json, kind="instructions" if arguments.instructions else "time", means=means,
                   pythons=pythons, benchmarks=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
