//! What torch's evaluator knows of code objects, read; and what the hook knows, to be given back.

use crate::call::call;
use crate::strategy::{Action, Strategy};
use crate::{evaluator, extra, settings};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::cell::Cell;

// Raised where a frame starts that is not to run. Its argument is the callback of frames below it.
pyo3::create_exception!(ferrule_dynamo, Stopped, pyo3::exceptions::PyException);

/// How many extra slots an interpreter has.
const SLOTS: isize = 255;

/// The only extra slot that `code` uses: the one of torch, where torch alone knows the code.
#[pyfunction]
pub fn only_slot_of(code: &Bound<'_, PyCode>) -> PyResult<isize> {
    let mut used = (0..SLOTS).filter(|slot| extra::is_slot_used(code, *slot));
    match (used.next(), used.next()) {
        (Some(slot), None) => Ok(slot),
        _ => Err(PyRuntimeError::new_err(
            "torch keeps nothing with a code object that it has marked",
        )),
    }
}

/// Whether an extra slot of a code object has a value.
#[pyfunction]
pub fn is_slot_used(code: &Bound<'_, PyCode>, slot: isize) -> bool {
    extra::is_slot_used(code, slot)
}

/// What is set with a function of torch, which returns what was set before. `meanwhile` is set for a moment in which no signal handler runs.
#[pyfunction]
pub fn read_setting<'py>(
    setter: &Bound<'py, PyAny>,
    meanwhile: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let value = call(setter, [meanwhile])?;
    call(setter, [&value])?;
    Ok(value)
}

thread_local! {
    /// Whether marks are read in this thread. Others may call the same code meanwhile.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Whether `stop` ends frames of this thread, from now on.
#[pyfunction]
pub fn stop_frames(on: bool) {
    READS.set(on);
}

/// A callback for PY_START that ends a frame of torch's evaluator before its first instruction.
#[pyfunction]
pub fn stop(code: &Bound<'_, PyAny>, _offset: &Bound<'_, PyAny>) -> PyResult<()> {
    if !READS.get() {
        return Ok(());
    }
    Err(Stopped::new_err((evaluator::callback(code.py())?.unbind(),)))
}

/// Marks a code object as it was marked for the evaluator, by the numbers of torch's `FrameAction`.
/// Does nothing where it was marked for the hook.
#[pyfunction]
pub fn inherit_strategy(code: &Bound<'_, PyCode>, current: i64, below: i64) -> PyResult<()> {
    let strategy =
        Strategy { current: Action::numbered(current)?, below: Action::numbered(below)? };
    if extra::get(code).is_some_and(|state| state.get().mark().is_some()) {
        return Ok(());
    }
    extra::set_strategy(code, strategy)
}

/// The code objects that were marked, with the numbers of both actions.
#[pyfunction]
pub fn own_strategies(py: Python<'_>) -> Vec<(Bound<'_, PyCode>, i64, i64)> {
    let marks = extra::marks(py).into_iter();
    marks.map(|(code, mark)| (code, mark.current.number(), mark.below.number())).collect()
}

/// Code that was loaded: the code object for which it was, its guards, and itself.
#[pyfunction]
pub fn own_precompiled(
    py: Python<'_>,
) -> Vec<(Bound<'_, PyCode>, Bound<'_, PyAny>, Bound<'_, PyCode>)> {
    let entries = extra::precompiled(py).into_iter();
    let parts = entries.map(|(code, entry)| (code, entry.get().parts(py)));
    parts.map(|(code, (guard_manager, compiled))| (code, guard_manager, compiled)).collect()
}

/// What is called when a guard has raised.
#[pyfunction]
pub fn guard_error_hook(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    settings::GUARD_ERROR.get(py)
}
