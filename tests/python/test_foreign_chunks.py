"""Others handle the data stack too: chunks pushed by an extension, and stacks that are swapped out and in."""

import unittest

from support import (
    CACHED_CHUNK_BYTES,
    KEPT_CHUNKS_BYTES,
    ROOT_CHUNK_BYTES,
    ProgramTestCase,
    framecore,
    in_new_thread,
    make_recursion,
    needs_framecore,
    recursion_limit,
    use_extensions,
)

use_extensions()
import arenafault
import foreignchunk

FOREIGN_CHUNK_BYTES = 16 * 1024
# Words in use below the call: nearly none, about half, and all but a few of a foreign chunk's 2,045.
FILLINGS = (1, 1_000, 1_900, 2_020, 2_044, 2_045)
INTERPRETER_POPS, OWNER_POPS = True, False


class ForeignChunks(unittest.TestCase):
    def setUp(self):
        arenafault.install()
        self.addCleanup(arenafault.remove)

    def on_foreign_chunk(self, who_pops, filling, function):
        """Run `function` on a foreign chunk in a new thread; how often, and with which size, it was freed."""
        def scenario():
            def watched(address):
                arenafault.watch(address)
                return function()
            return foreignchunk.call_on_chunk(watched, who_pops, filling)[0]

        result = in_new_thread(scenario)
        # The thread has ended, and with it whatever it may have kept.
        return result, arenafault.watch_result()

    def test_a_foreign_chunk_is_popped_and_freed_exactly_once(self):
        recurse = make_recursion(10)
        with recursion_limit(3_000):
            for who_pops in (INTERPRETER_POPS, OWNER_POPS):
                for filling in FILLINGS:
                    for depth in (0, 1, 20, 3_000):
                        with self.subTest(pops=who_pops, filling=filling, depth=depth):
                            result, freed = self.on_foreign_chunk(who_pops, filling,
                                                                  lambda: recurse(depth, lambda: "bottom"))
                            self.assertEqual(result, "bottom")
                            self.assertEqual(freed, (1, FOREIGN_CHUNK_BYTES))

    def test_frames_run_in_a_foreign_chunk_and_above_it(self):
        def look():
            return [size for _, size, _ in foreignchunk.chunks()]

        recurse = make_recursion(10)
        with recursion_limit(2_000):
            shallow, _ = self.on_foreign_chunk(INTERPRETER_POPS, 1, look)
            deep, _ = self.on_foreign_chunk(INTERPRETER_POPS, 1, lambda: recurse(2_000, look))
        self.assertEqual(shallow, [FOREIGN_CHUNK_BYTES, ROOT_CHUNK_BYTES])
        self.assertGreater(len(deep), 2)
        self.assertEqual(deep[-2:], [FOREIGN_CHUNK_BYTES, ROOT_CHUNK_BYTES])

    def test_an_exception_leaves_a_foreign_chunk_in_order(self):
        def fail():
            raise KeyError("above")

        recurse = make_recursion(10)
        for who_pops in (INTERPRETER_POPS, OWNER_POPS):
            for depth in (0, 1_000):
                with recursion_limit(1_000), self.assertRaises(KeyError):
                    self.on_foreign_chunk(who_pops, 1_900, lambda: recurse(depth, fail))
                self.assertEqual(arenafault.watch_result(), (1, FOREIGN_CHUNK_BYTES))

    def test_foreign_chunks_alternate_with_those_of_the_interpreter(self):
        def nest(left):
            if left == 0:
                return len(foreignchunk.chunks())
            who_pops = INTERPRETER_POPS if left % 2 else OWNER_POPS
            filling = FILLINGS[left % len(FILLINGS)]
            return recurse(left % 300, lambda: foreignchunk.call_on_chunk(lambda address: nest(left - 1), who_pops,
                                                                         filling)[0])

        recurse = make_recursion(10)
        before = arenafault.bytes_now()
        with recursion_limit(100_000):
            self.assertGreater(in_new_thread(nest, 100), 100)
        self.assertLessEqual(arenafault.bytes_now() - before, 1024 * 1024)

    def test_a_foreign_push_at_every_depth_finds_and_leaves_a_right_stack(self):
        # Also where the interpreter has just pushed a chunk, or has one cached: call_on_chunk checks all three
        # fields after the call and after the pop.
        def at_every_depth(left):
            for who_pops in (INTERPRETER_POPS, OWNER_POPS):
                result, _ = foreignchunk.call_on_chunk(lambda address: recurse(3, int), who_pops, 2_030)
                results.append(result)
            return at_every_depth(left - 1) if left else None

        results = []
        recurse = make_recursion(10)
        with recursion_limit(2_000):
            in_new_thread(at_every_depth, 1_500)
        self.assertEqual(results, [0] * 3_002)

    @needs_framecore
    def test_a_foreign_chunk_counts_among_the_bytes_held_while_it_is_there(self):
        def scenario():
            def look(address):
                return framecore.datastack_stats()["bytes_held"]
            before = framecore.datastack_stats()["bytes_held"]
            during, _ = foreignchunk.call_on_chunk(look, OWNER_POPS, 1)
            return before, during, framecore.datastack_stats()["bytes_held"]

        before, during, after = in_new_thread(scenario)
        self.assertEqual(during, before + FOREIGN_CHUNK_BYTES)
        self.assertEqual(after, before)


class SwappedStacks(unittest.TestCase):
    def setUp(self):
        arenafault.install()
        self.addCleanup(arenafault.remove)

    def test_calls_work_on_an_empty_stack_and_on_the_old_one_after_it(self):
        recurse = make_recursion(10)
        before = foreignchunk.chunks()
        result, chunks, size = foreignchunk.call_on_empty_stack(lambda: recurse(0, lambda: "bottom"))
        self.assertEqual(result, "bottom")
        self.assertEqual(chunks, 1)
        self.assertEqual(size, ROOT_CHUNK_BYTES)
        self.assertEqual(foreignchunk.chunks(), before)
        self.assertEqual(recurse(100, lambda: "bottom"), "bottom")

    def test_deep_recursion_on_an_empty_stack_leaves_one_chunk_for_its_owner_to_free(self):
        def scenario():
            recurse = make_recursion(10)
            outcomes = set()
            for depth in (5_000, 10, 5_000):
                result, chunks, size = foreignchunk.call_on_empty_stack(lambda: recurse(depth, lambda: "bottom"))
                outcomes.add((result, chunks, size))
            return outcomes

        with recursion_limit(5_000):
            outcomes = in_new_thread(scenario)
        for result, chunks, size in outcomes:
            self.assertEqual((result, chunks), ("bottom", 1))
            # The cached chunk of the deep recursion before is no root for a new stack.
            self.assertEqual(size, ROOT_CHUNK_BYTES)

    def test_stacks_nest_at_every_depth(self):
        def nest(left):
            if left == 0:
                return 0
            inner, chunks, _ = foreignchunk.call_on_empty_stack(lambda: recurse(left % 97, lambda: nest(left - 1)))
            return inner + chunks

        recurse = make_recursion(30)
        with recursion_limit(100_000):
            self.assertEqual(in_new_thread(nest, 100), 100)

    def test_a_swap_at_every_depth_of_the_outer_stack_keeps_it_whole(self):
        def at_every_depth(left):
            before = foreignchunk.chunks()
            result, _, _ = foreignchunk.call_on_empty_stack(lambda: recurse(200, lambda: "bottom"))
            if result != "bottom" or foreignchunk.chunks() != before:
                raise AssertionError(left)
            return at_every_depth(left - 1) if left else None

        recurse = make_recursion(10)
        with recursion_limit(3_000):
            self.assertIsNone(in_new_thread(at_every_depth, 1_500))

    def test_stacks_that_come_and_go_lose_no_memory(self):
        def many(count):
            recurse = make_recursion(300)
            for _ in range(count):
                foreignchunk.call_on_empty_stack(lambda: recurse(200, int))

        with recursion_limit(1_000):
            in_new_thread(many, 10)
            before = arenafault.bytes_now()
            in_new_thread(many, 1_000)
        # A root chunk lost each time would be 16 MiB.
        self.assertLessEqual(arenafault.bytes_now() - before, 2 * 1024 * 1024)

    @needs_framecore
    def test_the_bound_on_what_a_thread_keeps_holds_with_swapped_stacks(self):
        def scenario():
            recurse = make_recursion(300)
            for _ in range(20):
                foreignchunk.call_on_empty_stack(lambda: recurse(2_000, int))
            return framecore.datastack_stats()

        with recursion_limit(3_000):
            stats = in_new_thread(scenario)
        self.assertLessEqual(stats["bytes_held"], ROOT_CHUNK_BYTES + CACHED_CHUNK_BYTES + KEPT_CHUNKS_BYTES)


class LeftForTheEndOfTheThread(ProgramTestCase):
    def test_foreign_chunks_that_were_not_popped_are_freed_at_the_end_of_the_thread(self):
        self.assert_program_succeeds("""
import _thread
import arenafault, foreignchunk
arenafault.install()

def in_thread():
    # The thread's function is C: no Python frame comes after, or goes before, what it leaves.
    _thread.start_joinable_thread(lambda: None).join()
    _thread.start_joinable_thread(foreignchunk.leave_chunks).join()

in_thread()
before = arenafault.counts()
for _ in range(200):
    in_thread()
after = arenafault.counts()
assert after["allocations"] - before["allocations"] >= 200 * foreignchunk.CHUNKS_LEFT
grown = after["blocks_outstanding"] - before["blocks_outstanding"]
assert grown < 5, grown
""")
