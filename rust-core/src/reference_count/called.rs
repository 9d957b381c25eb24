//! References that CPython's own functions take and give up.

use crate::cpython::PyObject;
pub use crate::cpython::{Py_DecRef as decref, Py_IncRef as incref};

/// As [`decref`]. What `enter` returns lives as long as the destructor runs, if there is one to
/// run: only CPython knows.
///
/// # Safety
/// As for `decref`.
#[inline(always)]
pub unsafe fn decref_within<T>(object: *mut PyObject, enter: impl FnOnce() -> T) {
    let _within = enter();
    // SAFETY: the caller's contract.
    unsafe { decref(object) };
}
