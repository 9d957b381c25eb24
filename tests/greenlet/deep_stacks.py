"""Many greenlets with deep Python stacks: each keeps its frames, and all memory comes back.

Run by run.py with an interpreter that has greenlet, with the extension arenafault on its path.
"""

import gc
import sys

import arenafault
import greenlet

GREENLETS = 10_000
DEPTH = 60              # frames of a greenlet: with the ones below, more than one chunk each
DEEPEST = 3_000
TOLERATED_BYTES = 4 * 1024 * 1024   # a root chunk lost by each greenlet would be 160 MiB
DEEPER = 400            # every 400th greenlet goes down to DEEPEST

hub = greenlet.getcurrent()


def recurse(left, mark):
    """Go down, switch to the hub at the bottom, and come up with all locals as they were."""
    before, after = mark, left
    result = recurse(left - 1, mark) + 1 if left else hub.switch(mark)
    if before != mark or after != left:
        raise AssertionError(f"a frame of greenlet {mark} has changed")
    return result


def body(mark):
    return recurse(DEEPEST if mark % DEEPER == 0 else DEPTH, mark)


def depth_of(mark):
    return DEEPEST if mark % DEEPER == 0 else DEPTH


def run_all(count, finish):
    """Start `count` greenlets, leave them all at their bottom, then finish or drop them."""
    started = []
    for mark in range(count):
        one = greenlet.greenlet(body)
        if one.switch(mark) != mark:
            raise AssertionError(f"greenlet {mark} did not get to its bottom")
        started.append(one)
    held = arenafault.bytes_now()
    if finish:
        # From both ends, so that stacks end in another order than they began.
        for index in range((count + 1) // 2):
            for mark in {index, count - 1 - index}:
                got = started[mark].switch(0)
                if got != depth_of(mark) or not started[mark].dead:
                    raise AssertionError(f"greenlet {mark} ended with {got}")
    started.clear()
    gc.collect()
    return held


def check(name, finish):
    run_all(100, finish)
    gc.collect()
    before = arenafault.bytes_now()
    held = run_all(GREENLETS, finish) - before
    kept = arenafault.bytes_now() - before
    print(f"{name}: {held / 2 ** 20:.0f} MiB held by {GREENLETS:,} greenlets, {kept / 2 ** 20:.2f} MiB kept afterwards")
    if held < GREENLETS * 16 * 1024:
        raise AssertionError("the greenlets had less than a chunk each: this shows nothing")
    if kept > TOLERATED_BYTES:
        raise AssertionError(f"{kept:,} bytes of the arena allocator were not given back")
    print(f"ok {name}")


def main():
    sys.setrecursionlimit(DEEPEST + 1_000)
    arenafault.install()
    check("greenlets that come to their end", finish=True)
    check("greenlets that are dropped at their bottom", finish=False)


main()
