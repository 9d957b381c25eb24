//! What compiled code calls to make and change lists and bytearrays.
//!
//! *No foreign code*: a function here releases numbers alone, or items that have other owners. Where there is no memory, or something
//! else raises, nothing has changed, the exception is cleared, and the interpreter does the same once more.

use pyo3::ffi::{self, PyListObject, PyObject};

/// What of a word of an item is its value.
pub const OBJECT: i64 = 0;
pub const INT: i64 = 1;
pub const FLOAT: i64 = 2;

/// An item as compiled code passes it.
#[repr(C)]
pub struct Item {
    /// One of the above.
    tag: i64,
    /// The number.
    bits: u64,
    /// The object, borrowed, or NULL if it is not made yet.
    object: *mut PyObject,
}

impl Item {
    /// The tag, the number, the object.
    pub fn parts(&self) -> (i64, u64, *mut PyObject) {
        (self.tag, self.bits, self.object)
    }

    /// A new reference, or NULL with an exception.
    ///
    /// # Safety
    /// Attached; the object is alive, if there is one.
    pub unsafe fn object(&self) -> *mut PyObject {
        // SAFETY: by contract.
        unsafe {
            match self.tag {
                _ if !self.object.is_null() => ffi::Py_NewRef(self.object),
                INT => ffi::PyLong_FromLongLong(self.bits as i64),
                _ => ffi::PyFloat_FromDouble(f64::from_bits(self.bits)),
            }
        }
    }
}

/// The type that makes containers when it is called, if it is one that is compiled.
pub fn name_of_type(address: usize) -> Option<&'static str> {
    let types = [
        (std::ptr::addr_of_mut!(ffi::PyList_Type), "list"),
        (std::ptr::addr_of_mut!(ffi::PyTuple_Type), "tuple"),
        (std::ptr::addr_of_mut!(ffi::PyByteArray_Type), "bytearray"),
    ];
    types.iter().find(|(ty, _)| *ty as usize == address).map(|(_, name)| *name)
}

/// The object, or NULL without an exception.
///
/// # Safety
/// Attached.
pub unsafe fn cleared(object: *mut PyObject) -> *mut PyObject {
    if object.is_null() {
        // SAFETY: attached.
        unsafe { ffi::PyErr_Clear() };
    }
    object
}

/// 1 for success, or 0 without an exception.
///
/// # Safety
/// Attached.
pub unsafe fn succeeded(status: std::ffi::c_int) -> u64 {
    if status < 0 {
        // SAFETY: attached.
        unsafe { ffi::PyErr_Clear() };
    }
    u64::from(status >= 0)
}

/// A new list of `count` items; NULL: leave.
///
/// # Safety
/// Attached; so many items, whose objects are alive.
pub unsafe extern "C" fn make(items: *const Item, count: i64) -> *mut PyObject {
    // SAFETY: by contract; a new list has room for the items, and owns those that it has when it is freed.
    unsafe {
        let list = cleared(ffi::PyList_New(count as ffi::Py_ssize_t));
        if list.is_null() {
            return list;
        }
        for index in 0..count as isize {
            let object = cleared((*items.offset(index)).object());
            if object.is_null() {
                ffi::Py_DECREF(list);
                return object;
            }
            ffi::PyList_SET_ITEM(list, index, object);
        }
        list
    }
}

/// `list.append(item)`; 0: leave.
///
/// # Safety
/// Attached; an exact list, and an item whose object is alive.
pub unsafe extern "C" fn append(list: *mut PyObject, item: *const Item) -> u64 {
    // SAFETY: by contract. The places up to `allocated` are the list's, and nothing is in that of the new item.
    unsafe {
        let object = cleared((*item).object());
        if object.is_null() {
            return 0;
        }
        let raw = list.cast::<PyListObject>();
        let size = (*raw).ob_base.ob_size;
        if size < (*raw).allocated {
            *(*raw).ob_item.offset(size) = object;
            (*raw).ob_base.ob_size = size + 1;
            return 1;
        }
        let done = succeeded(ffi::PyList_Append(list, object));
        ffi::Py_DECREF(object);
        done
    }
}

/// `list.insert(index, item)`; 0: leave.
///
/// # Safety
/// As for `append`.
pub unsafe extern "C" fn insert(list: *mut PyObject, index: i64, item: *const Item) -> u64 {
    // SAFETY: by contract. Of an index that is negative PyList_Insert() makes what the method makes.
    unsafe {
        let object = cleared((*item).object());
        if object.is_null() {
            return 0;
        }
        let done = succeeded(ffi::PyList_Insert(list, index as ffi::Py_ssize_t, object));
        ffi::Py_DECREF(object);
        done
    }
}

/// Removes the item at an index within the list, whose reference is the caller's if it keeps it (1) or is released (0); 0: leave.
///
/// # Safety
/// Attached; an exact list, and an item that is kept, or a number or None.
pub unsafe extern "C" fn remove(list: *mut PyObject, index: i64, keeps: i64) -> u64 {
    // SAFETY: by contract.
    unsafe {
        let raw = list.cast::<PyListObject>();
        let (index, size) = (index as ffi::Py_ssize_t, (*raw).ob_base.ob_size);
        let place = (*raw).ob_item.offset(index);
        let item = *place;
        // The memory is kept where list.pop() keeps it.
        if size > 1 && size > (*raw).allocated >> 1 {
            std::ptr::copy(place.add(1), place, (size - 1 - index) as usize);
            (*raw).ob_base.ob_size = size - 1;
        } else {
            ffi::Py_INCREF(item);
            let nothing = std::ptr::null_mut();
            if succeeded(ffi::PyList_SetSlice(list, index, index + 1, nothing)) == 0 {
                ffi::Py_DECREF(item);
                return 0;
            }
        }
        if keeps == 0 {
            ffi::Py_DECREF(item);
        }
        1
    }
}

/// `list.reverse()`; always 1.
///
/// # Safety
/// Attached, and an exact list.
pub unsafe extern "C" fn reverse(list: *mut PyObject) -> u64 {
    // SAFETY: by contract.
    unsafe { succeeded(ffi::PyList_Reverse(list)) }
}

/// `list.extend(other)`; 0: leave.
///
/// # Safety
/// Attached; an exact list, and an exact list or tuple.
pub unsafe extern "C" fn extend(list: *mut PyObject, other: *mut PyObject) -> u64 {
    // SAFETY: by contract. The result is the list.
    unsafe {
        let done = cleared(ffi::PySequence_InPlaceConcat(list, other));
        ffi::Py_XDECREF(done);
        u64::from(!done.is_null())
    }
}

/// `list * count`, or of a tuple; NULL: leave.
///
/// # Safety
/// Attached, and an exact list or tuple.
pub unsafe extern "C" fn repeat(list: *mut PyObject, count: i64) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe { cleared(ffi::PySequence_Repeat(list, count as ffi::Py_ssize_t)) }
}

/// `list + other`, or of tuples; NULL: leave.
///
/// # Safety
/// Attached, and exact lists or tuples.
pub unsafe extern "C" fn concatenate(list: *mut PyObject, other: *mut PyObject) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe { cleared(ffi::PySequence_Concat(list, other)) }
}

/// `list[start:stop]`, of which negative ones count from the end; NULL: leave.
///
/// # Safety
/// Attached, and an exact list.
pub unsafe extern "C" fn slice(list: *mut PyObject, start: i64, stop: i64) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe {
        let (start, stop) = within(ffi::PyList_GET_SIZE(list), start, stop);
        cleared(ffi::PyList_GetSlice(list, start, stop))
    }
}

/// The bounds of a slice within a size; negative ones count from the end.
pub fn within(size: ffi::Py_ssize_t, start: i64, stop: i64) -> (ffi::Py_ssize_t, ffi::Py_ssize_t) {
    let place = |index: i64| {
        let size = size as i64;
        let from_start = if index < 0 { (index + size).max(0) } else { index.min(size) };
        from_start as ffi::Py_ssize_t
    };
    (place(start), place(stop).max(place(start)))
}

/// `list(range)` of an iterator's state; NULL: leave.
///
/// # Safety
/// Attached.
pub unsafe extern "C" fn of_range(next: i64, left: i64, step: i64) -> *mut PyObject {
    // SAFETY: attached; as for `make`.
    unsafe {
        let list = cleared(ffi::PyList_New(left as ffi::Py_ssize_t));
        if list.is_null() {
            return list;
        }
        for index in 0..left {
            let number = next.wrapping_add(index.wrapping_mul(step));
            let object = cleared(ffi::PyLong_FromLongLong(number));
            if object.is_null() {
                ffi::Py_DECREF(list);
                return object;
            }
            ffi::PyList_SET_ITEM(list, index as ffi::Py_ssize_t, object);
        }
        list
    }
}

/// `bytearray(count)`; NULL: leave.
///
/// # Safety
/// Attached.
pub unsafe extern "C" fn bytearray(count: i64) -> *mut PyObject {
    // SAFETY: attached; the type is called with an int, which runs no other code. PyByteArray_FromStringAndSize() of 3.13 frees an object
    // that is not initialized where there is no memory.
    unsafe {
        let count = cleared(ffi::PyLong_FromLongLong(count));
        if count.is_null() {
            return count;
        }
        let ty = std::ptr::addr_of_mut!(ffi::PyByteArray_Type).cast();
        let made = cleared(ffi::PyObject_CallOneArg(ty, count));
        ffi::Py_DECREF(count);
        made
    }
}
