//! Memory for chunks, from CPython's arena allocator.
//!
//! Chunks must come from there and from nowhere else: outside tools (greenlet)
//! free chunks through `PyObject_GetArenaAllocator`, and an embedder that
//! replaces that allocator expects to see every chunk. Nothing is kept here.

use crate::cpython::{_PyObject_VirtualAlloc, _PyObject_VirtualFree};
use core::ptr::NonNull;

/// Allocates `bytes` bytes with the arena allocator, aligned for pointers.
///
/// `None` when it has none; no exception is set. Costs an `mmap` by default.
pub(crate) fn arena_alloc(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the function takes any size, and the allocator behind it is
    // always installed while an interpreter runs.
    let block = unsafe { _PyObject_VirtualAlloc(bytes) };
    NonNull::new(block.cast())
}

/// Gives a block back to the arena allocator.
///
/// # Safety
/// `block` came from the arena allocator with exactly `bytes` bytes, and
/// nothing refers to it any more.
pub(crate) unsafe fn arena_free(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller says that the block came from this allocator with that size, and that nothing
    // refers to it any more.
    unsafe { _PyObject_VirtualFree(block.as_ptr().cast(), bytes) };
}
