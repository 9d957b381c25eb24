//! The data stack: steps by chance against the model, and single facts.

use super::cache::{LARGEST_CACHED_CHUNK, SHARED_CACHE_BYTES, SWITCHES_TO_WAIT};
use super::model::{run, set_left_to_claim, slots, Slot, Step, Thread};
use super::sizes::LARGEST_GROWN_CHUNK;
use crate::fake_cpython::memory::{
    _PyObject_VirtualAlloc, _PyObject_VirtualFree, allow, arena_bytes,
};
use proptest::prelude::*;

fn frame_sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 12usize..40,
        4 => 300usize..700,
        2 => 1500usize..2100,
        1 => 5_000usize..200_000,
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => frame_sizes().prop_map(Step::Push),
        30 => frame_sizes().prop_map(Step::PushIfSpace),
        10 => (frame_sizes(), 12usize..20).prop_map(|(a, b)| Step::PushTwoIfSpace(a, b)),
        10 => frame_sizes().prop_map(Step::PushWhereItFits),
        5 => (-20i8..40, any::<bool>())
            .prop_map(|(left, unchecked)| Step::PushToEdge { left, unchecked }),
        50 => (1usize..5).prop_map(Step::Pop),
        1 => (20usize..200).prop_map(Step::Pop),
        6 => frame_sizes().prop_map(Step::Exchange),
        2 => (0usize..100_000, frame_sizes())
            .prop_map(|(bytes, size)| Step::PushForeignChunk { bytes, size }),
        2 => (0usize..8).prop_map(Step::SwapWith),
        1 => Just(Step::FreeOneFromOutside),
        1 => Just(Step::ShrinkChunkCache),
        1 => (0usize..SHARED_CACHE_BYTES).prop_map(Step::LeaveToClaim),
        1 => (0usize..10).prop_map(Step::Swing),
        2 => (0usize..8).prop_map(Step::Turn),
        2 => proptest::option::of(0usize..3).prop_map(Step::Allow),
        1 => any::<u8>().prop_map(|it| if it < 20 { Step::ThreadEnds } else { Step::SwapOut }),
    ]
}

const STEPS_PER_CASE: usize = 4_000;

proptest! {
    // 300 cases of 4,000 steps: 1.2 million operations.
    #![proptest_config(ProptestConfig {
        cases: 300,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_use_keeps_every_frame_intact_and_returns_all_memory(
        steps in proptest::collection::vec(steps(), STEPS_PER_CASE)
    ) {
        run(steps);
    }
}

/// Pushes frames of `size` until a chunk is entered, and returns how many fit.
fn fill_chunk(thread: &mut Thread, size: usize) -> usize {
    let entered = thread.stats().chunks_pushed;
    let mut count = 0;
    while thread.stats().chunks_pushed == entered {
        assert!(thread.push(size));
        count += 1;
    }
    count
}

#[test]
fn a_thread_without_a_stack_has_no_space_and_can_push() {
    allow(None);
    let mut thread = Thread::new();
    assert!(!thread.stack().has_space(slots(1)));
    assert!(thread.push(20));
    assert_eq!(thread.stats().bytes_held, 16 * 1024);
    thread.finish();
}

#[test]
fn calls_at_an_edge_ask_for_no_memory_after_the_first() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    fill_chunk(&mut thread, 20);
    assert!(thread.pop());
    allow(Some(0));
    for _ in 0..100 {
        assert!(thread.push_if_space(&[20]), "the front chunk counts as space");
        assert!(thread.pop());
    }
    assert_eq!(thread.stats().cache_hits, 100);
    allow(None);
    thread.finish();
}

#[test]
fn chunks_double_up_to_a_bound() {
    allow(None);
    let mut thread = Thread::new();
    let mut sizes = Vec::new();
    assert!(thread.push(20));
    for _ in 0..9 {
        // SAFETY: a frame is on the stack, so there is a current chunk.
        sizes.push(unsafe { (*thread.state.base.datastack_chunk).size });
        fill_chunk(&mut thread, 20);
    }
    let doubled: Vec<usize> = (14..23).map(|i| (1 << i).min(LARGEST_GROWN_CHUNK)).collect();
    assert_eq!(sizes, doubled);
    thread.finish();
}

/// Pushes `count` frames of `size` slots, and pops them again.
fn descend(thread: &mut Thread, count: usize, size: usize) {
    for _ in 0..count {
        assert!(thread.push(size));
    }
    for _ in 0..count {
        assert!(thread.pop());
    }
}

#[test]
fn what_a_thread_keeps_after_a_deep_recursion_is_bounded_and_a_collection_leaves_one_chunk() {
    for size in [12, 30, 330, 5_000, 120_000, 300_000] {
        allow(None);
        let mut thread = Thread::new();
        assert!(thread.push(20));
        let root = thread.stats().bytes_held;
        descend(&mut thread, 40, size);
        let stats = thread.stats();
        let most = root + LARGEST_CACHED_CHUNK + SHARED_CACHE_BYTES;
        assert!(stats.bytes_held <= most, "{size}: {stats:?}");
        assert_eq!(stats.bytes_held, arena_bytes());
        assert!(stats.bytes_high_water >= 40 * 8 * size);
        thread.stack().keep_first_only();
        let stats = thread.stats();
        assert!(stats.bytes_held <= root + LARGEST_CACHED_CHUNK, "{size}: {stats:?}");
        assert_eq!(stats.bytes_held, arena_bytes());
        thread.finish();
    }
}

#[test]
fn a_second_recursion_as_deep_as_the_first_allocates_nothing() {
    for count in [100, 1_000, 10_000, 100_000] {
        allow(None);
        let mut thread = Thread::new();
        assert!(thread.push(20));
        descend(&mut thread, count, 15);
        allow(Some(0));
        for _ in 0..3 {
            descend(&mut thread, count, 15);
        }
        allow(None);
        thread.finish();
    }
}

#[test]
fn where_nothing_is_left_to_claim_a_thread_caches_one_chunk() {
    allow(None);
    let all = set_left_to_claim(0);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 50_000, 15);
    assert_eq!(thread.stats().chunks_cached, 1);
    thread.finish();
    set_left_to_claim(all);
}

#[test]
fn where_little_is_left_to_claim_the_deepest_chunks_go() {
    allow(None);
    let all = set_left_to_claim(100_000);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 50_000, 15);
    // 32 KiB is the front chunk, 64 KiB are after it.
    assert_eq!(thread.stats().chunks_cached, 2);
    assert_eq!(thread.stats().bytes_held, (16 + 32 + 64) * 1024);
    thread.finish();
    set_left_to_claim(all);
}

#[test]
fn chunks_that_are_not_used_for_long_are_freed() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 10_000, 15);
    let kept = thread.stats().chunks_cached;
    assert!(kept > 3);
    // Deep enough for the first chunk after the root, and no deeper.
    let switches = |thread: &mut Thread, count: usize| {
        for _ in 0..count {
            descend(thread, 200, 15);
        }
    };
    switches(&mut thread, SWITCHES_TO_WAIT / 2);
    assert_eq!(thread.stats().chunks_cached, kept);
    switches(&mut thread, SWITCHES_TO_WAIT * 2);
    assert_eq!(thread.stats().chunks_cached, 1);
    thread.finish();
}

#[test]
fn a_frame_that_the_first_cached_chunk_is_too_small_for_takes_a_larger_one() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 10_000, 15);
    allow(Some(0));
    assert!(thread.push(10_000), "a kept chunk has room for 80,000 bytes");
    assert!(thread.pop());
    assert!(thread.push_if_space(&[10_000]), "which is the front chunk then");
    assert!(thread.pop());
    allow(None);
    thread.finish();
}

#[test]
fn what_is_kept_is_given_back_before_a_push_fails() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 10_000, 15);
    allow(Some(0));
    assert!(!thread.push(1_000_000));
    assert_eq!(thread.stats().chunks_cached, 0);
    allow(None);
    thread.finish();
}

#[test]
fn a_new_stack_gets_a_small_root_and_leaves_the_cache_alone() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    for _ in 0..5 {
        fill_chunk(&mut thread, 20);
    }
    while thread.stats().chunks_cached == 0 {
        assert!(thread.pop());
    }
    thread.swap_out();
    assert!(!thread.push_if_space(&[20]), "the front chunk is no space for a root");
    assert!(thread.push(20));
    // SAFETY: a frame is on the stack, so there is a current chunk.
    assert_eq!(unsafe { (*thread.state.base.datastack_chunk).size }, 16 * 1024);
    assert!(thread.stats().chunks_cached >= 1);
    thread.free_one_from_outside();
    thread.finish();
}

#[test]
fn a_foreign_chunk_is_left_like_any_other_and_freed_once() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    assert!(thread.push_foreign_chunk(20));
    assert!(thread.push(20));
    assert!(thread.pop() && thread.pop());
    assert_eq!(thread.stats().chunks_popped, 1);
    assert!(thread.pop());
    thread.finish();
}

#[test]
fn a_foreign_root_whose_first_slot_is_used_is_kept() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push_foreign_chunk(20));
    // SAFETY: the chunk is live; a tool that does not skip the first slot.
    let data = unsafe { (&raw mut (*thread.state.base.datastack_chunk).data).cast::<Slot>() };
    let frame = thread.frames.pop().expect("pushed above");
    frame.check();
    // SAFETY: nothing else is on the stack.
    unsafe { thread.stack().pop(data) };
    assert_eq!(thread.state.base.datastack_top, data);
    thread.finish();
}

#[test]
fn a_frame_too_large_for_any_memory_is_refused() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    let before = thread.fields().1;
    assert!(thread.stack().push(slots(usize::MAX / 16)).is_none());
    assert_eq!(thread.fields().1, before);
    thread.finish();
}

/// Not a test of ours: `ci/asan` runs it and expects AddressSanitizer to stop it.
#[test]
#[ignore = "must be stopped by AddressSanitizer; ci/asan runs it"]
fn reads_freed_memory() {
    let block = _PyObject_VirtualAlloc(4096).cast::<usize>();
    _PyObject_VirtualFree(block.cast(), 4096);
    // SAFETY: none. Wrong on purpose.
    std::hint::black_box(unsafe { block.read_volatile() });
}

/// Not a test of ours: `ci/asan` runs it and expects the checks of rustc to stop it.
#[test]
#[ignore = "must be stopped by rustc's checks of undefined behaviour; ci/asan runs it"]
fn breaks_what_core_requires() {
    let words = [0_usize; 2];
    let odd = words.as_ptr().cast::<u8>().wrapping_add(1).cast::<usize>();
    // SAFETY: none. Wrong on purpose.
    std::hint::black_box(unsafe { std::slice::from_raw_parts(odd, 1) });
}
