#!/usr/bin/env python3
"""PyUnstable_Code_GetExtra: one interpreter against another, in time or in instructions, and two threads against one.

    python3 benchmarks/code_extra.py --base build/stock-release/python --python build/release/python
    python3 benchmarks/code_extra.py --base ... --python ... --layouts 6
    python3 benchmarks/code_extra.py --base ... --python ... --instructions
    python3 benchmarks/code_extra.py --threads --python build/free-threaded/python

The calls come from a loop in C, in the tests' extension `codeextra`, which is built for each interpreter. Every
number is a ratio against the base. Times come from fresh processes that take turns; with --layouts from several
links of both builds (see layouts.py): a call takes ten cycles, and one more or less where the function lies otherwise.
Instructions are valgrind's, less those of a run without calls. With --threads the number is the throughput of two
threads against one, on a build without the GIL.
"""

import sys

# What is looked up, by name: how many indices have a value, the first ones, which index is asked for, and
# whether an index was released before, on an interpreter that can.
CASES = {
    "only value": (1, 0, False),
    "first of four": (4, 0, False),
    "last of four": (4, 3, False),
    "last of sixty": (60, 59, False),
    "no value": (0, 0, False),
    "not this one": (1, 1, False),
    "only value, after a release": (1, 0, True),
    "no value, after a release": (0, 0, True),
}


def prepare(directory, case):
    """A code object with the values of a case, and the index to look up."""
    sys.path.insert(0, directory)
    import codeextra
    code = compile("1", "<benchmark>", "eval")
    count, wanted, after_release = CASES[case]
    if after_release and codeextra.has_release():
        codeextra.release(codeextra.request("none"))
    indices = [codeextra.request("none") for _ in range(max(count, wanted + 1))]
    for number, index in enumerate(indices[:count]):
        codeextra.set(code, index, 1000 + number)
    return codeextra.get_loop, code, indices[wanted]


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


import os
import statistics
import time

import layouts
import measuring

SCRIPT = os.path.abspath(__file__)
CALLS = 2_000_000       # per timing: a few ms
ROUNDS = 10             # timings in one process, the best is kept
DEFAULT_TURNS = 25      # processes for each interpreter
CALLGRIND_CALLS = 100_000
THREAD_CALLS = 50_000_000


def child(python, *arguments):
    return measuring.run([python, *measuring.QUIET, SCRIPT, "--child", *map(str, arguments)]).stdout


def measure_times(pythons, extensions, turns):
    return measuring.measure_in_turns(pythons, turns, lambda which: {
        case: float(child(pythons[which], "times", extensions[which], case, CALLS, ROUNDS)) for case in CASES})


def measure_instructions(pythons, extensions):
    counts = measuring.count_each(CASES, dict(zip(pythons, pythons)), pythons, 0, CALLGRIND_CALLS,
                        lambda which, case, calls: (SCRIPT, "--child", "calls", extensions[which], case, calls))
    return {case: {which: counted.all / CALLGRIND_CALLS for which, counted in row.items()} for case, row in counts.items()}


def has_gil(python):
    code = "import sys; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    return measuring.run([python, "-c", code]).stdout.strip() != "False"


def report_threads(python, extension, turns):
    print(f"GetExtra, throughput of two threads on one code object against one thread, {turns} processes")
    if has_gil(python):
        raise SystemExit(f"{python} has a GIL: build one with --disable-gil")
    speedups = []
    progress = measuring.Progress(turns)
    for turn in range(turns):
        one, two = map(float, child(python, "threads", extension, THREAD_CALLS, 3).split())
        speedups.append(2 * one / two)
        progress.step(f"turn {turn + 1}")
    progress.end()
    speedups.sort()
    print(f"median {statistics.median(speedups):.3f}, from {speedups[0]:.3f} to {speedups[-1]:.3f}")
    return {"two threads": {"ratio": statistics.median(speedups), "all": speedups}}


def main():
    parser = measuring.argument_parser("GetExtra, as ratios against a base.", DEFAULT_TURNS, base_required=False)
    layouts.add_argument(parser)
    parser.add_argument("--threads", action="store_true", help="two threads against one; needs no base")
    arguments = measuring.parse(parser)
    layouts.check_argument(parser, arguments)
    if not arguments.threads and not arguments.base:
        parser.error("--base is missing")
    pythons = {"python": arguments.python}
    if not arguments.threads:
        pythons = {"base": arguments.base, **pythons}
    extensions = measuring.build_extensions(pythons)
    started = time.monotonic()
    if arguments.threads:
        rows = report_threads(arguments.python, extensions["python"], arguments.turns)
    elif arguments.instructions:
        rows = measuring.print_counts("GetExtra, instructions per call with the loop around it",
                            measure_instructions(pythons, extensions), "case", digits=2)
    elif arguments.layouts:
        ratios = layouts.measure(pythons, arguments.layouts,
                                 lambda link: measure_times(link, extensions, arguments.turns))
        rows = layouts.print_ratios("GetExtra, a call with the loop around it", ratios, arguments.turns)
    else:
        measuring.pin_to_one_core()
        rows = measuring.print_ratios(f"GetExtra, ns per call with the loop around it, median of {arguments.turns} pairs of"
                            " processes that took turns", measure_times(pythons, extensions, arguments.turns), "case",
                            "ns", digits=3)
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        measuring.write_json(arguments.json, kind="threads" if arguments.threads else "instructions" if arguments.instructions
                   else "time", pythons=pythons, benchmarks=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
