"""Counts who calls whom, in all threads."""
import collections
import threading
from collections.abc import Iterator

import framehook

Calls = collections.Counter[tuple[str | None, str]]     # (caller, name): number
# No two threads change the same Counter.
counters: collections.defaultdict[int, Calls] = collections.defaultdict(Calls)

def count(view: framehook.FrameView) -> framehook.Disable | None:
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    caller, _ = view.caller
    calls = counters[threading.get_ident()]
    calls[caller.co_name if caller else None, view.code.co_name] += 1
    return None

def report() -> None:
    total = sum(counters.values(), Calls())
    for (caller, name), number in sorted(total.items(), key=str):
        print(f"{number:5} {name}, called by {caller}")

def shout(word: str) -> str:
    return word.upper()

def words() -> Iterator[str]:
    yield from "abc"

def work() -> list[str]:
    return sorted(words(), key=shout)

with framehook.hook(count):
    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with framehook.disabled_in_thread(count):       # the report is not counted
        report()
