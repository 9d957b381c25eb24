"""Gives a function other code at its next call, wherever the function is referred to."""
from collections.abc import Iterator
from types import CodeType

import framehook

versions: framehook.CodeMap[CodeType] = framehook.CodeMap()     # code -> the code that runs instead; weak

def swap(view: framehook.FrameView) -> framehook.Disable | CodeType | None:
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    return versions.get(view.code)

def publish(old: CodeType, new: CodeType) -> None:
    if reason := framehook.incompatibility(old, new):
        print(f"{new.co_name} is refused: {reason}")
    else:
        versions[old] = new

def trace(view: framehook.FrameView) -> None:
    if view.code in (price.__code__, new_price.__code__):
        print(f"{view.code.co_name} runs")

def price(amount: int) -> int:
    return amount * 2

def new_price(amount: int) -> int:
    if amount > 100:
        return framehook.unhooked(price)(amount)    # the old code
    return amount * 3

def ticks(n: int) -> Iterator[str]:
    for _ in range(n):
        yield "old"

def new_ticks(n: int) -> Iterator[str]:
    for _ in range(n):
        yield "new"

with framehook.hook(trace), framehook.hook(swap, before=trace):     # so trace sees the new code
    running = ticks(2)
    publish(price.__code__, (lambda total: total).__code__)
    publish(price.__code__, new_price.__code__)
    publish(ticks.__code__, new_ticks.__code__)
    print(price(10), price(200))
    print(*running, *ticks(2))          # a generator that exists keeps its code
print(price(10))                        # the function itself was never changed
