//! Changes that concern every thread of an interpreter.

use crate::cpython as c;
use crate::thread::Thread;

/// Runs `work` while no other thread of the interpreter runs. It calls nothing that may run Python
/// code, free an object or wait.
pub fn locked<T>(thread: Thread, work: impl FnOnce() -> T) -> T {
    let interpreter = thread.interpreter();
    // SAFETY: the interpreter is this thread's own.
    unsafe { c::_PyEval_StopTheWorld(interpreter) };
    let result = work();
    // SAFETY: stopped above.
    unsafe { c::_PyEval_StartTheWorld(interpreter) };
    result
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
