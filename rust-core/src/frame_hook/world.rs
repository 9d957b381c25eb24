//! Changes that concern every thread of an interpreter.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::cpython as c;
use crate::thread::Thread;

/// Runs `work` while no other thread of the interpreter runs. It calls nothing that may run Python
/// code, free an object or wait.
pub fn locked<T>(thread: Thread, work: impl FnOnce() -> T) -> T {
    if is_last(thread) {
        return work();
    }
    let interpreter = thread.interpreter();
    // SAFETY: the interpreter is this thread's own.
    unsafe { c::_PyEval_StopTheWorld(interpreter) };
    let result = work();
    // SAFETY: stopped above.
    unsafe { c::_PyEval_StartTheWorld(interpreter) };
    result
}

/// Whether this thread ends its interpreter, and no other one will run in it any more.
///
/// Such a thread must not stop the world: a daemon thread may wait for ever with the lock for it.
/// CPython sets the field of the main interpreter while the world is stopped, and drops the other
/// threads before it starts again. A subinterpreter has no other thread when it ends.
fn is_last(thread: Thread) -> bool {
    // SAFETY: the interpreter is this thread's own, so it is live. Whoever writes the field runs alone
    // in the interpreter, as above; reads and writes are atomic.
    let ends = unsafe { AtomicPtr::from_ptr(&raw mut (*thread.interpreter())._finalizing) };
    ends.load(Ordering::Relaxed) == thread.tstate()
}

/// Makes every code object be asked about once more.
///
/// # Safety
/// The world is stopped.
pub unsafe fn unsettle(thread: Thread) {
    // SAFETY: this thread's own state, with the world stopped. The exception that is set, if any,
    // stays.
    unsafe {
        let pending = c::PyErr_GetRaisedException();
        if c::_PyRust_UnsettleAllCode(thread.tstate()) != 0 {
            // No memory to instrument what executes now. That is done when it is called next.
            c::PyErr_Clear();
        }
        c::PyErr_SetRaisedException(pending);
    }
}
