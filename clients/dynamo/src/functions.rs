//! What torch's Python calls.

use crate::callback::{self, Callback, DEFAULT_REGION};
use crate::code_state::CodeState;
use crate::entry::{CacheEntry, PrecompileEntry};
use crate::extra::{code_of, state_of};
use crate::strategy::Strategy;
use crate::{evaluator, extra, settings, switch};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCode};

fn flag_of(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let flag = object.cast::<PyBool>();
    flag.map(|flag| flag.is_true()).map_err(|_| PyTypeError::new_err("expected True/False"))
}

/// Gives this thread another callback, and returns the one before.
#[pyfunction(name = "set_eval_frame")]
pub fn set_callback<'py>(callback: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = callback.py();
    let new = Callback::of(callback).ok_or_else(|| PyTypeError::new_err("expected a callable"))?;
    if !switch::is_installed() {
        // torch's function is about to come back, or to go.
        return evaluator::set_callback(callback);
    }
    if new.is_off() && callback::is_off() {
        return evaluator::end_region(callback);
    }
    Ok(callback::replace(py, new).into_object(py))
}

/// This thread's callback.
#[pyfunction(name = "get_eval_frame_callback")]
pub fn get_callback(py: Python<'_>) -> Bound<'_, PyAny> {
    callback::current(py).to_object(py)
}

/// Sets the region that this thread compiles for, and returns the one before.
#[pyfunction(name = "set_eval_frame_isolate_recompiles_id")]
pub fn set_region(isolate_recompiles_id: i64) -> i64 {
    callback::set_region(isolate_recompiles_id)
}

/// The region that this thread compiles for.
#[pyfunction(name = "get_eval_frame_isolate_recompiles_id")]
pub fn get_region() -> i64 {
    callback::region()
}

/// Forgets all that is known of a code object.
#[pyfunction]
pub fn reset_code(code: &Bound<'_, PyAny>) -> PyResult<()> {
    // The evaluator's own entries are reset too: uninstall() would make them effective again.
    evaluator::reset_code(code)?;
    let code = code_of(code)?;
    if let Some(state) = extra::get(code) {
        extra::set(code, None)?;
        extra::enable_again(code, &state)?;
    }
    Ok(())
}

/// Says what is to be done with frames of a code object.
#[pyfunction(name = "set_code_exec_strategy")]
pub fn set_strategy(code: &Bound<'_, PyAny>, strategy: &Bound<'_, PyAny>) -> PyResult<()> {
    extra::set_strategy(code_of(code)?, Strategy::of(strategy)?)
}

/// A function of torch that runs for each compiled call, and that torch would skip: the hook is disabled
/// for it.
#[pyfunction]
pub fn leave_alone(code: &Bound<'_, PyCode>) -> PyResult<()> {
    let state = state_of(code)?;
    if state.get().strategy(DEFAULT_REGION) != Strategy::default() {
        return Ok(());
    }
    state.get().set_strategy(DEFAULT_REGION, Strategy::skipped());
    if state.get().note_disabled() {
        switch::enable_for_code(code, false)?;
    }
    Ok(())
}

/// Sets what is called when a guard has raised.
#[pyfunction]
pub fn set_guard_error_hook(hook: &Bound<'_, PyAny>) {
    drop(settings::GUARD_ERROR.set(hook));
}

/// Sets what is called when the guards of a frame were checked, and returns what was.
#[pyfunction]
pub fn set_guard_complete_hook<'py>(hook: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    settings::GUARD_COMPLETE.set(hook)
}

/// Whether to check only the guards that distinguish compiled codes. Returns what it was.
#[pyfunction(name = "set_skip_guard_eval_unsafe")]
pub fn set_skip_unsafe(on: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(settings::SKIP_UNSAFE.set(flag_of(on)?))
}

/// Whether compiling below the compiled code of a full graph is an error. Returns what it was.
#[pyfunction(name = "set_fullgraph_error_on_nested_compile")]
pub fn set_nested_is_error(on: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(settings::set_nested_is_error(flag_of(on)?))
}

/// Whether what was found comes first the next time. Returns what it was.
#[pyfunction(name = "_set_lru_cache")]
pub fn set_lru(on: bool) -> bool {
    settings::LRU.set(on)
}

/// Begins to count compiled frames, or ends it with a negative number. Returns the count.
#[pyfunction(name = "set_fullgraph_compiled_frame_count")]
pub fn set_frame_count(py: Python<'_>, count: i64) -> PyResult<i64> {
    if !switch::is_installed() {
        return evaluator::set_frame_count(py, count);
    }
    let before = settings::set_frame_count(count);
    if count < 0 && before < 0 {
        evaluator::end_count(py)?;
    }
    Ok(before)
}

/// Sets how many levels of C recursion there are while torch compiles; -1: as many as are left.
#[pyfunction]
pub fn heed_c_recursion_limit(levels: i32) {
    settings::set_c_recursion(levels);
}

fn found<'py>(code: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, CodeState>>> {
    let code = code.cast::<PyCode>();
    let code = code.map_err(|_| PyTypeError::new_err("expected a code object!"))?;
    Ok(extra::get(code))
}

/// The entries of a code object.
#[pyfunction(name = "_debug_get_cache_entry_list")]
pub fn cache_entries_of(code: &Bound<'_, PyAny>) -> PyResult<Vec<Py<CacheEntry>>> {
    let lists = found(code)?.map(|state| state.get().all_entries()).unwrap_or_default();
    let entries = lists.iter().flat_map(|list| list.iter());
    Ok(entries.map(|entry| entry.clone_ref(code.py())).collect())
}

/// Those of a region.
#[pyfunction(name = "_get_cache_entries_for_region")]
pub fn cache_entries_of_region(
    code: &Bound<'_, PyAny>,
    isolate_recompiles_id: i64,
) -> PyResult<Vec<Py<CacheEntry>>> {
    let list = found(code)?.and_then(|state| state.get().entries(isolate_recompiles_id));
    Ok(list.iter().flat_map(|list| list.iter()).map(|entry| entry.clone_ref(code.py())).collect())
}

/// How many entries a code object has.
#[pyfunction(name = "_get_total_cache_entry_count")]
pub fn count_cache_entries(code: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(found(code)?.map_or(0, |state| state.get().entry_count()))
}

/// Gives a code object code that was compiled elsewhere.
#[pyfunction(name = "_load_precompile_entry")]
pub fn load_precompiled(
    code: &Bound<'_, PyAny>,
    guard_manager: &Bound<'_, PyAny>,
    dynamo_code: Bound<'_, PyCode>,
) -> PyResult<()> {
    let code = code_of(code)?;
    let entry = Py::new(code.py(), PrecompileEntry::new(guard_manager, dynamo_code)?)?;
    state_of(code)?.get().add_precompiled(code.py(), entry);
    Ok(())
}

/// What a code object has of such code.
#[pyfunction(name = "_debug_get_precompile_entries")]
pub fn precompiled_of(code: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PrecompileEntry>>> {
    let Some(state) = found(code)? else { return Ok(Vec::new()) };
    let list = state.get().precompiled().unwrap_or_default();
    Ok(list.iter().map(|entry| entry.clone_ref(code.py())).collect())
}

/// Takes it away.
#[pyfunction(name = "_reset_precompile_entries")]
pub fn clear_precompiled(code: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Some(state) = found(code)? {
        state.get().set_precompiled(Vec::new());
    }
    Ok(())
}

/// The version of frame hooks that this interpreter has; 0: none.
#[pyfunction]
pub fn version() -> u32 {
    framehook::version()
}
