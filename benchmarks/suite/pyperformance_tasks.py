"""pyperformance's benchmarks as tasks: each process is started by us, so that interpreters run in pairs.

A benchmark of pyperformance is a script that uses pyperf. As a pyperf "worker" it measures in its own process and
writes pyperf's JSON, with a given number of loops: the same for all interpreters, found with the base. Of those that
time a command it is the command that is run, without a pyperf that measures it from inside.

The processes of a pair share one core at the same time where they can, and each measures its CPU time (cpu_clock.py): the
system gives the core to one and the other every few milliseconds, so whatever slows it down meets both alike.
"""

import contextlib
import functools
import os
import random
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyperf
from pyperformance._manifest import load_manifest

from measuring import ChildFailed, Pythons, run, time_process
from suite.results import Sample, sample
from suite.tasks import CPU_CLOCK, TIMEOUT, Task

GROUP = "pyperformance"
PREFIX = GROUP + "/"
SHORTEST = 0.05         # s for one value
# So that malloc keeps freed memory. By itself it gives some back to the kernel, or not, by what happens to lie above it:
# asyncio_websockets took 30,000 page faults or 68,000, in either interpreter, and 3 % of its time hung on that.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(2 ** 28), "MALLOC_MMAP_THRESHOLD_": str(2 ** 25)}
# Length of a variable that is never read, drawn for each worker and each row of commands: it moves what malloc makes
# later. With one environment for all, an interpreter's large blocks lie at the same place in their page in every
# process, by what its start allocated, and that is part of every ratio: the kernel took 1.31 times as long to send
# asyncio_tcp's block from one of two places. os.environ's copies come from malloc above 512 bytes.
PADDING = range(512, 512 + 4096)
# What two at the same time would meet in: a port with a number, and a directory beside the script.
SERVERS = frozenset(("bm_asyncio_tcp", "bm_asyncio_websockets"))
WRITERS = frozenset(("bm_sphinx",))
# Without requirements of their own, short, and of many kinds.
QUICK = ("chaos", "comprehensions", "coroutines", "deltablue", "float", "generators", "json_loads", "logging", "nbody",
         "pickle_pure_python", "raytrace", "richards")


def scripts(quick: bool) -> dict[str, Any]:
    """{name: benchmark}, as pyperformance lists them."""
    found = {benchmark.name: benchmark for benchmark in load_manifest(None).benchmarks}
    return {name: benchmark for name, benchmark in sorted(found.items()) if not quick or name in QUICK}


@contextlib.contextmanager
def surroundings(python: str, seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """(directory, environment) of a process, with nothing of the user's."""
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as directory:
        # The directory is the home too: some write to it.
        yield directory, {"PYTHONHASHSEED": str(seed), "HOME": directory,
                          "PATH": os.path.dirname(python) + ":/usr/bin:/bin", **MALLOC,
                          "PADDING": "x" * random.choice(PADDING)}


def run_worker(python: str, benchmark: Any, seed: int, *options: str, together: bool = False) -> list[pyperf.Benchmark]:
    """The pyperf benchmarks that one worker process measured, in the order of its tasks."""
    place, script = os.path.split(benchmark.runscript)
    kind = os.path.basename(place)
    clock = [CPU_CLOCK, *(["--own-network"] if kind in SERVERS else ())] if together else []
    with surroundings(python, seed) as (directory, environment):
        output = os.path.join(directory, "out.json")
        if kind in WRITERS:
            place = shutil.copytree(place, os.path.join(directory, kind))
        run([python, "-u", *clock, os.path.join(place, script), *benchmark.extra_opts, "--worker", *options, "--output", output],
            directory, TIMEOUT, **environment)
        if not os.path.exists(output):
            raise ChildFailed(f"{benchmark.name} measured nothing")
        return pyperf.BenchmarkSuite.load(output).get_benchmarks()


def time_command(python: str, arguments: Sequence[str], seed: int, count: int, clock: str) -> list[float]:
    """[s] of each of `count` processes, one after another."""
    with surroundings(python, seed) as (directory, environment):
        found = [time_process([python, *arguments], directory, TIMEOUT, **environment) for _ in range(count)]
    return [getattr(times, clock) for times in found]


def calibrate(environments: Pythons, base: str, benchmark: Any) -> list[dict[str, Any]]:
    """[{"name", "loops", "seconds" for one value, "arguments" of the command that it times}] of a script's tasks."""
    def run_once(name: str) -> list[pyperf.Benchmark]:
        return run_worker(environments[name], benchmark, 0, "--calibrate-loops", "--warmups=0", "--values=1",
                          f"--min-time={SHORTEST}")

    found = []
    for measured in run_once(base):
        calibration, = measured.get_runs()
        loops, per_loop = calibration.warmups[-1]
        found.append({"name": measured.get_name(), "loops": loops,
                      "seconds": loops * per_loop * inner_loops(calibration),
                      "arguments": shlex.split(calibration.get_metadata().get("command", ""))[1:]})
    if any(task["arguments"] for task in found):
        # What such a script installs for its command has to be in each environment, and is not in the command.
        for name in environments.keys() - {base}:
            run_once(name)
    return found


def inner_loops(run: pyperf.Run) -> int:
    """How often the script itself repeats what one loop is."""
    return run.get_metadata().get("inner_loops", 1)


def effort(seconds: float) -> tuple[int, int]:
    """(warm-ups, values) in a process, by how long one takes: a long value warms up in itself."""
    return (1, 3) if seconds < 0.2 else (1, 1) if seconds < 1 else (0, 1)


@functools.cache
def has_own_networks(python: str) -> bool:
    """Whether this system gives a process of this interpreter a network of its own; containers may not."""
    try:
        run([python, CPU_CLOCK, "--own-network", os.devnull])
    except ChildFailed:
        return False
    return True


def can_be_together(benchmark: Any, pythons: Iterable[str]) -> bool:
    kind = os.path.basename(os.path.dirname(benchmark.runscript))
    return kind not in SERVERS or all(map(has_own_networks, pythons))


def make_tasks(environments: Pythons, benchmark: Any, calibration: Iterable[dict[str, Any]], together: bool) -> list[Task]:
    """A task for each of a script's tasks. `environments` is {name: python of its environment}."""
    together = together and can_be_together(benchmark, environments.values())
    return [make_task(environments, benchmark, number, together, **found) for number, found in enumerate(calibration)]


def make_task(environments: Pythons, benchmark: Any, number: int, together: bool, name: str, loops: int, seconds: float, arguments: Sequence[str] = ()) -> Task:
    warmups, values = effort(seconds)
    clock = "cpu" if together else "wall"

    # The round's hash seed: both of a pair have the same, and no seed decides alone.
    def measure_command(python: str, round: int) -> list[Sample]:
        times = time_command(environments[python], arguments, round, loops * (warmups + values), clock)
        return [sample(PREFIX + name, times[loops * warmups:], clock=clock)]

    def measure(python: str, round: int) -> list[Sample]:
        measured, = run_worker(environments[python], benchmark, round, f"--worker-task={number}", f"--loops={loops}",
                               f"--warmups={warmups}", f"--values={values}", together=together)
        if measured.get_name() != name:
            raise ChildFailed(f"{benchmark.name}: measured {measured.get_name()}, not {name}")
        result, = measured.get_runs()
        return [sample(PREFIX + name, result.values, measured.get_unit(), loops, result.warmups or (),
                       inner_loops=inner_loops(result), clock=clock)]

    return Task(PREFIX + name, measure_command if arguments else measure, tuple(environments), seconds=(warmups + values) * seconds + 0.3,
                together=together)
