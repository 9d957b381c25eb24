#!/usr/bin/env python3
"""PyUnstable_Code_GetExtra: one interpreter against another, in time or in instructions, and two threads against one.

    python3 benchmarks/code_extra.py --base build/stock-release/python --python build/release/python
    python3 benchmarks/code_extra.py --base ... --python ... --instructions
    python3 benchmarks/code_extra.py --threads --python build/free-threaded/python

The calls come from a loop in C, in the tests' extension `codeextra`, which is built for each interpreter. Every
number is a ratio against the base. Times come from fresh processes that take turns; instructions are valgrind's, less
those of a run without calls. With --threads the number is the throughput of two threads against one, on a build
without the GIL.
"""

import sys

# What is looked up, by name: how many indices have a value, and which of them is asked for; None: an index without one.
CASES = {
    "only value": (1, 0),
    "first of four": (4, 0),
    "last of four": (4, 3),
    "last of sixty": (60, 59),
    "no value": (0, None),
    "not this one": (1, None),
}


def prepare(directory, case):
    """A code object with the values of a case, and the index to look up."""
    sys.path.insert(0, directory)
    import codeextra
    code = compile("1", "<benchmark>", "eval")
    count, wanted = CASES[case]
    indices = [codeextra.request("none") for _ in range(count + 1)]
    for number, index in enumerate(indices[:count]):
        codeextra.set(code, index, 1000 + number)
    return codeextra.get_loop, code, indices[count if wanted is None else wanted]


def child_times(directory, case, calls, rounds):
    """Print the best ns per call."""
    from time import perf_counter_ns
    loop, code, index = prepare(directory, case)
    best = None
    for _ in range(rounds):
        start = perf_counter_ns()
        loop(code, index, calls)
        took = perf_counter_ns() - start
        best = took if best is None or took < best else best
    print(best / calls)


def child_threads(directory, calls, rounds):
    """Print the best time for one thread, and for two that do as much each, in turns."""
    import threading
    from time import perf_counter_ns
    loop, code, index = prepare(directory, "only value")
    best = {1: None, 2: None}
    for _ in range(rounds):
        for count in best:
            barrier = threading.Barrier(count + 1)

            def work():
                barrier.wait()
                loop(code, index, calls)
                barrier.wait()

            threads = [threading.Thread(target=work) for _ in range(count)]
            for thread in threads:
                thread.start()
            barrier.wait()
            start = perf_counter_ns()
            barrier.wait()
            took = perf_counter_ns() - start
            for thread in threads:
                thread.join()
            best[count] = took if best[count] is None or took < best[count] else best[count]
    print(best[1], best[2])


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    kind, extensions, *rest = sys.argv[2:]
    if kind == "times":
        child_times(extensions, rest[0], int(rest[1]), int(rest[2]))
    elif kind == "threads":
        child_threads(extensions, int(rest[0]), int(rest[1]))
    else:
        get_loop, a_code, an_index = prepare(extensions, rest[0])
        get_loop(a_code, an_index, int(rest[1]))
    sys.exit(0)


import argparse
import json
import os
import re
import statistics
import time

from calls import COUNT_DIGITS, QUIET, program, run, stripped_copy
from depth import Progress, pin_to_one_core

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "c"))
import build_extensions

CALLS = 2_000_000       # per timing: a few ms
ROUNDS = 10             # timings in one process, the best is kept
DEFAULT_TURNS = 25      # processes for each interpreter
CALLGRIND_CALLS = 100_000
THREAD_CALLS = 50_000_000


def child(python, *arguments, directory=None):
    return run([python, *QUIET, os.path.abspath(__file__), "--child", *map(str, arguments)], directory)


def measure_times(pythons, extensions, turns):
    results = {case: {which: [] for which in pythons} for case in CASES}
    progress = Progress(turns * len(pythons))
    for turn in range(turns):
        # Whoever runs second in a pair must not always be the same one.
        order = list(pythons) if turn % 2 == 0 else list(reversed(pythons))
        for which in order:
            for case in CASES:
                done = child(pythons[which], "times", extensions[which], case, CALLS, ROUNDS)
                results[case][which].append(float(done.stdout))
            progress.step(f"turn {turn + 1}, {which}")
    progress.end()
    return results


def report_times(results, turns):
    print(f"GetExtra, ns per call with the loop around it, median of {turns} pairs of processes that took turns")
    print()
    print(f"{'case':<14}  {'base':>8}  {'python':>8}  {'ratio':>6}  {'middle half of the ratios':>26}")
    rows = {}
    for case, times in results.items():
        ratios = sorted(mine / base for mine, base in zip(times["python"], times["base"]))
        ratio = statistics.median(ratios)
        low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
        base, mine = (statistics.median(times[which]) for which in ("base", "python"))
        rows[case] = {"ratio": ratio, "low": low, "high": high, "base_ns": base, "python_ns": mine}
        print(f"{case:<14}  {base:>8.3f}  {mine:>8.3f}  {ratio:>6.3f}  {f'{low:.3f} to {high:.3f}':>26}")
    return rows


def measure_instructions(pythons, extensions):
    results = {case: {} for case in CASES}
    progress = Progress(len(CASES) * len(pythons) * 2)
    for which, path in pythons.items():
        copy = stripped_copy(path)
        try:
            for case in CASES:
                counts = []
                for calls in (0, CALLGRIND_CALLS):
                    # From its own directory and by a short name: argv is then the same for every interpreter.
                    done = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                "./" + os.path.basename(copy), *QUIET, os.path.abspath(__file__), "--child", "calls",
                                extensions[which], case, str(calls).zfill(COUNT_DIGITS)], os.path.dirname(copy))
                    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
                    if not found:
                        raise SystemExit(f"valgrind printed no count:\n{done.stderr[-2000:]}")
                    counts.append(int(found.group(1)))
                    progress.step(f"{which}, {case}")
                results[case][which] = (counts[1] - counts[0]) / CALLGRIND_CALLS
        finally:
            os.unlink(copy)
    progress.end()
    return results


def report_instructions(results):
    print("GetExtra, instructions per call with the loop around it")
    print()
    print(f"{'case':<14}  {'base':>8}  {'python':>8}  {'ratio':>7}")
    rows = {}
    for case, counts in results.items():
        rows[case] = {"ratio": counts["python"] / counts["base"], **counts}
        print(f"{case:<14}  {counts['base']:>8.2f}  {counts['python']:>8.2f}  {rows[case]['ratio']:>7.4f}")
    return rows


def report_threads(python, extension, turns):
    print(f"GetExtra, throughput of two threads on one code object against one thread, {turns} processes")
    gil = run([python, "-c", "import sys; print(getattr(sys, '_is_gil_enabled', bool)())"]).stdout.strip()
    if gil != "False":
        raise SystemExit(f"{python} has a GIL: build one with --disable-gil")
    speedups = []
    progress = Progress(turns)
    for turn in range(turns):
        one, two = map(float, child(python, "threads", extension, THREAD_CALLS, 3).stdout.split())
        speedups.append(2 * one / two)
        progress.step(f"turn {turn + 1}")
    progress.end()
    speedups.sort()
    print(f"median {statistics.median(speedups):.3f}, from {speedups[0]:.3f} to {speedups[-1]:.3f}")
    return {"two threads": {"ratio": statistics.median(speedups), "all": speedups}}


def parse_arguments():
    parser = argparse.ArgumentParser(description="GetExtra, as ratios against a base.")
    parser.add_argument("--base", type=program, help="the interpreter to compare with (stock)")
    parser.add_argument("--python", type=program, required=True, help="the interpreter to measure")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind")
    parser.add_argument("--threads", action="store_true", help="two threads against one; needs no base")
    parser.add_argument("--turns", type=int, default=DEFAULT_TURNS,
                        help="processes for each interpreter (default %(default)s; for times)")
    parser.add_argument("--quick", action="store_true", help="three turns: a first look")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    arguments = parser.parse_args()
    if not arguments.threads and not arguments.base:
        parser.error("--base is missing")
    if arguments.quick:
        arguments.turns = 3
    if arguments.turns < 1:
        parser.error("at least one turn")
    return arguments


def main():
    arguments = parse_arguments()
    pythons = {"python": arguments.python}
    if not arguments.threads:
        pythons = {"base": arguments.base, **pythons}
    # Names of one length: where a path is longer, more is copied.
    extensions = {which: build_extensions.build(path, os.path.join(ROOT, "build", "benchmark-extensions",
                                                                   which.rjust(6, "_")))
                  for which, path in pythons.items()}
    started = time.monotonic()
    if arguments.threads:
        rows = report_threads(arguments.python, extensions["python"], arguments.turns)
    elif arguments.instructions:
        rows = report_instructions(measure_instructions(pythons, extensions))
    else:
        pin_to_one_core()
        rows = report_times(measure_times(pythons, extensions, arguments.turns), arguments.turns)
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"kind": "threads" if arguments.threads else "instructions" if arguments.instructions else "time",
                       "pythons": pythons, "benchmarks": rows}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
