#!/usr/bin/env python3
"""What many stacks keep in memory after a recursion, for several interpreters: 200 threads, and 10,000 greenlets.

    python3 benchmarks/stacks.py --python stock=build/stock-release/python --python ferrule=build/release/python

Each thread, or greenlet, goes down so many levels and up again, and waits. What the process has in memory is read before
they are there, while all of them wait, after a full collection, and when they are gone.

Greenlets are measured where `--greenlet DIRECTORY` says where the package is.

The interpreters take turns. What is printed is the median over the turns.
"""

import sys

THREADS = 200
GREENLETS = 10_000
THREAD_LEVELS = (5, 500, 5_000)
GREENLET_LEVELS = (5, 100, 500)


def resident():
    """Bytes of the process that are in memory now."""
    import resource
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def down(levels):
    if levels:
        down(levels - 1)


def print_time(name, began):
    import gc
    print(f"{name}: they wait", resident() - began)
    gc.collect()
    print(f"{name}: after a full collection", resident() - began)


def in_threads(levels):
    import threading
    import time
    go = threading.Event()
    arrived = threading.Barrier(THREADS + 1)

    def body():
        down(levels)
        arrived.wait()
        go.wait()

    workers = [threading.Thread(target=body) for _ in range(THREADS)]
    began = resident()
    for worker in workers:
        worker.start()
    arrived.wait()
    time.sleep(0.2)     # until all of them wait for the second thing
    name = f"{THREADS} threads, {levels:,} levels"
    print_time(name, began)
    go.set()
    for worker in workers:
        worker.join()
    print(f"{name}: they are gone", resident() - began)


def in_greenlets(levels, directory):
    sys.path.append(directory)
    import greenlet
    main = greenlet.getcurrent()

    def body():
        down(levels)
        main.switch()

    began = resident()
    workers = [greenlet.greenlet(body) for _ in range(GREENLETS)]
    for worker in workers:
        worker.switch()
    name = f"{GREENLETS:,} greenlets, {levels:,} levels"
    print_time(name, began)
    for worker in workers:
        worker.switch()
    workers.clear()
    del worker
    print(f"{name}: they are gone", resident() - began)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    sys.setrecursionlimit(10_000)
    what, levels, directory = sys.argv[2], int(sys.argv[3]), sys.argv[4]
    if what == "threads":
        in_threads(levels)
    else:
        in_greenlets(levels, directory)
    sys.exit(0)


import argparse
import os
import statistics

import measuring
from measuring import measure_in_turns, named_python, parse_times, run


def measure(pythons, turns, directory):
    """{what is measured: {name: [bytes, one for each turn]}}"""
    kinds = [("threads", levels) for levels in THREAD_LEVELS]
    if directory:
        kinds += [("greenlets", levels) for levels in GREENLET_LEVELS]

    def measure_one(name):
        rows = {}
        for what, levels in kinds:
            done = run([pythons[name], "-S", "-s", "-P", os.path.abspath(__file__), "--child", what, str(levels),
                        directory])
            rows |= parse_times(done.stdout)
        return rows

    return measure_in_turns(list(pythons), turns, measure_one)


def main():
    parser = argparse.ArgumentParser(description="What many stacks keep in memory after a recursion.")
    parser.add_argument("--python", metavar="NAME=PATH", action="append", type=named_python, required=True,
                        help="an interpreter to measure; give it once for each")
    parser.add_argument("--greenlet", metavar="DIRECTORY", default="", help="where the package greenlet is")
    parser.add_argument("--turns", type=int, default=5, help="processes for each interpreter and row (default %(default)s)")
    arguments = parser.parse_args()
    pythons = dict(arguments.python)
    results = measure(pythons, arguments.turns, os.path.abspath(arguments.greenlet) if arguments.greenlet else "")
    table = [(row, *(f"{statistics.median(bytes_[name]) / 2**20:.1f} MiB" for name in pythons))
             for row, bytes_ in results.items()]
    print("What is in memory beyond the time before, the median of the turns\n")
    measuring.print_table(("", *pythons), table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
