#!/usr/bin/env python3
"""What profilers cost: the recursion under each of them, in one interleaved run.

    python3 benchmarks/profilers.py --stock build/stock-release/python --python build/release/python

Ferrule's own runs on Ferrule and on stock; cProfile, viztracer and trace0 run on stock, which is what
people have. The last two come from the package index, into an environment in build. Every number is
a ratio against stock without a profiler.
"""

import sys

# --- In the interpreter that is measured. --------------------------------------------------------

def nothing():
    return lambda: None


def cprofile():
    import cProfile
    profile = cProfile.Profile()
    profile.enable()
    return profile.disable


def ferrule(**options):
    import ferrule_profiler
    return ferrule_profiler.start(**options).stop


def viztracer():
    from viztracer import VizTracer
    tracer = VizTracer(verbose=0, ignore_c_function=True)
    tracer.start()
    return tracer.stop


def trace0():
    import os
    import tempfile

    from trace0 import Tracer
    path = os.path.join(tempfile.mkdtemp(), "trace.json")
    tracer = Tracer(path, trace_subprocesses=False)
    tracer.__enter__()
    return lambda: tracer.__exit__(None, None, None)


# setup: (where it runs, what starts it and returns what stops it, the most that it may be)
SETUPS = {
    "stock": ("stock", nothing, None),
    "Ferrule": ("python", nothing, None),
    "exact": ("python", ferrule, 2.8),
    "count": ("python", lambda: ferrule(count=True), 1.4),
    "sample": ("python", lambda: ferrule(sample=True), 1.4),
    "timeline": ("python", lambda: ferrule(trace=400_000), 2.8),
    "exact, on stock": ("stock", ferrule, None),
    "count, on stock": ("stock", lambda: ferrule(count=True), None),
    "cProfile": ("stock", cprofile, None),
    "viztracer": ("stock", viztracer, None),
    "trace0": ("stock", trace0, None),
}
BASE = "stock"
# Of fib(18): short, so that on a busy machine some rounds are not interrupted.
CALLS = 8_361


def child(setup, rounds):
    import gc

    from workloads import best_time, fib
    gc.disable()
    fib(16)     # specialized before the profiler comes
    stop = SETUPS[setup][1]()
    fib(16)
    best = best_time(fib, 18, int(rounds))
    stop()
    print("recursion", best)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------

import os
import subprocess

from measuring import ROOT, argument_parser, build_clients, measure_in_turns, parse, parse_times, pin_to_one_core, print_table, ratio_of_pairs, run, write_json

OTHERS = ("viztracer==1.1.1", "trace0==0.1.16")
ROUNDS = 80


def environment(stock):
    """The python of an environment on stock with the other profilers."""
    directory = os.path.join(ROOT, "build", "profilers-env")
    python = os.path.join(directory, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([stock, "-m", "venv", directory], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    *OTHERS], check=True)
    return python


def main():
    parser = argument_parser("What profilers cost, as ratios against stock without one.", 15)
    parser.add_argument("--check", action="store_true", help="fail when one is above its aim")
    arguments = parse(parser)
    if arguments.instructions:
        parser.error("only times are measured here")
    package = build_clients(arguments.python, os.path.join(ROOT, "build", "test-extensions", "benchmark-profiler"))
    pythons = {"stock": environment(arguments.stock), "python": arguments.python}
    pin_to_one_core()

    def measure(setup):
        where = SETUPS[setup][0]
        command = [pythons[where], os.path.abspath(__file__), "--child", setup, str(ROUNDS)]
        return parse_times(run(command, PYTHONPATH=package).stdout)

    results = measure_in_turns(SETUPS, arguments.turns, measure)
    times = results["recursion"]
    ratios = {setup: ratio_of_pairs(times[setup], times[BASE]) for setup in SETUPS}
    best = {setup: min(times[setup]) for setup in SETUPS}
    print(f"A recursion of {CALLS:,} calls, times stock's without a profiler: medians of"
          f" {arguments.turns} turns\n")
    print_table(("", "ratio", "middle half", "of the best", "ns a call", "aim"),
                [(setup, f"{ratio.median:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}",
                  f"{best[setup] / best[BASE]:.2f}", f"{best[setup] / CALLS:.1f}",
                  str(SETUPS[setup][2] or "")) for setup, ratio in ratios.items()])
    if arguments.json:
        write_json(arguments.json, kind="time", pythons=pythons, ratios=ratios, measured=results)
    above = [f"{setup}: {ratios[setup].median:.2f} is above {limit}"
             for setup, (_, _, limit) in SETUPS.items() if limit and ratios[setup].median > limit]
    if arguments.check and above:
        print("\n".join(above))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
