//! What is kept with a code object, in one of its extra slots.

use crate::code_state::CodeState;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefMethods, PyWeakrefReference};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

extern "C" {
    fn PyUnstable_Eval_RequestCodeExtraIndex(free: extern "C" fn(*mut c_void)) -> isize;
    fn PyUnstable_Code_GetExtra(
        code: *mut PyObject,
        index: isize,
        extra: *mut *mut c_void,
    ) -> c_int;
    fn PyUnstable_Code_SetExtra(code: *mut PyObject, index: isize, extra: *mut c_void) -> c_int;
}

/// The slot. A process has one interpreter that imports this module, and the slot is never given
/// back.
static INDEX: OnceLock<isize> = OnceLock::new();

/// Asks for the slot.
pub fn reserve(_: Python<'_>) -> PyResult<()> {
    // SAFETY: attached, as the `Python` says. The function takes what `set` puts into the slot.
    let index = *INDEX.get_or_init(|| unsafe { PyUnstable_Eval_RequestCodeExtraIndex(free) });
    if index < 0 {
        return Err(PyRuntimeError::new_err("code objects have no extra slot left"));
    }
    Ok(())
}

/// What is kept with `code`.
#[inline]
pub fn get<'py>(code: &Bound<'py, PyCode>) -> Option<Bound<'py, CodeState>> {
    let index = *INDEX.get()?;
    let mut extra = null_mut();
    // SAFETY: attached; a code object, a slot that was handed out, and room for the value.
    let status = unsafe { PyUnstable_Code_GetExtra(code.as_ptr(), index, &mut extra) };
    if status != 0 {
        drop(PyErr::take(code.py()));
        return None;
    }
    // SAFETY: NULL, or the reference to a `CodeState` that `set` has put there. Nothing takes it
    // away before a new reference is made: no Python code runs in between. Without a GIL another
    // thread could, by resetting this code object; so the module asks for the GIL.
    unsafe {
        let state = Bound::from_borrowed_ptr_or_opt(code.py(), extra.cast())?;
        Some(state.cast_into_unchecked())
    }
}

/// The code objects with which something was kept; some of them are gone.
static KNOWN: Mutex<Vec<Py<PyWeakrefReference>>> = Mutex::new(Vec::new());

fn with_known<T>(work: impl FnOnce(&mut Vec<Py<PyWeakrefReference>>) -> T) -> T {
    work(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Remembers a code object, and forgets those that are gone when there are many.
fn remember(code: &Bound<'_, PyCode>) -> PyResult<()> {
    let py = code.py();
    let reference = PyWeakrefReference::new(code)?.unbind();
    let gone = with_known(|known| {
        known.push(reference);
        if !known.len().is_power_of_two() {
            return Vec::new();
        }
        // No Python code runs: nothing but a reference is made and dropped of what is alive.
        let (alive, gone) =
            std::mem::take(known).into_iter().partition(|it| it.bind(py).upgrade().is_some());
        *known = alive;
        gone
    });
    drop(gone);
    Ok(())
}

/// Gives up what is kept with all code objects.
pub fn clear_all(py: Python<'_>) -> PyResult<()> {
    for reference in with_known(std::mem::take) {
        if let Some(code) = reference.bind(py).upgrade() {
            set(code.cast::<PyCode>()?, None)?;
        }
    }
    Ok(())
}

/// Keeps something else with `code`, or nothing. What was there is cleared.
pub fn set(code: &Bound<'_, PyCode>, state: Option<Bound<'_, CodeState>>) -> PyResult<()> {
    let py = code.py();
    let index = *INDEX.get().ok_or_else(|| PyRuntimeError::new_err("no extra slot"))?;
    if state.is_some() {
        remember(code)?;
    }
    let new = state.map_or(null_mut(), |state| state.into_ptr().cast());
    // SAFETY: attached; a code object, and a slot that was handed out. The slot owns the reference.
    // What was there goes to `free`.
    let status = unsafe { PyUnstable_Code_SetExtra(code.as_ptr(), index, new) };
    if status == 0 {
        return Ok(());
    }
    let error = PyErr::fetch(py);
    free(new);
    Err(error)
}

/// Gives up what was kept with a code object, which may be going: also when the interpreter ends.
extern "C" fn free(extra: *mut c_void) {
    if extra.is_null() {
        return;
    }
    // SAFETY: CPython calls this with its own thread state attached, and so does `set`. The check that
    // is spared refuses an interpreter that ends, which gives up its code objects.
    unsafe {
        Python::attach_unchecked(|py| {
            let pending = PyErr::take(py);
            // SAFETY: `set` has put this reference into the slot, which gives it up.
            let state: Bound<'_, PyAny> = Bound::from_owned_ptr(py, extra.cast());
            if let Ok(state) = state.cast::<CodeState>() {
                state.get().clear(py);
            }
            drop(state);
            if let Some(error) = pending {
                error.restore(py);
            }
        });
    }
}
