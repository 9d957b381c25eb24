//! Memory that is not in its place yet.
//!
//! It is owned by a value until then, so an early return frees it. It is never looked up, nor
//! given back, while the lock is held: an allocator may be hooked and run anything.

use core::ffi::c_void;
use core::ptr::NonNull;

/// A block that nothing else has seen. It goes back to its allocator, unless it is put in its place.
pub(super) struct Fresh<T> {
    block: NonNull<T>,
    free: unsafe extern "C" fn(*mut c_void),
}

impl<T> Fresh<T> {
    /// `None` of NULL: there is no memory.
    ///
    /// # Safety
    /// `block` is NULL, or the caller's to give, and a `T` can lie there. `free` takes it back, in
    /// an attached thread.
    pub(super) unsafe fn new(
        block: *mut c_void,
        free: unsafe extern "C" fn(*mut c_void),
    ) -> Option<Self> {
        NonNull::new(block.cast()).map(|block| Fresh { block, free })
    }

    pub(super) fn get(&self) -> NonNull<T> {
        self.block
    }

    pub(super) fn into_raw(self) -> *mut T {
        let block = self.block.as_ptr();
        core::mem::forget(self);
        block
    }
}

impl<T> Drop for Fresh<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: given in `new`, and nothing else has seen it.
        unsafe { (self.free)(self.block.as_ptr().cast()) };
    }
}
