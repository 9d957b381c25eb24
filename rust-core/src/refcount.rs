//! Reference counts of objects.
//!
//! A build that counts in a way of its own (free threading, assertions,
//! statistics) leaves it to CPython's functions.

use crate::cpython::{_Py_Dealloc, PyObject, Py_DecRef, Py_IncRef, PLAIN_REFCOUNT};

/// Counts one more reference to `object`, and returns it.
///
/// # Safety
/// `object` is live.
#[inline(always)]
pub unsafe fn new_reference(object: *mut PyObject) -> *mut PyObject {
    if PLAIN_REFCOUNT {
        // SAFETY: live by contract, the count comes first, and under the GIL
        // nobody else counts. Its lower half would wrap to 0 for an immortal
        // object only, which stays as it is (PEP 683).
        unsafe {
            let count = object.cast::<u32>();
            let more = (*count).wrapping_add(1);
            if more != 0 {
                *count = more;
            }
        }
    } else {
        // SAFETY: live by contract.
        unsafe { Py_IncRef(object) };
    }
    object
}

/// Gives up a reference to `object`, and frees the object if it was the last.
///
/// # Safety
/// The caller owns the reference. Any code may run.
#[inline(always)]
pub unsafe fn drop_reference(object: *mut PyObject) {
    if PLAIN_REFCOUNT {
        // SAFETY: live by contract; the lower half of the count is negative for
        // an immortal object only, which stays as it is (PEP 683).
        unsafe {
            if *object.cast::<i32>() < 0 {
                return;
            }
            let count = object.cast::<isize>();
            *count -= 1;
            if *count == 0 {
                _Py_Dealloc(object);
            }
        }
    } else {
        // SAFETY: the caller owns the reference.
        unsafe { Py_DecRef(object) };
    }
}
