//! `str`, `tuple`, `bytes` and cells.

use super::exceptions::{raise_decode_error, PyErr_NoMemory};
use super::memory::is_allowed;
use super::objects::{
    decref, incref, is_of_type, keep, name_of, named_type, text_of, with_zeros, TestObject,
};
use crate::cpython::{PyBytesObject, PyCellObject, PyObject, PyTypeObject};
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, CStr};
use std::ptr::null_mut;

pub use super::objects::text;

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static mut PyCell_Type: PyTypeObject =
    PyTypeObject { tp_dealloc: Some(deallocate_cell), ..named_type(c"cell") };
static mut TUPLE_TYPE: PyTypeObject =
    PyTypeObject { tp_dealloc: Some(deallocate_tuple), ..named_type(c"tuple") };
static mut BYTES_TYPE: PyTypeObject = named_type(c"bytes");

// --- str. ---

#[no_mangle]
extern "C" fn PyUnicode_FromString(content: *const c_char) -> *mut PyObject {
    // SAFETY: callers pass a NUL-terminated string, as to CPython's function.
    let content = unsafe { CStr::from_ptr(content) }.to_str();
    match content {
        Ok(_) if !is_allowed() => PyErr_NoMemory(),
        Ok(content) => text(content),
        Err(_) => {
            raise_decode_error();
            null_mut()
        }
    }
}

#[no_mangle]
extern "C" fn PyUnicode_Compare(one: *mut PyObject, other: *mut PyObject) -> c_int {
    let [one, other] = [one, other]
        .map(|it| text_of(it).unwrap_or_else(|| panic!("{} is compared as a str", name_of(it))));
    match one.cmp(&other) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

// --- tuple. ---

#[repr(C)]
struct Tuple {
    head: TestObject,
    items: Vec<*mut PyObject>,
}

/// A new tuple that takes the references to its items over.
pub fn tuple(items: Vec<*mut PyObject>) -> *mut PyObject {
    keep(Tuple { head: TestObject::of_type(&raw mut TUPLE_TYPE), items })
}

/// The items of a tuple, borrowed.
pub fn items(tuple: *mut PyObject) -> Vec<*mut PyObject> {
    assert!(is_of_type(tuple, &raw mut TUPLE_TYPE), "{} is no tuple", name_of(tuple));
    // SAFETY: a tuple of the tests, whose memory stays.
    unsafe { (*tuple.cast::<Tuple>()).items.clone() }
}

unsafe extern "C" fn deallocate_tuple(tuple: *mut PyObject) {
    // SAFETY: a tuple of the tests, whose memory stays and which holds its items.
    unsafe {
        let items = std::mem::take(&mut (*tuple.cast::<Tuple>()).items);
        items.into_iter().filter(|it| !it.is_null()).for_each(|it| decref(it));
    }
}

#[no_mangle]
extern "C" fn PyTuple_GetItem(tuple: *mut PyObject, index: isize) -> *mut PyObject {
    items(tuple)[usize::try_from(index).expect("an index of a tuple")]
}

// --- bytes. ---

/// A new `bytes`.
pub fn bytes(content: &[u8]) -> *mut PyObject {
    let object: *mut PyBytesObject = with_zeros(&raw mut BYTES_TYPE, content.len());
    // SAFETY: memory for a `bytes` with that content and a zero after it.
    unsafe {
        (*object).ob_base.ob_size = content.len() as isize;
        let start: *mut u8 = (&raw mut (*object).ob_sval).cast();
        start.copy_from_nonoverlapping(content.as_ptr(), content.len());
    }
    object.cast()
}

#[no_mangle]
extern "C" fn PyBytes_AsString(bytes: *mut PyObject) -> *mut c_char {
    assert!(is_of_type(bytes, &raw mut BYTES_TYPE), "{} is no bytes", name_of(bytes));
    // SAFETY: a `bytes` of the tests, whose memory stays.
    unsafe { (&raw mut (*bytes.cast::<PyBytesObject>()).ob_sval).cast() }
}

// --- Cells. ---

/// A new cell that takes the reference to its content, which may be NULL, over.
pub fn cell(content: *mut PyObject) -> *mut PyObject {
    let object: *mut PyCellObject = with_zeros(&raw mut PyCell_Type, 0);
    // SAFETY: a cell made just now.
    unsafe { (*object).ob_ref = content };
    object.cast()
}

#[no_mangle]
extern "C" fn PyCell_Get(cell: *mut PyObject) -> *mut PyObject {
    let content = content_of_cell(cell);
    if !content.is_null() {
        // SAFETY: the cell holds it.
        unsafe { incref(content) };
    }
    content
}

/// What is in a cell, borrowed, or NULL.
pub fn content_of_cell(cell: *mut PyObject) -> *mut PyObject {
    assert!(is_of_type(cell, &raw mut PyCell_Type), "{} is no cell", name_of(cell));
    // SAFETY: a cell, whose memory stays.
    unsafe { (*cell.cast::<PyCellObject>()).ob_ref }
}

/// Empties a cell, as `del` does.
pub fn empty_cell(cell: *mut PyObject) {
    let content = content_of_cell(cell);
    // SAFETY: a cell, which holds its content.
    unsafe {
        (*cell.cast::<PyCellObject>()).ob_ref = null_mut();
        if !content.is_null() {
            decref(content);
        }
    }
}

unsafe extern "C" fn deallocate_cell(cell: *mut PyObject) {
    empty_cell(cell);
}
