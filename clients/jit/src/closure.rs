//! Functions as values, and the variables of enclosing functions.
//!
//! A function that is made anew for each call of another one has the same code, globals and builtins each time: these are its kind,
//! and compiled code of it is passed the function, in whose closure it finds the cells.

use crate::kind::{Callable, Kind};
use crate::python::{CellObject, CodeObject, PyCell_Type};
use pyo3::ffi::{self, PyFunctionObject, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyWeakrefReference};
use std::collections::HashMap;
use std::sync::Mutex;

/// After so many entries those of functions that are gone are removed.
const MANY: usize = 256;

/// For each kind of a function one that has it.
static KNOWN: Mutex<Option<HashMap<Callable, Py<PyWeakrefReference>>>> = Mutex::new(None);

/// # Safety
/// A function that is alive, and the thread is attached.
unsafe fn callable_of(function: *mut PyObject) -> Callable {
    // SAFETY: by contract.
    let function = unsafe { &*function.cast::<PyFunctionObject>() };
    let (code, globals) = (function.func_code as usize, function.func_globals as usize);
    Callable { code, globals, builtins: function.func_builtins as usize }
}

/// Whether the object is a function of this kind.
///
/// # Safety
/// An object that is alive, and the thread is attached.
pub unsafe fn is_of(object: *mut PyObject, callable: Callable) -> bool {
    // SAFETY: by contract.
    unsafe { ffi::PyFunction_Check(object) != 0 && callable_of(object) == callable }
}

/// Whether an object is a cell.
pub fn is_cell(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: an object.
    unsafe { ffi::Py_TYPE(object.as_ptr()) == std::ptr::addr_of_mut!(PyCell_Type) }
}

/// The kind of a function, or of a cell.
pub fn kind_of(object: &Bound<'_, PyAny>) -> Option<Kind> {
    if is_cell(object) {
        return Some(Kind::Cell);
    }
    let function = object.cast_exact::<PyFunction>().ok()?;
    // SAFETY: attached, as the binding says, and a function.
    let callable = unsafe { callable_of(function.as_ptr()) };
    if function_of(object.py(), callable).is_none() {
        let weak = PyWeakrefReference::new(function).ok()?.unbind();
        let mut known = KNOWN.lock().ok()?;
        let known = known.get_or_insert_default();
        if known.len() >= MANY {
            known.retain(|_, weak| weak.bind(object.py()).upgrade().is_some());
        }
        known.insert(callable, weak);
    }
    Some(Kind::Function(callable))
}

/// A function of this kind that is alive.
pub fn function_of(py: Python<'_>, callable: Callable) -> Option<Bound<'_, PyFunction>> {
    let found = KNOWN.lock().ok()?.as_ref()?.get(&callable)?.bind(py).upgrade()?;
    // SAFETY: attached, and a function, whose code may be another one now.
    let is_same = unsafe { is_of(found.as_ptr(), callable) };
    found.cast_into_exact().ok().filter(|_| is_same)
}

/// How many variables of enclosing functions a code object uses, and the slot of the first one.
///
/// # Safety
/// A code object.
pub unsafe fn free_variables(code: *mut PyObject) -> (usize, usize) {
    // SAFETY: by contract; the fields never change; *layouts*.
    let (free, all) = unsafe {
        let code = &*code.cast::<CodeObject>();
        (code.free, code.locals_plus)
    };
    let count = usize::try_from(free).unwrap_or(0);
    (count, usize::try_from(all).unwrap_or(0).saturating_sub(count))
}

/// The content of the cell that a function's frames have in a slot, borrowed; NULL if it is empty, `None` if there is no such cell.
///
/// # Safety
/// A function that is alive, and the thread is attached.
pub unsafe fn content(function: *mut PyObject, slot: u32) -> Option<*mut PyObject> {
    // SAFETY: by contract; the closure is NULL or a tuple of cells, as many as the code has free variables.
    unsafe {
        let function = &*function.cast::<PyFunctionObject>();
        let (count, first) = free_variables(function.func_code);
        let index = (slot as usize).checked_sub(first).filter(|index| *index < count)?;
        if function.func_closure.is_null() {
            return None;
        }
        let cell = ffi::PyTuple_GET_ITEM(function.func_closure, index as ffi::Py_ssize_t);
        Some((*cell.cast::<CellObject>()).content)
    }
}

/// What is in that cell, if anything.
pub fn in_cell<'py>(function: &Bound<'py, PyFunction>, slot: u32) -> Option<Bound<'py, PyAny>> {
    // SAFETY: attached, as the binding says, and a function; the cell keeps its content.
    unsafe {
        let content = content(function.as_ptr(), slot)?;
        Bound::from_borrowed_ptr_or_opt(function.py(), content)
    }
}
