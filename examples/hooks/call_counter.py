"""Counts who calls whom, in all threads."""
import collections
import threading

import framehook

# No two threads change the same Counter.
counters = collections.defaultdict(collections.Counter)

def count(view):
    if view.code.co_filename != __file__:
        return framehook.DISABLE
    caller, _ = view.caller
    calls = counters[threading.get_ident()]
    calls[caller.co_name if caller else None, view.code.co_name] += 1

def report():
    total = sum(counters.values(), collections.Counter())
    for (caller, name), number in sorted(total.items(), key=str):
        print(f"{number:5} {name}, called by {caller}")

def shout(word):
    return word.upper()

def words():
    yield from "abc"

def work():
    return sorted(words(), key=shout)

with framehook.hook(count):
    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with framehook.disabled_in_thread(count):       # the report is not counted
        report()
