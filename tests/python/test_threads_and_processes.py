"""Deep recursion where threads, processes and interpreters begin and end."""

import os
import sys
import threading
import unittest

from support import (
    CACHED_CHUNK_BYTES,
    KEPT_CHUNKS_BYTES,
    ROOT_CHUNK_BYTES,
    THREAD_STACK_BYTES,
    ProgramTestCase,
    make_recursion,
    needs_framecore,
    recursion_limit,
    use_extensions,
)

use_extensions()
import arenafault

THREADS = 500
# Less than a root chunk for each thread, and far less than a cached chunk: a leak of either is seen.
TOLERATED_GROWTH = THREADS * ROOT_CHUNK_BYTES // 3


class Threads(unittest.TestCase):
    def setUp(self):
        arenafault.install()
        self.addCleanup(arenafault.remove)
        previous = threading.stack_size(THREAD_STACK_BYTES)
        self.addCleanup(threading.stack_size, previous)

    def run_threads(self, count, body, at_once=1):
        for _ in range(0, count, at_once):
            threads = [threading.Thread(target=body) for _ in range(at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def assert_no_growth(self, body, at_once=1):
        """Hundreds of threads that run `body` leave as much memory as a few of them."""
        self.run_threads(4 * at_once, body, at_once)
        before = arenafault.counts()
        self.run_threads(THREADS, body, at_once)
        after = arenafault.counts()
        self.assertGreaterEqual(after["allocations"] - before["allocations"], THREADS)
        self.assertLess(after["bytes_outstanding"] - before["bytes_outstanding"], TOLERATED_GROWTH)

    def test_threads_that_recursed_deeply_leave_no_memory(self):
        recurse = make_recursion(300)
        with recursion_limit(1_000):
            self.assert_no_growth(lambda: recurse(1_000, int))

    def test_threads_that_exit_at_the_bottom_of_a_recursion_leave_no_memory(self):
        recurse = make_recursion(300)
        with recursion_limit(1_000):
            self.assert_no_growth(lambda: recurse(500, sys.exit))

    def test_threads_that_only_run_shallow_code_leave_no_memory(self):
        self.assert_no_growth(lambda: None)

    def test_threads_that_recurse_at_the_same_time_leave_no_memory(self):
        recurse = make_recursion(30)
        barrier = threading.Barrier(10)

        def body():
            barrier.wait()
            recurse(2_000, barrier.wait)

        with recursion_limit(2_000):
            self.assert_no_growth(body, at_once=10)

    def test_threads_started_from_the_bottom_of_a_recursion_leave_no_memory(self):
        recurse = make_recursion(300)
        with recursion_limit(2_000):
            recurse(1_000, lambda: self.assert_no_growth(lambda: recurse(300, int)))

    def test_a_running_thread_holds_no_more_than_its_bound_after_a_recursion(self):
        recurse = make_recursion(300)
        threads_at_once = 20
        deep_done, may_end = threading.Barrier(threads_at_once + 1), threading.Event()

        def body():
            recurse(3_000, int)
            deep_done.wait()
            may_end.wait()

        before = arenafault.bytes_now()
        with recursion_limit(3_000):
            threads = [threading.Thread(target=body) for _ in range(threads_at_once)]
            for thread in threads:
                thread.start()
            deep_done.wait()
            during = arenafault.bytes_now()
            may_end.set()
            for thread in threads:
                thread.join()
        self.assertGreaterEqual(during - before, threads_at_once * ROOT_CHUNK_BYTES)
        # One more MiB for an arena of small objects.
        self.assertLessEqual(during - before, threads_at_once * (ROOT_CHUNK_BYTES + CACHED_CHUNK_BYTES)
                             + KEPT_CHUNKS_BYTES + 1024 * 1024)

    def test_threads_that_take_turns_at_different_depths_keep_their_frames(self):
        results = []

        def body(seed):
            recurse = make_recursion(seed % 7 + 1)
            for depth in range(seed, 3_000, 211):
                results.append(recurse(depth, lambda: depth) == depth)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            with recursion_limit(3_000):
                threads = [threading.Thread(target=body, args=(seed,)) for seed in range(12)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(len(results), sum(len(range(seed, 3_000, 211)) for seed in range(12)))
        self.assertTrue(all(results))


class ResidentMemory(ProgramTestCase):
    def test_the_resident_set_does_not_grow_with_the_number_of_threads(self):
        said = self.assert_program_succeeds("""
import sys, threading, _thread
from support import make_recursion
sys.setrecursionlimit(10_000)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def without_frames():
    ended.acquire()
    _thread.start_new_thread(ended.release, ())
    ended.acquire()
    ended.release()

def recursing():
    thread = threading.Thread(target=recurse, args=(2_000, int))
    thread.start()
    thread.join()

def growth(run, count):
    before = resident()
    for _ in range(count):
        run()
    return resident() - before

ended = _thread.allocate_lock()
growth(without_frames, 20)
if growth(without_frames, 100) > 1024 * 1024:
    print("the resident set grows with threads that run C alone too")     # in an emulator, for one
    sys.exit()
recurse = make_recursion(300)
growth(recursing, 20)
grown = growth(recursing, 300)
# 300 root chunks are 4.7 MiB, 300 cached ones up to 300 MiB.
assert grown < 4 * 1024 * 1024, grown
""")
        if said:
            self.skipTest(said.strip())


@unittest.skipUnless(hasattr(os, "fork"), "needs fork")
class Fork(ProgramTestCase):
    def test_a_child_forked_in_deep_recursion_continues_and_returns(self):
        self.assert_program_succeeds("""
import os, sys
from support import framecore, make_recursion
sys.setrecursionlimit(50_000)
recurse = make_recursion(10)

def fork_here():
    child = os.fork()
    if child == 0:
        # Deeper still, on chunks that the parent has made and on new ones.
        assert recurse(5_000, lambda: "child") == "child"
    return child

child = recurse(5_000, fork_here)
if child == 0:
    # All the way up again in the child.
    assert recurse(10_000, lambda: "again") == "again"
    os._exit(17)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 17, status
assert recurse(10_000, lambda: "parent") == "parent"
""")

    def test_a_child_forked_while_other_threads_are_deep_ends_in_order(self):
        self.assert_program_succeeds("""
import os, sys, threading, warnings
from support import make_recursion
warnings.simplefilter("ignore", DeprecationWarning)
sys.setrecursionlimit(50_000)
recurse = make_recursion(10)
ready, end = threading.Barrier(6), threading.Event()

def at_bottom():
    ready.wait()
    end.wait()

threads = [threading.Thread(target=recurse, args=(3_000, at_bottom)) for _ in range(5)]
for thread in threads:
    thread.start()
ready.wait()
child = os.fork()
if child == 0:
    # The other threads are gone here; their stacks are freed after the fork.
    assert recurse(5_000, lambda: "child") == "child"
    sys.exit(17)
_, status = os.waitpid(child, 0)
end.set()
for thread in threads:
    thread.join()
assert os.waitstatus_to_exitcode(status) == 17, status
""")


class Subinterpreters(ProgramTestCase):
    PROGRAM = """
import sys, threading
import _interpreters
import arenafault
from support import DEPTH_THROUGH_C, ON_STOCK

CODE = '''
import sys
sys.setrecursionlimit(20_000)

def recurse(n):
    return 1 + recurse(n - 1) if n else 0

class Thing:
    def __init__(self, left):
        self.inner = Thing(left - 1) if left else None

for _ in range(3):
    assert recurse(10_000) == 10_000
Thing(depth_through_c)
if with_framecore:
    import _framecore
    stats = _framecore.datastack_stats()
    assert stats["chunks_pushed"] > 1 and stats["bytes_high_water"] > 10_000 * 10 * 8, stats
'''

# CPython 3.13 cannot create interpreters in two threads at once (python/cpython#109700).
lock = threading.Lock()

def in_interpreter(config, code=CODE):
    with lock:
        interpreter = _interpreters.create(config)
    try:
        failure = _interpreters.exec(interpreter, code, {"with_framecore": not ON_STOCK, "depth_through_c": DEPTH_THROUGH_C})
        assert failure is None, failure.formatted
    finally:
        with lock:
            _interpreters.destroy(interpreter)
"""

    def test_deep_recursion_works_in_subinterpreters_of_both_kinds(self):
        self.assert_program_succeeds(self.PROGRAM + """
for config in ("isolated", "legacy"):
    for _ in range(5):
        in_interpreter(config)
""")

    def test_a_subinterpreter_runs_in_deep_recursion_of_another(self):
        self.assert_program_succeeds(self.PROGRAM + """
from support import make_recursion
sys.setrecursionlimit(20_000)
recurse = make_recursion(10)
for config in ("isolated", "legacy"):
    assert recurse(5_000, lambda: in_interpreter(config)) is None
    assert recurse(7_000, lambda: "after") == "after"
""")

    def test_subinterpreters_in_threads_run_side_by_side(self):
        self.assert_program_succeeds(self.PROGRAM + """
failures = []
threading.excepthook = lambda details: failures.append(details.exc_value)
threads = [threading.Thread(target=in_interpreter, args=("isolated",)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
""")

    @needs_framecore
    def test_what_threads_and_interpreters_kept_can_be_kept_by_others_after_their_end(self):
        self.assert_program_succeeds(self.PROGRAM + """
from support import framecore, make_recursion, KEPT_CHUNKS_BYTES
DEEP = '''
import gc, sys
sys.setrecursionlimit(50_000)
def down(n):
    if n:
        down(n - 1)
for turn in range(12):
    down((100, 3_000, 30_000)[turn % 3])
    if turn % 7 == 0:
        gc.collect()
'''

def interpreters():
    for _ in range(3):
        in_interpreter("isolated", DEEP)

threads = [threading.Thread(target=interpreters) for _ in range(4)]
threads += [threading.Thread(target=exec, args=(DEEP, {})) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.setrecursionlimit(200_000)
make_recursion(5)(150_000, int)
kept = framecore.datastack_stats()["bytes_held"]
assert kept > KEPT_CHUNKS_BYTES * 3 // 4, kept
""")


class Finalization(ProgramTestCase):
    def test_the_interpreter_ends_while_daemon_threads_are_deep(self):
        for at_bottom in ("time.sleep(100)", "spin()"):
            with self.subTest(at_bottom):
                printed = self.assert_program_succeeds(f"""
import sys, threading, time
from support import make_recursion
sys.setrecursionlimit(50_000)
recurse = make_recursion(10)
ready = threading.Barrier(9)

def spin():
    while True:
        recurse(50, int)

def at_bottom():
    ready.wait()
    {at_bottom}

for _ in range(8):
    threading.Thread(target=recurse, args=(3_000, at_bottom), daemon=True).start()
ready.wait()
recurse(10_000, int)
print("end")
""")
                self.assertEqual(printed, "end\n")

    def test_sys_exit_at_the_bottom_of_a_recursion_ends_the_program(self):
        self.assert_program_succeeds("""
import sys, atexit
from support import make_recursion
sys.setrecursionlimit(50_000)
recurse = make_recursion(10)
atexit.register(recurse, 5_000, int)
recurse(20_000, lambda: sys.exit(0))
""")

    def test_destructors_recurse_deeply_while_the_interpreter_ends(self):
        printed = self.assert_program_succeeds("""
import sys
from support import make_recursion
sys.setrecursionlimit(50_000)

class Dying:
    recurse = make_recursion(10)
    def __del__(self):
        print(type(self).recurse(5_000, lambda: "at the end"))

kept = Dying()
kept.cycle = kept
""")
        self.assertEqual(printed, "at the end\n")
