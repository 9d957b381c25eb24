//! Locks whose holder is gone.

use crate::code_extra::Registry;
use crate::cpython::PyInterpreterState;
use crate::in_cpython::FrameHookState;
use crate::mutex::Held;

/// Makes free ones of the frame core's locks, and of the lock under which a thread stops all others of
/// its interpreter: in this interpreter, and in all that follow it in CPython's list of them. In a
/// forked child, and without the GIL where the runtime ends, one thread is left that may run Python;
/// yet another may have such a lock.
///
/// Without the GIL nothing has begun to change what a lock guards, and not ended: other threads are
/// stopped before a process forks and before the runtime ends, and none of them stops in the middle of
/// a change. But CPython gives a lock to a thread that has waited for a millisecond, while that thread
/// sleeps; and the thread that stops the others waits, with the lock for it, until no other interpreter
/// does so. Neither comes to give the lock back. Threads that still sleep for a lock are not woken by
/// who takes it now: a free lock knows of none that wait.
///
/// With the GIL nothing waits for one of these locks: who has it keeps the GIL, and each guards what
/// belongs to one interpreter. So where the runtime ends, nothing is to be done; and nothing may be, as
/// threads of interpreters with a GIL of their own still run. In a forked child these threads are not
/// there, and CPython deletes their interpreters.
///
/// # Safety
/// The list of interpreters does not change. This thread is attached; no other one runs now, or will
/// ever be attached again, but those that this thread starts later.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_ResetLocks(interpreter: *mut PyInterpreterState) {
    let mut next = interpreter;
    while !next.is_null() {
        // SAFETY: live, as it is in the list, which the caller says does not change. No other thread is
        // attached or will be, so none reads or writes a lock, also if it holds it or sleeps for it. An
        // unlocked mutex is all zeros.
        unsafe {
            Held::forget(Registry::of(next).lock_place());
            Held::forget(&raw mut (*FrameHookState::of(next)).watched_lock);
            #[cfg(ferrule_free_threaded)]
            (&raw mut (*next).stoptheworld.mutex).write(core::mem::zeroed());
            next = (*next).next;
        }
    }
}
