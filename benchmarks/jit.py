#!/usr/bin/env python3
"""Measures programs with ferrule_jit against stock CPython: interleaved, each run in a process of its own, compiling included.

    benchmarks/jit.py --base build/stock/python --python build/ferrule/python --packages DIRECTORY [--rounds 5]

`python3 -m tools.clients --python build/ferrule/python --only jit --packages DIRECTORY` makes the directory. For each program it
prints the best time of each, and their ratio: how many times as fast it is.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("jit_programs.py")
NAMES = ("collatz", "mandelbrot", "gcd", "leibniz", "fib", "lcg", "primes", "queens", "sieve", "matmul", "levenshtein", "nbody")


def run(python: str, name: str, *packages: str) -> tuple[float, str]:
    """The seconds that the program took, and its result."""
    done = subprocess.run([python, str(PROGRAMS), name, *packages], stdout=subprocess.PIPE, text=True, check=True)
    seconds, result = done.stdout.strip().split(" ", 1)
    return float(seconds), result


def measure(name: str, options: argparse.Namespace) -> tuple[float, float]:
    """The best times of stock and of the compiler."""
    stock, compiled = [], []
    for _ in range(options.rounds):
        (before, expected), (after, found) = run(options.base, name), run(options.python, name, options.packages)
        if found != expected:
            sys.exit(f"{name}: {found} instead of {expected}")
        stock.append(before)
        compiled.append(after)
    return min(stock), min(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="stock CPython")
    parser.add_argument("--python", required=True, help="the interpreter with the compiler")
    parser.add_argument("--packages", required=True, help="where ferrule_jit is")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", default=NAMES, help="some of the programs")
    options = parser.parse_args()
    ratios = []
    print(f"{'program':12} {'stock ms':>9} {'ferrule_jit ms':>15} {'times':>6}")
    for name in options.names:
        stock, compiled = measure(name, options)
        ratios.append(stock / compiled)
        print(f"{name:12} {stock * 1e3:9.1f} {compiled * 1e3:15.1f} {stock / compiled:6.1f}", flush=True)
    print(f"geometric mean: {statistics.geometric_mean(ratios):.1f} times")


if __name__ == "__main__":
    main()
