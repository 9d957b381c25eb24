//! What compiled code calls to make, store and release objects.
//!
//! *No foreign code*: none of it runs code of the program. New ints and floats are not tracked by the collector, a list that is
//! made at most has the collector run later, and only what `is_plain` says so of is freed at once.

use crate::buffers;
use crate::instances;
use crate::kind::Kind;
use crate::lists::{cleared, Item};
use crate::methods;
use crate::python::{self, type_of, CellObject, OfAddress, LONG_SIZE};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

pub fn int_type() -> usize {
    std::ptr::addr_of_mut!(ffi::PyLong_Type) as usize
}

pub fn float_type() -> usize {
    std::ptr::addr_of_mut!(ffi::PyFloat_Type) as usize
}

/// The type of Python functions.
pub fn function_type() -> usize {
    std::ptr::addr_of_mut!(ffi::PyFunction_Type) as usize
}

/// The type of a container's objects, or the class of an instance; 0 for another kind.
pub fn container_type(kind: &Kind) -> usize {
    match kind {
        Kind::List(_) => std::ptr::addr_of_mut!(ffi::PyList_Type) as usize,
        Kind::TupleObject(_) => std::ptr::addr_of_mut!(ffi::PyTuple_Type) as usize,
        Kind::Bytes => std::ptr::addr_of_mut!(ffi::PyBytes_Type) as usize,
        Kind::ByteArray => std::ptr::addr_of_mut!(ffi::PyByteArray_Type) as usize,
        Kind::Instance(class) => *class,
        _ => 0,
    }
}

/// The ints of which there is one object each, one behind the other from `address`. All that compiled code has to do with them is to
/// find the object of a number.
#[derive(Clone, Copy)]
pub struct SmallInts {
    pub first: i64,
    pub count: i64,
    pub address: usize,
}

/// CPython has them for all of its interpreters. If they lay otherwise, none would be found.
pub fn small_ints() -> SmallInts {
    const FIRST: i64 = -5;
    const COUNT: i64 = 262;
    static FOUND: OnceLock<SmallInts> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: attached: code is being compiled. Nothing depends on whether they live on but an address that is compared.
        let address = |number| unsafe {
            let object = cleared(ffi::PyLong_FromLongLong(number));
            ffi::Py_XDECREF(object);
            object as usize
        };
        let start = address(FIRST);
        let is_as_expected =
            (0..COUNT).all(|i| address(FIRST + i) == start + (i * LONG_SIZE) as usize);
        let count = if is_as_expected { COUNT } else { 0 };
        SmallInts { first: FIRST + COUNT - count, count, address: start }
    })
}

/// `False` and `True`.
pub fn bools() -> (usize, usize) {
    // SAFETY: the addresses of immortal objects of the interpreter.
    unsafe { (ffi::Py_False() as usize, ffi::Py_True() as usize) }
}

pub fn none() -> usize {
    // SAFETY: the address of an immortal object of the interpreter.
    unsafe { ffi::Py_None() as usize }
}

/// # Safety
/// As for `is_simple`.
unsafe fn is_number_or_none(object: *mut PyObject) -> bool {
    // SAFETY: by contract; None is immortal.
    let (ty, none) = unsafe { (type_of(object), ffi::Py_None()) };
    let numbers: [*mut PyTypeObject; 3] = [
        std::ptr::addr_of_mut!(ffi::PyLong_Type),
        std::ptr::addr_of_mut!(ffi::PyFloat_Type),
        std::ptr::addr_of_mut!(ffi::PyBool_Type),
    ];
    numbers.contains(&ty) || object == none
}

/// Whether the object is freed without any code of the program: a number, None, or text.
///
/// # Safety
/// An object that is alive, and the thread is attached.
pub unsafe fn is_simple(object: *mut PyObject) -> bool {
    // SAFETY: by contract.
    let ty = unsafe { type_of(object) };
    let text: [*mut PyTypeObject; 2] =
        [std::ptr::addr_of_mut!(ffi::PyBytes_Type), std::ptr::addr_of_mut!(ffi::PyUnicode_Type)];
    // SAFETY: by contract.
    text.contains(&ty) || unsafe { is_number_or_none(object) }
}

/// Whether no code of the program runs when all of these references are released, one by one: others keep the objects, or what is freed
/// are containers of such objects, and numbers and text.
///
/// # Safety
/// The thread is attached; objects that are alive.
pub unsafe fn are_plain(objects: &[*mut PyObject]) -> bool {
    let (long, float) =
        (std::ptr::addr_of_mut!(ffi::PyLong_Type), std::ptr::addr_of_mut!(ffi::PyFloat_Type));
    let may_matter = |object: &*mut PyObject| {
        // SAFETY: an object of the caller, or an item of a container that is alive; nothing changes them meanwhile.
        let ty = unsafe { type_of(*object) };
        // SAFETY: as above.
        ty != long && ty != float && !unsafe { is_simple(*object) }
    };
    let mut work: SmallVec<[*mut PyObject; 8]> =
        objects.iter().copied().filter(may_matter).collect();
    if work.is_empty() {
        return true;
    }
    let mut known = None;
    // Of objects with several references: how many of them go. What is freed loses its items.
    let mut gone: HashMap<usize, isize, BuildHasherDefault<OfAddress>> = HashMap::default();
    while let Some(object) = work.pop() {
        // SAFETY: as above.
        let (ty, references) = unsafe { (type_of(object), ffi::Py_REFCNT(object)) };
        if references > 1 {
            let count = gone.entry(object as usize).or_insert(0);
            *count += 1;
            if *count < references {
                continue;
            }
        }
        if ty == std::ptr::addr_of_mut!(ffi::PyByteArray_Type) {
            continue;
        }
        // SAFETY: as above.
        if unsafe { buffers::is_memory(object) } {
            continue;
        }
        let known = known.get_or_insert_with(instances::Known::of_all);
        let released = |value| work.extend(may_matter(&value).then_some(value));
        // SAFETY: as above.
        if known.as_ref().is_some_and(|known| unsafe { known.values_of(object, released) }) {
            continue;
        }
        // SAFETY: as above.
        if let Some((_, itself)) = unsafe { methods::parts_of(object) } {
            work.extend([itself].into_iter().filter(may_matter));
            continue;
        }
        // SAFETY: as above.
        let Some(items) = (unsafe { items_of(object) }) else { return false };
        let waiting = work.len();
        work.extend(items.iter().copied().filter(may_matter));
        gone.reserve(work.len() - waiting);
    }
    true
}

/// The items of an exact list or tuple.
///
/// # Safety
/// An object that is alive, and the thread is attached; the result is used until the container changes.
pub unsafe fn items_of<'a>(object: *mut PyObject) -> Option<&'a [*mut PyObject]> {
    // SAFETY: by contract. A list without items may have no memory for them.
    unsafe {
        let ty = type_of(object);
        let items = if ty == std::ptr::addr_of_mut!(ffi::PyTuple_Type) {
            std::ptr::addr_of!((*object.cast::<ffi::PyTupleObject>()).ob_item).cast()
        } else if ty == std::ptr::addr_of_mut!(ffi::PyList_Type) {
            (*object.cast::<ffi::PyListObject>()).ob_item.cast_const()
        } else {
            return None;
        };
        let size = ffi::Py_SIZE(object) as usize;
        Some(if size == 0 { &[] } else { std::slice::from_raw_parts(items, size) })
    }
}

/// Whether no code of the program runs when a reference to a container is released.
///
/// # Safety
/// As for `is_simple`.
pub unsafe extern "C" fn is_plain(container: *mut PyObject) -> u64 {
    // SAFETY: by contract.
    u64::from(unsafe { are_plain(&[container]) })
}

/// The same of references to so many containers.
///
/// # Safety
/// As for `are_plain`.
pub unsafe extern "C" fn all_plain(containers: *const *mut PyObject, count: i64) -> u64 {
    // SAFETY: by contract.
    u64::from(unsafe { are_plain(std::slice::from_raw_parts(containers, count as usize)) })
}

/// Frees a container, of which the caller has the last reference.
///
/// # Safety
/// Attached; a guard has found that no code of the program runs.
pub unsafe extern "C" fn free(container: *mut PyObject) {
    // SAFETY: by contract.
    unsafe { ffi::Py_DECREF(container) };
}

/// The value of an exact int; 0: it does not fit.
///
/// # Safety
/// An exact int, the thread is attached, and `result` can be written.
pub unsafe extern "C" fn int_value(object: *mut PyObject, result: *mut i64) -> u64 {
    // SAFETY: by contract.
    let Some(value) = (unsafe { python::int_value(object) }) else { return 0 };
    // SAFETY: compiled code passes the address of a stack slot of its own.
    unsafe { *result = value };
    1
}

/// Puts an object, of which a reference is taken over, into the place of an item of a list; 0: it was not done, and the reference is
/// released, because code of the program could run when the old item is released.
///
/// # Safety
/// Attached; the place of an item, and an object that is alive, or NULL.
unsafe fn put(place: *mut *mut PyObject, object: *mut PyObject) -> u64 {
    if object.is_null() {
        // SAFETY: attached. The interpreter raises it again.
        unsafe { ffi::PyErr_Clear() };
        return 0;
    }
    // SAFETY: by contract: the list owns the item.
    unsafe {
        let old = *place;
        if ffi::Py_REFCNT(old) == 1 && !are_plain(&[old]) {
            ffi::Py_DECREF(object);
            return 0;
        }
        *place = object;
        ffi::Py_DECREF(old);
    }
    1
}

/// Stores a reference to an object as an item of a list; 0: leave.
///
/// # Safety
/// As for `put`.
pub unsafe extern "C" fn store(place: *mut *mut PyObject, object: *mut PyObject) -> u64 {
    // SAFETY: by contract.
    unsafe { put(place, ffi::Py_NewRef(object)) }
}

/// Stores an int, or the object that it was read from; 0: leave.
///
/// # Safety
/// As for `put`.
pub unsafe extern "C" fn store_int(
    place: *mut *mut PyObject,
    value: i64,
    object: *mut PyObject,
) -> u64 {
    // SAFETY: by contract.
    unsafe { put(place, known_or(object, || ffi::PyLong_FromLongLong(value))) }
}

/// Stores a float, or the object that it was read from; 0: leave.
///
/// # Safety
/// As for `put`.
pub unsafe extern "C" fn store_float(
    place: *mut *mut PyObject,
    value: f64,
    object: *mut PyObject,
) -> u64 {
    // SAFETY: by contract.
    unsafe { put(place, known_or(object, || ffi::PyFloat_FromDouble(value))) }
}

/// Stores an item in a cell that is empty, or has a number or None; 0: leave.
///
/// # Safety
/// Attached; a cell, and an item whose object is alive.
pub unsafe extern "C" fn store_in_cell(cell: *mut PyObject, item: *const Item) -> u64 {
    let cell = cell.cast::<CellObject>();
    // SAFETY: by contract. What is replaced is freed without code of the program, and nothing has borrowed it.
    unsafe {
        let old = (*cell).content;
        if !old.is_null() && !is_number_or_none(old) {
            return 0;
        }
        let object = (*item).object();
        if object.is_null() {
            ffi::PyErr_Clear();
            return 0;
        }
        (*cell).content = object;
        ffi::Py_XDECREF(old);
    }
    1
}

/// A new reference to the object, or a new object.
///
/// # Safety
/// The object is alive, or NULL, and the thread is attached.
unsafe fn known_or(object: *mut PyObject, make: impl FnOnce() -> *mut PyObject) -> *mut PyObject {
    if object.is_null() {
        return make();
    }
    // SAFETY: by contract.
    unsafe { ffi::Py_NewRef(object) }
}
