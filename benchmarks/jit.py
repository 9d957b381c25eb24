#!/usr/bin/env python3
"""Measures programs with ferrule_jit against stock CPython: interleaved, each run in a process of its own, compiling included.

    benchmarks/jit.py --base build/stock/python --python build/ferrule/python --packages DIRECTORY [--rounds 5] [--untuned]

`python3 -m tools.clients --python build/ferrule/python --only jit --packages DIRECTORY` makes the directory. For each program it
prints the best time of each, how many times as fast the compiler makes it, and how many of the program's functions it compiled, whole
or a loop of them. Other interpreters, such as PyPy, are timed beside with `--beside NAME=COMMAND`.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(python: str, script: Path, name: str, *packages: str) -> tuple[float, str, str]:
    """The seconds that the program took, how many of its functions were compiled, and its result."""
    done = subprocess.run([python, str(script), name, *packages], stdout=subprocess.PIPE, text=True, check=True)
    seconds, compiled, result = done.stdout.rstrip("\n").split("\t")
    return float(seconds), compiled, result


def measure(script: Path, name: str, options: argparse.Namespace) -> tuple[list[float], str]:
    """The best times of stock, of the compiler, and of the interpreters beside; and what was compiled."""
    pythons = [(options.base,), (options.python, options.packages), *((python,) for _, python in options.beside)]
    times: list[list[float]] = [[] for _ in pythons]
    compiled = ""
    expected = None
    for _ in range(options.rounds):
        for own, (python, *packages) in zip(times, pythons, strict=True):
            seconds, found, result = run(python, script, name, *packages)
            own.append(seconds)
            compiled = compiled or found
            expected = expected or result
            if result != expected:
                sys.exit(f"{name}: {python} has {result} instead of {expected}")
    return [min(own) for own in times], compiled


def named(text: str) -> tuple[str, str]:
    name, separator, python = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text}: NAME=COMMAND is expected")
    return name, python


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", required=True, help="stock CPython")
    parser.add_argument("--python", required=True, help="the interpreter with the compiler")
    parser.add_argument("--packages", required=True, help="where ferrule_jit is")
    parser.add_argument("--beside", action="append", default=[], type=named, metavar="NAME=COMMAND", help="another interpreter; may be repeated")
    parser.add_argument("--untuned", action="store_true", help="the programs of jit_untuned.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", help="some of the programs")
    options = parser.parse_args()
    script = HERE / ("jit_untuned.py" if options.untuned else "jit_programs.py")
    programs = subprocess.run([options.base, str(script), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    unknown = [name for name in options.names if name not in programs]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(programs)}")
    ratios = []
    print(f"{'program':16} {'stock ms':>9} {'ferrule_jit ms':>15} {'times':>6}", *(f"{name:>8}" for name, _ in options.beside), " compiled")
    for name in options.names or programs:
        (stock, jit, *beside), compiled = measure(script, name, options)
        ratios.append(stock / jit)
        print(f"{name:16} {stock * 1e3:9.1f} {jit * 1e3:15.1f} {ratios[-1]:6.1f}", *(f"{stock / own:8.1f}" for own in beside), f" {compiled}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.1f}, median {statistics.median(ratios):.1f}, least {min(ratios):.1f}")


if __name__ == "__main__":
    main()
