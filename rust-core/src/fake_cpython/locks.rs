//! Locks, and a world that one thread of a test stops.

use crate::cpython::PyInterpreterState;
use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::yield_now;

thread_local! {
    /// Locks that this thread holds.
    static LOCKS: Cell<usize> = const { Cell::new(0) };
    static STOPPED: Cell<bool> = const { Cell::new(false) };
}

pub fn is_world_stopped() -> bool {
    STOPPED.get()
}

#[no_mangle]
extern "C" fn _PyEval_StopTheWorld(_interp: *mut PyInterpreterState) {
    assert!(!STOPPED.replace(true), "stopped twice");
    assert_eq!(locks_held(), 0, "the others are waited for while a lock is held");
}

#[no_mangle]
extern "C" fn _PyEval_StartTheWorld(_interp: *mut PyInterpreterState) {
    assert!(STOPPED.replace(false), "started without having stopped");
}

pub fn locks_held() -> usize {
    LOCKS.get()
}

/// The locks that this thread holds are not its own any more, as in a forked child.
pub fn forget_locks() {
    LOCKS.set(0);
}

/// A lock of one byte, as `PyMutex` is.
fn byte<'a>(lock: *mut AtomicU8) -> &'a AtomicU8 {
    // SAFETY: the lock of a live state.
    unsafe { &*lock }
}

#[no_mangle]
extern "C" fn PyMutex_Lock(lock: *mut AtomicU8) {
    while byte(lock).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        spin_loop();
        yield_now();
    }
    LOCKS.set(LOCKS.get() + 1);
}

#[no_mangle]
extern "C" fn PyMutex_Unlock(lock: *mut AtomicU8) {
    LOCKS.set(LOCKS.get() - 1);
    byte(lock).store(0, Ordering::Release);
}
