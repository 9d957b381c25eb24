"""The call benchmarks, and how a child process times them.

A module of its own that imports nothing but `sys`: a process that runs under valgrind loads no more than it measures.
"""

import sys

ERROR = ValueError("the same one always: making it is not what is measured")


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def add(self, other):
        return self.x + other

    @property
    def total(self):
        return self.x + self.y

    def __getitem__(self, index):
        return index


def count_to(n):
    i = 0
    while i < n:
        yield i
        i += 1


def make_counter():
    count = 0

    def counter():
        nonlocal count
        count += 1
        return count
    return counter


def with_keywords(a, *, b, c=3):
    return a + b + c


def with_star(*args):
    return args


def own_frame():
    sys._getframe()     # made, and dropped at once: reading it is another matter


def empty():
    pass


def raise_through(n):
    if n:
        raise_through(n - 1)
    raise ERROR


def endless():
    while True:
        yield


def recursion(n):
    for _ in range(n):
        fib(12)


def methods(n):
    point = Point(1, 2)
    for _ in range(n):
        for _ in range(100):
            point.add(3)
            point.add(4)


def generators(n):
    for _ in range(n):
        for _ in count_to(200):
            pass


def closures(n):
    counter = make_counter()
    for _ in range(n):
        for _ in range(200):
            counter()


def inits(n):
    for _ in range(n):
        for _ in range(100):
            Point(1, 2)


def properties(n):
    point = Point(1, 2)
    for _ in range(n):
        for _ in range(100):
            point.total
            point.total


def empties(n):
    for _ in range(n):
        for _ in range(100):
            empty()
            empty()


def subscripts(n):
    point = Point(1, 2)
    for _ in range(n):
        for _ in range(100):
            point[1]
            point[2]


def keywords(n):
    for _ in range(n):
        for _ in range(100):
            with_keywords(1, b=2)


def stars(n):
    arguments = (1, 2, 3)
    for _ in range(n):
        for _ in range(100):
            with_star(*arguments)


def many_leaves(n):
    # A new generator for each pass: frames are pushed, moved into the generator and popped.
    for _ in range(n):
        for _ in range(50):
            next(count_to(1))


def frame_objects(n):
    # Each call makes a frame object, which dies with it.
    for _ in range(n):
        for _ in range(100):
            own_frame()


def exceptions(n):
    # Ten frames outlive their calls until the traceback goes.
    for _ in range(n):
        for _ in range(5):
            try:
                raise_through(9)
            except Exception:
                ERROR.__traceback__ = None


def resumptions(n):
    resume = endless().__next__
    for _ in range(n):
        for _ in range(200):
            resume()


BENCHMARKS = {function.__name__: function for function in
              (recursion, methods, generators, closures, inits, properties, subscripts, keywords, stars, many_leaves,
               frame_objects, exceptions, resumptions)}


def best_time(run, count, rounds):
    """The best ns of `run(count)`."""
    from time import perf_counter_ns
    best = None
    for _ in range(rounds):
        start = perf_counter_ns()
        run(count)
        took = perf_counter_ns() - start
        best = took if best is None or took < best else best
    return best


def print_times(iterations, rounds, benchmarks=BENCHMARKS):
    """Print the best ns per iteration for each benchmark."""
    import gc
    gc.disable()
    for name, run in benchmarks.items():
        run(20)
        print(name, best_time(run, iterations, rounds) / iterations)


def run_setup(benchmarks, prepare, kind, *arguments):
    """What a child of hooks.py and of beside_monitoring.py measures: "times" of all benchmarks, or one of them so many times.
    They are specialized before `prepare` adds a tool, as in a program that runs."""
    import gc
    gc.disable()    # a collection that falls into one of two runs would look like a difference
    if kind == "times":
        for run in benchmarks.values():
            run(20)
        prepare()
        print_times(*map(int, arguments), benchmarks)
    else:
        name, iterations = arguments
        benchmarks[name](20)
        prepare()
        benchmarks[name](int(iterations))


# --- Deep recursion. -----------------------------------------------------------------------------------------------

DESCENTS = (100, 800, 2_000, 9_000, 30_000, 100_000)
LEVELS = 400_000        # in one timing, but at least three descents


def descend(levels):
    if levels:
        descend(levels - 1)


def descend_uncounted(turns):
    """As deep as `turns` has turns. Each level does the same: a level of `descend` makes a number, and a number above 256 is
    an object that has to be made."""
    for _ in turns:
        descend_uncounted(turns)


def go_down(depth):
    descend_uncounted(iter(bytes(depth)))


def time_descents(down, depth, rounds):
    """The best ns per level of a recursion that goes down `depth` levels and up again, and again, in one process."""
    def run(times):
        for _ in range(times):
            down(depth)

    times = max(3, LEVELS // depth)
    return best_time(run, times, rounds) / times / depth


def print_descents(rounds=5):
    """Print the best ns per level for each depth."""
    import gc
    gc.disable()
    sys.setrecursionlimit(max(DESCENTS) + 1000)
    for kind, down in (("levels", descend), ("levels, uncounted", go_down)):
        for depth in DESCENTS:
            print(f"{depth:,} {kind}", time_descents(down, depth, rounds))
