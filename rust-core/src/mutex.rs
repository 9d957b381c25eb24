//! A lock that is held: a `PyMutex`, which is a byte in one of CPython's structures.

use crate::cpython::{PyMutex_Lock, PyMutex_Unlock};

/// The right to use what a lock guards. Dropping it unlocks.
///
/// # Invariants
/// The calling thread has locked the byte, which outlives this. A pointer makes the type neither `Send`
/// nor `Sync`: the thread that has locked it unlocks it.
#[must_use = "the lock would be given back at once"]
pub struct Held(*mut u8);

impl Held {
    /// Locks. The thread may be detached while it waits.
    ///
    /// # Safety
    /// - *attached*: the calling thread is attached, and does not hold this lock.
    /// - *live*: `lock` is a `PyMutex`, zero when it is free, which outlives the result.
    #[inline]
    pub unsafe fn lock(lock: *mut u8) -> Self {
        // SAFETY: *attached* and *live*. Other threads reach the byte through the same two functions.
        unsafe { PyMutex_Lock(lock.cast()) };
        Held(lock)
    }

    /// Frees a lock, even if a thread holds it.
    ///
    /// # Safety
    /// *alone*: no other thread exists that may lock it, or wait for it, and `lock` is live.
    #[inline]
    pub unsafe fn forget(lock: *mut u8) {
        // SAFETY: *alone*. An unlocked `PyMutex` is all zeros.
        unsafe { lock.write(0) };
    }
}

impl Drop for Held {
    // Inlined, or its symbol would be exported from the interpreter.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: locked by this thread, and live, says the invariant.
        unsafe { PyMutex_Unlock(self.0.cast()) };
    }
}
