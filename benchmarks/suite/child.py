"""What the measured interpreters run for the suite, beside the call benchmarks: frames, recursion, threads.

    python child.py frames|integers|texts ITERATIONS ROUNDS
    python child.py recursion | descents | threads | scaling EXTENSIONS

Prints lines: a name, then a figure: ns, but bytes where the name says so.
"""

import json
import operator
import os
import random
import re
import sys

# The script's own directory has nothing to import; workloads.py is beside it.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# --- Frame objects, tracebacks, generators, coroutines. ------------------------------------------------------------

def own_frame():
    return sys._getframe()


def own_locals():
    a, b, c = 1, 2, 3
    return sys._getframe().f_locals


def callers(depth):
    if depth:
        return callers(depth - 1)
    frame = sys._getframe()
    while frame is not None:
        frame = frame.f_back


def fail(depth):
    if depth:
        fail(depth - 1)
    else:
        raise ValueError


def caught(depth):
    try:
        fail(depth)
    except ValueError as error:
        return error.__traceback__


def delegate(depth):
    if depth:
        yield from delegate(depth - 1)
    else:
        while True:
            yield


async def awaited(depth):
    if depth:
        return await awaited(depth - 1)
    return 1


async def asynchronous():
    for number in range(20):
        yield number


async def consume():
    async for _ in asynchronous():
        pass


def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


def frame_object(n):
    for _ in range(n):
        for _ in range(50):
            own_frame()


def frame_locals(n):
    for _ in range(n):
        for _ in range(50):
            own_locals()


def function_with_locals(count):
    """One that returns at once: its locals are made empty for the call, and cleared after it, and that is all."""
    names = " = ".join(f"v{number}" for number in range(count))
    namespace = {}
    exec(f"def function():\n    return\n    {names} = None", namespace)
    return namespace["function"]


WITH_30, WITH_300 = function_with_locals(30), function_with_locals(300)


def call_with_30_locals(n):
    for _ in range(n):
        for _ in range(50):
            WITH_30()


def call_with_300_locals(n):
    for _ in range(n):
        for _ in range(10):
            WITH_300()


def walk_callers(n):
    for _ in range(n):
        callers(20)


def exception_near(n):
    for _ in range(n):
        for _ in range(20):
            caught(0)


def exception_far(n):
    for _ in range(n):
        caught(20)


def generator_next(n):
    generator = delegate(0)
    for _ in range(n):
        for _ in range(100):
            next(generator)


def yield_from(n):
    generator = delegate(10)
    for _ in range(n):
        for _ in range(20):
            next(generator)


def generator_dropped(n):
    for _ in range(n):
        for _ in range(50):
            next(delegate(0))


def coroutine_await(n):
    for _ in range(n):
        for _ in range(10):
            drive(awaited(5))


def async_generator(n):
    for _ in range(n):
        drive(consume())


FRAMES = {function.__name__.replace("_", " "): function for function in (
    frame_object, frame_locals, call_with_30_locals, call_with_300_locals, walk_callers, exception_near, exception_far,
    generator_next, yield_from, generator_dropped, coroutine_await, async_generator)}


def times_of(functions):
    """What a group of the command line runs."""
    def run(iterations, rounds):
        import workloads
        workloads.print_times(int(iterations), int(rounds), functions)
    return run


# --- Long integers. ------------------------------------------------------------------------------------------------

# Of 60 digits, which are multiplied one by one; and of 1,000, by Karatsuba's way.
LONG, LONGER = (int("123456789" * digits, 16) % (1 << 30 * digits) for digits in (60, 1000))


def repeated(operation, *arguments, times=20):
    def run(n):
        for _ in range(n):
            for _ in range(times):
                operation(*arguments)
    return run


INTEGERS = {
    "add": repeated(operator.add, LONG, LONG - 1), "subtract": repeated(operator.sub, LONG, LONG // 3),
    "multiply": repeated(operator.mul, LONG, LONG - 1), "square": repeated(operator.mul, LONG, LONG),
    "multiply by one digit": repeated(operator.mul, LONG, 12345), "divide": repeated(operator.floordiv, LONG * LONG, LONG - 1),
    "divide by one digit": repeated(operator.floordiv, LONG, 12345), "multiply longer": repeated(operator.mul, LONGER, LONGER - 1, times=1),
    "to text": repeated(str, LONG), "of text": repeated(int, str(LONG)),
}


# --- Texts: regular expressions, and pieces. ------------------------------------------------------------------------

DNA = "".join(random.Random(1).choices("acgt", k=2_000))
LINES = "\n".join(f'127.0.0.{n} - - [10/Oct/2000:13:55:36] "GET /page{n}.html HTTP/1.0" 200 {n * 7}' for n in range(30))


def found(pattern, text):
    return repeated(re.compile(pattern).findall, text, times=1)


TEXTS = {
    "a character": found('"', LINES), "a character of a set": found("[^0-9A-F]", "0123456789ABCDEF" * 100), "alternatives": found("agggtaaa|tttaccct", DNA),
    "lazy": found('"(.*?)"', LINES), "lines": found(".+", LINES), "words": found(r"\b[a-zA-Z]\w*\d+\b", LINES),
    "a group": found("([a-z][a-z0-9]*,)+", "-" * 500 + "a5,b7,c9," + "-" * 500),
    "groups": found(r'(?m)^(\S+) (\S+) (\S+) \[([^]]+)\] "(\S+) (\S+)\s*(\S*)" (\d{3}) (\d+)', LINES),
    "JSON": repeated(json.loads, json.dumps(LINES.splitlines()), times=1),
    "split": repeated(LINES.split, " ", times=1), "replace": repeated(LINES.replace, "1", "&amp;", times=1),
}


# --- Deep recursion and its memory. --------------------------------------------------------------------------------

RECURSION = 100_000


def down(n):
    if n:
        down(n - 1)


def recursion():
    from time import perf_counter_ns

    from suite.memory_programs import memory
    sys.setrecursionlimit(RECURSION + 1000)
    before = memory("VmRSS")
    for name in ("first time", "again"):
        start = perf_counter_ns()
        down(RECURSION)
        print(name, (perf_counter_ns() - start) / RECURSION)
    print("bytes, at most", memory("VmHWM") - before)
    # What is not returned; one page at least, as no figure may be zero.
    page = os.sysconf("SC_PAGE_SIZE")
    print("bytes, kept afterwards", max(memory("VmRSS") - before, page))
    import gc
    gc.collect()
    print("bytes, kept after a collection", max(memory("VmRSS") - before, page))


def descents():
    import workloads
    workloads.print_descents()


# --- Threads. ------------------------------------------------------------------------------------------------------

THREADS = 300


def threads():
    import threading

    from workloads import best_time

    for name, target in (("empty", lambda: None), ("a few calls", lambda: down(5)), ("200 calls deep", lambda: down(200))):
        def run(count):
            for _ in range(count):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()

        print(name, best_time(run, THREADS, 3) / THREADS)


def scaling(extensions):
    """Without the GIL: the time of one thread, and of two that do as much each."""
    import gc
    import threading
    from time import perf_counter_ns

    from workloads import BENCHMARKS
    gc.disable()
    works = {name: BENCHMARKS[name] for name in ("recursion", "methods", "generators")}
    if extensions:
        import code_extra
        get_loop, code, index = code_extra.prepare(extensions, "only value")
        works["code extra"] = lambda n: get_loop(code, index, 10_000 * n)
    for name, work in works.items():
        work(20)
        for count in (1, 2):
            best = None
            for _ in range(5):
                barrier = threading.Barrier(count + 1)

                def body():
                    barrier.wait()
                    work(2000)
                    barrier.wait()

                workers = [threading.Thread(target=body) for _ in range(count)]
                for worker in workers:
                    worker.start()
                barrier.wait()
                start = perf_counter_ns()
                barrier.wait()
                took = perf_counter_ns() - start
                for worker in workers:
                    worker.join()
                best = took if best is None else min(took, best)
            print(f"{name}, {count} thread{'s' * (count > 1)}", best)


if __name__ == "__main__":
    {"frames": times_of(FRAMES), "integers": times_of(INTEGERS), "texts": times_of(TEXTS), "recursion": recursion,
     "descents": descents, "threads": threads, "scaling": scaling}[sys.argv[1]](*sys.argv[2:])
