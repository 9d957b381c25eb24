#!/usr/bin/env python3
"""Measures programs with ferrule_jit against stock CPython: interleaved, each run in a process of its own, compiling included.

    benchmarks/jit.py --base build/stock/python --python build/ferrule/python --packages DIRECTORY [--rounds 5] [--untuned]

`python3 -m tools.clients --python build/ferrule/python --only jit --packages DIRECTORY` makes the directory. The table has the best time
of each, how many times as fast the compiler makes it, and how many of the program's functions it compiled, whole or a loop of them.
Other interpreters, such as PyPy, are timed beside with `--beside NAME=COMMAND`, and Numba with `--numba`: in its second run, without the
time that it takes to compile; `-` where it does not compile the functions as they are, or has another result.
"""

import argparse
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent


def run(python: str, script: Path, name: str, *packages: str) -> tuple[float, str, str]:
    """The seconds that the program took, how many of its functions were compiled, and its result."""
    quiet = subprocess.DEVNULL if packages == ("--numba",) else None
    done = subprocess.run([python, str(script), name, *packages], stdout=subprocess.PIPE, stderr=quiet, text=True, check=True)
    seconds, compiled, result = done.stdout.rstrip("\n").split("\t")
    return float(seconds), compiled, result


def with_numba(python: str, script: Path, name: str, expected: str | None) -> float:
    """The seconds that the program took, or infinity if Numba does not compile it as it is, or its result is another one."""
    try:
        seconds, _, result = run(python, script, name, "--numba")
    except subprocess.CalledProcessError:
        return math.inf
    return seconds if result == expected else math.inf


def measure(script: Path, name: str, options: argparse.Namespace) -> tuple[list[float], str]:
    """The best times of stock, of the compiler, and of those beside; and what was compiled."""
    pythons = [(options.base,), (options.python, options.packages), *((python,) for _, python in options.beside)]
    times: list[list[float]] = [[] for _ in range(len(pythons) + bool(options.numba))]
    compiled = ""
    expected = None
    for _ in range(options.rounds):
        for own, (python, *packages) in zip(times, pythons, strict=False):
            seconds, found, result = run(python, script, name, *packages)
            own.append(seconds)
            compiled = compiled or found
            expected = expected or result
            if result != expected:
                sys.exit(f"{name}: {python} has {result} instead of {expected}")
        if options.numba and math.inf not in times[-1]:
            times[-1].append(with_numba(options.numba, script, name, expected))
    return [min(own) for own in times], compiled


def named(text: str) -> tuple[str, str]:
    name, separator, python = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text}: NAME=COMMAND is expected")
    return name, python


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plotter(path: Path | None, parser: argparse.ArgumentParser) -> Callable[..., str] | None:
    """What draws, asked for before anything is measured."""
    if path is None:
        return None
    try:
        from suite.plots import times_as_fast
    except ImportError as error:
        parser.error(f"--plot: {error}; the environment of `make bench` has it: build/bench-env/bin/python benchmarks/jit.py")
    return times_as_fast


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", required=True, help="stock CPython")
    parser.add_argument("--python", required=True, help="the interpreter with the compiler")
    parser.add_argument("--packages", required=True, help="where ferrule_jit is")
    parser.add_argument("--beside", action="append", default=[], type=named, metavar="NAME=COMMAND", help="another interpreter; may be repeated")
    parser.add_argument("--numba", metavar="COMMAND", help="a Python that has Numba")
    parser.add_argument("--untuned", action="store_true", help="the programs of jit_untuned.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the table, as SVG")
    parser.add_argument("names", nargs="*", help="some of the programs")
    options = parser.parse_args()
    draw = plotter(options.plot, parser)
    script = HERE / ("jit_untuned.py" if options.untuned else "jit_programs.py")
    programs = subprocess.run([options.base, str(script), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    unknown = [name for name in options.names if name not in programs]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(programs)}")
    others = [name for name, _ in options.beside] + ["Numba"] * bool(options.numba)
    columns = ["program", "stock ms", "ferrule_jit ms", "times as fast", *others, "functions compiled"]
    print(row(columns))
    print("|---" * len(columns) + "|")
    ratios: list[list[float]] = []
    for name in options.names or programs:
        (stock, *times), compiled = measure(script, name, options)
        ratios.append([stock / time for time in times])
        shown = [f"{ratio:.1f}" if ratio else "-" for ratio in ratios[-1]]
        print(row([name, f"{stock * 1e3:.1f}", f"{times[0] * 1e3:.1f}", *shown, compiled]), flush=True)
    for number, name in enumerate(["ferrule_jit", *others]):
        known = [row[number] for row in ratios if row[number]]
        if known:
            print(f"{name}: geometric mean {statistics.geometric_mean(known):.1f}, median {statistics.median(known):.1f}, least {min(known):.1f},"
                  f" of {len(known)}")
    if draw:
        options.plot.write_text(draw(options.plot.stem, options.names or programs, ["ferrule_jit", *others], ratios), encoding="utf-8")


if __name__ == "__main__":
    main()
