//! torch's own evaluator, in which threads may be when the hook is installed.
//!
//! While `ferrule_dynamo` puts its functions into the place of torch's, and takes them back, they do
//! what torch's do. The hook takes over in one step. A region that began with the evaluator ends
//! with a call that says that there is no callback any more. The hook knows of none then, and hands
//! this on; likewise for the count of a full graph. In a region the callback may be away, and come
//! back without a call: while torch compiles, or below a full graph. So a thread is known to be in
//! none only where none of torch's functions that begin one is on its stack.

use crate::call::call;
use crate::{switch, torch_2_6};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// A function of torch.
struct Function(Mutex<Option<Py<PyAny>>>);

static SET_CALLBACK: Function = Function(Mutex::new(None));
static SET_FRAME_COUNT: Function = Function(Mutex::new(None));

thread_local! {
    /// The installation in which the thread was found to be in no region of the evaluator.
    static FREE: Cell<u32> = const { Cell::new(0) };
    /// The installation in which it was seen to that the evaluator counts no frames.
    static COUNTS_NOT: Cell<u32> = const { Cell::new(0) };
}

impl Function {
    fn remember(&self, function: Bound<'_, PyAny>) {
        let new = Some(function.unbind());
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, new);
        drop(place);
        drop(before);
    }

    fn call<'py>(&self, argument: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = argument.py();
        let function = {
            let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            place.as_ref().map(|function| function.bind(py).clone())
        };
        let missing = || PyRuntimeError::new_err("ferrule_dynamo was never installed");
        call(&function.ok_or_else(missing)?, [argument])
    }
}

/// Remembers torch's own functions, before others are put into their place.
#[pyfunction]
pub fn remember(extension: &Bound<'_, PyAny>) -> PyResult<()> {
    SET_CALLBACK.remember(extension.getattr("set_eval_frame")?);
    // torch 2.6 does not count.
    if let Some(function) = extension.getattr_opt("set_fullgraph_compiled_frame_count")? {
        SET_FRAME_COUNT.remember(function);
    }
    torch_2_6::remember(extension)
}

/// Sets the callback of torch's evaluator in this thread, and returns the one before.
pub fn set_callback<'py>(callback: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    SET_CALLBACK.call(callback)
}

/// Sets the count of the evaluator's compiled frames in this thread, and returns what it was.
pub fn set_frame_count(py: Python<'_>, count: i64) -> PyResult<i64> {
    SET_FRAME_COUNT.call(&count.into_pyobject(py)?.into_any())?.extract()
}

/// This thread, which has no callback of the hook, is to have none at all. Returns the evaluator's,
/// if there was one. No Python code runs: the evaluator would look at it.
#[inline]
pub fn end_region<'py>(none: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if FREE.get() == switch::installation() {
        return Ok(none.clone());
    }
    end_unknown(none)
}

#[cold]
fn end_unknown<'py>(none: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let installation = switch::installation();
    let before = set_callback(none)?;
    if before.is_none() && !is_within_region(none.py())? {
        FREE.set(installation);
    }
    Ok(before)
}

/// Whether this thread runs torch's function that begins a region, below the one that has called.
fn is_within_region(py: Python<'_>) -> PyResult<bool> {
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    let mut count = 0;
    while !frame.is_none() {
        let code = frame.getattr("f_code")?;
        let file = code.getattr("co_filename")?.extract::<String>()?;
        let helps = code.getattr("co_name")?.extract::<String>()? == "_maybe_set_eval_frame";
        if file.ends_with("torch/_dynamo/eval_frame.py") && !helps {
            count += 1;
        }
        frame = frame.getattr("f_back")?;
    }
    Ok(count > 1)
}

/// A count ends in this thread that the hook did not begin.
#[inline]
pub fn end_count(py: Python<'_>) -> PyResult<()> {
    if COUNTS_NOT.get() != switch::installation() {
        COUNTS_NOT.set(switch::installation());
        set_frame_count(py, -1)?;
    }
    Ok(())
}

/// Whether torch compiles in this thread.
#[pyfunction]
pub fn is_compiling(py: Python<'_>) -> PyResult<bool> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let Some(convert) = modules.get_item("torch._dynamo.convert_frame")? else { return Ok(false) };
    // Absent while it is being imported.
    let Some(lock) = convert.getattr_opt("compile_lock")? else { return Ok(false) };
    lock.call_method0("_is_owned")?.is_truthy()
}
