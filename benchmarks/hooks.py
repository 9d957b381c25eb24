#!/usr/bin/env python3
"""What frame hooks cost: calls on Ferrule with and without hooks, against stock CPython without anything.

    python3 benchmarks/hooks.py --stock build/stock-release/python --python build/release/python
    python3 benchmarks/hooks.py --stock ... --python ... --instructions

The yardstick is what tools use elsewhere: an evaluator of PEP 523 that only passes frames on, on stock. Every
number is a ratio against stock without one. Times come from fresh processes, one for each setup, that take turns.
Instructions are counted by valgrind in the steady state: a run with few iterations is taken off.
"""

import sys

BENCHMARKS = ("recursion", "methods", "properties", "generators", "inits")


# --- In the interpreter that is measured. --------------------------------------------------------------------------

def settle(view):
    return SETTLED


def add_native(kind, count=1):
    import framehooks
    for _ in range(count):
        framehooks.add_native(kind)


def add_python():
    global SETTLED
    import framehook
    SETTLED = framehook.SETTLED
    framehook.add(settle)


def use_evaluator():
    import framehooks
    framehooks.set_evaluator("pass")


def do_nothing():
    pass


# setup: (where it runs, what prepares it, the most that the geometric mean of its ratios may be)
SETUPS = {
    "stock": ("stock", do_nothing, None),
    "PEP 523": ("stock", use_evaluator, None),
    "no hooks": ("python", do_nothing, 1.01),
    "1 settled": ("python", lambda: add_native("settle"), 1.05),
    "8 settled": ("python", lambda: add_native("settle", 8), 1.08),
    "Python settled": ("python", add_python, 1.05),
    "C passes": ("python", lambda: add_native("pass"), 1.35),
}
BASE = "stock"


def child(kind, setup, extensions, *arguments):
    import gc
    import workloads
    sys.path.append(extensions)
    workloads.BENCHMARKS = {name: workloads.BENCHMARKS[name] for name in BENCHMARKS}
    gc.disable()    # a collection that falls into one of two runs would look like a difference
    if kind == "times":
        for run in workloads.BENCHMARKS.values():
            run(20)     # specialized before the hook comes, as in a program that runs
        SETUPS[setup][1]()
        workloads.print_times(*map(int, arguments))
    else:
        name, iterations = arguments
        workloads.BENCHMARKS[name](20)
        SETUPS[setup][1]()
        workloads.BENCHMARKS[name](int(iterations))


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------------------------

import argparse
import importlib.util
import json
import os
import re
import shutil
import statistics
import time

from calls import ITERATIONS, QUIET, ROUNDS, program, run, stripped_copy
from depth import Progress, pin_to_one_core

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_TURNS = 15
FEW_ITERATIONS, MANY_ITERATIONS = 20, 60


def build_extensions(pythons):
    """{which: the directory of the test extensions for that interpreter}."""
    source = os.path.join(ROOT, "tests", "c", "build_extensions.py")
    spec = importlib.util.spec_from_file_location("build_extensions", source)
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return {which: builder.build(path, os.path.join(ROOT, "build", "test-extensions", "benchmark-" + which))
            for which, path in pythons.items()}


def command(pythons, extensions, kind, setup, *arguments):
    which = SETUPS[setup][0]
    return [pythons[which], *QUIET, os.path.abspath(__file__), "--child", kind, setup, extensions[which],
            *map(str, arguments)]


def measure_times(pythons, extensions, turns):
    """{benchmark: {setup: [ns, one for each turn]}}."""
    results = {name: {setup: [] for setup in SETUPS} for name in BENCHMARKS}
    progress = Progress(turns * len(SETUPS))
    for turn in range(turns):
        # Nobody is always the first, or always after the same one.
        order = list(SETUPS)[turn % len(SETUPS):] + list(SETUPS)[:turn % len(SETUPS)]
        for setup in order if turn % 2 else reversed(order):
            done = run(command(pythons, extensions, "times", setup, ITERATIONS, ROUNDS))
            for line in done.stdout.splitlines():
                name, ns = line.split()
                results[name][setup].append(float(ns))
            progress.step(f"turn {turn + 1}, {setup}")
    progress.end()
    return results


def time_ratios(results):
    """{benchmark: {setup: (median ratio, lower quartile, upper quartile)}}."""
    rows = {}
    for name, times in results.items():
        rows[name] = {}
        for setup in SETUPS:
            ratios = sorted(mine / base for mine, base in zip(times[setup], times[BASE]))
            rows[name][setup] = (statistics.median(ratios), ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4])
    return rows


def count_instructions(arguments):
    # By a short name and from its own directory: argv then differs between interpreters as little as can be.
    python, *rest = arguments
    done = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "./" + os.path.basename(python),
                *rest], os.path.dirname(python))
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if not found:
        raise SystemExit(f"valgrind printed no count:\n{done.stderr[-2000:]}")
    return int(found.group(1))


def measure_instructions(pythons, extensions):
    """{benchmark: {setup: instructions of the iterations in between}}."""
    for tool in ("valgrind", "strip"):
        if not shutil.which(tool):
            raise SystemExit(f"--instructions needs {tool}")
    copies = {which: stripped_copy(path) for which, path in pythons.items()}
    results = {name: {} for name in BENCHMARKS}
    progress = Progress(len(BENCHMARKS) * len(SETUPS) * 2)
    try:
        for setup in SETUPS:
            for name in BENCHMARKS:
                counts = []
                for iterations in (FEW_ITERATIONS, MANY_ITERATIONS):
                    counts.append(count_instructions(command(copies, extensions, "instructions", setup, name,
                                                             iterations)))
                    progress.step(f"{setup}, {name}")
                results[name][setup] = counts[1] - counts[0]
    finally:
        for copy in copies.values():
            os.unlink(copy)
    progress.end()
    return results


def instruction_ratios(results):
    return {name: {setup: (counts[setup] / counts[BASE],) * 3 for setup in SETUPS} for name, counts in results.items()}


def report(rows, digits):
    """Print the table; return {setup: geometric mean}."""
    columns = [setup for setup in SETUPS if setup != BASE]
    width = max(map(len, columns)) + 2
    print(f"{'':<12}" + "".join(f"{setup:>{width}}" for setup in columns))
    for name, row in rows.items():
        print(f"{name:<12}" + "".join(f"{row[setup][0]:>{width}.{digits}f}" for setup in columns))
    means = {setup: statistics.geometric_mean(row[setup][0] for row in rows.values()) for setup in columns}
    print(f"{'mean':<12}" + "".join(f"{means[setup]:>{width}.{digits}f}" for setup in columns))
    print(f"{'aim':<12}" + "".join(f"{SETUPS[setup][2] or '':>{width}}" for setup in columns))
    spread = max((high - low) / middle for row in rows.values() for middle, low, high in row.values())
    if spread:
        print(f"\nNoise: the middle half of a ratio's values is up to {100 * spread:.1f} % wide.")
    return means


def parse_arguments():
    parser = argparse.ArgumentParser(description="What frame hooks cost, as ratios against stock CPython.")
    parser.add_argument("--stock", type=program, required=True, help="the interpreter to compare with")
    parser.add_argument("--python", type=program, required=True, help="the Ferrule to measure")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind")
    parser.add_argument("--turns", type=int, default=DEFAULT_TURNS,
                        help="processes for each setup (default %(default)s; for times)")
    parser.add_argument("--quick", action="store_true", help="three turns: a first look")
    parser.add_argument("--check", action="store_true", help="fail when a mean is above its aim")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.turns = 3
    if arguments.turns < 1:
        parser.error("at least one turn")
    return arguments


def main():
    arguments = parse_arguments()
    pythons = {"stock": arguments.stock, "python": arguments.python}
    extensions = build_extensions(pythons)
    started = time.monotonic()
    if arguments.instructions:
        results = measure_instructions(pythons, extensions)
        print(f"Instructions of {MANY_ITERATIONS - FEW_ITERATIONS} iterations, as a ratio against stock\n")
        rows = instruction_ratios(results)
        means = report(rows, 4)
    else:
        pin_to_one_core()
        results = measure_times(pythons, extensions, arguments.turns)
        print(f"Time, as a ratio against stock: medians of {arguments.turns} turns\n")
        rows = time_ratios(results)
        means = report(rows, 3)
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"kind": "instructions" if arguments.instructions else "time", "pythons": pythons,
                       "means": means, "ratios": rows, "measured": results}, file, indent=1)
            file.write("\n")
    above = [f"{setup}: {means[setup]:.3f} is above {limit}" for setup, (_, _, limit) in SETUPS.items()
             if limit and means[setup] > limit]
    if arguments.check and above:
        print("\n".join(above))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
