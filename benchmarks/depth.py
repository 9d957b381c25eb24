"""What one call costs at each depth of the Python stack; `make bench-depth` measures it.

CPython keeps frames in chunks. A call that does not fit into the current chunk has to switch to another one,
and where that is slow a program becomes slow at certain depths only. This program makes that visible: a
recursion goes down one small frame at a time, and at each depth it times calls of a leaf function.

The best time of each depth is kept: what is left is the cost that a depth always has.
"""

import sys

# The child runs first and alone: it must not pay for, or disturb its memory with, the imports of the parent.

CALLS_IN_A_ROW = 10     # written out in the timed loop, so that the loop itself weighs little
TURNS = 20              # passes of the timed loop: 200 calls per timing
TIMINGS = 5             # timings per depth, the best is kept
SLOW_TIMING = 400_000   # ns for one timing (2 us a call): at such a depth two timings are enough
SLOW_TIMINGS = 2


def make_leaf(local_count):
    """A function that does nothing and has `local_count` local variables."""
    names = " = ".join(f"v{i}" for i in range(local_count))
    # The names are assigned after the return: they take room in the frame and no time.
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


def child(local_count, max_depth):
    """One sweep: prints the times as one line."""
    import gc
    gc.disable()
    sys.setrecursionlimit(max_depth + 200)
    leaf = make_leaf(local_count)
    warm_up, sweep = make_sweep(leaf, max_depth)
    warm_up()
    print(" ".join(f"{ns:.2f}" for ns in sweep()))


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(int(sys.argv[2]), int(sys.argv[3]))
    sys.exit(0)

import os

import measuring

DEFAULT_DEPTH = 2000


def run_sweep(python: str, local_count: int, max_depth: int) -> list[float]:
    """One sweep in a fresh process of `python`: ns per call, one for each depth."""
    # Not -I: it would ignore the hash seed, which the sweeps are to share.
    done = measuring.run([python, "-S", "-s", "-P", os.path.abspath(__file__), "--child", str(local_count), str(max_depth)])
    times = [float(word) for word in done.stdout.split()]
    if len(times) != max_depth + 1:
        raise SystemExit(f"{python} printed {len(times)} times, {max_depth + 1} were expected")
    return times
