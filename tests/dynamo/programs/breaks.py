"""Graph breaks of every kind."""

import functools
import inspect
import logging
import math
import operator
import sys
import warnings

import numpy
import torch
import torch._dynamo

X = torch.arange(4.0)
state = {"count": 0}
total = 0


def calls_print(t):
    def f(x):
        y = x + 1
        print("broken", end=" ")
        return y * 2
    f = t.compile(f)
    return f(X), f(X)


def explicit(t):
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()
    return t.compile(f)(X)


def three_in_a_row(t):
    def f(x):
        for _ in range(3):
            x = x + 1
            torch._dynamo.graph_break()
        return x
    return t.compile(f)(X)


def branch_on_data(t):
    def f(x):
        if x.sum() > 3:
            return x * 2
        return x - 1
    f = t.compile(f)
    return f(X), f(-X), f(X)


def loop_on_data(t):
    def f(x):
        while x.sum() < 30:
            x = x * 2
        return x
    return t.compile(f)(X + 1)


def takes_item(t):
    def f(x):
        n = x[1].item()
        return x * n
    return t.compile(f)(X)


def takes_list(t):
    def f(x):
        return x * sum(x.tolist())
    return t.raised(t.compile(f), X)


def through_numpy(t):
    def f(x):
        y = numpy.sin(x.numpy())
        return torch.from_numpy(y) + 1
    return t.compile(f)(X)


def in_called_function(t):
    def inner(x):
        x = x * 3
        torch._dynamo.graph_break()
        return x + 1

    def f(x):
        return inner(x + 1) * 2
    return t.compile(f)(X)


def in_third_level(t):
    def one(x):
        torch._dynamo.graph_break()
        return x.sin()

    def two(x):
        return one(x.cos()) + 1

    def f(x):
        return two(two(x))
    return t.compile(f)(X)


def in_method(t):
    class Thing:
        def __init__(self, factor):
            self.factor = factor

        def scale(self, x):
            torch._dynamo.graph_break()
            return x * self.factor

    thing = Thing(3)

    def f(x):
        return thing.scale(x + 1) - 1
    return t.compile(f)(X)


def in_with(t):
    def f(x):
        with torch.no_grad():
            y = x * 2
            torch._dynamo.graph_break()
            y = y + 1
        return y
    return t.compile(f)(X.clone().requires_grad_())


def in_try(t):
    def f(x):
        try:
            y = x * 2
            torch._dynamo.graph_break()
            y = y + 1
        finally:
            x = x - 1
        return x + y
    return t.compile(f)(X)


def in_except(t):
    def f(x):
        try:
            raise ValueError("no")
        except ValueError:
            torch._dynamo.graph_break()
            return x + 1
    return t.compile(f)(X)


def in_comprehension(t):
    def f(x):
        return sum([torch.sin(x) + (print(end="") or n) for n in range(3)])
    return t.compile(f)(X)


def in_lambda(t):
    def f(x):
        g = lambda y: (torch._dynamo.graph_break(), y + 1)[1]
        return g(x) * 2
    return t.compile(f)(X)


def list_across(t):
    def f(x):
        items = [x, x + 1]
        torch._dynamo.graph_break()
        items.append(x + 2)
        return items[0] + items[2], len(items)
    return t.compile(f)(X)


def dict_across(t):
    def f(x):
        items = {"a": x}
        torch._dynamo.graph_break()
        items["b"] = items["a"] * 2
        return items
    return t.compile(f)(X)


def cell_across(t):
    def f(x):
        n = 1

        def more():
            nonlocal n
            n += 1
            return n
        x = x + more()
        torch._dynamo.graph_break()
        return x * more()
    return t.compile(f)(X)


def global_across(t):
    def f(x):
        global total
        total = 5
        torch._dynamo.graph_break()
        total += 1
        return x * total
    return t.compile(f)(X), total


def side_effect_across(t):
    state["count"] = 0

    def f(x):
        state["count"] += 1
        torch._dynamo.graph_break()
        state["count"] += 1
        return x + state["count"]
    f = t.compile(f)
    return f(X), f(X), state["count"]


def iterator_across(t):
    def f(x):
        numbers = iter([1, 2, 3])
        x = x + next(numbers)
        torch._dynamo.graph_break()
        return x * next(numbers)
    return t.compile(f)(X)


def enumerates_across(t):
    def f(x):
        for index, value in enumerate([2, 3]):
            x = x * value
            torch._dynamo.graph_break()
            x = x + index
        return x
    return t.compile(f)(X)


def stack_across(t):
    def f(x):
        return (x + 1) * (torch._dynamo.graph_break() or 2) + x
    return t.compile(f)(X)


def keywords(t):
    def inner(a, /, b, *rest, c=3, **others):
        torch._dynamo.graph_break()
        return a + b + sum(rest) + c + sum(others.values())

    def f(x):
        return inner(x, 1, 2, 3, c=4, d=5)
    return t.compile(f)(X)


def unpacks(t):
    def f(x):
        a, *b, c = x, 1, 2, 3
        torch._dynamo.graph_break()
        return a + sum(b) + c
    return t.compile(f)(X)


def builtin_of_c(t):
    def f(x):
        return x * operator.length_hint([1, 2, 3]) + math.comb(4, 2)
    return t.compile(f)(X)


def asks_for_id(t):
    def f(x):
        y = x
        return x + int(id(x) == id(y))
    return t.compile(f)(X)


def asks_for_frame(t):
    def f(x):
        name = sys._getframe().f_code.co_name
        return x + len(name[:1])
    return t.compile(f)(X)


def asks_for_stack(t):
    def f(x):
        depth = len(inspect.stack()) > 0
        return x + depth
    return t.compile(f)(X)


def logs(t):
    log = logging.getLogger("programs")

    def f(x):
        log.debug("nothing")
        return x + 1
    return t.compile(f)(X)


def warns(t):
    def f(x):
        warnings.warn("take care", stacklevel=1)
        return x + 1
    return t.compile(f)(X)


def asserts(t):
    def f(x):
        assert x.shape[0] == 4, "four"
        return x + 1
    f = t.compile(f)
    return f(X), t.raised(f, torch.ones(3))


def asserts_data(t):
    def f(x):
        assert x.sum() > 0
        return x + 1
    f = t.compile(f)
    return f(X), t.raised(f, -X)


def deletes(t):
    def f(x):
        y = x + 1
        z = y * 2
        del y
        torch._dynamo.graph_break()
        return z
    return t.compile(f)(X)


def walrus(t):
    def f(x):
        if (n := x.shape[0]) > 2:
            torch._dynamo.graph_break()
            x = x * n
        return x
    return t.compile(f)(X)


def matches(t):
    def f(x, kind):
        match kind:
            case {"scale": n}:
                x = x * n
            case [a, b]:
                x = x + a + b
            case _:
                torch._dynamo.graph_break()
        return x + 1
    f = t.compile(f)
    return f(X, {"scale": 2}), f(X, [1, 2]), f(X, None)


def formats(t):
    def f(x):
        text = f"{x.shape[0]}:{x.dtype!s:>15}"
        torch._dynamo.graph_break()
        return x + len(text)
    return t.compile(f)(X)


def recursion(t):
    def f(x, n):
        if n == 0:
            torch._dynamo.graph_break()
            return x
        return f(x + n, n - 1)
    return t.compile(f)(X, 3)


def partial_call(t):
    def inner(a, b, c=1):
        torch._dynamo.graph_break()
        return a * b + c

    def f(x):
        return functools.partial(inner, b=2)(x, c=5)
    return t.compile(f)(X)


def sorts_with_key(t):
    def f(x):
        order = sorted([3, 1, 2], key=lambda n: -n)
        return x * order[0]
    return t.compile(f)(X)


def nonzero(t):
    def f(x):
        return x[x.nonzero().squeeze()] + 1
    return t.compile(f)(X)


def evaluates(t):
    def f(x):
        return eval("x + 2", {"x": x})
    return t.compile(f)(X)


def executes(t):
    def f(x):
        names = {"x": x}
        exec("y = x * 3", names)
        return names["y"]
    return t.compile(f)(X)
