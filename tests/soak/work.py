"""What the server computes for a request. The client computes the same, without any tool."""

import asyncio
import sys


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def deep(n):
    return 1 + deep(n - 1) if n else 0


def at_the_limit(n):
    """Down until there is a RecursionError, and up again."""
    def down(depth):
        try:
            return down(depth + 1)
        except RecursionError:
            return 0

    return down(0) + n


class Account:
    def __init__(self, owner, amount):
        self.owner = owner
        self._amount = amount

    @property
    def amount(self):
        return self._amount

    def __add__(self, other):
        return type(self)(self.owner, self._amount + other._amount)


def accounts(n):
    total = Account("a", 0)
    for number in range(n):
        total = total + Account("b", number)
    return total.amount


def numbers(n):
    received = yield n
    for number in range(n):
        yield number if received is None else received


def doubled(n):
    yield from (2 * number for number in numbers(n))


def generators(n):
    dropped = numbers(n)
    next(dropped)
    return sum(doubled(n)) + sum(x for x in numbers(n))


def failures(n):
    caught = 0
    for number in range(n):
        try:
            raise_after(number % 4)
        except ValueError as error:
            caught += error.args[0]
    return caught


def raise_after(depth):
    if depth == 0:
        raise ValueError(1)
    raise_after(depth - 1)


def closures(n):
    total = 0

    def add(x):
        nonlocal total
        total += x
        return lambda: total

    return sum(add(x)() for x in range(n))


def frames(n):
    """Frame objects that outlive their calls."""
    def keep(left):
        value = left
        return [sys._getframe(), *(keep(left - 1) if left else ())]

    return sum(frame.f_locals["value"] for frame in keep(n))


def new_code(n):
    namespace = {}
    exec(f"def made(x):\n    return x + {n}, [x for x in range(3)]", namespace)
    return namespace["made"](1)[0]


async def step(n):
    await asyncio.sleep(0)
    return n


async def tasks(n):
    return sum(await asyncio.gather(*(step(number) for number in range(n))))


async def stream(n):
    async def numbers():
        for number in range(n):
            yield await step(number)

    return sum([number async for number in numbers()])


SYNCHRONOUS = {function.__name__: function for function in (
    fib, deep, at_the_limit, accounts, generators, failures, closures, frames, new_code)}
ASYNCHRONOUS = {function.__name__: function for function in (tasks, stream)}
LARGEST = 14
# CPython 3.13 without the GIL keeps code objects, and functions that are no closures, for ever once there was a second thread.
KEPT_FOR_EVER = ("new_code",)


def kinds(free_threaded):
    """The endless requests."""
    return [kind for kind in (*SYNCHRONOUS, *ASYNCHRONOUS) if not free_threaded or kind not in KEPT_FOR_EVER]


async def answer(kind, n):
    if kind in ASYNCHRONOUS:
        return await ASYNCHRONOUS[kind](n)
    return SYNCHRONOUS[kind](n)
