//! Locks that a forked child has copied.

use crate::code_extra::Registry;
use crate::cpython::PyInterpreterState;
use crate::in_cpython::FrameHookState;

/// A forked child has one thread. So nobody holds the lock of any interpreter's registry, or that of
/// its watched generators, though one may have been copied as held. Other threads are stopped while
/// a process forks, and none of them stops in the middle of a change. A thread that was handed the
/// lock while it slept may be stopped as its owner, but it has not begun.
///
/// The same is true of the lock under which a thread stops all others of its interpreter: one that
/// has it waits there until the process has forked. CPython leaves that lock as it was copied.
///
/// # Safety
/// Called in a forked child for each interpreter, by an attached thread before any other starts.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_AfterForkInChild(interpreter: *mut PyInterpreterState) {
    // SAFETY: the caller's contract. An unlocked mutex is all zeros.
    unsafe {
        Registry::of(interpreter).forget_lock();
        (*FrameHookState::of(interpreter)).watched_lock = 0;
        #[cfg(ferrule_free_threaded)]
        (&raw mut (*interpreter).stoptheworld.mutex).write(core::mem::zeroed());
    }
}
