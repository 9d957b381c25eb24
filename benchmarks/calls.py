#!/usr/bin/env python3
"""Call microbenchmarks: one interpreter against another, in time or in instructions.

    python3 benchmarks/calls.py --base build/stock-release/python --python build/release/python
    python3 benchmarks/calls.py --base ... --python ... --layouts 6
    python3 benchmarks/calls.py --base ... --python ... --instructions

Every number is a ratio against the base. Times come from fresh processes that take turns; with --layouts from several
links of both builds (see layouts.py). Instructions are counted by valgrind on copies without debug information, less
those of a run with no iterations, so that only the work itself is compared.
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


import os
import statistics
import time
from collections.abc import Iterable

import committed
import layouts
import measuring

SCRIPT = os.path.abspath(__file__)
DEFAULT_TURNS = 25      # processes for each interpreter


def measure_times(pythons: measuring.Pythons, turns: int) -> measuring.Results:
    """Interleaved runs: {benchmark: {"base": [ns], "python": [ns]}}."""
    return measuring.measure_in_turns(pythons, turns, lambda which: measuring.parse_times(
        measuring.run([pythons[which], *measuring.QUIET, SCRIPT, "--child", "times", str(measuring.ITERATIONS), str(measuring.ROUNDS)]).stdout))


def measure_instructions(pythons: measuring.Pythons, names: Iterable[str] = tuple(BENCHMARKS)) -> dict[str, dict[str, measuring.Instructions]]:
    """{benchmark: {which: Instructions}} for the work alone."""
    return measuring.count_each(names, dict(zip(pythons, pythons)), pythons, 0, measuring.CALLGRIND_ITERATIONS,
                      lambda which, name, count: (SCRIPT, "--child", name, count))


def main() -> int:
    parser = measuring.argument_parser("Call microbenchmarks, as ratios against a base.", DEFAULT_TURNS)
    parser.add_argument("--max-ratio", type=float, metavar="X",
                        help="fail when the geometric mean of the ratios is above X")
    layouts.add_argument(parser)
    parser.add_argument("--committed", metavar="FILE", nargs="?", const=committed.FILE,
                        help="fail when an instruction count is more than 1 %% above its figure in FILE")
    parser.add_argument("--update", metavar="FILE", nargs="?", const=committed.FILE,
                        help="write the instruction counts to FILE")
    arguments = measuring.parse(parser)
    if (arguments.committed or arguments.update) and not arguments.instructions:
        parser.error("--committed and --update are about --instructions")
    layouts.check_argument(parser, arguments)
    pythons = {"base": arguments.base, "python": arguments.python}
    started = time.monotonic()
    if arguments.instructions:
        counts = measure_instructions(pythons)
        rows = measuring.print_counts(f"Instructions for {measuring.CALLGRIND_ITERATIONS} iterations, start-up taken off",
                            {name: {which: count.all for which, count in row.items()}
                             for name, row in counts.items()}, "benchmark")
    elif arguments.layouts:
        ratios = layouts.measure(pythons, arguments.layouts, lambda link: measure_times(link, arguments.turns))
        rows = layouts.print_ratios("Time per call benchmark", ratios, arguments.turns)
    else:
        measuring.pin_to_one_core()
        rows = measuring.print_ratios(f"Time per call benchmark, median of {arguments.turns} pairs of processes that took turns",
                            measure_times(pythons, arguments.turns), "benchmark", "us", scale=1000)
    mean = statistics.geometric_mean(row["ratio"] for row in rows.values())
    print(f"\ngeometric mean of the ratios: {mean:.{4 if arguments.instructions else 3}f}"
          f"   ({time.monotonic() - started:.0f} s)")
    if arguments.json:
        measuring.write_json(arguments.json, kind="instructions" if arguments.instructions else "time", mean_ratio=mean,
                   pythons=pythons, benchmarks=rows)
    fine = True
    if arguments.max_ratio is not None and mean > arguments.max_ratio:
        print(f"above the limit of {arguments.max_ratio}")
        fine = False
    if arguments.update:
        committed.write(arguments.update, counts, committed.facts_of(arguments.python))
        print(f"written to {os.path.relpath(arguments.update)}")
    if arguments.committed:
        lines, within = committed.check(arguments.committed, counts, committed.facts_of(arguments.python))
        print("\n".join(lines))
        fine = fine and within
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
