"""What is measured. A task is what one interpreter measures at one time, once in each round: in a process, or in several.

With `together`, the processes of a task run at the same time on one core, those of all interpreters, and each measures its
CPU time (cpu_clock.py): what slows the core down meets all of them. Each then times all its rounds as one, as the mean
of a time that they all had is more alike than the best moment of each.
"""

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import calls
import code_extra
import depth
import evaluator
import hooks
import measuring
from measuring import QUIET, ChildFailed, Pythons, parse_times, run, time_process
from suite import memory_programs
from suite.results import Sample, sample

T = TypeVar("T")
Measure = Callable[[str, int], list[Sample]]
CHILD = os.path.join(measuring.ROOT, "benchmarks", "suite", "child.py")
CPU_CLOCK = os.path.join(os.path.dirname(__file__), "cpu_clock.py")
TIMEOUT = 300       # s: no task takes a tenth of it
NANOSECOND = 1e-9
STARTS = {"python -S -c pass": ("-S", "-c", "pass"), "python -c pass": ("-c", "pass"),
          "import asyncio": ("-c", "import asyncio"), "import typing": ("-c", "import typing")}


@dataclass(frozen=True)
class Task:
    """`measure(python, round)` returns the samples of one process, or of several of one kind."""
    name: str
    measure: Measure
    pythons: tuple[str, ...]
    pinned: bool = True
    seconds: float = 1.0    # that one process takes, as far as is known before the first
    together: bool = False  # all interpreters' processes at the same time, each measuring its own CPU time


@dataclass(frozen=True)
class Sizes:
    iterations: int
    rounds: int
    depth_locals: tuple[int, ...]
    extra_calls: int
    starts: int         # one after another, of each kind


FULL = Sizes(iterations=300, rounds=10, depth_locals=(3, 30, 300), extra_calls=500_000, starts=8)
QUICK = Sizes(iterations=100, rounds=5, depth_locals=(3, 300), extra_calls=200_000, starts=3)


def at_once(measures: Sequence[Callable[[], T]], together: bool = True) -> list[T]:
    """What each of some functions without arguments returns, in their order; without `together`, one after another."""
    if not together:
        return [measure() for measure in measures]
    with concurrent.futures.ThreadPoolExecutor(len(measures)) as pool:
        return list(pool.map(lambda measure: measure(), measures))


def of_lines(prefix: str, output: str, rounds: int = 1, clock: str = "wall") -> list[Sample]:
    """Samples of lines with a name and ns, or bytes where the name says so."""
    found = []
    for name, value in parse_times(output).items():
        if name.startswith("bytes, "):
            found.append(sample(f"{prefix}/{name.removeprefix('bytes, ')}", [int(value)], "byte"))
        else:
            found.append(sample(f"{prefix}/{name}", [value * NANOSECOND], best_of=rounds, clock=clock))
    return found


def make_tasks(pythons: Pythons, base: str, extensions: Pythons, sizes: Sizes, together: bool) -> list[Task]:
    """Everything but pyperformance. `pythons` is {name: path}, `base` one of the names; `extensions` is
    {name: directory of C extensions}, without those for which they could not be built; `together` says whether what can
    be is measured at the same time."""
    tasks = []
    # Only a Ferrule has hooks, but the yardstick for them is measured on the base.
    others = tuple(name for name in pythons if name != base)
    ferrules = tuple(name for name in others if name in extensions and has_hooks(pythons[name]))
    extended = tuple(name for name in pythons if name in extensions)

    clock, starter = ("cpu", (CPU_CLOCK,)) if together else ("wall", ())
    rounds = 1 if together else sizes.rounds
    iterations, extra_calls = (count * sizes.rounds // rounds for count in (sizes.iterations, sizes.extra_calls))

    def add(name: str, measure: Measure, names: tuple[str, ...] = tuple(pythons), together: bool = together, **options: Any) -> None:
        if names:
            tasks.append(Task(name, measure, names, together=together, **options))

    def child(python: str, *arguments: object, starter: tuple[str, ...] = starter) -> str:
        return run([pythons[python], *QUIET, *starter, *map(str, arguments)], timeout=TIMEOUT).stdout

    def add_child(group: str, *arguments: object) -> None:
        add(group, lambda python, round: of_lines(group, child(python, CHILD, *arguments), rounds, clock))

    def add_alone(name: str, *command: str, **options: Any) -> None:
        """In turns, on the wall."""
        group = name.partition("/")[0]
        add(name, lambda python, round: of_lines(group, child(python, *command, starter=())), together=False, **options)

    def times_of(prefix: str, python: str, *command: str) -> Callable[[], list[Sample]]:
        return lambda: of_lines(prefix, child(python, *command, iterations, rounds), rounds, clock)

    def call_times(python: str, round: int) -> list[Sample]:
        """Calls, and under an evaluator: all at once, as the one is the yardstick of the other."""
        plain = calls.SCRIPT, "--child", "times"
        parts = [times_of("calls", python, *plain)]
        if python == base:      # against itself: what that ratio is off 1.00 is the machine, and nothing else
            parts.append(times_of("control", python, *plain))
        modes = ("evaluator", *(("allowing",) if python in ferrules else ())) if python in extended else ()
        parts += [times_of(f"evaluator/{mode}", python, evaluator.SCRIPT, "--child", "times", mode, extensions[python])
                  for mode in modes]
        return sum(at_once(parts, together), [])
    add("calls", call_times)

    def depth_times(count: int) -> Measure:
        def measure(python: str, round: int) -> list[Sample]:
            times = depth.run_sweep(pythons[python], count, depth.DEFAULT_DEPTH)
            # One value for each depth, in order from 0: pyperf has no axes.
            return [sample(f"depth/{count} locals", [ns * NANOSECOND for ns in times], loops=200)]
        return measure

    for count in sizes.depth_locals:
        # The best of all rounds counts, at each depth: in turns, as nothing is paired.
        add(f"depth {count}", depth_times(count), together=False)

    add_child("frames", "frames", iterations, rounds)
    add_child("integers", "integers", iterations, rounds)
    add_child("texts", "texts", iterations, rounds)

    def extra_times(python: str, round: int) -> list[Sample]:
        return [sample(f"code extra/{case}", [float(child(
            python, code_extra.SCRIPT, "--child", "times", extensions[python], case, extra_calls, rounds))
            * NANOSECOND], best_of=rounds, clock=clock) for case in code_extra.CASES]
    add("code extra", extra_times, extended)

    def hook_times(python: str, round: int) -> list[Sample]:
        own = "base" if python == base else "python"
        return sum(at_once([times_of(f"hooks/{setup}", python, *hooks.command("times", setup, extensions[python]))
                            for setup, (role, *_) in hooks.SETUPS.items() if role == own], together), [])
    if ferrules and base in extensions:
        add("hooks", hook_times, (base, *ferrules))

    add_child("recursion", "recursion")
    add_child("descents", "descents")
    add_alone("threads", CHILD, "threads", pinned=False)
    for what in memory_programs.PROGRAMS:
        add_alone(f"memory/{what}", memory_programs.__file__, what)

    def start_times(python: str, round: int) -> list[Sample]:
        found = []
        for name, arguments in STARTS.items():
            times = [time_process([pythons[python], "-s", *arguments], timeout=TIMEOUT) for _ in range(sizes.starts)]
            found.append(sample(f"start/{name}", [getattr(each, clock) for each in times], clock=clock))
        return found
    add("start", start_times)
    return tasks


def make_scaling_tasks(free_threaded: Pythons, extensions: Pythons) -> list[Task]:
    """Two threads against one, for {name: path} of builds without the GIL."""
    return [Task("scaling", lambda python, round: of_lines(
        "scaling", run([free_threaded[python], *QUIET, CHILD, "scaling", extensions.get(python, "")], timeout=TIMEOUT).stdout, 5),
        tuple(free_threaded), pinned=False)] if free_threaded else []


def has_hooks(python: str) -> bool:
    try:
        run([python, "-I", "-c", "import framehook"])
    except ChildFailed:
        return False
    return True


def count_calls(copy: str, name: str) -> Sample:
    """The sample of one call benchmark's instructions, by iteration; of a stripped copy."""
    counted = measuring.count_work(copy, 0, measuring.CALLGRIND_ITERATIONS,
                                   lambda count: (*QUIET, calls.SCRIPT, "--child", name, count))
    return sample(f"instructions/{name}", [counted.all / measuring.CALLGRIND_ITERATIONS], "integer",
                  own=counted.own / measuring.CALLGRIND_ITERATIONS)
