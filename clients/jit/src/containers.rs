//! Containers as parameters: what their items are.

use crate::buffers;
use crate::instances;
use crate::kind::Kind;
use crate::methods;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyTuple};

/// How deep lists of lists are looked into.
const DEEPEST: u32 = 3;
/// Of a tuple with more items all are taken to be like the first one.
pub const MOST_KINDS: usize = 8;

/// The kind of an object that is a container, or an instance whose attributes may be compiled.
pub fn kind_of(object: &Bound<'_, PyAny>) -> Option<Kind> {
    of_container(object, DEEPEST).or_else(|| of_instance(object, true))
}

fn of_container(object: &Bound<'_, PyAny>, depth: u32) -> Option<Kind> {
    if object.cast_exact::<PyBytes>().is_ok() {
        return Some(Kind::Bytes);
    }
    if object.cast_exact::<PyByteArray>().is_ok() {
        return Some(Kind::ByteArray);
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        let seen = if tuple.len() > MOST_KINDS { 1 } else { tuple.len() };
        let kind = |item: Bound<'_, PyAny>| of_item(&item, depth).unwrap_or(Kind::Object);
        return Some(Kind::tuple_of(tuple.iter().take(seen).map(kind).collect()));
    }
    let list = object.cast_exact::<PyList>().ok()?;
    let first = list.iter().next(); // without an exception
    let items = first.and_then(|item| of_item(&item, depth)).unwrap_or(Kind::Object);
    Some(Kind::List(Box::new(items)))
}

/// The kind of an object whose attributes may be compiled. `looks`: at what they are now, although its class is known.
fn of_instance(object: &Bound<'_, PyAny>, looks: bool) -> Option<Kind> {
    let (class, is_known) = instances::class_seen(object)?;
    if looks || !is_known {
        for (place, value) in instances::attributes(object) {
            instances::note(class, place, of_item(&value, 1));
        }
    }
    Some(Kind::Instance(class))
}

/// The kind of what a container or an attribute refers to, if it has one.
fn of_item(item: &Bound<'_, PyAny>, depth: u32) -> Option<Kind> {
    if item.is_none() {
        return Some(Kind::None);
    }
    if item.cast_exact::<PyBool>().is_ok() {
        return Some(Kind::Bool);
    }
    if item.cast_exact::<PyInt>().is_ok() {
        return Some(crate::kind::INT);
    }
    if item.cast_exact::<PyFloat>().is_ok() {
        return Some(crate::kind::FLOAT);
    }
    // SAFETY: attached, as the binding says; no exception is set while code is compiled.
    let array = || unsafe { buffers::kind_of_array(item.as_ptr()) };
    if let Some(kind) = of_instance(item, depth == DEEPEST).or_else(array) {
        return Some(kind);
    }
    if depth == 0 {
        return None;
    }
    of_container(item, depth - 1)
}

/// Whether items of this type have a kind.
fn is_known(ty: *mut ffi::PyTypeObject) -> bool {
    let known = [
        std::ptr::addr_of_mut!(ffi::PyLong_Type),
        std::ptr::addr_of_mut!(ffi::PyFloat_Type),
        std::ptr::addr_of_mut!(ffi::PyBool_Type),
        std::ptr::addr_of_mut!(ffi::PyList_Type),
        std::ptr::addr_of_mut!(ffi::PyTuple_Type),
        std::ptr::addr_of_mut!(ffi::PyBytes_Type),
        std::ptr::addr_of_mut!(ffi::PyByteArray_Type),
    ];
    known.contains(&ty)
}

/// Whether an object is a container of this kind, as far as its first item says: an empty list may get any.
///
/// # Safety
/// The object is alive, and the thread is attached.
pub unsafe fn is_of(object: *mut ffi::PyObject, kind: &Kind) -> bool {
    // SAFETY: by contract.
    if unsafe { ffi::Py_TYPE(object) } as usize != crate::objects::container_type(kind) {
        return false;
    }
    if let Kind::TupleObject(items) = kind {
        // SAFETY: an exact tuple, which keeps its items.
        return unsafe {
            let size = ffi::PyTuple_GET_SIZE(object);
            let is = |(index, kind)| begins_with(ffi::PyTuple_GET_ITEM(object, index), kind);
            (size == items.len() as ffi::Py_ssize_t || (items.len() == 1))
                && (0..size).zip(items).all(is)
        };
    }
    let Kind::List(items) = kind else { return true };
    // SAFETY: an exact list, which keeps its items; nothing changes it meanwhile.
    unsafe {
        if ffi::PyList_GET_SIZE(object) == 0 {
            return true;
        }
        begins_with(ffi::PyList_GET_ITEM(object, 0), items)
    }
}

/// Whether the first item of a list, or one of a tuple, is of this kind.
///
/// # Safety
/// An object that is alive, and the thread is attached.
unsafe fn begins_with(first: *mut ffi::PyObject, items: &Kind) -> bool {
    // SAFETY: by contract.
    let ty = unsafe { ffi::Py_TYPE(first) };
    match items {
        Kind::Int { .. } => ty == std::ptr::addr_of_mut!(ffi::PyLong_Type),
        Kind::Float { .. } => ty == std::ptr::addr_of_mut!(ffi::PyFloat_Type),
        Kind::Bool => ty == std::ptr::addr_of_mut!(ffi::PyBool_Type),
        // SAFETY: the address of an immortal object.
        Kind::None => first == unsafe { ffi::Py_None() },
        Kind::Object => !is_known(ty),
        // SAFETY: attached, and the object is alive; no exception is set.
        Kind::Buffer { .. } => unsafe { buffers::kind_of_array(first) }.as_ref() == Some(items),
        // SAFETY: by contract. Where the kind ends, what is in a list is not looked at.
        Kind::List(inner) if **inner != Kind::Object => unsafe { is_of(first, items) },
        other => ty as usize == crate::objects::container_type(other),
    }
}

/// The kind of a method of an exact list.
pub fn kind_of_method(object: &Bound<'_, PyAny>) -> Option<Kind> {
    // SAFETY: attached, as the binding says; the object keeps what it has.
    let (definition, list) = unsafe {
        let (definition, list) = methods::parts_of(object.as_ptr())?;
        (definition, Bound::from_borrowed_ptr(object.py(), list))
    };
    methods::name_of(definition)?;
    let list = kind_of(&list).filter(|kind| matches!(kind, Kind::List(_)))?;
    Some(Kind::Method(definition, Box::new(list)))
}

/// The list of a method of this kind.
///
/// # Safety
/// As for `parts_of`.
pub unsafe fn list_of_method(
    object: *mut ffi::PyObject,
    definition: usize,
    list: &Kind,
) -> Option<usize> {
    // SAFETY: by contract; the object keeps the list.
    let (_, found) =
        unsafe { methods::parts_of(object) }.filter(|(known, _)| *known == definition)?;
    // SAFETY: as above.
    unsafe { is_of(found, list) }.then_some(found as usize)
}
