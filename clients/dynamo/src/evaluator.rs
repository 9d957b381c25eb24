//! torch's own evaluator, in which threads may be when the hook is installed.
//!
//! While `ferrule_dynamo` puts its functions into the place of torch's, and takes them back, they do
//! what torch's do. The hook takes over in one step. A region that began with the evaluator ends
//! with a call that says that there is no callback any more. The hook knows of none then, and hands
//! this on; likewise for the count of a full graph. In a region the callback may be away, and come
//! back without a call: while torch compiles, or below a full graph. But torch sets its evaluator for
//! as long as any thread is in a region. So once that is not set, no thread is, and nothing is handed on.

use crate::call::call;
use crate::switch;
use framehook::CRecursion;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A function of torch.
struct Function(Mutex<Option<Py<PyAny>>>);

static SET_CALLBACK: Function = Function(Mutex::new(None));
static SET_FRAME_COUNT: Function = Function(Mutex::new(None));
static GET_CALLBACK: Function = Function(Mutex::new(None));
static RESET_CODE: Function = Function(Mutex::new(None));

/// The installation in which torch's evaluator was found not to be set.
static GONE: AtomicU32 = AtomicU32::new(0);

thread_local! {
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

    fn call<'py, const N: usize>(
        &self,
        py: Python<'py>,
        arguments: [&Bound<'py, PyAny>; N],
    ) -> PyResult<Bound<'py, PyAny>> {
        let function = {
            let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            place.as_ref().map(|function| function.bind(py).clone())
        };
        let missing = || PyRuntimeError::new_err("ferrule_dynamo was never installed");
        call(&function.ok_or_else(missing)?, arguments)
    }
}

/// Remembers torch's own functions.
pub fn remember(extension: &Bound<'_, PyAny>) -> PyResult<()> {
    SET_CALLBACK.remember(extension.getattr("set_eval_frame")?);
    GET_CALLBACK.remember(extension.getattr("get_eval_frame_callback")?);
    RESET_CODE.remember(extension.getattr("reset_code")?);
    // torch 2.6 does not count.
    if let Some(function) = extension.getattr_opt("set_fullgraph_compiled_frame_count")? {
        SET_FRAME_COUNT.remember(function);
    }
    Ok(())
}

/// Sets the callback of torch's evaluator in this thread, and returns the one before.
pub fn set_callback<'py>(callback: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    SET_CALLBACK.call(callback.py(), [callback])
}

/// Sets the count of the evaluator's compiled frames in this thread, and returns what it was.
pub fn set_frame_count(py: Python<'_>, count: i64) -> PyResult<i64> {
    SET_FRAME_COUNT.call(py, [&count.into_pyobject(py)?.into_any()])?.extract()
}

/// The callback of torch's evaluator in this thread.
pub fn callback(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    GET_CALLBACK.call(py, [])
}

/// The evaluator forgets all that it knows of a code object.
pub fn reset_code(code: &Bound<'_, PyAny>) -> PyResult<()> {
    RESET_CODE.call(code.py(), [code]).map(drop)
}

/// Looks whether torch's evaluator is still set. It is not set again while the hook is installed.
pub fn look(py: Python<'_>) -> PyResult<()> {
    let is_set = py.import("ferrule_dynamo._evaluator")?.call_method0("is_set")?.is_truthy()?;
    if !is_set {
        GONE.store(switch::installation(), Ordering::Relaxed);
    }
    Ok(())
}

/// How many levels of C recursion this thread has left.
#[pyfunction]
pub fn c_recursion_left(py: Python<'_>) -> PyResult<i32> {
    Ok(CRecursion::allow(py, ENOUGH)?.before())
}

/// Levels for a moment in which nothing is called.
const ENOUGH: i32 = 100;

/// This thread, which has no callback of the hook, is to have none at all. Returns the evaluator's,
/// if there was one.
#[inline]
pub fn end_region<'py>(none: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if GONE.load(Ordering::Relaxed) == switch::installation() {
        return Ok(none.clone());
    }
    end_unknown(none)
}

#[cold]
fn end_unknown<'py>(none: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let before = set_callback(none)?;
    if !before.is_none() {
        look(none.py())?;
    }
    Ok(before)
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
