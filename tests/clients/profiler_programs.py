"""Programs that always make the same calls, for two profilers to agree on.

    python profiler_programs.py NAME {cProfile|ferrule} [builtins]
    python profiler_programs.py NAME all

prints what the profiler has counted of this file's functions, or of C functions, as JSON; or all that ours has
counted of functions and of pairs of a caller and a callee.
"""

import json
import sys
from types import coroutine


def recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    def ackermann(m, n):
        if m == 0:
            return n + 1
        return ackermann(m - 1, ackermann(m, n - 1) if n else 1)

    return fib(14), even(101), ackermann(2, 3)


def generators():
    def numbers(n):
        for i in range(n):
            yield i

    def squares(n):
        for i in numbers(n):
            yield i * i

    def tree(depth):
        if depth:
            yield from tree(depth - 1)
            yield depth
            yield from tree(depth - 1)

    begun = numbers(10)
    next(begun)
    del begun           # suspended when it is dropped
    numbers(3)          # never begun
    return sum(squares(50)), list(tree(5)), sum(x for x in numbers(20) if x % 2)


def thrown():
    def inner():
        while True:
            try:
                yield 1
            except KeyError:
                yield 2
            finally:
                tidy()

    def tidy():
        pass

    def outer():
        try:
            yield from inner()
        except ValueError:
            yield 3

    found = []
    generator = outer()
    found.append(next(generator))
    found.append(generator.throw(KeyError()))
    found.append(next(generator))
    found.append(generator.throw(ValueError()))
    generator.close()
    generator = outer()
    next(generator)
    generator.close()
    unstarted = outer()
    try:
        unstarted.throw(KeyError())
    except KeyError:
        found.append("thrown before it began")
    outer().close()
    return found


def released():
    """Generators are released while they are suspended, and others are where they were."""
    def numbers(n):
        for i in range(n):
            yield i

    def letters():
        yield from "abc"

    for n in range(40):
        suspended = [numbers(5) if i % 2 else letters() for i in range(n % 5)]
        for generator in suspended:
            next(generator)
        for generator in suspended[:n % 3]:
            list(generator)
        suspended = generator = None


def exceptions():
    def deep(n):
        if n == 0:
            raise ValueError(n)
        deep(n - 1)

    def with_finally(n):
        try:
            deep(n)
        finally:
            tidy()

    def tidy():
        pass

    class Context:
        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return True

    for n in range(20):
        with Context():
            with_finally(n)
    try:
        deep("no number")
    except TypeError:
        pass


def comprehensions():
    def f(x):
        return x + 1

    lists = [[f(y) for y in range(x)] for x in range(15)]
    sets = {f(x) for x in range(10)}
    dicts = {f(x): f(-x) for x in range(10)}
    lazy = sum(f(y) for x in range(10) for y in range(x))
    return lists, sets, dicts, lazy, sorted(range(10), key=lambda x: -f(x))


def classes():
    class Point:
        def __init__(self, x):
            self._x = x

        @property
        def x(self):
            return self._x

        def __getitem__(self, index):
            return index

        def __add__(self, other):
            return Point(self.x + other.x)

        def __eq__(self, other):
            return self.x == other.x

        def __del__(self):
            finish()

        def __iter__(self):
            yield self.x

    def finish():
        pass

    def decorate(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    @decorate
    def total(*points, start=0):
        return sum((point.x for point in points), start)

    for n in range(20):
        point = Point(n) + Point(1)
        point[n], point == Point(n), list(point)
        total(point, point, start=2)
    exec("def made(): return 1\nfor _ in range(5): made()")


def coroutines():
    @coroutine
    def pause(value):
        return (yield value)

    async def leaf(n):
        await pause(n)
        return n

    async def branch(n):
        return sum([await leaf(i) for i in range(n)])

    async def numbers(n):
        for i in range(n):
            await pause(i)
            yield i

    async def main():
        total = await branch(5)
        async for i in numbers(5):
            total += i
        agen = numbers(3)
        await anext(agen)
        await agen.aclose()
        return total

    running = main()
    while True:
        try:
            running.send(None)
        except StopIteration as stop:
            value = stop.value
            break
    left = main()
    left.send(None)
    left.close()
    return value


def asyncio_tasks():
    import asyncio

    async def worker(queue, done):
        while (item := await queue.get()) is not None:
            await asyncio.sleep(0)
            done.append(item)

    async def main():
        queue, done = asyncio.Queue(), []
        tasks = [asyncio.create_task(worker(queue, done)) for _ in range(3)]
        for item in range(30):
            await queue.put(item)
        for _ in tasks:
            await queue.put(None)
        await asyncio.gather(*tasks)
        return sorted(done)

    return asyncio.run(main())


def builtins():
    items = []
    append = items.append
    for n in range(10):
        items.append(n)
        append(len(items))
        sorted(items, key=abs)
        try:
            int("x")
            items.index("missing")
        except ValueError:
            str.upper("x"), "x".join(("a", "b"))
        try:
            items.index("missing")
        except ValueError:
            pass
    return list(map(len, "abc")), max(items, key=lambda item: divmod(item, 2)), isinstance(1, int)


PROGRAMS = (recursion, generators, thrown, released, exceptions, comprehensions, classes, coroutines,
            asyncio_tasks, builtins)


def counted_by_cprofile(run, builtins):
    import cProfile
    profile = cProfile.Profile(builtins=builtins)
    profile.runcall(run)
    profile.create_stats()
    return profile.stats


def counted_by_ferrule(run, builtins):
    import marshal

    import ferrule_profiler
    from ferrule_profiler._formats import pstats
    with ferrule_profiler.profile(builtins=builtins) as profile:
        run()
    return marshal.loads(pstats(profile.result))


def all_counts(run):
    """{function or pair: (calls, runs, recursive runs, runs that raised)}."""
    import ferrule_profiler
    with ferrule_profiler.profile() as profile:
        run()
    result = profile.result

    def name(number):
        function = result.functions.get(number)
        return function and f"{function.qualname}:{function.line}"

    rows = [(name(number), function) for number, function in result.functions.items()]
    rows += [(f"{name(edge.caller)} -> {name(edge.callee)}", edge) for edge in result.edges]
    return {name: (row.calls, row.runs, row.recursive, row.raised) for name, row in rows}


def main(name, profiler, builtins=""):
    run = next(program for program in PROGRAMS if program.__name__ == name)
    run()       # what is only done the first time: imports, caches
    if profiler == "all":
        print(json.dumps(all_counts(run)))
        return
    counted = {"cProfile": counted_by_cprofile, "ferrule": counted_by_ferrule}[profiler]
    found = {}
    stats = counted(run, bool(builtins))
    if builtins:
        # cProfile stops with a C function of its own.
        print(json.dumps({function: row[:2] for (file, _, function), row in stats.items()
                          if file == "~" and "disable" not in function}))
        return
    for (file, line, function), (primitive, calls, own, total, callers) in stats.items():
        if file != __file__ and name != "asyncio_tasks" or file == "~":
            continue
        found[f"{function}:{line}"] = [primitive, calls, sorted(
            [f"{function}:{line}", *row[:2]] for (file, line, function), row in callers.items()
            if file != "~")]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
