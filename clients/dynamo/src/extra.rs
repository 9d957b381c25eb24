//! What is kept with a code object, in one of its extra slots.

use crate::callback::DEFAULT_REGION;
use crate::code_state::CodeState;
use crate::entry::PrecompileEntry;
use crate::strategy::Strategy;
use crate::switch;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyString, PyWeakrefMethods, PyWeakrefReference};
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

/// Requests the slot.
pub fn reserve(_: Python<'_>) -> PyResult<()> {
    // SAFETY: attached, as the `Python` says. The function takes what `set` puts into the slot.
    let index = *INDEX.get_or_init(|| unsafe { PyUnstable_Eval_RequestCodeExtraIndex(free) });
    if index < 0 {
        return Err(PyRuntimeError::new_err("code objects have no extra slot left"));
    }
    Ok(())
}

/// The value of any extra slot, also of one that belongs to another extension; NULL: there is none.
#[inline]
fn value_of(code: &Bound<'_, PyCode>, index: isize) -> *mut c_void {
    let mut extra = null_mut();
    // SAFETY: attached; a code object, and room for the value. Any number is allowed.
    let status = unsafe { PyUnstable_Code_GetExtra(code.as_ptr(), index, &mut extra) };
    if status != 0 {
        drop(PyErr::take(code.py()));
        return null_mut();
    }
    extra
}

/// Whether an extra slot of `code` has a value. Others have slots as well: torch.
pub fn is_slot_used(code: &Bound<'_, PyCode>, index: isize) -> bool {
    !value_of(code, index).is_null()
}

/// What is kept with `code`.
#[inline]
pub fn get<'py>(code: &Bound<'py, PyCode>) -> Option<Bound<'py, CodeState>> {
    let index = *INDEX.get()?;
    let extra = value_of(code, index);
    // SAFETY: NULL, or the reference to a `CodeState` that `set` has put there. Nothing takes it
    // away before a new reference is made: no Python code runs in between. Without a GIL another
    // thread could, by resetting this code object; so the module requires the GIL.
    unsafe {
        let state = Bound::from_borrowed_ptr_or_opt(code.py(), extra.cast())?;
        Some(state.cast_into_unchecked())
    }
}

/// The same; made with the names of the parameters, if need be.
#[inline]
pub fn get_or_new<'py>(
    code: &Bound<'py, PyCode>,
    names: impl FnOnce() -> PyResult<Vec<Py<PyString>>>,
) -> PyResult<Bound<'py, CodeState>> {
    if let Some(state) = get(code) {
        return Ok(state);
    }
    let state = CodeState::new(code, names()?)?.into_pyobject(code.py())?;
    set(code, Some(state.clone()))?;
    Ok(state)
}

/// The same of a code object that has no frame now.
pub fn state_of<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, CodeState>> {
    get_or_new(code, || parameters(code))
}

/// The names of a code object's parameters, as a frame's arguments have them.
fn parameters(code: &Bound<'_, PyCode>) -> PyResult<Vec<Py<PyString>>> {
    let number = |name: &str| code.getattr(name)?.extract::<usize>();
    let flags = number("co_flags")?;
    let stars = usize::from(flags & 0x4 != 0) + usize::from(flags & 0x8 != 0);
    let count = number("co_argcount")? + number("co_kwonlyargcount")? + stars;
    let names = code.getattr("co_varnames")?.try_iter()?.take(count);
    names.map(|name| Ok(name?.cast_into::<PyString>()?.unbind())).collect()
}

pub fn code_of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyCode>> {
    object.cast().map_err(|_| PyTypeError::new_err("expected a code object"))
}

/// Marks a code object with a strategy.
pub fn set_strategy(code: &Bound<'_, PyCode>, strategy: Strategy) -> PyResult<()> {
    let state = state_of(code)?;
    state.get().set_strategy(DEFAULT_REGION, strategy);
    state.get().set_mark(strategy);
    enable_again(code, &state)
}

/// The hook is no longer disabled for a code object.
pub fn enable_again(code: &Bound<'_, PyCode>, state: &Bound<'_, CodeState>) -> PyResult<()> {
    if state.get().take_disabled() {
        switch::enable_for_code(code, true)?;
    }
    Ok(())
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

/// The code objects with which something is kept, once each.
fn known(py: Python<'_>) -> Vec<Bound<'_, PyCode>> {
    let known = with_known(|known| known.iter().map(|it| it.clone_ref(py)).collect::<Vec<_>>());
    let alive = known.iter().filter_map(|it| it.bind(py).upgrade()?.cast_into::<PyCode>().ok());
    let mut codes: Vec<_> = alive.collect();
    codes.sort_by_key(|code| code.as_ptr());
    codes.dedup_by(|one, other| one.is(other));
    codes
}

/// The code objects that were marked, each with its mark.
pub fn marks(py: Python<'_>) -> Vec<(Bound<'_, PyCode>, Strategy)> {
    let codes = known(py).into_iter();
    codes.filter_map(|code| get(&code)?.get().mark().map(|mark| (code, mark))).collect()
}

/// What was loaded for code objects that was compiled elsewhere.
pub fn precompiled(py: Python<'_>) -> Vec<(Bound<'_, PyCode>, Py<PrecompileEntry>)> {
    let list = |code: &Bound<'_, PyCode>| get(code)?.get().precompiled();
    let entries = known(py).into_iter().flat_map(|code| {
        let list = list(&code).unwrap_or_default();
        list.iter().map(|entry| (code.clone(), entry.clone_ref(py))).collect::<Vec<_>>()
    });
    entries.collect()
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
    // SAFETY: CPython calls this with its own thread state attached, and so does `set`. The check
    // that is left out refuses an interpreter that ends, which gives up its code objects.
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
