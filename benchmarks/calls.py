#!/usr/bin/env python3
"""Call microbenchmarks: one interpreter against another, in time or in instructions.

    python3 benchmarks/calls.py --base build/stock-release/python --python build/release/python
    python3 benchmarks/calls.py --base ... --python ... --instructions

Every number is a ratio against the base. Times come from fresh processes that take turns. Instructions are
counted by valgrind on copies without debug information, less those of a run with no iterations, so that only
the work itself is compared.
"""

import sys

from workloads import BENCHMARKS, print_times

if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    if sys.argv[2] == "times":
        print_times(int(sys.argv[3]), int(sys.argv[4]))
    else:
        import gc
        gc.disable()    # a collection that falls into one of two runs would look like a difference
        BENCHMARKS[sys.argv[2]](int(sys.argv[3]))
    sys.exit(0)


import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import time

from depth import Progress, pin_to_one_core

ITERATIONS = 300        # per timing: a few ms
ROUNDS = 10             # timings in one process, the best is kept
DEFAULT_TURNS = 25      # processes for each interpreter
CALLGRIND_ITERATIONS = 40
# No site, no user site. Not -I or -E: these would ignore PYTHONHASHSEED, and another hash seed is another number of
# instructions. Not -P: the script's directory is where workloads.py is.
QUIET = ("-S", "-s")
COUNT_DIGITS = 6        # the count on the command line has one width, whatever it is


def run(command, directory=None):
    environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"this failed with exit code {done.returncode}: {' '.join(command)}\n{done.stderr[-2000:]}")
    return done


def measure_times(pythons, turns):
    """Interleaved runs: {benchmark: {"base": [ns], "python": [ns]}}."""
    results = {name: {which: [] for which in pythons} for name in BENCHMARKS}
    progress = Progress(turns * len(pythons))
    script = os.path.abspath(__file__)
    for turn in range(turns):
        # Whoever runs second in a pair must not always be the same one.
        order = list(pythons) if turn % 2 == 0 else list(reversed(pythons))
        for which in order:
            done = run([pythons[which], *QUIET, script, "--child", "times", str(ITERATIONS), str(ROUNDS)])
            for line in done.stdout.splitlines():
                name, ns = line.split()
                results[name][which].append(float(ns))
            progress.step(f"turn {turn + 1}, {which}")
    progress.end()
    return results


def report_times(results, turns):
    """Print the table; return the geometric mean of the median ratios and the rows."""
    print(f"Time per call benchmark, median of {turns} pairs of processes that took turns")
    print()
    print(f"{'benchmark':<12}  {'base':>10}  {'python':>10}  {'ratio':>6}  {'middle half of the ratios':>26}")
    rows = {}
    for name, times in results.items():
        ratios = sorted(mine / base for mine, base in zip(times["python"], times["base"]))
        ratio = statistics.median(ratios)
        low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
        base, mine = (statistics.median(times[which]) / 1000 for which in ("base", "python"))
        best = min(times["python"]) / min(times["base"])
        rows[name] = {"ratio": ratio, "low": low, "high": high, "best_ratio": best, "base_us": base,
                      "python_us": mine}
        print(f"{name:<12}  {base:>7.2f} us  {mine:>7.2f} us  {ratio:>6.3f}  {f'{low:.3f} to {high:.3f}':>26}")
    return statistics.geometric_mean(row["ratio"] for row in rows.values()), rows


def stripped_copy(python):
    """A copy without debug information, beside the original: a build tree's python finds its library that way."""
    copy = python + ".stripped"
    shutil.copy2(python, copy)
    run(["strip", "--strip-debug", copy])
    return copy


def run_child(python, name, iterations, tool=()):
    # From its own directory and by a short name: argv is then the same for every interpreter.
    return run([*tool, "./" + os.path.basename(python), *QUIET, os.path.abspath(__file__), "--child", name,
                str(iterations).zfill(COUNT_DIGITS)], os.path.dirname(python))


def count_instructions(python, name, iterations):
    done = run_child(python, name, iterations,
                     ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"))
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if not found:
        raise SystemExit(f"valgrind printed no count:\n{done.stderr[-2000:]}")
    return int(found.group(1))


def measure_instructions(pythons):
    """{benchmark: {"base": instructions, "python": instructions}} for the work alone."""
    for tool in ("valgrind", "strip"):
        if not shutil.which(tool):
            raise SystemExit(f"--instructions needs {tool}")
    results = {name: {} for name in BENCHMARKS}
    progress = Progress(len(BENCHMARKS) * len(pythons) * 2)
    for which, path in pythons.items():
        copy = stripped_copy(path)
        try:
            # The first start of a fresh build compiles the modules it imports and caches them.
            run_child(copy, next(iter(BENCHMARKS)), 0)
            for name in BENCHMARKS:
                counts = []
                for iterations in (0, CALLGRIND_ITERATIONS):
                    counts.append(count_instructions(copy, name, iterations))
                    progress.step(f"{which}, {name}")
                if counts[1] <= counts[0]:
                    raise SystemExit(f"{path}: {name} took {counts[1]:,} instructions, and {counts[0]:,} to do nothing")
                results[name][which] = counts[1] - counts[0]
        finally:
            os.unlink(copy)
    progress.end()
    return results


def report_instructions(results):
    print(f"Instructions for {CALLGRIND_ITERATIONS} iterations, start-up taken off")
    print()
    print(f"{'benchmark':<12}  {'base':>14}  {'python':>14}  {'ratio':>7}")
    rows = {}
    for name, counts in results.items():
        ratio = counts["python"] / counts["base"]
        rows[name] = {"ratio": ratio, "base": counts["base"], "python": counts["python"]}
        print(f"{name:<12}  {counts['base']:>14,}  {counts['python']:>14,}  {ratio:>7.4f}")
    return statistics.geometric_mean(row["ratio"] for row in rows.values()), rows


def program(path):
    path = os.path.abspath(path)
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"no such program: {path}")
    return path


def parse_arguments():
    parser = argparse.ArgumentParser(description="Call microbenchmarks, as ratios against a base.")
    parser.add_argument("--base", type=program, required=True, help="the interpreter to compare with (stock)")
    parser.add_argument("--python", type=program, required=True, help="the interpreter to measure")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind")
    parser.add_argument("--turns", type=int, default=DEFAULT_TURNS,
                        help="processes for each interpreter (default %(default)s; for times)")
    parser.add_argument("--quick", action="store_true", help="three turns: a first look")
    parser.add_argument("--max-ratio", type=float, metavar="X",
                        help="fail when the geometric mean of the ratios is above X")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.turns = 3
    if arguments.turns < 1:
        parser.error("at least one turn")
    return arguments


def main():
    arguments = parse_arguments()
    pythons = {"base": arguments.base, "python": arguments.python}
    started = time.monotonic()
    if arguments.instructions:
        mean, rows = report_instructions(measure_instructions(pythons))
        digits = 4
    else:
        pin_to_one_core()
        mean, rows = report_times(measure_times(pythons, arguments.turns), arguments.turns)
        digits = 3
    print()
    print(f"geometric mean of the ratios: {mean:.{digits}f}   ({time.monotonic() - started:.0f} s)")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"kind": "instructions" if arguments.instructions else "time", "mean_ratio": mean,
                       "pythons": pythons, "benchmarks": rows}, file, indent=1)
            file.write("\n")
    if arguments.max_ratio is not None and mean > arguments.max_ratio:
        print(f"above the limit of {arguments.max_ratio}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
