"""Frame hooks where there is no memory for a chunk of the data stack, or none for what the hook has to make, at every depth.

At a chunk's edge a call needs a chunk for its frame, a hook one for its own, and code that replaces other code one that is
larger. What fails is a MemoryError, and leaves chunks, hooks, watches and counts of references as they were.
test_arena_faults.py has the same without hooks.
"""

import gc
import sys

from support import ProgramTestCase, attempt, code_named, framecore, framehook, make_recursion, needs_failing_allocations, needs_hooks, use_extensions

use_extensions()
import arenafault
import datahooks
import foreignchunk
import framehooks

from test_hook_data import DISABLE, ON_EXIT, PASS

CHUNK = 16 * 1024           # the smallest; smaller allocations of the arena allocator are none
ALL = 1 << 40               # allocations
DEPTHS = range(1, 40)       # of frames of a sixth of a chunk: some edges, and every distance from one
MANY_LOCALS = " = ".join(f"v{number}" for number in range(60)) + " = None"
MORE_THAN_A_CHUNK = " = ".join(f"v{number}" for number in range(2_500)) + " = None"
ARGUMENT = object()


# --- What is called. Each kind has code that can stand in for it, in a frame that is larger, or larger than a chunk. --

def function(a, b=2):
    return "original", a, b


def with_cells(a, b=2):
    if a is None:
        lambda: (a, b)
    return "original", a, b


def generator(a, b=2):
    yield "original", a, b


async def coroutine(a, b=2):
    return "original", a, b


class Thing:
    def __init__(self, a, b=2):
        self.value = "original", a, b

    @property
    def read(self):
        return "original", ARGUMENT, 2


def finish(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def stand_in(kind, locals_, parameters="a, b"):
    begin, give = {"def": ("def", "return"), "generator": ("def", "yield"), "async": ("async def", "return"),
                   "init": ("def", "self.value =")}[kind]
    values = "ARGUMENT, 2" if parameters == "self" else "a, b"
    return code_named("made", f"{begin} made({parameters}):\n {locals_}\n {give} 'replaced', {values}")


THING = Thing(ARGUMENT)
CALLS = {
    "function": (function.__code__, "def", "a, b", lambda: function(ARGUMENT)),
    "cells": (with_cells.__code__, "def", "a, b", lambda: with_cells(ARGUMENT)),
    "generator": (generator.__code__, "generator", "a, b", lambda: next(generator(ARGUMENT))),
    "coroutine": (coroutine.__code__, "async", "a, b", lambda: finish(coroutine(ARGUMENT))),
    "initializer": (Thing.__init__.__code__, "init", "self, a, b", lambda: Thing(ARGUMENT).value),
    "property": (Thing.read.fget.__code__, "def", "self", lambda: THING.read),
    "from C": (function.__code__, "def", "a, b", lambda: next(map(function, (ARGUMENT,)))),
}


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


def with_room():
    """A list to which can be appended without memory."""
    made = [None] * 64
    for _ in range(30):
        made.pop()
    return made


class Answers:
    """A hook about one code object: in Python or C, and what it answers."""

    def __init__(self, code, answer):
        self.code, self.answer = code, answer
        self.begun, self.ended = with_room(), with_room()

    def __call__(self, view):
        if view.code is not self.code:
            return framehook.DISABLE
        if self.answer == "pass":
            return None
        if self.answer == "disable_code":
            return framehook.DISABLE
        if self.answer == "watch":
            view.watch(self.ended.append)
            self.begun.append(1)
            return None
        return self.answer


IN_C = {"watch in C": dict(verdict=PASS, events=ON_EXIT), "disable in C": dict(verdict=DISABLE, events=ON_EXIT)}


def install(code, answer):
    """(what removes the hook, and what says how many watches have not ended)."""
    if answer in IN_C:
        handle = datahooks.add(code, **IN_C[answer])
        return lambda: datahooks.remove(handle), lambda: sum(frame[2:] != (1, 0) for frame in datahooks.take_frames())
    if isinstance(answer, tuple):
        handle = framehooks.add_replacer({code: answer[1]})
        return lambda: framehooks.remove(handle), lambda: 0
    hook = Answers(code, answer)
    framehook.add(hook)
    return lambda: framehook.remove(hook), lambda: len(hook.begun) - len(hook.ended)


def each_answer(name):
    code, kind, parameters, _ = CALLS[name]
    for answer in ("pass", "disable_code", "watch", *IN_C):
        yield answer, answer
    for size, locals_ in (("larger", MANY_LOCALS), ("larger than a chunk", MORE_THAN_A_CHUNK)):
        other = stand_in(kind, locals_, parameters)
        yield f"{size}, from Python", other
        yield f"{size}, from C", ("C", other)


def run_at_depths(fail, allocations):
    """Each kind of call with each answer, at each depth, while `fail` says which allocation fails."""
    outcomes = {"MemoryError": 0, "original": 0, "replaced": 0}
    recurse = make_recursion(330)
    arenafault.install()
    for name, (code, _, _, call) in CALLS.items():
        for what, answer in each_answer(name):
            replaced = "replaced" if what.startswith("larger") else "original"
            counts = None
            for depth in DEPTHS:
                for number in allocations:
                    remove, not_ended = install(code, answer)
                    hooks = [info["id"] for info in framecore.frame_hooks()]
                    # Chunks that a thread keeps need no allocation.
                    gc.collect()
                    before = foreignchunk.chunks()
                    value = recurse(depth, lambda: fail(number, call))
                    where = name, what, depth, number
                    check(foreignchunk.chunks() == before, *where, "chunks")
                    check([info["id"] for info in framecore.frame_hooks()] == hooks, *where, "hooks")
                    check(value is MemoryError or value == (replaced, ARGUMENT, 2), *where, value)
                    outcomes["MemoryError" if value is MemoryError else value[0]] += 1
                    check(call() == (replaced, ARGUMENT, 2), *where, "again")
                    # There may be no memory for the event of the end that a callback in Python gets.
                    check(not_ended() in ((0, 1) if what == "watch" and fail is attempt else (0,)), *where, "a watch")
                    remove()
                    del remove, not_ended, value
                    now = [sys.getrefcount(one) for one in (ARGUMENT, code, call, THING)]
                    check(counts in (None, now), *where, counts, now)
                    counts = now
                    check(call() == ("original", ARGUMENT, 2), *where, "afterwards")
    print(outcomes)
    check(min(outcomes.values()) > 50, outcomes)
    check(framecore.frame_hooks() == [], "hooks are left")


def without_chunks(number, call):
    """Allocation `number` of a chunk fails, and all after it."""
    arenafault.fail_at(number, count=ALL, smallest=CHUNK)
    try:
        return call()
    except MemoryError:
        return MemoryError
    finally:
        arenafault.fail_at(0)


@needs_hooks
class AtEdges(ProgramTestCase):
    def test_no_chunk_is_to_be_had(self):
        self.assert_program_succeeds(
            "import test_without_memory_at_edges as t; t.run_at_depths(t.without_chunks, (1, 2))", timeout=1200)

    @needs_failing_allocations
    def test_no_block_is_to_be_had(self):
        self.assert_program_succeeds(
            "import test_without_memory_at_edges as t; t.DEPTHS = range(4, 10); "
            "t.run_at_depths(t.attempt, range(0, 14))", timeout=1200)
