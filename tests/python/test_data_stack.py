"""The data stack's counters, and deep recursion with frames of every size."""

import gc
import sys
import sysconfig
import threading
import traceback
import types
import unittest

from support import (
    CACHED_CHUNK_BYTES,
    KEPT_CHUNKS_BYTES,
    ROOT_CHUNK_BYTES,
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

COUNTERS = {"chunks_pushed", "chunks_popped", "chunks_cached", "bytes_held", "bytes_high_water", "cache_hits"}
NEVER_FALLING = ("chunks_pushed", "chunks_popped", "bytes_high_water", "cache_hits")

# Locals and depths: from frames that a chunk holds a hundred of to frames that need a chunk each.
FRAME_SIZES = ((1, 30_000), (300, 3_000), (3_000, 400), (100_000, 20))


@needs_framecore
class Counters(unittest.TestCase):
    def test_stats_have_exactly_the_documented_keys_and_are_integers(self):
        stats = framecore.datastack_stats()
        self.assertEqual(set(stats), COUNTERS)
        for key, value in stats.items():
            self.assertIs(type(value), int, key)
            self.assertGreaterEqual(value, 0, key)

    def test_a_new_thread_holds_its_root_chunk_alone(self):
        stats = in_new_thread(framecore.datastack_stats)
        self.assertEqual(stats["bytes_held"], ROOT_CHUNK_BYTES)
        self.assertEqual(stats["bytes_high_water"], ROOT_CHUNK_BYTES)
        self.assertEqual(stats["chunks_cached"], 0)
        self.assertEqual(stats["cache_hits"], 0)
        self.assertEqual(stats["chunks_popped"], 0)

    def test_deep_recursion_pushes_chunks_and_pops_them_again(self):
        def scenario():
            before = framecore.datastack_stats()
            bottom = make_recursion(30)(5_000, framecore.datastack_stats)
            return before, bottom, framecore.datastack_stats()

        with recursion_limit(5_000):
            before, bottom, after = in_new_thread(scenario)
        pushed = bottom["chunks_pushed"] - before["chunks_pushed"]
        self.assertGreaterEqual(pushed, 3)
        self.assertEqual(after["chunks_popped"] - before["chunks_popped"],
                         after["chunks_pushed"] - before["chunks_pushed"])
        # 5,000 frames with over 30 words each.
        self.assertGreater(bottom["bytes_held"], 5_000 * 30 * 8)
        self.assertGreaterEqual(after["bytes_high_water"], bottom["bytes_held"])

    def test_what_a_thread_keeps_after_deep_recursion_is_bounded(self):
        def scenario(local_count, depth):
            make_recursion(local_count)(depth, int)
            return framecore.datastack_stats(), foreignchunk.chunks()

        for local_count, depth in FRAME_SIZES:
            with self.subTest(locals=local_count), recursion_limit(depth):
                after, chunks = in_new_thread(scenario, local_count, depth)
                self.assertEqual(len(chunks), 1)
                self.assertLessEqual(after["bytes_held"],
                                     ROOT_CHUNK_BYTES + CACHED_CHUNK_BYTES + KEPT_CHUNKS_BYTES)
                self.assertGreater(after["bytes_high_water"], depth * local_count * 8)

    def test_a_full_collection_leaves_a_thread_its_root_and_one_cached_chunk_at_most(self):
        def scenario(local_count, depth):
            make_recursion(local_count)(depth, int)
            gc.collect()
            return framecore.datastack_stats(), foreignchunk.chunks()

        for local_count, depth in FRAME_SIZES:
            with self.subTest(locals=local_count), recursion_limit(depth):
                after, chunks = in_new_thread(scenario, local_count, depth)
                self.assertEqual(len(chunks), 1)
                self.assertIn(after["chunks_cached"], (0, 1))
                self.assertLessEqual(after["bytes_held"], ROOT_CHUNK_BYTES + CACHED_CHUNK_BYTES)

    def test_a_full_collection_in_the_middle_of_a_recursion_takes_no_chunk_in_use(self):
        recurse = make_recursion(30)

        def bottom():
            recurse(5_000, int)
            in_use = foreignchunk.chunks()
            gc.collect()
            self.assertEqual(foreignchunk.chunks(), in_use)
            self.assertLessEqual(framecore.datastack_stats()["chunks_cached"], 1)
            return recurse(5_000, lambda: "bottom")

        with recursion_limit(20_000):
            self.assertEqual(in_new_thread(recurse, 5_000, bottom), "bottom")

    @unittest.skipIf(sysconfig.get_config_var("Py_GIL_DISABLED"), "without the GIL any collection is a full one")
    def test_a_young_collection_takes_nothing(self):
        def scenario():
            make_recursion(30)(5_000, int)
            before = framecore.datastack_stats()["chunks_cached"]
            gc.collect(0)
            gc.collect(1)
            return before, framecore.datastack_stats()["chunks_cached"]

        with recursion_limit(5_000):
            before, after = in_new_thread(scenario)
        self.assertGreater(before, 1)
        self.assertEqual(after, before)

    def test_a_full_collection_takes_from_threads_that_wait_too(self):
        deep_done, collected = threading.Event(), threading.Event()
        seen = []

        def scenario():
            make_recursion(30)(5_000, int)
            seen.append(framecore.datastack_stats()["chunks_cached"])
            deep_done.set()
            collected.wait()
            seen.append(framecore.datastack_stats()["chunks_cached"])
            self.assertEqual(make_recursion(30)(5_000, lambda: "again"), "again")

        with recursion_limit(5_000):
            thread = threading.Thread(target=scenario)
            thread.start()
            deep_done.wait()
            gc.collect()
            collected.set()
            thread.join()
        self.assertGreater(seen[0], 1)
        self.assertEqual(seen[1], 1)

    def test_a_second_recursion_as_deep_as_the_first_allocates_nothing(self):
        recurse = make_recursion(5)

        def scenario():
            recurse(20_000, int)
            before = arenafault.counts()["allocations"]
            for _ in range(5):
                recurse(20_000, int)
            return arenafault.counts()["allocations"] - before

        arenafault.install()
        try:
            with recursion_limit(20_000):
                allocations = in_new_thread(scenario)
        finally:
            arenafault.remove()
        self.assertEqual(allocations, 0)

    def test_counters_never_fall(self):
        def scenario():
            recurse = make_recursion(20)
            seen = [framecore.datastack_stats()]
            for depth in (10, 1_000, 100, 2_000, 50, 3_000):
                recurse(depth, lambda: seen.append(framecore.datastack_stats()))
                seen.append(framecore.datastack_stats())
            return seen

        with recursion_limit(3_000):
            seen = in_new_thread(scenario)
        for earlier, later in zip(seen, seen[1:]):
            for key in NEVER_FALLING:
                self.assertLessEqual(earlier[key], later[key], key)
        for stats in seen:
            self.assertLessEqual(stats["bytes_held"], stats["bytes_high_water"])
            self.assertLessEqual(stats["chunks_popped"], stats["chunks_pushed"])
        self.assertGreater(seen[-1]["cache_hits"], 0)

    def test_the_bytes_held_are_those_of_the_chunks_in_use_and_of_those_kept(self):
        def look():
            stats = framecore.datastack_stats()
            in_use = sum(size for _, size, _ in foreignchunk.chunks())
            seen.append((stats["bytes_held"] - in_use, stats["chunks_cached"]))

        def scenario():
            recurse = make_recursion(40)
            for depth in (1, 100, 1_000, 4_000, 500):
                recurse(depth, look)
                look()

        seen = []
        with recursion_limit(4_000):
            in_new_thread(scenario)
        self.assertEqual(seen[0], (0, 0))
        self.assertTrue(any(cached > 1 for _, cached in seen), seen)
        for kept, cached in seen:
            self.assertEqual(kept == 0, cached == 0)
            self.assertLessEqual(kept, CACHED_CHUNK_BYTES + KEPT_CHUNKS_BYTES)

    def test_a_thread_counts_for_itself(self):
        recurse = make_recursion(100)
        mine = framecore.datastack_stats()
        with recursion_limit(3_000):
            in_new_thread(recurse, 3_000, int)
        after = framecore.datastack_stats()
        self.assertEqual(after["bytes_high_water"], mine["bytes_high_water"])
        self.assertEqual(after["chunks_pushed"], mine["chunks_pushed"])

    def test_going_up_and_down_over_an_edge_allocates_nothing_new(self):
        # The point of keeping a chunk: at an unlucky depth stock CPython maps and unmaps memory on each call.
        def leaf():
            return None

        def at_every_depth(left):
            before = framecore.datastack_stats()["chunks_pushed"]
            leaf()
            if framecore.datastack_stats()["chunks_pushed"] > before:
                allocations = arenafault.counts()["allocations"]
                for _ in range(1_000):
                    leaf()
                edges.append(arenafault.counts()["allocations"] - allocations)
            return at_every_depth(left - 1) if left else None

        edges = []
        arenafault.install()
        try:
            with recursion_limit(2_000):
                in_new_thread(at_every_depth, 2_000)
        finally:
            arenafault.remove()
        self.assertGreater(len(edges), 0)
        self.assertLessEqual(max(edges), 1)


class ChunksSeenFromOutside(unittest.TestCase):
    def test_the_limit_is_the_end_of_the_current_chunk_at_every_depth(self):
        def scenario():
            def look():
                if not foreignchunk.limit_is_end():
                    raise AssertionError("limit is not the end")
                seen.update(size for _, size, _ in foreignchunk.chunks())
            for depth in range(0, 2_000, 7):
                recurse(depth, look)

        seen = set()
        recurse = make_recursion(10)
        with recursion_limit(2_000):
            in_new_thread(scenario)
        self.assertIn(ROOT_CHUNK_BYTES, seen)

    def test_a_profiler_can_copy_every_chunk_by_its_size(self):
        recurse = make_recursion(50)
        with recursion_limit(4_000):
            copied = in_new_thread(recurse, 4_000, foreignchunk.copy_chunks)
        self.assertGreater(copied, 4_000 * 50 * 8)

    def test_the_words_in_use_lie_within_each_chunk(self):
        recurse = make_recursion(50)
        with recursion_limit(4_000):
            chunks = in_new_thread(recurse, 4_000, foreignchunk.chunks)
        self.assertGreater(len(chunks), 3)
        for _, size, used in chunks:
            self.assertGreater(used, 0)
            self.assertLess(used * 8, size)
        self.assertGreater(sum(used for _, _, used in chunks), 4_000 * 50)


class DeepRecursion(unittest.TestCase):
    def test_frames_of_every_size_keep_their_locals(self):
        for local_count, depth in FRAME_SIZES:
            recurse = make_recursion(local_count)
            self.assertGreaterEqual(recurse.__code__.co_nlocals, local_count)
            with self.subTest(locals=local_count), recursion_limit(depth):
                marker = object()
                self.assertIs(in_new_thread(recurse, depth, lambda: marker), marker)
                # And again, over what the first left behind.
                self.assertIs(recurse(depth // 2, lambda: marker), marker)

    def test_frames_of_all_sizes_follow_each_other(self):
        functions = [make_recursion(count) for count in (1, 2, 17, 250, 1_900, 2_100, 5_000, 40_000)]

        def nest(index):
            if index == 200:
                return "bottom"
            return functions[index * 5 % len(functions)](index % 4, lambda: nest(index + 1))

        with recursion_limit(3_000):
            self.assertEqual(in_new_thread(nest, 0), "bottom")
            self.assertEqual(nest(0), "bottom")

    def test_an_exception_passes_through_deep_frames_with_a_whole_traceback(self):
        def fail():
            raise KeyError("deep")

        recurse = make_recursion(5)
        depth = 10_000
        with recursion_limit(depth):
            for _ in range(2):
                try:
                    recurse(depth, fail)
                except KeyError as error:
                    walked = list(traceback.walk_tb(error.__traceback__))
                    # Frames outlive their call here: each has kept its own locals.
                    kept = [frame.f_locals["n"] for frame, _ in walked if frame.f_code is recurse.__code__]
                    self.assertEqual(kept, list(range(depth, -1, -1)))
                    del walked, error
                else:
                    self.fail("no exception")

    def test_too_deep_a_recursion_raises_and_the_stack_is_as_before(self):
        def endless():
            return endless() + 1

        before = foreignchunk.chunks()
        for _ in range(3):
            with self.assertRaises(RecursionError):
                endless()
        self.assertEqual(foreignchunk.chunks(), before)

    def test_generators_are_resumed_at_every_depth(self):
        def numbers():
            received = 0
            while True:
                received = yield received + 1

        def at_every_depth(left):
            got.append(shared.send(left))
            fresh = numbers()
            next(fresh)
            got.append(fresh.send(left))
            if left:
                at_every_depth(left - 1)
            got.append(shared.send(-left))

        got = []
        shared = numbers()
        next(shared)
        depth = 2_000
        with recursion_limit(depth):
            in_new_thread(at_every_depth, depth)
        down = [value for left in range(depth, -1, -1) for value in (left + 1, left + 1)]
        up = [1 - left for left in range(depth + 1)]
        self.assertEqual(got, down + up)

    def test_a_deep_chain_of_generators_yields_and_raises(self):
        def chain(n):
            if n:
                return (yield from chain(n - 1)) + 1
            got = yield "bottom"
            if got == "raise":
                raise LookupError
            return 0

        depth = 800
        with recursion_limit(2 * depth):
            generator = chain(depth)
            self.assertEqual(next(generator), "bottom")
            with self.assertRaises(StopIteration) as stopped:
                generator.send(None)
            self.assertEqual(stopped.exception.value, depth)
            generator = chain(depth)
            next(generator)
            with self.assertRaises(LookupError):
                generator.send("raise")
            generator = chain(depth)
            next(generator)
            generator.close()

    def test_a_deep_chain_of_coroutines_awaits_and_returns(self):
        @types.coroutine
        def pause():
            return (yield "paused")

        async def chain(n):
            return (await chain(n - 1)) + 1 if n else await pause()

        depth = 800
        with recursion_limit(2 * depth):
            coroutine = chain(depth)
            self.assertEqual(coroutine.send(None), "paused")
            with self.assertRaises(StopIteration) as stopped:
                coroutine.send(5)
            self.assertEqual(stopped.exception.value, depth + 5)

    def test_frame_objects_of_deep_frames_stay_valid_after_return(self):
        depth = 3_000
        frames = []

        def keep(n):
            value = n * 2
            frames.append(sys._getframe())
            if n:
                keep(n - 1)
            return value

        with recursion_limit(depth):
            in_new_thread(keep, depth)
        self.assertEqual([frame.f_locals["value"] for frame in frames], [n * 2 for n in range(depth, -1, -1)])

    def test_a_debugger_sees_every_frame_of_a_deep_stack(self):
        def count():
            frame, seen = sys._getframe(), 0
            while frame is not None:
                seen += frame.f_code is recurse.__code__
                frame = frame.f_back
            return seen

        recurse = make_recursion(3)
        with recursion_limit(5_000):
            self.assertEqual(in_new_thread(recurse, 5_000, count), 5_001)

    def test_tracing_sees_every_call_at_every_depth(self):
        calls = []

        def trace(frame, event, argument):
            if event == "call" and frame.f_code is recurse.__code__:
                calls.append(frame.f_locals["n"])

        def scenario():
            sys.settrace(trace)
            try:
                recurse(2_000, int)
            finally:
                sys.settrace(None)

        recurse = make_recursion(8)
        with recursion_limit(2_000):
            in_new_thread(scenario)
        self.assertEqual(calls, list(range(2_000, -1, -1)))
