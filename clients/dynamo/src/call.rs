//! Calling Python, through CPython's own function.
//!
//! PyO3 has the body of `PyObject_Vectorcall` in itself, and that body calls what is private.

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use std::ptr::null_mut;

extern "C" {
    fn PyObject_Vectorcall(
        callable: *mut PyObject,
        arguments: *const *mut PyObject,
        count: usize,
        names: *mut PyObject,
    ) -> *mut PyObject;
}

/// Calls it with positional arguments.
#[inline]
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let pointers = arguments.map(Bound::as_ptr);
    // SAFETY: attached. So many arguments, all of which live until the call has returned, and no
    // names. A new reference, or NULL with an exception.
    unsafe {
        let result = PyObject_Vectorcall(callable.as_ptr(), pointers.as_ptr(), N, null_mut());
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}
