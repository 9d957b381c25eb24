"""Closures, generators, comprehensions, context managers, exceptions, classes."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools

import torch
import torch._dynamo

X = torch.arange(4.0)


def closure(t):
    scale = 3

    def f(x):
        return x * scale
    f = t.compile(f)
    first = f(X)
    scale = 4
    return first, f(X)


def closure_over_tensor(t):
    weight = torch.full((4,), 2.0)

    def f(x):
        return x @ weight
    f = t.compile(f)
    first = f(X)
    weight = torch.full((4,), 3.0)
    return first, f(X)


def makes_closure(t):
    def f(x):
        def g(y):
            return x + y
        return g
    g = t.compile(f)(X)
    return g(1), t.compile(g)(2)


def parameter_in_cell(t):
    def f(x, n=2):
        def g():
            nonlocal n
            n += 1
            return x * n
        return g() + g()
    f = t.compile(f)
    return f(X), f(X, n=5)


def nested_cells(t):
    def outer(n):
        def middle(x):
            def inner():
                return x + n
            return inner() * n
        return middle
    f, g = t.compile(outer(2)), t.compile(outer(3))
    return f(X), g(X), f(X + 1)


def one_code_many_functions(t):
    def make(n):
        return t.compile(lambda x: x + n)
    functions = [make(n) for n in range(4)]
    return [function(X) for function in functions + functions]


def class_cell(t):
    class Base:
        def go(self, x):
            return x + 1

    class Derived(Base):
        def go(self, x):
            return super().go(x) * 2
    return t.compile(Derived().go)(X)


def generator_consumed(t):
    def numbers(x):
        for n in range(3):
            yield x + n

    def f(x):
        return sum(numbers(x))
    return t.compile(f)(X)


def generator_returned(t):
    def f(x):
        return (x + n for n in range(3))
    return list(t.compile(f)(X))


def generator_compiled(t):
    @t.compile
    def f(x):
        yield x + 1
        yield x * 2
    return list(f(X)), list(f(X))


def generator_suspended_in_region(t):
    def numbers():
        n = 0
        while True:
            n += 1
            yield n
    source = numbers()
    next(source)

    def f(x):
        torch._dynamo.graph_break()
        return x + next(source)
    f = t.compile(f)
    return f(X), f(X), next(source)


def generator_with_send(t):
    def adder():
        value = yield
        while True:
            value = yield value + 1

    def f(x):
        adding = adder()
        next(adding)
        return adding.send(x) * 2
    return t.compile(f)(X)


def generator_closed(t):
    seen = []

    def numbers(x):
        try:
            yield x
            yield x + 1
        finally:
            seen.append("closed")

    def f(x):
        source = numbers(x)
        y = next(source)
        source.close()
        return y
    return t.compile(f)(X), seen


def yield_from(t):
    def inner(x):
        yield x
        return 5

    def outer(x):
        n = yield from inner(x)
        yield x + n

    def f(x):
        return [y * 2 for y in outer(x)]
    return t.compile(f)(X)


def coroutine(t):
    async def inner(x):
        return x + 1

    async def f(x):
        return await inner(x) * 2

    def run(coroutine):
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
    return run(t.compile(f)(X)), run(t.compile(f)(X))


def comprehensions(t):
    def f(x):
        a = [x + n for n in range(3) if n != 1]
        b = {n: x * n for n in range(2)}
        c = {n % 2 for n in range(4)}
        return sum(a) + b[1] + len(c)
    return t.compile(f)(X)


def nested_comprehension(t):
    def f(x):
        return [[x * n + m for m in range(2)] for n in range(2)]
    return t.compile(f)(X)


def comprehension_over_cell(t):
    def f(x):
        k = 2
        items = [lambda: x * k * n for n in range(2)]
        k = 3
        return [item() for item in items]
    return t.compile(f)(X)


def context_manager_of_generator(t):
    @contextlib.contextmanager
    def scaled(n):
        log.append("in")
        try:
            yield n * 2
        finally:
            log.append("out")
    log = []

    def f(x):
        with scaled(3) as n:
            x = x * n
        return x + 1
    f = t.compile(f)
    return f(X), f(X), log


def context_manager_with_break(t):
    class Manager:
        def __enter__(self):
            return 3

        def __exit__(self, *error):
            return True

    def f(x):
        with Manager() as n:
            x = x * n
            torch._dynamo.graph_break()
            raise ValueError("swallowed")
        return x + 1
    return t.raised(t.compile(f), X)


def nested_contexts(t):
    def f(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            with contextlib.suppress(KeyError), contextlib.nullcontext(2) as n:
                x = x * n
        return x
    return t.compile(f)(X)


def exception_caught(t):
    def fails(x):
        raise KeyError(x.shape[0])

    def f(x):
        try:
            return fails(x)
        except KeyError as error:
            return x + error.args[0]
    return t.compile(f)(X)


def exception_escapes(t):
    def f(x):
        y = x + 1
        if x.shape[0] == 4:
            raise ValueError("four is too many")
        return y
    f = t.compile(f)
    return t.raised(f, X), f(torch.ones(3)), t.raised(f, X)


def exception_after_break(t):
    def f(x):
        torch._dynamo.graph_break()
        raise RuntimeError("after the break")
    f = t.compile(f)
    return t.raised(f, X), t.raised(f, X)


def exception_chained(t):
    def f(x):
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("chained") from error
        return x
    error = t.raised(t.compile(f), X)
    return error, error.__cause__


def exception_of_operator(t):
    def f(x, y):
        return x @ y
    return t.raised(t.compile(f), torch.ones(2, 3), torch.ones(2, 3))


def exception_in_finally(t):
    def f(x):
        try:
            return x + 1
        finally:
            torch._dynamo.graph_break()
    return t.compile(f)(X)


def exception_group(t):
    def f(x):
        try:
            raise ExceptionGroup("several", [ValueError(1), KeyError(2)])
        except* ValueError:
            x = x + 1
        except* KeyError:
            x = x * 2
        return x
    return t.raised(t.compile(f), X)


def user_class(t):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def __add__(self, other):
            return Pair(self.a + other.a, self.b + other.b)

        @property
        def total(self):
            return self.a + self.b

        def __call__(self, x):
            return self.total * x

    def f(x):
        return (Pair(x, 1) + Pair(x, 2))(x)
    return t.compile(f)(X)


def attribute_changes(t):
    class Thing:
        factor = 2
    thing = Thing()

    def f(x):
        return x * thing.factor
    f = t.compile(f)
    first = f(X)
    thing.factor = 3
    second = f(X)
    del thing.factor
    return first, second, f(X)


def data_class(t):
    @dataclasses.dataclass
    class Point:
        x: torch.Tensor
        n: int = 3

    def f(x):
        point = Point(x)
        return dataclasses.replace(point, n=4).n * point.x
    return t.compile(f)(X)


def named_tuple(t):
    Point = collections.namedtuple("Point", "a b")

    def f(x):
        point = Point(x, x + 1)
        return point._replace(a=point.b * 2)
    return t.compile(f)(X)


def enumeration(t):
    class Kind(enum.Enum):
        ADD = 1
        SCALE = 2

    def f(x, kind):
        return x + 2 if kind is Kind.ADD else x * 2
    f = t.compile(f)
    return f(X, Kind.ADD), f(X, Kind.SCALE)


def caches_calls(t):
    calls = []

    @functools.lru_cache
    def factor(n):
        calls.append(n)
        return n * 2

    def f(x):
        return x * factor(3)
    f = t.compile(f)
    return f(X), f(X + 1), len(calls)


def wrapped(t):
    def twice(function):
        @functools.wraps(function)
        def wrapper(*arguments, **keywords):
            return function(*arguments, **keywords) * 2
        return wrapper

    @t.compile
    @twice
    def f(x, n=1):
        return x + n
    return f(X), f(X, n=3)


def static_and_class_methods(t):
    class Things:
        n = 4

        @staticmethod
        def one(x):
            return x + 1

        @classmethod
        def two(cls, x):
            return x * cls.n

    def f(x):
        return Things.one(x) + Things.two(x)
    return t.compile(f)(X)


def itertools_used(t):
    def f(x):
        pairs = itertools.product([1, 2], [3])
        return sum(x * a * b for a, b in pairs) + sum(itertools.accumulate([1, 2]))
    return t.compile(f)(X)


def copies(t):
    def f(x):
        items = {"x": [x]}
        other = copy.deepcopy(items)
        other["x"].append(1)
        return len(items["x"]), len(other["x"])
    return t.raised(t.compile(f), X)


def returns_many(t):
    def f(x):
        return {"a": (x, [x + 1]), "b": None, "c": "text", "d": 3.5}
    return t.compile(f)(X)


def mutates_argument(t):
    def f(x, items):
        x.add_(1)
        items.append(x.sum())
        return x
    f, x, items = t.compile(f), X.clone(), []
    f(x, items)
    f(x, items)
    return x, items


def same_argument_twice(t):
    def f(x, y):
        x.mul_(2)
        return x + y
    f, x = t.compile(f), X.clone()
    return f(x, x), f(x, x.clone())


def many_arguments(t):
    def f(a, b, c=1, *rest, d, e=5, **others):
        return a + b + c + sum(rest) + d + e + others.get("z", 0)
    f = t.compile(f)
    return f(X, 1, d=2), f(X, 1, 2, 3, 4, d=5, z=6), t.raised(f, X)
