//! A chunk: a block of slots with a header, as CPython lays it out.

use super::sizes::room_in;
use crate::cpython::{_PyStackChunk, PyObject};
use crate::layout::CHUNK_DATA;
use crate::memory::{arena_alloc, arena_free};
use core::ptr::{null_mut, NonNull};

/// A slot of a frame: one object pointer.
pub type Slot = *mut PyObject;

/// A chunk. A `Chunk` may be copied; owning the memory is the matter of the list that it is in:
/// the chunks of a stack, or the chunk cache of a thread.
///
/// # Invariants
/// Points to a live chunk whose `size` is the size of its allocation.
#[derive(Clone, Copy, PartialEq)]
pub struct Chunk(NonNull<_PyStackChunk>);

impl Chunk {
    /// # Safety
    /// `chunk` is NULL or points to a live chunk.
    #[inline(always)]
    pub unsafe fn from_raw(chunk: *mut _PyStackChunk) -> Option<Self> {
        NonNull::new(chunk).map(Chunk)
    }

    /// A new chunk of `bytes` bytes, in no list yet; `None` without memory.
    pub fn allocate(bytes: usize) -> Option<Self> {
        let header: NonNull<_PyStackChunk> = arena_alloc(bytes)?.cast();
        let raw = header.as_ptr();
        // SAFETY: the block is ours, pointer-aligned, and larger than a header.
        // Fields are written one by one: the block is not initialized yet.
        unsafe {
            (&raw mut (*raw).previous).write(null_mut());
            (&raw mut (*raw).size).write(bytes);
            (&raw mut (*raw).top).write(0);
        }
        // INVARIANT: live, and `size` is the requested one.
        Some(Chunk(header))
    }

    /// # Safety
    /// The chunk is in no list any more and nothing uses its slots.
    pub unsafe fn free(self) {
        let bytes = self.size();
        // SAFETY: chunks come from the arena allocator, those of other tools
        // too, with the size that their header says (the type's invariant).
        unsafe { arena_free(self.0.cast(), bytes) };
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut _PyStackChunk {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn size(self) -> usize {
        // SAFETY: live, by the type's invariant.
        unsafe { (*self.as_ptr()).size }
    }

    /// The next chunk of the list that the chunk is in.
    #[inline(always)]
    pub fn previous(self) -> Option<Chunk> {
        // SAFETY: live, and both kinds of list hold live chunks only.
        unsafe { Chunk::from_raw((*self.as_ptr()).previous) }
    }

    /// Puts the chunk into a list, in front of `previous`.
    ///
    /// # Safety
    /// The caller owns the chunk and the list.
    #[inline(always)]
    pub unsafe fn set_previous(self, previous: Option<Chunk>) {
        // SAFETY: live by the type's invariant. The caller owns the list, so no other thread walks it meanwhile;
        // out-of-process profilers read chunks, but write none.
        unsafe { (*self.as_ptr()).previous = previous.map_or(null_mut(), Chunk::as_ptr) };
    }

    /// The first slot.
    #[inline(always)]
    pub fn data(self) -> *mut Slot {
        // SAFETY: every chunk is larger than its header.
        unsafe { self.as_ptr().byte_add(CHUNK_DATA).cast() }
    }

    /// The end of the last slot.
    #[inline(always)]
    pub fn limit(self) -> *mut Slot {
        // SAFETY: one past the end of the allocation.
        unsafe { self.as_ptr().byte_add(self.size()).cast() }
    }

    /// Bytes for frames, unless the chunk is a root.
    pub fn room(self) -> usize {
        room_in(self.size())
    }
}
