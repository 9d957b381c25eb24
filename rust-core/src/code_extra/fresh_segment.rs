//! The memory of the registry's segments.
//!
//! It is owned by a value here until the segment is in place, so an early return frees it. It is
//! never asked for, nor given back, while the lock is held: an allocator may be hooked and run
//! anything.

use crate::cpython::{PyMem_RawCalloc, PyMem_RawFree};
use core::ptr::NonNull;

/// Zeroed memory for `count` values of `T`, for which zeros are valid.
pub struct FreshSegment<T>(NonNull<T>);

impl<T> FreshSegment<T> {
    /// `None` without memory.
    ///
    /// # Safety
    /// All zeros is a valid `T`.
    pub unsafe fn allocate(count: usize) -> Option<Self> {
        // SAFETY: the function takes any size and needs no thread state.
        let block = unsafe { PyMem_RawCalloc(count, size_of::<T>()) };
        NonNull::new(block.cast()).map(FreshSegment)
    }

    pub fn into_raw(self) -> *mut T {
        let block = self.0.as_ptr();
        core::mem::forget(self);
        block
    }
}

impl<T> Drop for FreshSegment<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated above, and nobody else has seen it.
        unsafe { free_segment(self.0.as_ptr()) };
    }
}

/// # Safety
/// `segment` is NULL, or came from [`FreshSegment::into_raw`] and is not used any more.
pub unsafe fn free_segment<T>(segment: *mut T) {
    // SAFETY: the caller's contract.
    unsafe { PyMem_RawFree(segment.cast()) };
}
