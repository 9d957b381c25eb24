//! The reserve of a thread: chunks that a recursion has left, kept for the next one.
//!
//! ```text
//!   DataStackState.spare ──► 32 KiB ──► 64 KiB ──► ... ──► 512 KiB ──► 512 KiB ──► NULL
//!                            the spare      `previous`, as in a stack
//! ```
//!
//! A recursion that goes up leaves its deepest chunk first and its smallest last. One that goes
//! down needs the smallest first. So the reserve is a list that both ends of work only at its
//! front. The chunk at the front is the *spare*: what the next call at an edge switches to.
//!
//! What is kept is bounded three times:
//! - A thread keeps a spare of at most [`LARGEST_SPARE_CHUNK`] bytes. What it keeps behind the
//!   spare it must claim from [`KEPT_BEHIND_SPARES`], which all threads of the process share.
//!   Where nothing is left to claim, the deepest chunk goes.
//! - Chunks behind the spare that nobody needed while a thread left [`SWITCHES_TO_WAIT`] chunks
//!   are freed.
//! - A full collection frees all that is behind the spares (`_PyRust_ShrinkChunkCache`).
//!
//! # Invariants
//! Of the fields of `DataStackState` that this module alone writes:
//! - `spare_room` is 0, and there is no reserve, or it is what the chunk `spare` has room for. The
//!   chunks of the list are live, hold no frame, and belong to this thread alone.
//! - From the front on, each chunk is larger than the one before, or both have the size where
//!   chunks stop growing. So no size below that is kept twice.
//! - `behind_count` and `behind_bytes` are those of the chunks behind the spare, and
//!   `behind_bytes <= claimed`. `fewest_behind <= behind_count`.
//! - What all threads have claimed and what is left to claim is [`KEPT_BEHIND_SPARES`] together.

use super::chunk::Chunk;
use super::sizes::{fits_in_room, LARGEST_GROWN_CHUNK};
use crate::in_cpython::DataStackState;
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use core::ptr::null_mut;

/// The largest chunk, in bytes, that is kept as a thread's spare.
pub const LARGEST_SPARE_CHUNK: usize = LARGEST_GROWN_CHUNK;

/// Bytes of chunks that all threads of the process together keep behind their spares.
///
/// 100,000 frames of a small function, twelve megabytes, stay mapped between two recursions.
pub const KEPT_BEHIND_SPARES: usize = 16 * 1024 * 1024;

/// A thread that has left so many chunks without need of a chunk in its reserve frees that one.
///
/// Mapping a mebibyte and touching its pages takes as long as some thousand switches.
pub const SWITCHES_TO_WAIT: usize = 1 << 14;

/// Gives `work` what is left to claim, in bytes.
///
/// Relaxed everywhere: it is a number, and no memory is handed over with it.
#[cfg(any(not(any(test, fuzzing)), loom))]
pub fn with_left_to_claim<R>(work: impl FnOnce(&AtomicUsize) -> R) -> R {
    static LEFT: AtomicUsize = AtomicUsize::new(KEPT_BEHIND_SPARES);
    work(&LEFT)
}

/// As above, for each test by itself: tests run in threads of one process.
#[cfg(any(test, fuzzing))]
#[cfg(not(loom))]
pub fn with_left_to_claim<R>(work: impl FnOnce(&AtomicUsize) -> R) -> R {
    std::thread_local! {
        static LEFT: AtomicUsize = const { AtomicUsize::new(KEPT_BEHIND_SPARES) };
    }
    LEFT.with(work)
}

impl DataStackState {
    /// Bytes of slots that the spare takes; 0 without one. One load.
    #[inline(always)]
    pub fn spare_room(&self) -> usize {
        self.spare_room
    }

    /// The chunk at the front.
    #[inline(always)]
    pub fn spare(&self) -> Option<Chunk> {
        if self.spare_room == 0 {
            return None;
        }
        // SAFETY: there is a spare, and it is live (module invariants).
        unsafe { Chunk::from_raw(self.spare) }
    }

    /// How many chunks are kept.
    pub fn chunks_kept(&self) -> usize {
        usize::from(self.spare_room != 0) + self.behind_count
    }

    /// Bytes of the chunks that are kept.
    pub fn bytes_kept(&self) -> usize {
        self.spare().map_or(0, Chunk::size) + self.behind_bytes
    }

    /// Takes the spare, which the caller then owns. The one behind becomes the spare.
    pub fn take_spare(&mut self) -> Option<Chunk> {
        let spare = self.spare()?;
        self.bring_forward(spare.previous());
        Some(spare)
    }

    /// Takes the first chunk with more than `bytes` of room, if there is one. Those before it,
    /// which are too small for what the thread does now, stay.
    pub fn take_with_room(&mut self, bytes: usize) -> Option<Chunk> {
        if fits_in_room(bytes, self.spare()?.room()) {
            return self.take_spare();
        }
        let mut before = self.spare()?;
        loop {
            let chunk = before.previous()?;
            if fits_in_room(bytes, chunk.room()) {
                self.unlink(before, chunk);
                return Some(chunk);
            }
            before = chunk;
        }
    }

    /// Keeps a chunk as the spare, or frees it if it is larger than a spare may be.
    ///
    /// # Safety
    /// The chunk is in no list any more, and holds no live frame.
    pub unsafe fn keep(&mut self, chunk: Chunk) {
        if chunk.size() > LARGEST_SPARE_CHUNK {
            // SAFETY: the caller says that the chunk is in no list and holds no live frame.
            unsafe { chunk.free() };
            return;
        }
        // Whoever needed this chunk above the spare found the spare too small.
        while let Some(spare) = self.spare() {
            if chunk.size() < spare.size() || spare.size() == LARGEST_GROWN_CHUNK {
                break;
            }
            self.bring_forward(spare.previous());
            // SAFETY: out of the list, and chunks of the reserve hold no frame.
            unsafe { spare.free() };
        }
        let behind = self.spare();
        if let Some(spare) = behind {
            self.behind_count += 1;
            self.behind_bytes += spare.size();
        }
        // SAFETY: in no list any more, as the caller says, so the chunk is ours; so is the reserve.
        unsafe { chunk.set_previous(behind) };
        // INVARIANT: the two fields change together.
        self.spare = chunk.as_ptr();
        self.spare_room = chunk.room();
        while self.behind_bytes > self.claimed && !self.claim_the_rest() {
            self.free_deepest();
        }
    }

    /// Called each time the thread has left a chunk.
    ///
    /// Frees what nobody needed during the last [`SWITCHES_TO_WAIT`] of these calls.
    #[inline(always)]
    pub fn count_switch(&mut self) {
        self.chunks_popped += 1;
        if self.chunks_popped % SWITCHES_TO_WAIT == 0 {
            while self.fewest_behind > 0 {
                self.free_deepest();
            }
            self.give_claims_back();
            self.fewest_behind = self.behind_count;
        }
    }

    /// Frees all that is kept behind the spare.
    pub fn keep_spare_only(&mut self) {
        while self.behind_count > 0 {
            self.free_deepest();
        }
        self.give_claims_back();
    }

    /// Frees all that is kept. Whether that was anything.
    pub fn keep_nothing(&mut self) -> bool {
        self.keep_spare_only();
        let spare = self.take_spare();
        if let Some(spare) = spare {
            // SAFETY: taken, so in no list; chunks of the reserve hold no frame.
            unsafe { spare.free() };
        }
        spare.is_some()
    }

    /// Makes `chunk`, which was behind the spare, the spare; or leaves no reserve.
    fn bring_forward(&mut self, chunk: Option<Chunk>) {
        // INVARIANT: the two fields change together.
        self.spare = chunk.map_or(null_mut(), Chunk::as_ptr);
        self.spare_room = chunk.map_or(0, Chunk::room);
        if let Some(chunk) = chunk {
            self.count_less(chunk);
        }
    }

    /// Takes `chunk` out of the list; `before` stands in front of it.
    fn unlink(&mut self, before: Chunk, chunk: Chunk) {
        // SAFETY: the reserve is this thread's.
        unsafe { before.set_previous(chunk.previous()) };
        self.count_less(chunk);
    }

    /// A chunk is not behind the spare any more.
    fn count_less(&mut self, chunk: Chunk) {
        self.behind_count -= 1;
        self.behind_bytes -= chunk.size();
        self.fewest_behind = self.fewest_behind.min(self.behind_count);
    }

    /// Frees the last chunk of the list, if one is behind the spare. It is the one that only the
    /// deepest recursions need.
    fn free_deepest(&mut self) {
        let Some(mut before) = self.spare() else { return };
        let Some(mut deepest) = before.previous() else { return };
        while let Some(next) = deepest.previous() {
            (before, deepest) = (deepest, next);
        }
        self.unlink(before, deepest);
        // SAFETY: out of the list, and chunks of the reserve hold no frame.
        unsafe { deepest.free() };
    }

    /// Claims what is missing for the chunks behind the spare; false if there is not so much left.
    fn claim_the_rest(&mut self) -> bool {
        let missing = self.behind_bytes - self.claimed;
        let claimed = with_left_to_claim(|left| {
            left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(missing)).is_ok()
        });
        if claimed {
            self.claimed += missing;
        }
        claimed
    }

    /// Gives back what is claimed for more chunks than there are.
    fn give_claims_back(&mut self) {
        let surplus = self.claimed - self.behind_bytes;
        if surplus > 0 {
            self.claimed -= surplus;
            with_left_to_claim(|left| left.fetch_add(surplus, Relaxed));
        }
    }
}
