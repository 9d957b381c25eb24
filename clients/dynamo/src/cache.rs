//! Looking for compiled code.

use crate::call::call;
use crate::callback::DEFAULT_REGION;
use crate::code_state::CodeState;
use crate::entry::CacheEntry;
use crate::settings::{GUARD_ERROR, LRU, SKIP_UNSAFE};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCode, PyDict};

/// Code that may run, and what it is called in a profile.
pub struct Found<'py> {
    pub code: Bound<'py, PyCode>,
    entry: Option<Bound<'py, CacheEntry>>,
}

impl<'py> Found<'py> {
    /// Of an entry. `None`: it has become invalid.
    pub fn of(py: Python<'py>, entry: &Py<CacheEntry>) -> Option<Self> {
        Some(Self { code: entry.get().code_now(py)?, entry: Some(entry.bind(py).clone()) })
    }

    pub fn into_code(self) -> Bound<'py, PyCode> {
        self.code
    }

    pub fn annotation(&self) -> Py<PyAny> {
        let py = self.code.py();
        match &self.entry {
            Some(entry) => entry.get().annotation(py),
            None => pyo3::types::PyString::new(py, "").into_any().unbind(),
        }
    }
}

/// The code whose guards hold for a frame with these locals. `backend`: who must have made it;
/// `None`: anybody.
pub fn look_up<'py>(
    state: &Bound<'py, CodeState>,
    locals: &Bound<'py, PyDict>,
    backend: Option<&Bound<'py, PyAny>>,
    region: i64,
) -> PyResult<Option<Found<'py>>> {
    for entry in state.get().precompiled().iter().flat_map(|list| list.iter()) {
        if let Some(code) = entry.get().found(locals)? {
            return Ok(Some(Found { code, entry: None }));
        }
    }
    if let Some(found) = look_in(state, locals, backend, region)? {
        return Ok(Some(found));
    }
    if region == DEFAULT_REGION {
        return Ok(None);
    }
    look_in(state, locals, backend, DEFAULT_REGION)
}

/// [`look_up`] in one region alone.
fn look_in<'py>(
    state: &Bound<'py, CodeState>,
    locals: &Bound<'py, PyDict>,
    backend: Option<&Bound<'py, PyAny>>,
    region: i64,
) -> PyResult<Option<Found<'py>>> {
    let py = locals.py();
    let differences_alone = SKIP_UNSAFE.is_on();
    let Some(entries) = state.get().entries(region) else { return Ok(None) };
    for (index, entry) in entries.iter().enumerate() {
        if let Some(backend) = backend {
            if !entry.get().is_by(backend)? {
                continue;
            }
        }
        match entry.get().holds(locals, differences_alone) {
            Ok(false) => {}
            Ok(true) => {
                if index > 0 && LRU.is_on() {
                    state.get().move_to_front(py, entry);
                }
                // While guards ran, others may have made the entry invalid.
                return Ok(Found::of(py, entry));
            }
            Err(error) => return Err(explained(error, entry, locals, index, entries.len())),
        }
    }
    Ok(None)
}

/// Reports a guard that has raised to torch. Where it has an exception of its own to say, that one is
/// the result.
fn explained(
    error: PyErr,
    entry: &Py<CacheEntry>,
    locals: &Bound<'_, PyDict>,
    index: usize,
    count: usize,
) -> PyErr {
    let py = locals.py();
    let Some(hook) = GUARD_ERROR.get(py) else { return error };
    let entry = entry.bind(py);
    let report = || {
        let (manager, code) = (entry.getattr("guard_manager")?, entry.getattr("code")?);
        let index_object = index.into_pyobject(py)?;
        let last = PyBool::new(py, index + 1 == count);
        call(&hook, [&manager, &code, locals, &index_object, &last])
    };
    report().err().unwrap_or(error)
}
