//! Functions whose vectorcall was set, given back to the interpreter.
//!
//! `PyFunction_SetVectorcall` takes the function's version away, since specialized calls enter its code without calling
//! its vectorcall. Nothing in CPython gives it one again, so calls of it stay unspecialized for ever.

use crate::cpython as c;
use crate::cpython::PyFunctionObject;
use crate::thread::Thread;

/// Sets the function's vectorcall to CPython's own, and gives it a version that no function has had.
///
/// # Safety
/// `function` is a live Python function.
pub unsafe fn restore(thread: Thread, function: *mut PyFunctionObject) {
    // SAFETY: the caller says that the function is live. The interpreter is the thread's; the counter is one of the
    // fields that CPython writes under the GIL, or without one as racily as this does. A version is not in the cache of
    // functions by version, so that the function is never found there with code whose version is another.
    unsafe {
        (*function).vectorcall = Some(c::_PyFunction_Vectorcall);
        if (*function).func_version == 0 {
            let next = &raw mut (*thread.interpreter()).func_state.next_version;
            (*function).func_version = *next;
            if *next != 0 {
                *next += 1;
            }
        }
    }
}
