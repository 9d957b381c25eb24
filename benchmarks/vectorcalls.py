#!/usr/bin/env python3
"""What a call takes from each kind of call site: of a function, while a vectorcall in C answers for it, and after it was given back.

    python3 benchmarks/vectorcalls.py --python build/release/python

The instructions of a call are counted by valgrind in the steady state; those of a call of a function that does nothing are taken off.
"""

import os
import sys

NOTHING = "nothing"
WAYS = ("interpreted", "vectorcall", "given back")
WARM = 300


# --- In the interpreter that is measured. --------------------------------------------------------------------------

def child(name: str, way: str, extensions: str, tests: str, count: str) -> None:
    sys.path[:0] = [extensions, tests]
    import compilers

    import call_sites
    calls = {site: (function, call) for site, function, call, *_ in (*call_sites.sites(), *call_sites.init_sites())}
    function, call = calls.get(name, (None, lambda: None))

    def make_calls(count: int) -> None:
        for _ in range(count):
            call()

    make_calls(WARM)
    if function and way != WAYS[0]:
        compilers.set_answer(None if function.__name__ in ("__init__", "__setitem__") else call_sites.ANSWER)
        compilers.set_vectorcall(function, "answer")
        make_calls(WARM)
    if function and way == WAYS[2]:
        compilers.restore(function)
        make_calls(WARM)
    make_calls(int(count))


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------------------------

import argparse
import statistics

import measuring

FEW_CALLS, MANY_CALLS = 100, 1_100


def main() -> None:
    tests = os.path.join(measuring.ROOT, "tests", "python")
    sys.path.append(tests)
    import call_sites
    names = [name for name, *_ in (*call_sites.sites(), *call_sites.init_sites())]
    parser = argparse.ArgumentParser(description="What a call takes from each kind of call site. Instructions are counted by valgrind.")
    parser.add_argument("--python", type=measuring.program, required=True, help="the interpreter to measure")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="this call site alone; may be repeated")
    arguments = parser.parse_args()
    measuring.require_callgrind()
    pythons = {"python": arguments.python}
    extensions = measuring.build_extensions(pythons)["python"]
    names = arguments.only or names
    counts = measuring.count_each((NOTHING, *names), dict.fromkeys(WAYS, "python"), pythons, FEW_CALLS, MANY_CALLS, lambda way, name, count: [
        os.path.abspath(__file__), "--child", name, way, extensions, tests, count])
    calls = {name: {way: (counts[name][way].all - counts[NOTHING][way].all) / (MANY_CALLS - FEW_CALLS) for way in WAYS} for name in names}
    ratios = {name: [row[way] / row[WAYS[0]] for way in WAYS[1:]] for name, row in calls.items()}
    measuring.print_table(("call site", *WAYS), [
        *((name, f"{calls[name][WAYS[0]]:,.0f}", *(f"{ratio:.2f}" for ratio in row)) for name, row in ratios.items()),
        ("geometric mean", "", *(f"{statistics.geometric_mean(column):.2f}" for column in zip(*ratios.values(), strict=True)))])


if __name__ == "__main__":
    main()
