"""pyperformance's benchmarks as tasks: each process is started by us, so that interpreters take turns.

A benchmark of pyperformance is a script that uses pyperf. As a pyperf "worker" it measures in its own process and
writes pyperf's JSON, with as many loops as it is told: the same for all interpreters, found with the base.

The processes of a pair share one core at the same time where they can, and each measures its CPU time (cpu_clock.py): the
system gives the core to one and the other every few milliseconds, so whatever slows it down meets both alike.
"""

import os
import tempfile

import pyperf
from pyperformance._manifest import load_manifest

from measuring import ChildFailed, run
from suite.results import sample
from suite.tasks import TIMEOUT, Task

PREFIX = "pyperformance/"
SHORTEST = 0.05         # s for one value
CPU_CLOCK = os.path.join(os.path.dirname(__file__), "cpu_clock.py")
# Scripts that measure processes they start, whose CPU time is not theirs, scripts that serve on a port with a number,
# and one that builds in a directory of its data.
ALONE = frozenset(("bm_2to3", "bm_concurrent_imap", "bm_python_startup", "bm_asyncio_tcp",
                   "bm_asyncio_websockets", "bm_sphinx"))
# Without requirements of their own, short, and of many kinds.
QUICK = ("chaos", "comprehensions", "coroutines", "deltablue", "float", "generators", "json_loads", "logging", "nbody",
         "pickle_pure_python", "raytrace", "richards")


def scripts(quick):
    """{name: benchmark}, as pyperformance lists them."""
    found = {benchmark.name: benchmark for benchmark in load_manifest(None).benchmarks}
    return {name: benchmark for name, benchmark in sorted(found.items()) if not quick or name in QUICK}


def run_worker(python, benchmark, seed, *options, together=False):
    """The pyperf benchmarks that one worker process measured, in the order of its tasks."""
    clock = [CPU_CLOCK] if together else []
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as directory:
        output = os.path.join(directory, "out.json")
        # The directory is the home too: some write to it.
        run([python, "-u", *clock, benchmark.runscript, *benchmark.extra_opts, "--worker", *options, "--output", output],
            directory, TIMEOUT, PYTHONHASHSEED=str(seed), HOME=directory,
            PATH=os.path.dirname(python) + ":/usr/bin:/bin")
        if not os.path.exists(output):
            raise ChildFailed(f"{benchmark.name} measured nothing")
        return pyperf.BenchmarkSuite.load(output).get_benchmarks()


def calibrate(python, benchmark):
    """[{"name", "loops", "seconds" for one value}] of a script's tasks."""
    found = []
    for measured in run_worker(python, benchmark, 0, "--calibrate-loops", "--warmups=0", "--values=1",
                               f"--min-time={SHORTEST}"):
        calibration, = measured.get_runs()
        loops, per_loop = calibration.warmups[-1]
        found.append({"name": measured.get_name(), "loops": loops,
                      "seconds": loops * per_loop * inner_loops(calibration)})
    return found


def inner_loops(run):
    """How often the script itself repeats what one loop is."""
    return run.get_metadata().get("inner_loops", 1)


def effort(seconds):
    """(warm-ups, values) in a process, by how long one takes: a long value warms up in itself."""
    return (1, 3) if seconds < 0.2 else (1, 1) if seconds < 1 else (0, 1)


def can_be_together(benchmark):
    return os.path.basename(os.path.dirname(benchmark.runscript)) not in ALONE


def make_tasks(environments, benchmark, calibration, together):
    """A task for each of a script's tasks. `environments` is {name: python of its environment}."""
    together = together and can_be_together(benchmark)
    return [make_task(environments, benchmark, number, together, **found) for number, found in enumerate(calibration)]


def make_task(environments, benchmark, number, together, name, loops, seconds):
    warmups, values = effort(seconds)

    def measure(python, round):
        # The round's hash seed: both of a pair have the same, and no seed decides alone.
        measured, = run_worker(environments[python], benchmark, round, f"--worker-task={number}", f"--loops={loops}",
                               f"--warmups={warmups}", f"--values={values}", together=together)
        if measured.get_name() != name:
            raise ChildFailed(f"{benchmark.name}: measured {measured.get_name()}, not {name}")
        result, = measured.get_runs()
        return [sample(PREFIX + name, result.values, measured.get_unit(), loops, result.warmups or (),
                       inner_loops=inner_loops(result), clock="cpu" if together else "wall")]

    return Task(PREFIX + name, measure, tuple(environments), seconds=(warmups + values) * seconds + 0.3,
                together=together)
