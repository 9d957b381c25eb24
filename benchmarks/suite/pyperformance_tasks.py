"""pyperformance's benchmarks as tasks: each process is started by us, so that interpreters take turns.

A benchmark of pyperformance is a script that uses pyperf. As a pyperf "worker" it measures in its own process and
writes pyperf's JSON, with as many loops as it is told: the same for all interpreters, found with the base.
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
# Without requirements of their own, short, and of many kinds.
QUICK = ("chaos", "comprehensions", "coroutines", "deltablue", "float", "generators", "json_loads", "logging", "nbody",
         "pickle_pure_python", "raytrace", "richards")


def scripts(quick):
    """{name: benchmark}, as pyperformance lists them."""
    found = {benchmark.name: benchmark for benchmark in load_manifest(None).benchmarks}
    return {name: benchmark for name, benchmark in sorted(found.items()) if not quick or name in QUICK}


def run_worker(python, benchmark, seed, *options):
    """The pyperf benchmarks that one worker process measured, in the order of its tasks."""
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as directory:
        output = os.path.join(directory, "out.json")
        # The directory is the home too: some write to it.
        run([python, "-u", benchmark.runscript, *benchmark.extra_opts, "--worker", *options, "--output", output],
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


def make_tasks(environments, benchmark, calibration):
    """A task for each of a script's tasks. `environments` is {name: python of its environment}."""
    return [make_task(environments, benchmark, number, **found) for number, found in enumerate(calibration)]


def make_task(environments, benchmark, number, name, loops, seconds):
    warmups, values = effort(seconds)

    def measure(python, round):
        # The round's hash seed: both of a pair have the same, and no seed decides alone.
        measured, = run_worker(environments[python], benchmark, round, f"--worker-task={number}", f"--loops={loops}",
                               f"--warmups={warmups}", f"--values={values}")
        if measured.get_name() != name:
            raise ChildFailed(f"{benchmark.name}: measured {measured.get_name()}, not {name}")
        result, = measured.get_runs()
        return [sample(PREFIX + name, result.values, measured.get_unit(), loops, result.warmups or (),
                       inner_loops=inner_loops(result))]

    return Task(PREFIX + name, measure, tuple(environments), seconds=(warmups + values) * seconds + 0.3)
