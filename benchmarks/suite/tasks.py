"""What is measured. A task is what one process of one interpreter measures, once in each round."""

import os
from dataclasses import dataclass
from typing import Callable

import calls
import code_extra
import depth
import evaluator
import hooks
import measuring
from measuring import QUIET, ChildFailed, parse_times, run, time_process
from suite.results import sample

CHILD = os.path.join(measuring.ROOT, "benchmarks", "suite", "child.py")
TIMEOUT = 300       # s: no task takes a tenth of it
NANOSECOND = 1e-9
MEMORY = ("start", "imports", "calls", "200 threads", "10,000 generators")
STARTS = {"python -S -c pass": ("-S", "-c", "pass"), "python -c pass": ("-c", "pass"),
          "import asyncio": ("-c", "import asyncio"), "import typing": ("-c", "import typing")}


@dataclass(frozen=True)
class Task:
    """`measure(python, round)` returns the samples of one process, or of several of one kind."""
    name: str
    measure: Callable
    pythons: tuple
    pinned: bool = True
    seconds: float = 1.0    # that one process takes, as far as is known before the first
    together: bool = False  # all interpreters' processes at the same time, each measuring its own CPU time


@dataclass(frozen=True)
class Sizes:
    iterations: int
    rounds: int
    depth_locals: tuple
    extra_calls: int
    starts: int         # one after another, of each kind
    counts: int         # repeats of an instruction count


FULL = Sizes(iterations=300, rounds=10, depth_locals=(3, 30, 300), extra_calls=500_000, starts=8, counts=2)
QUICK = Sizes(iterations=100, rounds=5, depth_locals=(3, 300), extra_calls=200_000, starts=3, counts=1)


def of_lines(prefix, output, rounds=1):
    """Samples of lines with a name and ns, or bytes where the name says so."""
    found = []
    for name, value in parse_times(output).items():
        if name.startswith("bytes, "):
            found.append(sample(f"{prefix}/{name.removeprefix('bytes, ')}", [int(value)], "byte"))
        else:
            found.append(sample(f"{prefix}/{name}", [value * NANOSECOND], best_of=rounds))
    return found


def make_tasks(pythons, base, extensions, sizes, together):
    """Everything but pyperformance. `pythons` is {name: path}, `base` one of the names; `extensions` is
    {name: directory of C extensions}, without those for which they could not be built; `together` says whether what can
    be is measured at the same time."""
    tasks = []
    # Only a Ferrule has hooks, but the yardstick for them is measured on the base.
    others = tuple(name for name in pythons if name != base)
    ferrules = tuple(name for name in others if name in extensions and has_hooks(pythons[name]))
    extended = tuple(name for name in pythons if name in extensions)

    def add(name, measure, names=tuple(pythons), **options):
        if names:
            tasks.append(Task(name, measure, names, **options))

    def child(python, *arguments):
        return run([pythons[python], *QUIET, *map(str, arguments)], timeout=TIMEOUT).stdout

    def add_child(group, *arguments, names=tuple(pythons), rounds=1, **options):
        add(group + "".join(f" {word}" for word in arguments[1:] if isinstance(word, str)),
            lambda python, round: of_lines(group, child(python, CHILD, *arguments), rounds), names, **options)

    def call_times(prefix):
        return lambda python, round: of_lines(
            prefix, child(python, calls.SCRIPT, "--child", "times", sizes.iterations, sizes.rounds), sizes.rounds)

    add("calls", call_times("calls"))
    # The base against itself: what its ratio is off 1.00 is the machine, and nothing else.
    add("control", call_times("control"), (base,))

    def depth_times(count):
        def measure(python, round):
            times = depth.run_sweep(pythons[python], count, depth.DEFAULT_DEPTH)
            # One value for each depth, in order from 0: pyperf has no axes.
            return [sample(f"depth/{count} locals", [ns * NANOSECOND for ns in times], loops=200)]
        return measure

    for count in sizes.depth_locals:
        add(f"depth {count}", depth_times(count))

    add_child("frames", "frames", sizes.iterations, sizes.rounds, rounds=sizes.rounds)

    def extra_times(python, round):
        return [sample(f"code extra/{case}", [float(child(
            python, code_extra.SCRIPT, "--child", "times", extensions[python], case, sizes.extra_calls, sizes.rounds))
            * NANOSECOND], best_of=sizes.rounds) for case in code_extra.CASES]
    add("code extra", extra_times, extended)

    def evaluator_times(mode):
        return lambda python, round: of_lines(f"evaluator/{mode}", child(
            python, evaluator.SCRIPT, "--child", "times", mode, extensions[python], sizes.iterations, sizes.rounds),
            sizes.rounds)
    add("evaluator", evaluator_times("evaluator"), extended)
    add("evaluator, allowing", evaluator_times("allowing"), ferrules)

    def hook_times(setup):
        def measure(python, round):
            command = hooks.command({"stock": extensions.get(python), "python": extensions.get(python)}, "times", setup,
                                    sizes.iterations, sizes.rounds)
            return of_lines(f"hooks/{setup}", child(python, *command), sizes.rounds)
        return measure
    if ferrules and base in extensions:
        for setup, (role, *_) in hooks.SETUPS.items():
            add(f"hooks {setup}", hook_times(setup), (base,) if role == "stock" else ferrules)

    add_child("recursion", "recursion")
    add_child("threads", "threads", pinned=False)
    for what in MEMORY:
        add_child("memory", "memory", what)

    def start_times(python, round):
        found = []
        for name, arguments in STARTS.items():
            times = [time_process([pythons[python], "-s", *arguments], timeout=TIMEOUT) for _ in range(sizes.starts)]
            found.append(sample(f"start/{name}", [each.cpu if together else each.wall for each in times],
                                clock="cpu" if together else "wall"))
        return found
    add("start", start_times, together=together)
    return tasks


def make_scaling_tasks(free_threaded):
    """Two threads against one, for {name: path} of builds without the GIL."""
    return [Task("scaling", lambda python, round: of_lines(
        "scaling", run([free_threaded[python], *QUIET, CHILD, "scaling"], timeout=TIMEOUT).stdout, 5),
        tuple(free_threaded), pinned=False)] if free_threaded else []


def has_hooks(python):
    try:
        run([python, "-I", "-c", "import framehook"])
    except ChildFailed:
        return False
    return True


def count_calls(copy, name, sizes):
    """The sample of one call benchmark's instructions, by iteration; of a stripped copy."""
    counted = measuring.count_work(copy, 0, measuring.CALLGRIND_ITERATIONS,
                                   lambda count: (*QUIET, calls.SCRIPT, "--child", name, count),
                                   repeats=sizes.counts)
    return sample(f"instructions/{name}", [counted.all / measuring.CALLGRIND_ITERATIONS], "integer",
                  own=counted.own / measuring.CALLGRIND_ITERATIONS)
