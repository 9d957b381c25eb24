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


import argparse
import json
import os
import re
import shutil
import statistics
import time

from calls import CALLGRIND_ITERATIONS, COUNT_DIGITS, ITERATIONS, QUIET, ROUNDS, program, run, stripped_copy
from depth import Progress, pin_to_one_core

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.abspath(__file__)
DEFAULT_TURNS = 15
# (column, interpreter, mode, the column it is compared with)
COLUMNS = (("stock", "base", "plain", None),
           ("stock, evaluator", "base", "evaluator", "stock"),
           ("plain", "python", "plain", "stock"),
           ("evaluator", "python", "evaluator", "plain"),
           ("allowing", "python", "allowing", "plain"))
HEADINGS = {"stock, evaluator": "evaluator/plain, stock", "plain": "plain/plain of stock",
            "evaluator": "evaluator/plain", "allowing": "allowing/plain"}


def build_extensions(pythons):
    sys.path.insert(0, os.path.join(ROOT, "tests", "c"))
    from build_extensions import build
    return {which: build(path, os.path.join(ROOT, "build", "test-extensions", f"benchmark-{which}"))
            for which, path in pythons.items()}


def measure_times(pythons, extensions, turns):
    """Interleaved runs: {benchmark: {column: [ns]}}."""
    results = {name: {column: [] for column, *_ in COLUMNS} for name in BENCHMARKS}
    progress = Progress(turns * len(COLUMNS))
    for turn in range(turns):
        # Whoever runs first in a turn must not always be the same one.
        for column, which, mode, _ in COLUMNS if turn % 2 == 0 else tuple(reversed(COLUMNS)):
            done = run([pythons[which], *QUIET, SCRIPT, "--child", "times", mode, extensions[which],
                        str(ITERATIONS), str(ROUNDS)])
            for line in done.stdout.splitlines():
                name, ns = line.split()
                results[name][column].append(float(ns))
            progress.step(f"turn {turn + 1}, {column}")
    progress.end()
    return results


def count(python, mode, extensions, name, iterations):
    done = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "./" + os.path.basename(python),
                *QUIET, SCRIPT, "--child", "count", mode, extensions, name, str(iterations).zfill(COUNT_DIGITS)],
               os.path.dirname(python))
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if not found:
        raise SystemExit(f"valgrind printed no count:\n{done.stderr[-2000:]}")
    return int(found.group(1))


def measure_instructions(pythons, extensions, names):
    """{benchmark: {column: [instructions]}} for the work alone."""
    for tool in ("valgrind", "strip"):
        if not shutil.which(tool):
            raise SystemExit(f"--instructions needs {tool}")
    results = {name: {} for name in names}
    progress = Progress(len(names) * len(COLUMNS) * 2)
    copies = {which: stripped_copy(path) for which, path in pythons.items()}
    try:
        for name in names:
            for column, which, mode, _ in COLUMNS:
                counts = []
                for iterations in (0, CALLGRIND_ITERATIONS):
                    counts.append(count(copies[which], mode, extensions[which], name, iterations))
                    progress.step(f"{name}, {column}")
                results[name][column] = [counts[1] - counts[0]]
    finally:
        for copy in copies.values():
            os.unlink(copy)
    progress.end()
    return results


def report(results, unit):
    """Print the ratios; return {benchmark: {column: ratio}} and the geometric means."""
    compared = [(column, against) for column, _, _, against in COLUMNS if against]
    widths = {column: len(HEADINGS[column]) for column, _ in compared}
    print(f"{'benchmark':<12}  {'stock plain':>14}  " + "  ".join(HEADINGS[column] for column, _ in compared))
    rows = {}
    for name, found in results.items():
        rows[name] = {column: statistics.median(mine / base for mine, base in zip(found[column], found[against]))
                      for column, against in compared}
        base = statistics.median(found["stock"])
        print(f"{name:<12}  {base:>11,.0f} {unit}  " +
              "  ".join(f"{rows[name][column]:>{widths[column]}.3f}" for column, _ in compared))
    means = {column: statistics.geometric_mean(row[column] for row in rows.values()) for column, _ in compared}
    print()
    print(f"{'geom. mean':<12}  {'':>14}  " +
          "  ".join(f"{means[column]:>{widths[column]}.3f}" for column, _ in compared))
    return rows, means


def parse_arguments():
    parser = argparse.ArgumentParser(description="The cost of a PEP 523 evaluator, as ratios.")
    parser.add_argument("--base", type=program, required=True, help="the stock interpreter")
    parser.add_argument("--python", type=program, required=True, help="the interpreter to measure")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind")
    parser.add_argument("--turns", type=int, default=DEFAULT_TURNS,
                        help="processes for each column (default %(default)s; for times)")
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), metavar="NAME",
                        help="count only this benchmark's instructions; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    arguments = parser.parse_args()
    if arguments.turns < 1:
        parser.error("at least one turn")
    return arguments


def main():
    arguments = parse_arguments()
    pythons = {"base": arguments.base, "python": arguments.python}
    extensions = build_extensions(pythons)
    started = time.monotonic()
    if arguments.instructions:
        print(f"Instructions for {CALLGRIND_ITERATIONS} iterations, start-up taken off")
        print()
        results = measure_instructions(pythons, extensions, arguments.only or list(BENCHMARKS))
        rows, means = report(results, "in")
    else:
        pin_to_one_core()
        print(f"Time per call benchmark, median of the ratios of {arguments.turns} rounds that took turns")
        print()
        rows, means = report(measure_times(pythons, extensions, arguments.turns), "ns")
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"kind": "instructions" if arguments.instructions else "time", "means": means,
                       "pythons": pythons, "benchmarks": rows}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
