//! How code of others is run where an exception may be set already.

use crate::cpython as c;

/// Runs `work` without the thread's exception, which is as it was afterwards. What `work` has
/// raised is cleared by `report`, and not passed on.
///
/// # Safety
/// The calling thread is attached, and holds no lock: `work` may run any code.
pub unsafe fn run_aside(work: impl FnOnce(), report: impl FnOnce()) {
    // SAFETY: attached, by contract. What was taken is given back.
    unsafe {
        let pending = c::PyErr_GetRaisedException();
        work();
        if !c::PyErr_Occurred().is_null() {
            report();
        }
        c::PyErr_SetRaisedException(pending);
    }
}

/// Gives something up while an exception is set, which stays as it is.
///
/// # Safety
/// As for [`run_aside`].
pub unsafe fn drop_aside<T>(what: T) {
    // SAFETY: the caller's contract.
    unsafe { run_aside(|| drop(what), || c::PyErr_Clear()) };
}
