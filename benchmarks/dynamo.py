#!/usr/bin/env python3
"""What torch.compile costs through a frame hook, in times of what it costs through the evaluator.

    path/to/environment/bin/python benchmarks/dynamo.py

The interpreter is a Ferrule whose environment has torch and ferrule_dynamo (`ci/dynamo` makes one). Both ways
are measured in one process, which changes from one to the other: short blocks take turns, so that what else the
machine does meets both. Times are CPU times of a thread; a ratio is that of two blocks in a row, and what is shown is
the median, with the middle half of them in brackets. --instructions has valgrind count the instructions of a call instead, on
a copy of the interpreter without debug information; inductor is left out, since it compiles with processes of its own.
"""

import _ctypes
import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch._dynamo

import ferrule_dynamo
import measuring

WAYS = "evaluator", "hooks"
WARM, FEW_CALLS, MANY_CALLS = 60, 20, 120


def as_it_is(module, inputs):
    """A backend that runs the graph as it is: what is left is what Dynamo costs."""
    return module.forward


def small(x):
    return x * 2 + 1


def with_many(a, b, c, d, e, f, g, h):
    return a + b + c + d + e + f + g + h


def closure_of(n):
    def function(x):
        return x * n
    return function


def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def leaf(n):
    return n + 1


def eager():
    """Calls outside of what is compiled."""
    total = 0
    for _ in range(500):
        total = leaf(total)
    return total


@torch.compiler.disable
def disabled():
    return eager()


def calls_disabled(x):
    disabled()
    return x + 1


def workloads():
    """Name: a function that makes what is called."""
    x = torch.ones(4)
    eight = [torch.ones(4) for _ in range(8)]

    def compiled(function, *arguments, **options):
        options.setdefault("backend", as_it_is)
        function = torch.compile(function, **options)
        return lambda: function(*arguments)

    return {
        "a small function": lambda: compiled(small, x),
        "a small function, fullgraph": lambda: compiled(small, x, fullgraph=True),
        "a small function, inductor": lambda: compiled(small, x, backend="inductor"),
        "eight tensors": lambda: compiled(with_many, *eight),
        "a closure": lambda: compiled(closure_of(3), x),
        "a graph break": lambda: compiled(broken, x),
        "a module": lambda: compiled(Net(), x),
        **{name: lambda: compiled(Net(), x) for name in PLACES},
        "500 calls of eager code, outside": lambda: eager,
        "500 calls of eager code, below a region": lambda: compiled(calls_disabled, x),
    }


def in_a_thread(work):
    """What it returns in a new thread, which has called nothing that is compiled before."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def deep(work, frames=100):
    """What it returns when called from below so many frames."""
    return deep(work, frames - 1) if frames else work()


# Where the blocks of some workloads run: elsewhere than the others.
PLACES = {"a module, first in a thread": in_a_thread,
          "a module, from 100 frames deep": lambda work: in_a_thread(lambda: deep(work))}


def change_to(way):
    if way == "hooks":
        ferrule_dynamo.install()
    else:
        ferrule_dynamo.uninstall()


def seconds_of(call, count):
    """CPU time of so many calls."""
    began = time.thread_time()
    for _ in range(count):
        call()
    return time.thread_time() - began


def measure(make, place, turns, seconds):
    """Ratios of the times of neighbours, and the evaluator's time of one call."""
    functions, count = {}, 0

    def block(call):
        nonlocal count
        warm = seconds_of(call, 200)
        count = count or max(int(seconds / warm * 200), 50)
        return seconds_of(call, count) / count
    for way in WAYS:
        change_to(way)
        torch._dynamo.reset()
        functions[way] = make()
        functions[way]()
    times = {"evaluator": [], "hooks": []}
    for turn in range(turns):
        for way in WAYS if turn % 2 else reversed(WAYS):
            change_to(way)
            times[way].append(place(lambda way=way: block(functions[way])))
    change_to("evaluator")
    ratios = [hooks / evaluator for evaluator, hooks in zip(times["evaluator"], times["hooks"], strict=True)]
    return ratios, statistics.median(times["evaluator"])


def repeat(call, count):
    for _ in range(count):
        call()


def counts_of(call, place):
    """The instructions of a call, by callgrind, in which this process runs."""
    requests = ctypes.PyDLL(place / "requests.so")

    def count(calls):
        name = f"{calls} calls"
        requests.begin()
        repeat(call, calls)
        requests.end(name.encode())
        # A file for each thread, or one; what others have executed meanwhile is a few instructions.
        files = list(place.glob("out.*"))
        counted = [re.search(r"^(?:summary|totals): (\d+)", file.read_text(), re.M) for file in files]
        for file in files:
            file.unlink()
        return sum(int(found[1]) for found in counted if found)
    repeat(call, WARM)
    count(1)
    return (count(MANY_CALLS) - count(FEW_CALLS)) / (MANY_CALLS - FEW_CALLS)


def count_here(only, place):
    print("| | hooks : evaluator | the evaluator's instructions |\n|---|---|---|")
    for name, make in workloads().items():
        if "inductor" in name or only and only not in name:
            continue
        counts = {}
        for way in WAYS:
            change_to(way)
            torch._dynamo.reset()
            function = make()
            function()
            counts[way] = PLACES.get(name, lambda work: work())(lambda function=function: counts_of(function, place))
        print(f"| {name} | {counts['hooks'] / counts['evaluator']:.3f} | {counts['evaluator']:,.0f} |", flush=True)


def count_under_valgrind(only):
    """Runs this file under callgrind, which begins to count when it is asked to."""
    measuring.require_callgrind()
    with tempfile.TemporaryDirectory() as place, measuring.stripped_copies({"python": os.path.realpath(sys.executable)}) as copies:
        source = pathlib.Path(__file__).with_name("callgrind_requests.c")
        measuring.run(["cc", "-shared", "-fPIC", "-o", f"{place}/requests.so", source])
        # The interpreter's extension modules without debug information too, found before those that it has.
        for module in pathlib.Path(_ctypes.__file__).parent.glob("*.so"):
            measuring.run(["strip", "--strip-debug", "-o", f"{place}/{module.name}", module])
        path = [place, *(entry for entry in sys.path if entry.endswith("site-packages"))]
        subprocess.run(["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={place}/out", copies["python"],
                        os.path.abspath(__file__), "--counted-in", place, *(["--only", only] if only else [])],
                       env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=25, help="pairs of blocks (25)")
    parser.add_argument("--seconds", type=float, default=0.05, help="CPU time of a block (0.05)")
    parser.add_argument("--only", help="part of a name")
    parser.add_argument("--instructions", action="store_true", help="count instructions by valgrind (ten minutes)")
    parser.add_argument("--counted-in", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.instructions:
        count_under_valgrind(options.only)
        return
    if options.counted_in:
        count_here(options.only, options.counted_in)
        return
    print("| | hooks : evaluator | the evaluator's µs |\n|---|---|---|")
    for name, make in workloads().items():
        if options.only and options.only not in name:
            continue
        ratios, call = measure(make, PLACES.get(name, lambda work: work()), options.turns, options.seconds)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"| {name} | {middle:.3f} ({low:.3f} to {high:.3f}) | {call * 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
