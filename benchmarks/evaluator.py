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


def use_mode(mode, extensions):
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

from measuring import (CALLGRIND_ITERATIONS, ITERATIONS, QUIET, ROUNDS, Progress, argument_parser, build_extensions,
                       count_work, measure_in_turns, parse, parse_times, pin_to_one_core, print_table, ratio_of_pairs,
                       run, stripped_copies, write_json)

SCRIPT = os.path.abspath(__file__)
DEFAULT_TURNS = 15
# column: (interpreter, mode, the column it is compared with, heading)
COLUMNS = {
    "stock": ("base", "plain", None, None),
    "stock, evaluator": ("base", "evaluator", "stock", "evaluator/plain, stock"),
    "plain": ("python", "plain", "stock", "plain/plain of stock"),
    "evaluator": ("python", "evaluator", "plain", "evaluator/plain"),
    "allowing": ("python", "allowing", "plain", "allowing/plain"),
}


def measure_times(pythons, extensions, turns):
    """Interleaved runs: {benchmark: {column: [ns]}}."""
    def measure(column):
        which, mode, *_ = COLUMNS[column]
        return parse_times(run([pythons[which], *QUIET, SCRIPT, "--child", "times", mode, extensions[which],
                                str(ITERATIONS), str(ROUNDS)]).stdout)
    return measure_in_turns(COLUMNS, turns, measure)


def measure_instructions(pythons, extensions, names):
    """{benchmark: {column: [instructions]}} for the work alone."""
    results = {name: {} for name in names}
    progress = Progress(len(names) * len(COLUMNS) * 2)
    with stripped_copies(pythons) as copies:
        for name in names:
            for column, (which, mode, *_) in COLUMNS.items():
                counted = count_work(
                    copies[which], 0, CALLGRIND_ITERATIONS,
                    lambda count: (*QUIET, SCRIPT, "--child", "count", mode, extensions[which], name, count),
                    lambda: progress.step(f"{name}, {column}"))
                results[name][column] = [counted.all]
    progress.end()
    return results


def report(results, unit):
    """Print the ratios; return {benchmark: {column: ratio}} and the geometric means."""
    compared = {column: against for column, (_, _, against, _) in COLUMNS.items() if against}
    rows = {name: {column: ratio_of_pairs(found[column], found[against]).median for column, against in compared.items()}
            for name, found in results.items()}
    means = {column: statistics.geometric_mean(row[column] for row in rows.values()) for column in compared}
    print_table(("benchmark", "stock plain", *(COLUMNS[column][3] for column in compared)),
                [*((name, f"{statistics.median(results[name]['stock']):,.0f} {unit}",
                    *(f"{row[column]:.3f}" for column in compared)) for name, row in rows.items()),
                 ("geom. mean", "", *(f"{means[column]:.3f}" for column in compared))])
    return rows, means


def main():
    parser = argument_parser("The cost of a PEP 523 evaluator, as ratios.", DEFAULT_TURNS)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), metavar="NAME",
                        help="count only this benchmark's instructions; may be repeated")
    arguments = parse(parser)
    pythons = {"base": arguments.base, "python": arguments.python}
    extensions = build_extensions(pythons)
    started = time.monotonic()
    if arguments.instructions:
        print(f"Instructions for {CALLGRIND_ITERATIONS} iterations, start-up taken off\n")
        rows, means = report(measure_instructions(pythons, extensions, arguments.only or list(BENCHMARKS)), "in")
    else:
        pin_to_one_core()
        print(f"Time per call benchmark, median of the ratios of {arguments.turns} rounds that took turns\n")
        rows, means = report(measure_times(pythons, extensions, arguments.turns), "ns")
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        write_json(arguments.json, kind="instructions" if arguments.instructions else "time", means=means,
                   pythons=pythons, benchmarks=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
