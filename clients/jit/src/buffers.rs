//! Arrays of the module `array`, and memoryviews, as parameters: of one dimension, without gaps, of numbers in the machine's format.
//!
//! Each entry into compiled code gets the address of the items through the buffer protocol, and releases the buffer at once. The items
//! stay there until compiled code is left: only code of the program resizes an array or releases a view, and none runs.

use crate::kind::Kind;
use pyo3::ffi::{self, PyObject, Py_buffer};
use std::ffi::CStr;

/// Formats of single items that are compiled: signed and unsigned ints of 8 to 64 bits, floats of 32 and 64 bits.
const FORMATS: &[u8] = b"bBhHiIlLqQfd";

/// Calls `look` with the buffer of an object, if it is one that is compiled.
///
/// # Safety
/// Attached, no exception is set, and the object is alive.
unsafe fn with_buffer<T>(
    object: *mut PyObject,
    look: impl FnOnce(&Py_buffer, u8) -> T,
) -> Option<T> {
    let mut buffer = Py_buffer::new();
    let flags = ffi::PyBUF_ND | ffi::PyBUF_FORMAT;
    // SAFETY: by contract. An array or a view runs no other code for it.
    if unsafe { ffi::PyObject_GetBuffer(object, &mut buffer, flags) } != 0 {
        // SAFETY: attached.
        unsafe { ffi::PyErr_Clear() };
        return None;
    }
    let mut found = None;
    if buffer.ndim == 1 && !buffer.format.is_null() && !buffer.shape.is_null() {
        // SAFETY: the buffer was filled: its format is a string of C.
        let format = unsafe { CStr::from_ptr(buffer.format) }.to_bytes();
        if let &[code] = format {
            if FORMATS.contains(&code) {
                found = Some(look(&buffer, code));
            }
        }
    }
    // SAFETY: it was filled above.
    unsafe { ffi::PyBuffer_Release(&mut buffer) };
    found
}

/// Whether an object is an exact `array.array`: the type's name is in C, and no program makes a type that cannot be changed.
///
/// # Safety
/// Attached, and the object is alive.
unsafe fn is_array(object: *mut PyObject) -> bool {
    // SAFETY: a type that is alive has a name.
    unsafe {
        let ty = ffi::Py_TYPE(object);
        ffi::PyType_HasFeature(ty, ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0
            && CStr::from_ptr((*ty).tp_name) == c"array.array"
    }
}

/// The kind of an object that is an array or a view.
///
/// # Safety
/// Attached, no exception is set, and the object is alive.
pub unsafe fn kind_of(object: *mut PyObject) -> Option<Kind> {
    // SAFETY: by contract.
    unsafe {
        let array = is_array(object);
        let is_view = ffi::Py_TYPE(object) == std::ptr::addr_of_mut!(ffi::PyMemoryView_Type);
        if !array && !is_view {
            return None;
        }
        with_buffer(object, |buffer, format| Kind::Buffer {
            array,
            format,
            readonly: buffer.readonly != 0,
        })
    }
}

/// Where the items are, and how many; 0 if the view was released.
///
/// # Safety
/// Attached, no exception is set; an array or a view of a kind that is compiled, and room for two words.
pub unsafe extern "C" fn locate(object: *mut PyObject, words: *mut u64) {
    // SAFETY: by contract; the shape of a buffer of one dimension is one number.
    unsafe {
        let found = with_buffer(object, |buffer, _| (buffer.buf as u64, *buffer.shape as u64));
        let (start, count) = found.unwrap_or((0, 0));
        *words = start;
        *words.add(1) = count;
    }
}
