//! Changes that all threads of an interpreter must see at once.

use crate::cpython as c;
use crate::thread::{NotStopped, Thread};
use core::ffi::c_int;

/// With so many levels of C recursion left, CPython's trashcan neither defers a deallocation nor runs those that it has
/// deferred before: it does the one below its headroom, and the other above twice the headroom.
const KEEPS_THE_TRASHCAN_IDLE: c_int = c::Py_TRASHCAN_HEADROOM as c_int * 3 / 2;

/// Runs `work` while no other thread of the interpreter runs.
///
/// CPython may free lists of its own in it, with tier 2. Destructors of what its trashcan keeps do
/// not run then.
///
/// # Safety
/// *quiet*: `work` calls nothing that may wait, or run Python code: no destructor of an object, no callback, no
/// allocation of one.
pub unsafe fn with_world_stopped<T>(thread: Thread, work: impl FnOnce(&NotStopped) -> T) -> T {
    let (interpreter, tstate) = (thread.interpreter(), thread.tstate());
    // SAFETY: the interpreter and the thread state are this thread's own. Nothing in `work` recurses so deep that it
    // needs to know what is left. *quiet*, says the caller.
    unsafe {
        c::_PyEval_StopTheWorld(interpreter);
        let left =
            core::mem::replace(&mut (*tstate).c_recursion_remaining, KEEPS_THE_TRASHCAN_IDLE);
        let result = work(&thread.not_stopped());
        (*tstate).c_recursion_remaining = left;
        c::_PyEval_StartTheWorld(interpreter);
        result
    }
}

/// De-specializes the RESUME_CHECK of each code object when it executes next.
///
/// # Safety
/// The world is stopped.
pub unsafe fn despecialize_all(thread: Thread) {
    // SAFETY: this thread's own state, with the world stopped. The exception that is set, if any,
    // stays.
    unsafe {
        let pending = c::PyErr_GetRaisedException();
        if c::_PyRust_DespecializeAllCode(thread.tstate()) != 0 {
            // No memory to instrument what executes now. That is done when it is called next.
            c::PyErr_Clear();
        }
        c::PyErr_SetRaisedException(pending);
    }
}

/// An observer that is no tool has come or gone, an evaluator or a hook: compilers are to look again, if there are any.
///
/// # Safety
/// The world is stopped.
pub unsafe fn observers_changed(thread: Thread) {
    // SAFETY: the state is live, and the fields are set with the world stopped, as the version.
    unsafe {
        if (*thread.state()).observers_known && !(*thread.state()).closed {
            despecialize_all(thread);
        }
    }
}
