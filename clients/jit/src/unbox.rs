//! From objects to machine words.

use crate::closure;
use crate::containers;
use crate::kind::Kind;
use crate::python::{int_value, type_of, PyCell_Type};
use pyo3::ffi::{self, PyObject};

/// Gives the words of an object as one of this kind; whether it is one.
///
/// # Safety
/// Attached, and the object is alive.
#[inline]
pub unsafe fn unbox_one(kind: &Kind, object: *mut PyObject, put: &mut impl FnMut(u64)) -> bool {
    // SAFETY: the caller says that the object is alive; the others are immortal objects of the interpreter.
    let (ty, no, yes, none) =
        unsafe { (type_of(object), ffi::Py_False(), ffi::Py_True(), ffi::Py_None()) };
    let word = match kind {
        Kind::Int { .. } if ty == std::ptr::addr_of_mut!(ffi::PyLong_Type) => {
            // SAFETY: an exact int that is alive.
            unsafe { int_value(object) }.map(|value| value as u64)
        }
        Kind::Float { .. } if ty == std::ptr::addr_of_mut!(ffi::PyFloat_Type) => {
            // SAFETY: an exact float that is alive.
            Some(unsafe { ffi::PyFloat_AS_DOUBLE(object) }.to_bits())
        }
        Kind::Bool if object == no || object == yes => Some(u64::from(object == yes)),
        _ => None,
    };
    if let Kind::Buffer { .. } = kind {
        // SAFETY: attached, and the object is alive, by contract. Compiled code finds out where its items are.
        let fits = unsafe { crate::buffers::kind_of(object) }.as_ref() == Some(kind);
        [object as u64, 0, 0].into_iter().for_each(put);
        return fits;
    }
    if kind.is_container() || matches!(kind, Kind::Instance(_)) {
        // SAFETY: attached, and the object is alive, by contract.
        let fits = unsafe { crate::containers::is_of(object, kind) };
        if fits {
            put(object as u64);
        }
        return fits;
    }
    if let Kind::Function(callable) = kind {
        put(object as u64);
        // SAFETY: attached, and the object is alive, by contract.
        return unsafe { closure::is_of(object, *callable) };
    }
    if let Kind::Method(definition, list) = kind {
        // SAFETY: attached, and the object is alive, by contract.
        let list = unsafe { containers::list_of_method(object, *definition, list) };
        [object as u64, list.unwrap_or(0) as u64].into_iter().for_each(put);
        return list.is_some();
    }
    let is_object = match kind {
        Kind::Object => true,
        // SAFETY: the object is alive.
        Kind::Cell => ty == std::ptr::addr_of_mut!(PyCell_Type),
        _ => false,
    };
    let is = word.is_some() || is_object || (*kind == Kind::None && object == none);
    if let Some(word) = word {
        put(word);
    }
    let has_object = matches!(kind, Kind::Int { object: true } | Kind::Float { object: true });
    if is && (is_object || has_object) {
        put(object as u64);
    }
    is
}

/// Whether the cells of a function contain what its code was compiled for.
///
/// # Safety
/// As for `content`; the code is that of the function.
#[inline]
pub unsafe fn fits(function: *mut PyObject, cells: &[(u32, Kind)]) -> bool {
    cells.iter().all(|(slot, kind)| {
        // SAFETY: by contract.
        let content = unsafe { closure::content(function, *slot) };
        match (kind, content) {
            (_, None) => false,
            (Kind::Unbound, Some(content)) => content.is_null(),
            (Kind::Constant(address), Some(content)) => content as usize == *address,
            (_, Some(content)) if content.is_null() => false,
            // SAFETY: the cell keeps its content.
            (kind, Some(content)) => unsafe { unbox_one(kind, content, &mut |_| ()) },
        }
    })
}
