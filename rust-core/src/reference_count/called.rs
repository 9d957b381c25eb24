//! References that CPython's own functions take and give up.

use crate::cpython::PyObject;
pub use crate::cpython::{Py_DecRef as decref, Py_IncRef as incref};

/// As [`decref`]. What `enter` returns lives for the whole call, since only CPython knows whether a
/// destructor runs.
///
/// # Safety
/// As for `decref`.
#[inline(always)]
pub unsafe fn decref_within<T>(object: *mut PyObject, enter: impl FnOnce() -> T) {
    let _within = enter();
    // SAFETY: the caller passes a live object and gives up a reference to it, attached.
    unsafe { decref(object) };
}
