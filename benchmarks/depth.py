#!/usr/bin/env python3
"""What one call costs at each depth of the Python stack, for several interpreters.

CPython keeps frames in chunks. A call that does not fit into the current chunk has to switch to another one,
and where that is slow a program becomes slow at certain depths only. This program makes that visible: a
recursion goes down one small frame at a time, and at each depth it times calls of a leaf function.

    python3 benchmarks/depth.py --python stock=build/stock-release/python --python ferrule=build/release/python

With --replaced, a frame hook has other code run instead of the leaf, at each call: for interpreters that have hooks.

With --descents it measures another thing: what a level costs in a recursion that goes down and up again, and again, for
recursions of several depths. Where memory is mapped on each descent, a level of a deep one is slower. One kind of recursion
counts its levels with numbers, which take memory too; the other kind is "uncounted".

The interpreters take turns (A B A B ...), so that a noisy minute meets all of them, and the best time of each
depth is kept: what is left is the cost that a depth always has.
"""

import sys

# The child runs first and alone: it must not pay for, or disturb its memory with, the imports of the parent.

CALLS_IN_A_ROW = 10     # written out in the timed loop, so that the loop itself weighs little
TURNS = 20              # passes of the timed loop: 200 calls per timing
TIMINGS = 5             # timings per depth, the best is kept
SLOW_TIMING = 400_000   # ns for one timing (2 us a call): at such a depth two timings are enough
SLOW_TIMINGS = 2
MORE_LOCALS = 10        # of the code that runs instead of the leaf's


def make_leaf(local_count):
    """A function that does nothing and has `local_count` local variables."""
    names = " = ".join(f"v{i}" for i in range(local_count))
    # The names are assigned behind the return: they take room in the frame and no time.
    source = "def leaf():\n    return None\n" + (f"    {names} = None\n" if local_count else "")
    namespace = {}
    exec(source, namespace)
    leaf = namespace["leaf"]
    if leaf.__code__.co_nlocals != local_count:
        raise AssertionError(f"the leaf has {leaf.__code__.co_nlocals} locals, {local_count} were wanted")
    return leaf


def make_sweep(leaf, max_depth):
    """Return a function that goes down to `max_depth` and returns ns per call for each depth on the way."""
    source = f"""
def measure():
    best = NEVER
    left = TIMINGS
    while left:
        passes = repeat(None, TURNS)
        start = clock()
        for _ in passes:
            {"; ".join(["leaf()"] * CALLS_IN_A_ROW)}
        took = clock() - start
        if took < best:
            best = took
        left -= 1
        if took > SLOW_TIMING and left >= SLOW_TIMINGS:
            left = SLOW_TIMINGS - 1
    times.append(best)
    return len(times) <= max_depth

def descend():
    if measure():
        descend()
"""
    from itertools import repeat
    from time import perf_counter_ns

    times = []
    namespace = dict(leaf=leaf, times=times, max_depth=max_depth, repeat=repeat, clock=perf_counter_ns,
                     NEVER=1 << 62, TIMINGS=TIMINGS, TURNS=TURNS, SLOW_TIMING=SLOW_TIMING,
                     SLOW_TIMINGS=SLOW_TIMINGS)
    exec(source, namespace)
    step, end = (namespace["descend"].__code__, leaf.__code__)
    # A leaf smaller than a step could pass between two depths without ever meeting the edge of a chunk.
    if step.co_nlocals + step.co_stacksize > end.co_nlocals + end.co_stacksize:
        raise AssertionError("a step of the recursion is bigger than the leaf: depths would not be dense")

    def sweep():
        times.clear()
        namespace["descend"]()
        return [took / (TURNS * CALLS_IN_A_ROW) for took in times]

    def warm_up():
        namespace["max_depth"] = 40
        sweep()
        namespace["max_depth"] = max_depth

    return warm_up, sweep


def replace(leaf, local_count, extensions):
    """Has a hook in C run code with more locals in the place of the leaf's."""
    sys.path.append(extensions)
    import framehooks
    framehooks.add_exchange((leaf.__code__, make_leaf(local_count + MORE_LOCALS).__code__))


def child(local_count, max_depth, extensions):
    """One sweep: prints the times as one line."""
    import gc
    gc.disable()
    sys.setrecursionlimit(max_depth + 200)
    leaf = make_leaf(local_count)
    if extensions:
        replace(leaf, local_count, extensions)
    warm_up, sweep = make_sweep(leaf, max_depth)
    warm_up()
    print(" ".join(f"{ns:.2f}" for ns in sweep()))


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    sys.exit(0)

if __name__ == "__main__" and sys.argv[1:2] == ["--child-descents"]:
    # -P leaves the script's directory out.
    sys.path.insert(0, sys.argv[2])
    import workloads
    workloads.print_descents()
    sys.exit(0)


import argparse
import os
import statistics

import measuring
from measuring import Progress, build_extensions, measure_in_turns, named_python, order_of_turn, parse_times, pin_to_one_core, ratio_of_pairs, run, write_json

DEFAULT_LOCALS = (3, 30, 300)
DEFAULT_DEPTH = 2000
DEFAULT_SWEEPS = 12


def run_sweep(python, local_count, max_depth, extensions=""):
    """One sweep in a fresh process of `python`: a list of ns per call, one for each depth."""
    # Not -I: it would ignore the hash seed, which the sweeps are to share.
    done = run([python, "-S", "-s", "-P", os.path.abspath(__file__), "--child", str(local_count), str(max_depth),
                extensions])
    times = [float(word) for word in done.stdout.split()]
    if len(times) != max_depth + 1:
        raise SystemExit(f"{python} printed {len(times)} times, {max_depth + 1} were expected")
    return times


def summarize(sweeps):
    """What the sweeps of one interpreter and one leaf say."""
    best = [min(times) for times in zip(*sweeps)]
    median = statistics.median(best)
    worst_depth = max(range(len(best)), key=best.__getitem__)
    medians = [statistics.median(times) for times in sweeps]
    single = [max(times) / statistics.median(times) for times in sweeps]
    return {
        "median_ns": median,
        "worst_ns": best[worst_depth],
        "worst_depth": worst_depth,
        "ratio": best[worst_depth] / median,
        "sweep_median_ns_min": min(medians),
        "sweep_median_ns_max": max(medians),
        "sweep_ratio_min": min(single),
        "sweep_ratio_max": max(single),
        "best_ns": best,
    }


def measure(pythons, locals_counts, max_depth, sweep_count, extensions):
    """Interleaved sweeps: {locals count: {name: summary}}. `extensions` says for each name where the test extensions
    are, if the leaf is to be replaced."""
    progress = Progress(len(pythons) * len(locals_counts) * sweep_count)
    results = {}
    for local_count in locals_counts:
        sweeps = {name: [] for name in pythons}
        for number in range(sweep_count):
            for name in order_of_turn(pythons, number):
                sweeps[name].append(run_sweep(pythons[name], local_count, max_depth, extensions.get(name, "")))
                progress.step(f"{local_count} locals, sweep {number + 1}, {name}")
        results[local_count] = {name: summarize(list_) for name, list_ in sweeps.items()}
    progress.end()
    return results


def print_table(results, pythons, max_depth, sweep_count):
    width = max(len(name) for name in pythons)
    print(f"Cost of a call at depths 0 to {max_depth:,}: the best of {sweep_count} sweeps at each depth")
    print()
    print(f"{'locals':>6}  {'python':<{width}}  {'median':>9}  {'worst':>11}  {'at depth':>8}  {'worst/median':>12}"
          f"  {'of single sweeps':>18}")
    for local_count, rows in results.items():
        for name, row in rows.items():
            spread = f"{row['sweep_ratio_min']:.2f} to {row['sweep_ratio_max']:.2f}"
            print(f"{local_count:>6}  {name:<{width}}  {row['median_ns']:>6.1f} ns  {row['worst_ns']:>8.1f} ns"
                  f"  {row['worst_depth']:>8,}  {row['ratio']:>12.2f}  {spread:>18}")
    print()
    noise = max((row["sweep_median_ns_max"] / row["sweep_median_ns_min"] - 1) * 100
                for rows in results.values() for row in rows.values())
    print(f"Noise: the medians of single sweeps of the same program differ by up to {noise:.1f} %.")
    print("A single sweep's worst depth is often one where the machine did something else; only a cost that")
    print("comes back in every sweep counts as the depth's.")


def measure_descents(pythons, turns):
    """{"N levels": {name: [ns per level, one for each turn]}}."""
    script = os.path.abspath(__file__)

    def measure_one(name):
        done = run([pythons[name], "-S", "-s", "-P", script, "--child-descents", os.path.dirname(script)])
        return parse_times(done.stdout)

    return measure_in_turns(list(pythons), turns, measure_one)


def print_descents(results, pythons):
    """A table; returns {name: {"N levels": figures}} for JSON. The first interpreter is the one to compare with, and the
    first recursion of each kind the one whose levels the others are measured by."""
    base = next(iter(pythons))
    rows, lines, shallow_of = {name: {} for name in pythons}, [], {}
    for levels, times in results.items():
        shallow = shallow_of.setdefault(levels.partition(" ")[2], levels)
        for name in pythons:
            ratio = ratio_of_pairs(times[name], times[base])
            growth = ratio_of_pairs(times[name], results[shallow][name])
            rows[name][levels] = {"median_ns": statistics.median(times[name]), "of_shallow": growth.median,
                                  "ratio": ratio.median, "low": ratio.low, "high": ratio.high}
            lines.append((levels, name, f"{statistics.median(times[name]):.1f} ns", f"{growth.median:.2f}",
                          f"{ratio.median:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}"))
    print("What a level of a recursion costs that goes down and up again, and again\n")
    measuring.print_table(("recursion of", "python", "a level", "of the first", f"of {base}", "middle half"), lines)
    return rows


def parse_arguments():
    parser = argparse.ArgumentParser(description="Cost of a Python call at each depth of the stack.")
    parser.add_argument("--python", metavar="NAME=PATH", action="append", type=named_python, required=True,
                        help="an interpreter to measure; give it once for each")
    parser.add_argument("--locals", metavar="N,N", default=",".join(map(str, DEFAULT_LOCALS)),
                        help="how many locals the leaf functions have (default %(default)s; at least 3)")
    parser.add_argument("--depth", type=int, default=DEFAULT_DEPTH, help="deepest depth (default %(default)s)")
    parser.add_argument("--sweeps", type=int, default=DEFAULT_SWEEPS,
                        help="sweeps for each interpreter and leaf (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="three sweeps: a first look")
    parser.add_argument("--replaced", action="store_true", help="with a frame hook that replaces the leaf's code")
    parser.add_argument("--descents", action="store_true",
                        help="recursions of several depths, instead of calls; --sweeps says how many processes")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    parser.add_argument("--max-ratio", type=float, metavar="X",
                        help="fail when worst/median of the interpreter named by --of is above X")
    parser.add_argument("--of", metavar="NAME", help="the interpreter that --max-ratio is about")
    arguments = parser.parse_args()
    names = [name for name, _ in arguments.python]
    if len(set(names)) != len(names):
        parser.error("two interpreters have the same name")
    if arguments.descents and (arguments.replaced or arguments.max_ratio is not None):
        parser.error("--descents goes with neither --replaced nor --max-ratio")
    if (arguments.max_ratio is None) != (arguments.of is None):
        parser.error("--max-ratio and --of go together")
    if arguments.of is not None and arguments.of not in names:
        parser.error(f"--of {arguments.of}: no such interpreter among {', '.join(names)}")
    try:
        arguments.locals = [int(word) for word in arguments.locals.split(",")]
    except ValueError:
        parser.error("--locals takes numbers with commas between them")
    if min(arguments.locals) < 3 or arguments.depth < 1 or arguments.sweeps < 1:
        parser.error("at least 3 locals, depth 1 and one sweep")
    if arguments.quick:
        arguments.sweeps = 3
    return arguments


def main():
    arguments = parse_arguments()
    pythons = dict(arguments.python)
    pinned = pin_to_one_core()
    if arguments.descents:
        rows = print_descents(measure_descents(pythons, arguments.sweeps), pythons)
        if arguments.json:
            write_json(arguments.json, kind="descents", sweeps=arguments.sweeps, pinned=pinned, pythons=pythons,
                       results=rows)
        return 0
    extensions = {}
    if arguments.replaced:
        extensions = build_extensions(pythons)
    results = measure(pythons, arguments.locals, arguments.depth, arguments.sweeps, extensions)
    print_table(results, pythons, arguments.depth, arguments.sweeps)
    if arguments.json:
        write_json(arguments.json, depth=arguments.depth, sweeps=arguments.sweeps, pinned=pinned, pythons=pythons,
                   results=results)
    if arguments.max_ratio is not None:
        worst = max(rows[arguments.of]["ratio"] for rows in results.values())
        if worst > arguments.max_ratio:
            print(f"\n{arguments.of}: worst/median {worst:.2f} is above {arguments.max_ratio:.2f}")
            return 1
        print(f"\n{arguments.of}: worst/median {worst:.2f} is within {arguments.max_ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
