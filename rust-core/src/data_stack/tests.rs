//! The data stack against a model: random pushes, pops, failed allocations,
//! chunks that others push, and stacks swapped as greenlet swaps them.
//!
//! Each frame is filled with a number of its own and checked when it is popped,
//! so that two frames that overlap, or one in freed memory, are seen.

use super::reserve::{
    with_left_to_claim, KEPT_BEHIND_SPARES, LARGEST_SPARE_CHUNK, SWITCHES_TO_WAIT,
};
use super::sizes::LARGEST_GROWN_CHUNK;
use super::stack::{DataStack, Slots, Stats};
use crate::cpython::{_PyStackChunk, _PyThreadStateImpl, PyObject, PyThreadState};
use crate::in_cpython::DataStackState;
use crate::stand_in::memory::{
    _PyObject_VirtualAlloc, _PyObject_VirtualFree, allow, arena_bytes, zeroed,
};
use proptest::prelude::*;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

type Slot = *mut PyObject;

fn left_to_claim() -> usize {
    with_left_to_claim(|left| left.load(Relaxed))
}

/// Returns what it was.
fn set_left_to_claim(bytes: usize) -> usize {
    with_left_to_claim(|left| left.swap(bytes, Relaxed))
}

/// A frame as the model knows it.
struct Frame {
    base: *mut Slot,
    size: usize,
    mark: usize,
}

impl Frame {
    fn new(base: *mut Slot, size: usize, mark: usize) -> Self {
        for i in 0..size {
            // SAFETY: the data stack has just handed out these slots.
            unsafe { base.add(i).write((mark + i) as Slot) };
        }
        Frame { base, size, mark }
    }

    fn check(&self) {
        for i in 0..self.size {
            // SAFETY: the frame is still on the stack.
            let found = unsafe { self.base.add(i).read() } as usize;
            assert_eq!(found, self.mark + i, "slot {i} of a frame was overwritten");
        }
    }
}

/// The three fields that greenlet saves and restores.
#[derive(Clone, Copy)]
struct Fields(*mut _PyStackChunk, *mut Slot, *mut Slot);

/// A thread state with its frames, and stacks that are swapped out.
struct Thread {
    state: Box<_PyThreadStateImpl>,
    frames: Vec<Frame>,
    swapped_out: Vec<(Fields, Vec<Frame>)>,
    next_mark: usize,
    /// What this thread may keep behind its spare when no other thread has claimed anything more.
    claimable: usize,
}

impl Thread {
    fn new() -> Self {
        // SAFETY: CPython starts from zeros too, as far as the data stack goes.
        let state = unsafe { zeroed() };
        let claimable = left_to_claim();
        Thread { state, frames: Vec::new(), swapped_out: Vec::new(), next_mark: 1, claimable }
    }

    fn stack(&mut self) -> DataStack {
        let tstate: *mut PyThreadState = (&raw mut *self.state).cast();
        // SAFETY: the state is ours and outlives the borrow that the tests make.
        unsafe { DataStack::of(tstate) }
    }

    fn stats(&mut self) -> Stats {
        self.stack().stats()
    }

    fn remember(&mut self, base: *mut Slot, size: usize) {
        let mark = self.next_mark;
        self.next_mark += size + 1;
        self.frames.push(Frame::new(base, size, mark));
    }

    /// As `_PyEvalFramePushAndInit` does; false when memory ran out.
    fn push(&mut self, size: usize) -> bool {
        let Some(base) = self.stack().push(Slots::new(size)) else {
            return false;
        };
        self.remember(base.as_ptr(), size);
        true
    }

    /// As a specialized call does, for one frame or for two.
    fn push_if_space(&mut self, sizes: &[usize]) -> bool {
        if !self.stack().has_space(Slots::new(sizes.iter().sum())) {
            return false;
        }
        for &size in sizes {
            // SAFETY: there is space for all of them together.
            let base = unsafe { self.stack().push_unchecked(Slots::new(size)) };
            self.remember(base.as_ptr(), size);
        }
        true
    }

    fn pop(&mut self) -> bool {
        let Some(frame) = self.frames.pop() else {
            return false;
        };
        frame.check();
        // SAFETY: it is the topmost frame, and dead now.
        unsafe { self.stack().pop(frame.base) };
        true
    }

    /// As a frame hook does that chooses other code; false when memory ran out,
    /// and then the frame is as it was.
    fn exchange(&mut self, size: usize) -> bool {
        let Some(frame) = self.frames.last() else {
            return false;
        };
        frame.check();
        let base = frame.base;
        // SAFETY: it is the topmost frame, and dead where this succeeds.
        let Some(base) = (unsafe { self.stack().exchange_top(base, Slots::new(size)) }) else {
            return false;
        };
        self.frames.pop();
        self.remember(base.as_ptr(), size);
        true
    }

    /// What TorchDynamo's copy of `push_chunk` does: a 16 KiB chunk (or more),
    /// put on top by hand, the frame at its first slot.
    fn push_foreign_chunk(&mut self, size: usize) -> bool {
        let mut bytes = 16 * 1024;
        while bytes < 8 * (size + 1000) {
            bytes *= 2;
        }
        let chunk: *mut _PyStackChunk = _PyObject_VirtualAlloc(bytes).cast();
        if chunk.is_null() {
            return false;
        }
        let ts = &mut self.state.base;
        let is_root = ts.datastack_chunk.is_null();
        // SAFETY: the chunk is new, and the fields are as CPython has them.
        let base = unsafe {
            (*chunk).previous = ts.datastack_chunk;
            (*chunk).size = bytes;
            (*chunk).top = 0;
            if !is_root {
                let data = (&raw mut (*ts.datastack_chunk).data).cast::<Slot>();
                (*ts.datastack_chunk).top = ts.datastack_top.offset_from(data) as usize;
            }
            (&raw mut (*chunk).data).cast::<Slot>().add(usize::from(is_root))
        };
        ts.datastack_chunk = chunk;
        ts.datastack_limit = (chunk as usize + bytes) as *mut Slot;
        // SAFETY: the chunk was made large enough.
        ts.datastack_top = unsafe { base.add(size) };
        self.remember(base, size);
        true
    }

    fn fields(&self) -> Fields {
        let ts = &self.state.base;
        Fields(ts.datastack_chunk, ts.datastack_top, ts.datastack_limit)
    }

    fn set_fields(&mut self, Fields(chunk, top, limit): Fields) {
        let ts = &mut self.state.base;
        (ts.datastack_chunk, ts.datastack_top, ts.datastack_limit) = (chunk, top, limit);
    }

    /// A new greenlet starts: the fields are saved and set to NULL.
    fn swap_out(&mut self) {
        let saved = (self.fields(), std::mem::take(&mut self.frames));
        self.swapped_out.push(saved);
        self.set_fields(Fields(null_mut(), null_mut(), null_mut()));
    }

    /// Another greenlet goes on; the current one is saved.
    fn swap_with(&mut self, which: usize) {
        if self.swapped_out.is_empty() {
            return;
        }
        let index = which % self.swapped_out.len();
        let mut other = (self.fields(), std::mem::take(&mut self.frames));
        std::mem::swap(&mut other, &mut self.swapped_out[index]);
        self.set_fields(other.0);
        self.frames = other.1;
    }

    /// A greenlet dies: its chunks are freed through the arena allocator, from
    /// outside, each with the size that its header says.
    fn free_one_from_outside(&mut self) {
        let Some((Fields(mut chunk, ..), frames)) = self.swapped_out.pop() else {
            return;
        };
        frames.iter().for_each(Frame::check);
        while !chunk.is_null() {
            // SAFETY: a live chunk of a stack that nobody uses any more.
            let (previous, size) = unsafe { ((*chunk).previous, (*chunk).size) };
            _PyObject_VirtualFree(chunk.cast(), size);
            chunk = previous;
        }
    }

    /// What must hold after every step.
    fn check(&mut self) {
        let Fields(chunk, top, limit) = self.fields();
        if !chunk.is_null() {
            // SAFETY: the current chunk is live.
            let size = unsafe { (*chunk).size };
            assert_eq!(limit as usize, chunk as usize + size);
            assert!(chunk as usize + 24 <= top as usize && top <= limit);
        }
        if let Some(frame) = self.frames.last() {
            assert_eq!(
                top,
                frame.base.wrapping_add(frame.size),
                "top is where the last frame ends"
            );
            frame.check();
        }
        let stats = self.stats();
        assert!(stats.cache_hits <= stats.chunks_pushed);
        self.check_reserve();
    }

    /// What the reserve promises: its chunks grow, and its numbers are theirs.
    fn check_reserve(&self) {
        // SAFETY: the state is ours.
        let state = unsafe { &*DataStackState::of((&raw const *self.state).cast_mut()) };
        let mut sizes = Vec::new();
        let mut next = state.spare();
        while let Some(chunk) = next {
            sizes.push(chunk.size());
            next = chunk.previous();
        }
        for (one, other) in sizes.iter().zip(sizes.iter().skip(1)) {
            assert!(one < other || (one == other && *one == LARGEST_GROWN_CHUNK), "{sizes:?}");
        }
        let behind: usize = sizes.iter().skip(1).sum();
        assert_eq!(state.behind_bytes, behind);
        assert_eq!(state.behind_count, sizes.len().saturating_sub(1));
        assert!(behind <= state.claimed);
        assert_eq!(state.claimed + left_to_claim(), self.claimable);
        assert!(state.fewest_behind <= state.behind_count);
    }

    /// The thread ends: everything it held goes back.
    fn finish(mut self) {
        while !self.swapped_out.is_empty() {
            self.free_one_from_outside();
        }
        // SAFETY: the thread state goes away, and the model reads no frame any more.
        unsafe { self.stack().clear() };
        assert_eq!(arena_bytes(), 0, "a thread that ended keeps memory");
        assert_eq!(self.stats().bytes_held, 0);
        assert_eq!(left_to_claim(), self.claimable, "a thread that ended keeps a claim");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    PushIfSpace(usize),
    PushTwoIfSpace(usize, usize),
    Pop(usize),
    Exchange(usize),
    PushForeignChunk(usize),
    SwapOut,
    SwapWith(usize),
    FreeOneFromOutside,
    /// A full collection.
    KeepSpareOnly,
    /// Other threads leave so many bytes to claim.
    LeaveToClaim(usize),
    /// The next allocations fail after this many.
    Allow(Option<usize>),
}

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
        45 => (1usize..5).prop_map(Step::Pop),
        1 => (20usize..200).prop_map(Step::Pop),
        6 => frame_sizes().prop_map(Step::Exchange),
        2 => frame_sizes().prop_map(Step::PushForeignChunk),
        1 => Just(Step::SwapOut),
        2 => (0usize..8).prop_map(Step::SwapWith),
        1 => Just(Step::FreeOneFromOutside),
        1 => Just(Step::KeepSpareOnly),
        1 => (0usize..KEPT_BEHIND_SPARES).prop_map(Step::LeaveToClaim),
        2 => proptest::option::of(0usize..3).prop_map(Step::Allow),
    ]
}

fn run(steps: Vec<Step>) {
    allow(None);
    let mut thread = Thread::new();
    for step in steps {
        let depth = thread.frames.len();
        let before = thread.fields().1;
        match step {
            Step::Push(size) => {
                if !thread.push(size) {
                    assert_eq!(
                        thread.fields().1,
                        before,
                        "a failed push leaves the stack as it was"
                    );
                    assert_eq!(thread.frames.len(), depth);
                }
            }
            Step::PushIfSpace(size) => {
                thread.push_if_space(&[size]);
            }
            Step::PushTwoIfSpace(a, b) => {
                thread.push_if_space(&[a, b]);
            }
            Step::Exchange(size) => {
                if !thread.exchange(size) {
                    assert_eq!(thread.fields().1, before, "a failed exchange changes nothing");
                    assert_eq!(thread.frames.len(), depth);
                }
            }
            Step::Pop(count) => {
                for _ in 0..count {
                    thread.pop();
                }
            }
            Step::PushForeignChunk(size) => {
                thread.push_foreign_chunk(size);
            }
            Step::SwapOut if thread.swapped_out.len() < 8 => thread.swap_out(),
            Step::SwapOut => {}
            Step::SwapWith(which) => thread.swap_with(which),
            Step::FreeOneFromOutside => thread.free_one_from_outside(),
            Step::KeepSpareOnly => {
                thread.stack().keep_spare_only();
                assert!(thread.stats().chunks_cached <= 1);
            }
            Step::LeaveToClaim(bytes) => {
                let before = set_left_to_claim(bytes);
                thread.claimable = thread.claimable - before + bytes;
            }
            Step::Allow(allocations) => allow(allocations),
        }
        thread.check();
    }
    allow(None);
    thread.finish();
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
    assert!(!thread.stack().has_space(Slots::new(1)));
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
        assert!(thread.push_if_space(&[20]), "the spare counts as space");
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
        let most = root + LARGEST_SPARE_CHUNK + KEPT_BEHIND_SPARES;
        assert!(stats.bytes_held <= most, "{size}: {stats:?}");
        assert_eq!(stats.bytes_held, arena_bytes());
        assert!(stats.bytes_high_water >= 40 * 8 * size);
        thread.stack().keep_spare_only();
        let stats = thread.stats();
        assert!(stats.bytes_held <= root + LARGEST_SPARE_CHUNK, "{size}: {stats:?}");
        assert_eq!(stats.bytes_held, arena_bytes());
        thread.finish();
    }
}

#[test]
fn a_second_recursion_as_deep_as_the_first_asks_for_no_memory() {
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
fn where_nothing_is_left_to_claim_a_thread_keeps_its_spare_alone() {
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
    // 32 KiB is the spare, 64 KiB stand behind it.
    assert_eq!(thread.stats().chunks_cached, 2);
    assert_eq!(thread.stats().bytes_held, (16 + 32 + 64) * 1024);
    thread.finish();
    set_left_to_claim(all);
}

#[test]
fn chunks_that_nobody_needs_for_long_are_freed() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 10_000, 15);
    let kept = thread.stats().chunks_cached;
    assert!(kept > 3);
    // Deep enough for the first chunk behind the root, and no deeper.
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
fn a_frame_that_the_spare_is_too_small_for_takes_a_larger_chunk_that_is_kept() {
    allow(None);
    let mut thread = Thread::new();
    assert!(thread.push(20));
    descend(&mut thread, 10_000, 15);
    allow(Some(0));
    assert!(thread.push(10_000), "a kept chunk has room for 80,000 bytes");
    assert!(thread.pop());
    assert!(thread.push_if_space(&[10_000]), "which is the spare then");
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
fn a_new_stack_gets_a_small_root_and_leaves_the_spare_alone() {
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
    assert!(!thread.push_if_space(&[20]), "the spare is no space for a root");
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
    assert!(thread.stack().push(Slots::new(usize::MAX / 16)).is_none());
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
