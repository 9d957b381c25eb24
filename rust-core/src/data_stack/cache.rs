//! The chunk cache of a thread: chunks that a recursion has left, kept for the next one.
//!
//! ```text
//!   DataStackState.first_cached ──► 32 KiB ──► 64 KiB ──► ... ──► 512 KiB ──► 512 KiB ──► NULL
//!                                   front      `previous`, as in a stack
//! ```
//!
//! A recursion that returns leaves its deepest chunk first and its smallest last. One that descends
//! needs the smallest first. So the cache is a list that both change only at its front. A call at a
//! chunk's edge switches to the *front chunk*.
//!
//! The cache is bounded three times:
//! - The front chunk has at most [`LARGEST_CACHED_CHUNK`] bytes. For the chunks after it the thread
//!   claims bytes from [`SHARED_CACHE_BYTES`], which all threads of the process share. If a claim
//!   fails, the deepest chunk is freed.
//! - Chunks after the front that were not used while the thread left [`SWITCHES_TO_WAIT`] chunks
//!   are freed.
//! - A full collection frees all chunks after the front (`_PyRust_ShrinkChunkCache`).
//!
//! # Invariants
//! Of the fields of `DataStackState` that this module alone writes:
//! - `cached_room` is 0 and the cache is empty, or it is the room of the chunk `first_cached`. The
//!   chunks of the list are live, hold no frame, and belong to this thread alone.
//! - From the front on, each chunk is larger than the one before, or both have the size where
//!   chunks stop growing. So no size below that is cached twice.
//! - `rest_count` and `rest_bytes` are those of the chunks after the front, and
//!   `rest_bytes <= claimed`. `fewest_rest <= rest_count`.
//! - The claims of all threads and what is left to claim add up to [`SHARED_CACHE_BYTES`].

use super::chunk::Chunk;
use super::sizes::{fits_in_room, LARGEST_GROWN_CHUNK};
use crate::in_cpython::DataStackState;
use crate::sync::{AtomicUsize, Ordering::Relaxed};
use core::ptr::null_mut;

/// The largest front chunk, in bytes.
pub const LARGEST_CACHED_CHUNK: usize = LARGEST_GROWN_CHUNK;

/// Bytes of the chunks after the front, of all threads of the process together.
///
/// 100,000 frames of a small function, twelve megabytes, stay mapped between two recursions.
pub const SHARED_CACHE_BYTES: usize = 16 * 1024 * 1024;

/// After leaving so many chunks a thread frees those of its cache that it did not use.
///
/// Mapping a mebibyte and touching its pages takes as long as some thousand switches.
pub const SWITCHES_TO_WAIT: usize = 1 << 14;

/// Gives `work` what is left to claim, in bytes.
///
/// Relaxed everywhere: it is a number, and no memory is handed over with it.
#[cfg(any(not(any(test, fuzzing)), loom))]
pub fn with_left_to_claim<R>(work: impl FnOnce(&AtomicUsize) -> R) -> R {
    static LEFT: AtomicUsize = AtomicUsize::new(SHARED_CACHE_BYTES);
    work(&LEFT)
}

/// As above, for each test by itself: tests run in threads of one process.
#[cfg(any(test, fuzzing))]
#[cfg(not(loom))]
pub fn with_left_to_claim<R>(work: impl FnOnce(&AtomicUsize) -> R) -> R {
    std::thread_local! {
        static LEFT: AtomicUsize = const { AtomicUsize::new(SHARED_CACHE_BYTES) };
    }
    LEFT.with(work)
}

impl DataStackState {
    /// Bytes of slots that the front chunk has room for; 0 without one. One load.
    #[inline(always)]
    pub fn cached_room(&self) -> usize {
        self.cached_room
    }

    /// The chunk at the front.
    #[inline(always)]
    pub fn first_cached(&self) -> Option<Chunk> {
        if self.cached_room == 0 {
            return None;
        }
        // SAFETY: there is a front chunk, and it is live (module invariants).
        unsafe { Chunk::from_raw(self.first_cached) }
    }

    /// How many chunks are cached.
    pub fn chunks_cached(&self) -> usize {
        usize::from(self.cached_room != 0) + self.rest_count
    }

    /// Bytes of the cached chunks.
    pub fn bytes_cached(&self) -> usize {
        self.first_cached().map_or(0, Chunk::size) + self.rest_bytes
    }

    /// Takes the front chunk, which the caller then owns. The next one becomes the front chunk.
    pub fn take_first(&mut self) -> Option<Chunk> {
        let first = self.first_cached()?;
        self.bring_forward(first.previous());
        Some(first)
    }

    /// Takes the first chunk with more than `bytes` of room, if there is one. Those before it,
    /// which are too small for what the thread does now, stay.
    pub fn take_with_room(&mut self, bytes: usize) -> Option<Chunk> {
        if fits_in_room(bytes, self.first_cached()?.room()) {
            return self.take_first();
        }
        let mut before = self.first_cached()?;
        loop {
            let chunk = before.previous()?;
            if fits_in_room(bytes, chunk.room()) {
                self.unlink(before, chunk);
                return Some(chunk);
            }
            before = chunk;
        }
    }

    /// Puts a chunk at the front, or frees it if it is too large for that.
    ///
    /// # Safety
    /// The chunk is in no list any more, and holds no live frame.
    pub unsafe fn keep(&mut self, chunk: Chunk) {
        if chunk.size() > LARGEST_CACHED_CHUNK {
            // SAFETY: the caller says that the chunk is in no list and holds no live frame.
            unsafe { chunk.free() };
            return;
        }
        // This chunk was needed above a front chunk because that one was too small.
        while let Some(first) = self.first_cached() {
            if chunk.size() < first.size() || first.size() == LARGEST_GROWN_CHUNK {
                break;
            }
            self.bring_forward(first.previous());
            // SAFETY: out of the list, and chunks of the cache hold no frame.
            unsafe { first.free() };
        }
        let after = self.first_cached();
        if let Some(first) = after {
            self.rest_count += 1;
            self.rest_bytes += first.size();
        }
        // SAFETY: in no list any more, as the caller says, so the chunk is ours; so is the cache.
        unsafe { chunk.set_previous(after) };
        // INVARIANT: the two fields change together.
        self.first_cached = chunk.as_ptr();
        self.cached_room = chunk.room();
        while self.rest_bytes > self.claimed && !self.claim_the_rest() {
            self.free_deepest();
        }
    }

    /// Called each time the thread has left a chunk.
    ///
    /// Frees what was not used during the last [`SWITCHES_TO_WAIT`] of these calls.
    #[inline(always)]
    pub fn count_switch(&mut self) {
        self.chunks_popped += 1;
        if self.chunks_popped % SWITCHES_TO_WAIT == 0 {
            while self.fewest_rest > 0 {
                self.free_deepest();
            }
            self.give_claims_back();
            self.fewest_rest = self.rest_count;
        }
    }

    /// Frees all chunks after the front.
    pub fn keep_first_only(&mut self) {
        while self.rest_count > 0 {
            self.free_deepest();
        }
        self.give_claims_back();
    }

    /// Frees all chunks. Returns whether there were any.
    pub fn clear_cache(&mut self) -> bool {
        self.keep_first_only();
        let first = self.take_first();
        if let Some(first) = first {
            // SAFETY: taken, so in no list; chunks of the cache hold no frame.
            unsafe { first.free() };
        }
        first.is_some()
    }

    /// Makes `chunk`, the next one, the front chunk; or empties the cache.
    fn bring_forward(&mut self, chunk: Option<Chunk>) {
        // INVARIANT: the two fields change together.
        self.first_cached = chunk.map_or(null_mut(), Chunk::as_ptr);
        self.cached_room = chunk.map_or(0, Chunk::room);
        if let Some(chunk) = chunk {
            self.count_less(chunk);
        }
    }

    /// Takes `chunk` out of the list; `before` is the one before it.
    fn unlink(&mut self, before: Chunk, chunk: Chunk) {
        // SAFETY: the cache is this thread's.
        unsafe { before.set_previous(chunk.previous()) };
        self.count_less(chunk);
    }

    /// A chunk is no longer after the front.
    fn count_less(&mut self, chunk: Chunk) {
        self.rest_count -= 1;
        self.rest_bytes -= chunk.size();
        self.fewest_rest = self.fewest_rest.min(self.rest_count);
    }

    /// Frees the last chunk after the front, if there is one. Only the deepest recursions need it.
    fn free_deepest(&mut self) {
        let Some(mut before) = self.first_cached() else { return };
        let Some(mut deepest) = before.previous() else { return };
        while let Some(next) = deepest.previous() {
            (before, deepest) = (deepest, next);
        }
        self.unlink(before, deepest);
        // SAFETY: out of the list, and chunks of the cache hold no frame.
        unsafe { deepest.free() };
    }

    /// Claims what is missing for the chunks after the front; false if less is left.
    fn claim_the_rest(&mut self) -> bool {
        let missing = self.rest_bytes - self.claimed;
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
        let surplus = self.claimed - self.rest_bytes;
        if surplus > 0 {
            self.claimed -= surplus;
            with_left_to_claim(|left| left.fetch_add(surplus, Relaxed));
        }
    }
}
