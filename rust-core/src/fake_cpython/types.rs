//! Types that the crate makes.

use super::exceptions::PyErr_NoMemory;
use super::memory::is_allowed;
use super::objects::{incref, with_zeros, TestObject};
use crate::cpython::{destructor, PyObject, PyTypeObject, PyType_Spec, Py_tp_dealloc};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// A new type, of which nothing but its size and its destructor is known.
#[no_mangle]
extern "C" fn PyType_FromSpec(spec: *mut PyType_Spec) -> *mut PyObject {
    if !is_allowed() {
        return PyErr_NoMemory();
    }
    let kind: *mut PyTypeObject = with_zeros(null_mut(), 0);
    // SAFETY: a type made just now, and a specification, which lives for ever.
    let mut slot = unsafe {
        (*kind).tp_name = (*spec).name;
        (*kind).tp_basicsize = (*spec).basicsize as isize;
        (*spec).slots
    };
    // SAFETY: the slots end with one that is 0. This one has a destructor, as its number says.
    unsafe {
        while (*slot).slot != 0 {
            if (*slot).slot == Py_tp_dealloc as c_int {
                (*kind).tp_dealloc = std::mem::transmute::<*mut c_void, destructor>((*slot).pfunc);
            }
            slot = slot.add(1);
        }
    }
    kind.cast()
}

#[no_mangle]
extern "C" fn PyType_GenericAlloc(kind: *mut PyTypeObject, _: isize) -> *mut PyObject {
    if !is_allowed() {
        return PyErr_NoMemory();
    }
    // SAFETY: a type from `PyType_FromSpec`, which its objects refer to, and of which the collector knows none.
    // There is room for a head.
    unsafe {
        incref(kind.cast());
        let more = (*kind).tp_basicsize as usize - size_of::<TestObject>();
        let object: *mut TestObject = with_zeros(kind, more);
        object.cast()
    }
}
