"""One build linked several times, each time with its functions in another order.

Where the eval loop comes to lie decides what shares cache lines and entries of the branch predictor: on its own that
moves single call benchmarks by up to ten per cent, in either direction, without one instruction being different. A
ratio of two builds is therefore taken over several layouts of both (Mytkowicz et al., "Producing Wrong Data Without
Doing Anything Obviously Wrong!", ASPLOS 2009). It needs lld, as `make release` does.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from measuring import ROOT, ChildFailed, Progress, Pythons, Results, pin_to_one_core, print_table, ratio_of_pairs

FLAGS = "-Xlinker -export-dynamic -ffunction-sections -Wl,--shuffle-sections=.text*={seed}"


def link(python: str, seed: int) -> str:
    """The path of `python`, which is a build tree's, linked anew in the order of that seed."""
    directory = os.path.dirname(python)
    variant = os.path.basename(directory)
    if directory != os.path.join(ROOT, "build", variant):
        raise SystemExit(f"only builds of this tree can be linked again, not {python}")
    name = f"python-layout{seed}"
    command = [sys.executable, "-m", "tools.build", "make", variant,
               f"BUILDPYTHON={name}", "LINKFORSHARED=" + FLAGS.format(seed=seed), name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ChildFailed(f"linking failed: {' '.join(command)}\n{done.stdout[-2000:]}")
    return os.path.join(directory, name)


@contextlib.contextmanager
def linked(pythons: Pythons, count: int) -> Iterator[list[dict[str, str]]]:
    """A list of `count` dictionaries like `pythons`, {name: path}; the files are gone when the context ends."""
    made: list[str] = []
    progress = Progress(count * len(pythons))
    try:
        layouts = []
        for seed in range(1, count + 1):
            layout = {}
            for which, python in pythons.items():
                layout[which] = link(python, seed)
                made.append(layout[which])
                progress.step(f"linked {which}, layout {seed}")
            layouts.append(layout)
        progress.end()
        yield layouts
    finally:
        for path in made:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def measure(pythons: Pythons, count: int, measure_times: Callable[[Pythons], Results]) -> dict[str, list[float]]:
    """What measure_times(pythons) gives, {benchmark: {"base": [ns], "python": [ns]}}, for `count` layouts:
    {benchmark: [median of the ratios of one layout's pairs]}.
    """
    ratios: dict[str, list[float]] = {}
    with linked(pythons, count) as links:
        pin_to_one_core()
        for layout in links:
            for name, times in measure_times(layout).items():
                ratios.setdefault(name, []).append(ratio_of_pairs(times["python"], times["base"]).median)
    return ratios


def print_ratios(title: str, ratios: Mapping[str, list[float]], turns: int) -> dict[str, dict[str, Any]]:
    """Print a table of ratios over layouts; return {benchmark: row} for JSON."""
    rows = {name: {"ratio": statistics.median(row), "lowest": min(row), "highest": max(row), "layouts": row}
            for name, row in ratios.items()}
    count = len(next(iter(ratios.values())))
    print(f"{title}: median over {count} layouts of both builds, each the median of {turns} pairs\nof processes that took"
          " turns\n")
    print_table(("benchmark", "ratio", "lowest to highest layout"),
                [(name, f"{row['ratio']:.3f}", f"{row['lowest']:.3f} to {row['highest']:.3f}")
                 for name, row in rows.items()])
    return rows


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layouts", type=int, metavar="N",
                        help="link both builds N times, with their functions in another order, and take the median")


def check_argument(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.layouts is not None and (arguments.instructions or arguments.layouts < 1):
        parser.error("--layouts takes a number above 0, and is about times")
