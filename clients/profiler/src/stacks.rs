//! What the other threads of this interpreter run.
//!
//! `sys._current_frames()` looks at the threads of all interpreters, also of those with a GIL of
//! their own, whose stacks change meanwhile. And it raises an audit event each time.

use crate::offsets;
use crate::session::thread_ident;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyThreadState};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::OnceLock;

/// Where the identity of a thread is in its state, which no function returns. None: where the other
/// threads do not wait while this one runs, or in another version.
fn place_of_ident(py: Python<'_>) -> Option<usize> {
    let enabled = || py.import("sys")?.call_method0("_is_gil_enabled")?.extract();
    if cfg!(Py_GIL_DISABLED) && !enabled().unwrap_or(false) {
        return None;
    }
    let place = offsets::of_thread_states()?.ident;
    // SAFETY: attached, so there is a state, which has a number there.
    let mine = unsafe { ident_in(ffi::PyThreadState_Get(), place) };
    (mine == thread_ident()).then_some(place)
}

/// # Safety
/// The state is alive, and `place` is where the offsets say.
unsafe fn ident_in(state: *mut PyThreadState, place: usize) -> u64 {
    // SAFETY: it has an `unsigned long` there.
    unsafe { state.byte_add(place).cast::<std::ffi::c_ulong>().read() }
}

/// The identity of each other thread that runs Python code, and the code objects of its frames, the
/// innermost first. RuntimeError: stacks cannot be read here.
pub fn of_others<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let found = PyList::empty(py);
    // A GIL that is there stays.
    static PLACE: OnceLock<Option<usize>> = OnceLock::new();
    let Some(place) = *PLACE.get_or_init(|| place_of_ident(py)) else {
        return Err(PyRuntimeError::new_err("times from a timer need the GIL, and CPython 3.13"));
    };
    // SAFETY: attached. With the GIL held, the other threads of this interpreter wait: no stack
    // changes, and no state is taken from the list. What is called here does not give up the GIL. One
    // that is added meanwhile is either found or not.
    unsafe {
        let mine = ffi::PyThreadState_Get();
        let mut state = ffi::PyInterpreterState_ThreadHead(ffi::PyInterpreterState_Get());
        while !state.is_null() {
            if state != mine {
                let codes = codes_of(py, state)?;
                if !codes.is_empty() {
                    found.append((ident_in(state, place), codes))?;
                }
            }
            state = ffi::PyThreadState_Next(state);
        }
    }
    Ok(found)
}

/// # Safety
/// The state is alive, and its thread does not run.
unsafe fn codes_of<'py>(
    py: Python<'py>,
    state: *mut PyThreadState,
) -> PyResult<Bound<'py, PyList>> {
    let codes = PyList::empty(py);
    // SAFETY: attached. Each call gives a new reference, or null at the end of the stack or of memory.
    unsafe {
        let first = ffi::PyThreadState_GetFrame(state);
        let mut frame = Bound::from_owned_ptr_or_opt(py, first.cast());
        while let Some(object) = frame {
            let code = ffi::PyFrame_GetCode(object.as_ptr().cast());
            codes.append(Bound::from_owned_ptr(py, code.cast()))?;
            let back = ffi::PyFrame_GetBack(object.as_ptr().cast());
            frame = Bound::from_owned_ptr_or_opt(py, back.cast());
        }
    }
    Ok(codes)
}
