#!/usr/bin/env python3
"""The profiler on stock CPython, where sys.monitoring reports the calls, beside itself on Ferrule.

    python3 benchmarks/profiler_on_stock.py --base build/stock-release/python --python build/release/python

What a call takes without a profiler, and what a profiler adds to it, in instructions, which valgrind counts.
"""

import os
import sys

CALLS = {"recursion": 465, "methods": 200, "generators": 1}     # in one iteration
HEADS = {"generators": "a generator of 200 values"}


# --- In the interpreter that is measured. --------------------------------------------------------

def start(**options):
    import ferrule_profiler
    ferrule_profiler.start(**options)


PROFILERS = {
    "without a profiler": lambda: None,
    "counts alone": lambda: start(count=True),
    "exact": start,
    "a timeline": lambda: start(trace=400_000),
    "exact, C functions too": lambda: start(builtins=True),
}


def child(profiler, name, count, packages):
    import workloads
    # Ahead of what is installed with Ferrule: one build for both.
    sys.path.insert(0, packages)
    workloads.run_setup(workloads.BENCHMARKS, PROFILERS[profiler], "instructions", name, count)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------

import counting
import measuring


def main():
    arguments = counting.argument_parser("The profiler on stock CPython and on Ferrule.", CALLS).parse_args()
    packages = measuring.build_clients(arguments.python, os.path.join(measuring.ROOT, "build", "test-extensions", "benchmark-profiler"))
    counting.print_beside_stock("a profiler", arguments, PROFILERS, CALLS, HEADS, os.path.abspath(__file__), packages)


if __name__ == "__main__":
    main()
