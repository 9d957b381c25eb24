"""Failing allocations of chunks: MemoryError or success, never a crash, and the stack is as before."""

import sysconfig

from support import ProgramTestCase

# An allocator of objects that takes nothing from the arenas, so that only chunks do.
PLAIN_MALLOC = "mimalloc" if sysconfig.get_config_var("Py_GIL_DISABLED") else "malloc"

# Programs of their own: a crash is then a failed test, and not the end of all tests.

PRELUDE = """
import gc, sys, threading
import arenafault, foreignchunk
from support import DEPTH_THROUGH_C as DEPTH, framecore, make_recursion, ROOT_CHUNK_BYTES, CACHED_CHUNK_BYTES, KEPT_CHUNKS_BYTES
sys.setrecursionlimit(100_000)
threading.stack_size(16 * 1024 * 1024)
arenafault.install()

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def check_interpreter():
    assert fib(15) == 610
    assert [x for x in (y * y for y in range(5))] == [0, 1, 4, 9, 16]
    try:
        {}["missing"]
    except KeyError:
        pass
"""

EACH_ALLOCATION = PRELUDE + """
# To the last ones it is a long way down, which the interpreter takes for each of them.
NUMBERS = [*range(1, 41), *range(50, 201, 10)]
BIG_FRAME = 3_000   # locals: a chunk of 1 MiB holds 43 such frames
DEEPEST = 20_000

def outcome_with_failure_at(n, smallest):
    def deep_enough():
        return arenafault.requested_now() > n

    def go_down(left):
        if left == 0 or deep_enough():
            return "bottom"
        return recurse(0, lambda: go_down(left - 1))

    recurse = big_recurse
    # Two in a row: where a thread keeps chunks, they are freed when one allocation fails, which is tried once more.
    arenafault.fail_at(n, count=2, smallest=smallest)
    try:
        go_down(DEEPEST)
        result = "success"
    except MemoryError:
        result = "MemoryError"
    failures = arenafault.counts()["failures"]
    arenafault.fail_at(0)
    assert failures in (1, 2), (n, failures)
    return result

big_recurse = make_recursion(BIG_FRAME)
outcomes = {}
for n in NUMBERS:
    before = foreignchunk.chunks()
    outcome = outcome_with_failure_at(n, int(sys.argv[1]))
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert foreignchunk.chunks() == before, n
    assert foreignchunk.limit_is_end(), n
    if framecore is not None:
        in_use = sum(size for _, size, _ in before)
        held = framecore.datastack_stats()["bytes_held"]
        assert in_use <= held <= in_use + CACHED_CHUNK_BYTES + KEPT_CHUNKS_BYTES, (n, held, in_use)
    check_interpreter()
print(outcomes)
assert sum(outcomes.values()) == len(NUMBERS)
# Small objects fall back to malloc when no arena is to be had: these end in success. Chunks have nothing else.
assert outcomes.get("MemoryError", 0) >= len(NUMBERS) // 2, outcomes
"""

FAILURES_THAT_LAST = PRELUDE + """
# All allocations fail for a while, and the calls that met it are made again at the same depth.
tried = []

def leaf(recurse, depth):
    return recurse(depth, lambda: "leaf")

def at_every_depth(left):
    for count in (30, 3_000):
        gc.collect()    # gives back the chunks that the last recursion has left
        arenafault.fail_at(1, count=1 << 40, smallest=16 * 1024)
        before = foreignchunk.chunks()
        try:
            leaf(recursions[count], 60)
            failed = False
        except MemoryError:
            failed = True
        finally:
            arenafault.fail_at(0)
        tried.append(failed)
        assert foreignchunk.chunks() == before
        assert leaf(recursions[count], 60) == "leaf"
    return at_every_depth(left - 1) if left else None

recursions = {count: make_recursion(count) for count in (30, 3_000)}
at_every_depth(400)
print(sum(tried), "of", len(tried))
assert 10 < sum(tried), tried
check_interpreter()
"""

GENERATORS_AND_INITIALIZERS = PRELUDE + """
class Thing:
    def __init__(self, left, grow):
        self.inner = type(self)(left - 1, grow) if left else None
        grow()

    @property
    def depth(self):
        return 1 + self.inner.depth if self.inner is not None else 0

    def __getitem__(self, index):
        return self.inner[index] + 1 if self.inner is not None else index

def generator(left):
    yield left
    if left:
        for x in generator(left - 1):
            yield x

def with_all(*args, left, **kwargs):
    return with_all(*args, left=left - 1, **kwargs) if left else len(args) + len(kwargs)

async def coroutine(left):
    return (await coroutine(left - 1)) + 1 if left else 0

def finish(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value

KINDS = {
    "initializer": (lambda: Thing(DEPTH, int).depth, DEPTH),
    "property": (lambda: thing.depth, DEPTH),
    "subscript": (lambda: thing[0], DEPTH),
    "generator": (lambda: sum(1 for _ in generator(100)), 101),
    "star arguments": (lambda: with_all(*range(300), left=DEPTH, a=1, b=2), 302),
    "coroutine": (lambda: finish(coroutine(DEPTH)), DEPTH),
}
thing = Thing(DEPTH, int)

def scenario():
    # In a thread that begins with its root chunk alone, so that the first allocation is an early one.
    for name, (kind, expected) in KINDS.items():
        for n in range(1, 8):
            result = []
            def body():
                arenafault.fail_at(n, smallest=16 * 1024)
                before = foreignchunk.chunks()
                try:
                    value = kind()
                except MemoryError:
                    value = "MemoryError"
                arenafault.fail_at(0)
                result.append((value, foreignchunk.chunks() == before, kind()))
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
            (value, as_before, again), = result
            assert value in ("MemoryError", expected), (name, n, value)
            assert as_before, (name, n)
            assert again == expected, (name, n, again)
            seen[value == "MemoryError"] += 1

seen = [0, 0]
scenario()
print(seen)
assert min(seen) > 0, seen
check_interpreter()
"""

FIRST_CHUNK_OF_A_THREAD = PRELUDE + """
# A thread whose very first chunk fails cannot run; it must end, and leave the interpreter in order.
details = []
# Written in C: a hook in Python would have no chunk to run on either.
sys.unraisablehook = details.append
ran = []

def body():
    ran.append(fib(5))

import _thread
for n in range(1, 6):
    arenafault.fail_at(n, count=1 << 40, smallest=16 * 1024)
    _thread.start_joinable_thread(body).join()
    arenafault.fail_at(0)
    check_interpreter()
unraisable = [one.exc_type for one in details]
print(ran, unraisable)
assert unraisable.count(MemoryError) >= 1, unraisable
assert len(ran) + len(unraisable) == 5
"""

MEMORY_COMES_BACK = PRELUDE + """
# Failure after failure: nothing may pile up. Arenas of small objects count here too, hence some room.
big = make_recursion(3_000)

def dispatch_with_failure(n):
    arenafault.fail_at(n, count=2, smallest=16 * 1024)
    try:
        big(1_000, int)
    except MemoryError:
        failed.append(n)
    arenafault.fail_at(0)

failed = []
for n in range(1, 6):
    dispatch_with_failure(n)
gc.collect()
before = arenafault.bytes_now()
for repeat in range(100):
    dispatch_with_failure(repeat % 5 + 1)
gc.collect()
grown = arenafault.bytes_now() - before
print(len(failed), grown)
assert len(failed) > 50
assert grown <= CACHED_CHUNK_BYTES + 2 * 1024 * 1024, grown
check_interpreter()
"""


class ArenaFaults(ProgramTestCase):
    def test_allocations_that_fail_one_at_a_time(self):
        self.assert_program_succeeds(EACH_ALLOCATION, 0)

    def test_chunks_that_fail_one_at_a_time(self):
        # Arenas of small objects are 1 MiB: in a build without them, all that is left is chunks.
        self.assert_program_succeeds(EACH_ALLOCATION, 16 * 1024, environment={"PYTHONMALLOC": PLAIN_MALLOC})

    def test_a_call_that_met_no_memory_works_when_there_is_memory_again(self):
        self.assert_program_succeeds(FAILURES_THAT_LAST)

    def test_calls_of_every_kind_raise_or_succeed(self):
        self.assert_program_succeeds(GENERATORS_AND_INITIALIZERS)

    def test_a_thread_without_memory_for_its_first_chunk_ends_in_order(self):
        self.assert_program_succeeds(FIRST_CHUNK_OF_A_THREAD)

    def test_failures_leave_no_memory_behind(self):
        self.assert_program_succeeds(MEMORY_COMES_BACK)
