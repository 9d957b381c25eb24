//! The data stack against a model: pushes, pops, failed allocations, chunks that others push,
//! stacks swapped as greenlet swaps them, collections, and several threads.
//!
//! Each frame is filled with a number of its own and checked when it is popped, so that two frames
//! that overlap, or one in freed memory, are seen. The unit tests run steps that proptest makes; the
//! fuzz target `data_stack` runs those that libFuzzer finds.

use super::cache::with_left_to_claim;
use super::sizes::LARGEST_GROWN_CHUNK;
use super::stack::{DataStack, Slots, Stats};
use crate::cpython::{_PyStackChunk, _PyThreadStateImpl, PyObject, PyThreadState};
use crate::fake_cpython::memory::{
    _PyObject_VirtualAlloc, _PyObject_VirtualFree, allow, allowed, arena_bytes, zeroed,
};
use crate::in_cpython::DataStackState;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

pub type Slot = *mut PyObject;

pub fn left_to_claim() -> usize {
    with_left_to_claim(|left| left.load(Relaxed))
}

/// Returns what it was.
pub fn set_left_to_claim(bytes: usize) -> usize {
    with_left_to_claim(|left| left.swap(bytes, Relaxed))
}

/// A frame as the model knows it.
pub struct Frame {
    base: *mut Slot,
    size: usize,
    mark: usize,
}

impl Frame {
    pub fn new(base: *mut Slot, size: usize, mark: usize) -> Self {
        for i in 0..size {
            // SAFETY: the data stack has just handed out these slots.
            unsafe { base.add(i).write((mark + i) as Slot) };
        }
        Frame { base, size, mark }
    }

    pub fn check(&self) {
        for i in 0..self.size {
            // SAFETY: the frame is still on the stack.
            let found = unsafe { self.base.add(i).read() } as usize;
            assert_eq!(found, self.mark + i, "slot {i} of a frame was overwritten");
        }
    }
}

/// The three fields that greenlet saves and restores.
#[derive(Clone, Copy)]
pub struct Fields(pub *mut _PyStackChunk, pub *mut Slot, pub *mut Slot);

/// A thread state with its frames, and stacks that are swapped out.
pub struct Thread {
    pub state: Box<_PyThreadStateImpl>,
    pub frames: Vec<Frame>,
    swapped_out: Vec<(Fields, Vec<Frame>)>,
    next_mark: usize,
    /// What this thread may keep after its front chunk when no other thread has claimed anything more.
    claimable: usize,
}

/// A frame of `count` slots.
pub fn slots(count: usize) -> Slots {
    assert!(count <= isize::MAX as usize / size_of::<Slot>());
    // SAFETY: as asserted.
    unsafe { Slots::new(count) }
}

impl Thread {
    pub fn new() -> Self {
        // SAFETY: CPython starts from zeros too, as far as the data stack goes.
        let state = unsafe { zeroed() };
        let claimable = left_to_claim();
        Thread { state, frames: Vec::new(), swapped_out: Vec::new(), next_mark: 1, claimable }
    }

    pub fn stack(&mut self) -> DataStack {
        let tstate: *mut PyThreadState = (&raw mut *self.state).cast();
        // SAFETY: the state is ours and outlives the borrow that the tests make.
        unsafe { DataStack::of(tstate) }
    }

    pub fn stats(&mut self) -> Stats {
        self.stack().stats()
    }

    pub fn remember(&mut self, base: *mut Slot, size: usize) {
        let mark = self.next_mark;
        self.next_mark += size + 1;
        self.frames.push(Frame::new(base, size, mark));
    }

    /// As `_PyEvalFramePushAndInit` does; false when memory ran out.
    pub fn push(&mut self, size: usize) -> bool {
        let Some(base) = self.stack().push(slots(size)) else {
            assert_eq!(allowed(), Some(0), "there was memory");
            assert_eq!(self.stats().chunks_cached, 0, "what is kept is missing");
            return false;
        };
        self.remember(base.as_ptr(), size);
        true
    }

    /// As a specialized call does, for one frame or for two.
    pub fn push_if_space(&mut self, sizes: &[usize]) -> bool {
        let all = sizes.iter().sum();
        let has_space = self.stack().has_space(slots(all));
        assert_eq!(has_space, self.would_fit(all));
        if !has_space {
            return false;
        }
        for &size in sizes {
            // SAFETY: there is space for all of them together.
            let base = unsafe { self.stack().push_unchecked(slots(size)) };
            self.remember(base.as_ptr(), size);
        }
        true
    }

    /// As a call does that checks and pushes in one.
    fn push_where_it_fits(&mut self, size: usize) -> bool {
        let fits = self.would_fit(size);
        let pushed = self.stack().push_if_space(slots(size));
        assert_eq!(pushed.is_some(), fits);
        if let Some(base) = pushed {
            self.remember(base.as_ptr(), size);
        }
        fits
    }

    pub fn pop(&mut self) -> bool {
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
    pub fn exchange(&mut self, size: usize) -> bool {
        let Some(frame) = self.frames.last() else {
            return false;
        };
        frame.check();
        let base = frame.base;
        // SAFETY: it is the topmost frame, and dead where this succeeds.
        let Some(base) = (unsafe { self.stack().exchange_top(base, slots(size)) }) else {
            return false;
        };
        self.frames.pop();
        self.remember(base.as_ptr(), size);
        true
    }

    /// What TorchDynamo's copy of `push_chunk` does: a 16 KiB chunk (or more),
    /// put on top by hand, the frame at its first slot.
    pub fn push_foreign_chunk(&mut self, size: usize) -> bool {
        self.push_chunk_of(16 * 1024, size)
    }

    /// The same with a chunk of at least so many bytes.
    fn push_chunk_of(&mut self, mut bytes: usize, size: usize) -> bool {
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

    pub fn fields(&self) -> Fields {
        let ts = &self.state.base;
        Fields(ts.datastack_chunk, ts.datastack_top, ts.datastack_limit)
    }

    pub fn set_fields(&mut self, Fields(chunk, top, limit): Fields) {
        let ts = &mut self.state.base;
        (ts.datastack_chunk, ts.datastack_top, ts.datastack_limit) = (chunk, top, limit);
    }

    /// A new greenlet starts: the fields are saved and set to NULL.
    pub fn swap_out(&mut self) {
        let saved = (self.fields(), std::mem::take(&mut self.frames));
        self.swapped_out.push(saved);
        self.set_fields(Fields(null_mut(), null_mut(), null_mut()));
    }

    /// Switches to another greenlet; the current one is saved.
    pub fn swap_with(&mut self, which: usize) {
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
    pub fn free_one_from_outside(&mut self) {
        let Some((Fields(mut chunk, ..), frames)) = self.swapped_out.pop() else {
            return;
        };
        frames.iter().for_each(Frame::check);
        while !chunk.is_null() {
            // SAFETY: a live chunk of a stack that nothing uses any more.
            let (previous, size) = unsafe { ((*chunk).previous, (*chunk).size) };
            _PyObject_VirtualFree(chunk.cast(), size);
            chunk = previous;
        }
    }

    /// What must hold after every step.
    pub fn check(&mut self) {
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
        self.check_cache();
    }

    fn cache(&self) -> &DataStackState {
        // SAFETY: the state is ours.
        unsafe { &*DataStackState::of((&raw const *self.state).cast_mut()) }
    }

    /// Whether a frame fits, as the fields and the chunks say it: with a slot to spare in the current
    /// chunk, or in the chunk that is kept first, unless it would be a root.
    fn would_fit(&self, size: usize) -> bool {
        let Fields(chunk, top, limit) = self.fields();
        let fits = |bytes: usize| bytes / 8 > size;
        let first = self.cache().first_cached();
        !chunk.is_null()
            && (fits(limit as usize - top as usize)
                || first.is_some_and(|first| fits(first.size() - size_of::<[usize; 3]>())))
    }

    /// Slots up to the limit of the current chunk.
    fn room(&self) -> usize {
        let Fields(_, top, limit) = self.fields();
        (limit as usize - top as usize) / size_of::<Slot>()
    }

    /// Bytes of its chunks, those of stacks that are swapped out too.
    fn bytes(&mut self) -> usize {
        let mut bytes = self.stats().bytes_held;
        for (Fields(chunk, ..), _) in &self.swapped_out {
            let mut next = *chunk;
            while !next.is_null() {
                // SAFETY: a live chunk of a stack that waits.
                unsafe { (bytes, next) = (bytes + (*next).size, (*next).previous) };
            }
        }
        bytes
    }

    /// What the chunk cache promises: its chunks grow, and its numbers are theirs.
    fn check_cache(&self) {
        let state = self.cache();
        let mut sizes = Vec::new();
        let mut next = state.first_cached();
        while let Some(chunk) = next {
            sizes.push(chunk.size());
            next = chunk.previous();
        }
        for (one, other) in sizes.iter().zip(sizes.iter().skip(1)) {
            assert!(one < other || (one == other && *one == LARGEST_GROWN_CHUNK), "{sizes:?}");
        }
        let after: usize = sizes.iter().skip(1).sum();
        assert_eq!(state.rest_bytes, after);
        assert_eq!(state.rest_count, sizes.len().saturating_sub(1));
        assert!(after <= state.claimed);
        assert!(state.fewest_rest <= state.rest_count);
    }

    /// The thread ends.
    fn end(&mut self) {
        while !self.swapped_out.is_empty() {
            self.free_one_from_outside();
        }
        self.frames.iter().for_each(Frame::check);
        // SAFETY: the thread state goes away, and the model reads no frame any more.
        unsafe { self.stack().clear() };
        assert_eq!(self.stats().bytes_held, 0);
    }

    /// The only thread ends: everything it held goes back.
    pub fn finish(mut self) {
        self.end();
        assert_eq!(arena_bytes(), 0, "a thread that ended keeps memory");
        assert_eq!(left_to_claim(), self.claimable, "a thread that ended keeps a claim");
    }
}

// --- Steps. ---

#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Step {
    Push(#[cfg_attr(fuzzing, arbitrary(with = shaped::frame))] usize),
    PushIfSpace(#[cfg_attr(fuzzing, arbitrary(with = shaped::frame))] usize),
    PushTwoIfSpace(
        #[cfg_attr(fuzzing, arbitrary(with = shaped::frame))] usize,
        #[cfg_attr(fuzzing, arbitrary(with = shaped::frame))] usize,
    ),
    PushWhereItFits(#[cfg_attr(fuzzing, arbitrary(with = shaped::frame))] usize),
    /// A frame after which so many slots are left of the chunk, or would be missing.
    PushToEdge {
        left: i8,
        unchecked: bool,
    },
    Pop(#[cfg_attr(fuzzing, arbitrary(with = shaped::count))] usize),
    Exchange(#[cfg_attr(fuzzing, arbitrary(with = shaped::frame))] usize),
    PushForeignChunk {
        #[cfg_attr(fuzzing, arbitrary(with = shaped::bytes))]
        bytes: usize,
        #[cfg_attr(fuzzing, arbitrary(with = shaped::frame))]
        size: usize,
    },
    SwapOut,
    SwapWith(#[cfg_attr(fuzzing, arbitrary(with = shaped::small))] usize),
    FreeOneFromOutside,
    /// A full collection, which concerns all threads.
    ShrinkChunkCache,
    /// Threads of another interpreter leave so many bytes to claim.
    LeaveToClaim(#[cfg_attr(fuzzing, arbitrary(with = shaped::bytes))] usize),
    /// The thread leaves the chunk that it is at the edge of so often.
    Swing(#[cfg_attr(fuzzing, arbitrary(with = shaped::times))] usize),
    /// The next allocations fail after this many.
    Allow(#[cfg_attr(fuzzing, arbitrary(with = shaped::allowed))] Option<usize>),
    /// Another thread runs.
    Turn(#[cfg_attr(fuzzing, arbitrary(with = shaped::small))] usize),
    /// The thread that runs ends, and another one begins.
    ThreadEnds,
}

/// Numbers of the sizes that matter, made of what libFuzzer gives.
#[cfg(fuzzing)]
mod shaped {
    use crate::data_stack::cache::SHARED_CACHE_BYTES;
    use arbitrary::{Result, Unstructured};

    pub fn frame(given: &mut Unstructured) -> Result<usize> {
        let kind = given.arbitrary::<u8>()?;
        given.int_in_range(match kind % 16 {
            0..8 => 12..=40,
            8..12 => 300..=700,
            12..15 => 1500..=2100,
            _ if kind < 240 => 5_000..=20_000,
            _ => 20_000..=200_000,
        })
    }

    pub fn count(given: &mut Unstructured) -> Result<usize> {
        let kind = given.arbitrary::<u8>()?;
        Ok(if kind < 200 { usize::from(kind % 5) } else { usize::from(kind - 180) })
    }

    pub fn small(given: &mut Unstructured) -> Result<usize> {
        given.arbitrary::<u8>().map(usize::from)
    }

    /// Up to what all threads may claim.
    pub fn bytes(given: &mut Unstructured) -> Result<usize> {
        let (number, bits) = (given.arbitrary::<u8>()?, given.int_in_range(8..=17)?);
        Ok((usize::from(number) << bits).min(SHARED_CACHE_BYTES))
    }

    pub fn times(given: &mut Unstructured) -> Result<usize> {
        let number = given.arbitrary::<u8>()?;
        Ok(if number < 252 { usize::from(number % 8) } else { usize::from(number - 251) << 12 })
    }

    pub fn allowed(given: &mut Unstructured) -> Result<Option<usize>> {
        let number = given.arbitrary::<u8>()?;
        Ok((number % 4 < 3).then_some(usize::from(number % 4)))
    }
}

/// The threads of a process. One of them runs.
struct Threads {
    threads: Vec<Thread>,
    running: usize,
    /// What they have claimed and what is left to claim.
    claimable: usize,
}

const THREADS: usize = 3;
const MOST_BYTES: usize = 1 << 26;

impl Threads {
    fn running(&mut self) -> &mut Thread {
        &mut self.threads[self.running]
    }

    fn take(&mut self, step: Step) {
        // No test needs more memory.
        let step = if arena_bytes() > MOST_BYTES { Step::Pop(1_000) } else { step };
        match step {
            Step::Turn(which) => self.running = which % THREADS,
            Step::ThreadEnds => {
                self.running().end();
                *self.running() = Thread::new();
            }
            Step::ShrinkChunkCache => {
                for thread in &mut self.threads {
                    thread.stack().keep_first_only();
                    assert!(thread.stats().chunks_cached <= 1);
                }
            }
            Step::LeaveToClaim(bytes) => {
                let before = set_left_to_claim(bytes);
                self.claimable = self.claimable - before + bytes;
            }
            Step::Allow(allocations) => allow(allocations),
            step => self.running().take(step),
        }
        self.check();
    }

    fn check(&mut self) {
        self.running().check();
        let claimed: usize = self.threads.iter().map(|it| it.cache().claimed).sum();
        assert_eq!(claimed + left_to_claim(), self.claimable);
        let bytes: usize = self.threads.iter_mut().map(Thread::bytes).sum();
        assert_eq!(bytes, arena_bytes(), "what the threads know of is not what there is");
    }
}

impl Thread {
    /// Does what concerns this thread alone.
    fn take(&mut self, step: Step) {
        let (depth, before) = (self.frames.len(), self.fields().1);
        match step {
            Step::Push(size) => {
                if !self.push(size) {
                    assert_eq!(self.fields().1, before, "a failed push leaves the stack as it was");
                    assert_eq!(self.frames.len(), depth);
                }
            }
            Step::PushIfSpace(size) => {
                self.push_if_space(&[size]);
            }
            Step::PushTwoIfSpace(a, b) => {
                self.push_if_space(&[a, b]);
            }
            Step::PushWhereItFits(size) => {
                self.push_where_it_fits(size);
            }
            Step::PushToEdge { left, unchecked } => {
                if let Some(size) = self.room().checked_add_signed(-isize::from(left)) {
                    // A frame is never empty.
                    let size = size.max(1);
                    if unchecked {
                        self.push_if_space(&[size]);
                    } else {
                        self.push(size);
                    }
                }
            }
            Step::Exchange(size) => {
                if !self.exchange(size) {
                    assert_eq!(self.fields().1, before, "a failed exchange changes nothing");
                    assert_eq!(self.frames.len(), depth);
                }
            }
            Step::Pop(count) => {
                for _ in 0..count {
                    self.pop();
                }
            }
            Step::PushForeignChunk { bytes, size } => {
                self.push_chunk_of(bytes.clamp(1, 1 << 22).next_multiple_of(4096), size);
            }
            Step::SwapOut if self.swapped_out.len() < 8 => self.swap_out(),
            Step::SwapOut => {}
            Step::SwapWith(which) => self.swap_with(which),
            Step::FreeOneFromOutside => self.free_one_from_outside(),
            // One frame, just too large for what is left of the chunk.
            Step::Swing(times) if self.would_fit(self.room()) => {
                for _ in 0..times {
                    let size = slots(self.room());
                    let base = self.stack().push(size).expect("room in the chunk that is kept");
                    // SAFETY: the topmost frame.
                    unsafe { self.stack().pop(base.as_ptr()) };
                }
            }
            Step::Swing(_) => {}
            _ => unreachable!("concerns all threads"),
        }
    }
}

pub fn run(steps: Vec<Step>) {
    allow(None);
    let threads = (0..THREADS).map(|_| Thread::new()).collect();
    let mut threads = Threads { threads, running: 0, claimable: left_to_claim() };
    steps.into_iter().for_each(|step| threads.take(step));
    allow(None);
    threads.threads.iter_mut().for_each(Thread::end);
    assert_eq!(arena_bytes(), 0, "threads that ended keep memory");
    assert_eq!(left_to_claim(), threads.claimable, "threads that ended keep a claim");
}
