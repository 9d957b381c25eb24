//! Arrays of the module `array`, and memoryviews, as parameters: of one dimension, without gaps, of numbers in the machine's format.
//!
//! Each entry into compiled code gets the address of the items through the buffer protocol, and releases the buffer at once. The items
//! stay there until compiled code is left: only code of the program resizes an array or releases a view, and none runs.

use crate::kind::Kind;
use pyo3::ffi::{self, PyObject, Py_buffer};
use pyo3::types::PyType;
use pyo3::{Bound, Py, Python};
use std::ffi::CStr;
use std::sync::Mutex;

/// `struct arrayobject` of the module `array`, which is in no header: `note` compares it with the buffer of an array.
#[repr(C)]
struct ArrayObject {
    head: ffi::PyVarObject,
    items: *mut u8,
    allocated: isize,
    description: *const u8,
}

pub const ITEMS_OF_ARRAY: i32 = std::mem::offset_of!(ArrayObject, items) as i32;
/// What the items are: one address for each format.
pub const DESCRIPTION: i32 = std::mem::offset_of!(ArrayObject, description) as i32;

/// The type of arrays, and by format what their items are. The types are kept alive.
static ARRAYS: Mutex<(Vec<Py<PyType>>, [usize; 128])> = Mutex::new((Vec::new(), [0; 128]));

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

/// The type of arrays of a format, and the address of what their items are, if such an array was seen.
pub fn array(format: u8) -> Option<(usize, usize)> {
    let known = ARRAYS.lock().ok()?;
    let description = *known.1.get(usize::from(format))?;
    known.0.last().map(|ty| (ty.as_ptr() as usize, description)).filter(|_| description != 0)
}

/// Notes what arrays look like, if it is as expected.
///
/// # Safety
/// Attached; an array, and its buffer.
unsafe fn note(object: *mut PyObject, buffer: &Py_buffer, format: u8) {
    // SAFETY: by contract; arrays are at least as large.
    let (ty, array) = unsafe { (ffi::Py_TYPE(object), &*object.cast::<ArrayObject>()) };
    let Ok(mut known) = ARRAYS.lock() else { return };
    // SAFETY: attached; the buffer has one dimension. An array with items says where these are, and then what they are.
    unsafe {
        let is_same = *buffer.shape != 0
            && array.items.cast() == buffer.buf
            && array.head.ob_size == *buffer.shape
            && *array.description == format;
        let (types, descriptions) = &mut *known;
        if is_same && types.last().is_none_or(|last| last.as_ptr() != ty.cast()) {
            let ty = Bound::from_borrowed_ptr(Python::assume_attached(), ty.cast());
            types.push(ty.cast_into_unchecked().unbind());
        }
        if let Some(place) = descriptions.get_mut(usize::from(format)).filter(|_| is_same) {
            *place = array.description as usize;
        }
    }
}

/// Whether an object is an array to which there is no weak reference: what is freed is memory.
///
/// # Safety
/// Attached, and the object is alive.
pub unsafe fn is_memory(object: *mut PyObject) -> bool {
    // SAFETY: by contract; a type says where the weak references of its objects are.
    unsafe {
        let offset = (*ffi::Py_TYPE(object)).tp_weaklistoffset;
        offset > 0
            && is_array(object)
            && (*object.byte_offset(offset).cast::<*mut PyObject>()).is_null()
    }
}

/// The kind of an object that is an array.
///
/// # Safety
/// As for `kind_of`.
pub unsafe fn kind_of_array(object: *mut PyObject) -> Option<Kind> {
    // SAFETY: by contract.
    unsafe {
        if is_array(object) {
            kind_of(object)
        } else {
            None
        }
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
        with_buffer(object, |buffer, format| {
            if array {
                note(object, buffer, format);
            }
            Kind::Buffer { array, format, readonly: buffer.readonly != 0 }
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
