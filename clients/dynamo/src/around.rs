//! What torch does around compiled code: its profiler and its debugger are called.

use crate::call::call;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCode, PyDict};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Context managers that were entered before the code, to be left after it.
#[derive(Default)]
pub struct Around(Vec<Py<PyAny>>);

impl Around {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn enter(&mut self, manager: Bound<'_, PyAny>) -> PyResult<()> {
        manager.call_method0("__enter__")?;
        self.0.push(manager.unbind());
        Ok(())
    }

    /// Leaves them, the last one first.
    pub fn leave(&self, py: Python<'_>) -> PyResult<()> {
        for manager in self.0.iter().rev() {
            manager.bind(py).call_method1("__exit__", (py.None(), py.None(), py.None()))?;
        }
        Ok(())
    }
}

/// Whether torch's profiler is on.
#[inline]
fn is_profiled(py: Python<'_>) -> PyResult<bool> {
    static PROFILER: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let globals = PROFILER.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("torch.autograd.profiler")?.dict().unbind())
    })?;
    let on = globals.bind(py).get_item(pyo3::intern!(py, "_is_profiler_enabled"))?;
    on.map_or(Ok(false), |on| on.is_truthy())
}

fn record<'py>(name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    name.py().import("torch._C._profiler")?.call_method1("_RecordFunctionFast", (name,))
}

/// Does some work, and has the profiler note it as torch's look-up.
#[inline]
pub fn noted_as_lookup<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if !is_profiled(py)? {
        return work();
    }
    let mut around = Around::default();
    around.enter(record(pyo3::intern!(py, "TorchDynamo Cache Lookup"))?)?;
    let result = work();
    around.leave(py)?;
    result
}

/// What is to be left when compiled code ends that begins now.
#[inline]
pub fn enter(
    code: &Bound<'_, PyCode>,
    annotation: impl FnOnce() -> PyResult<Py<PyAny>>,
) -> PyResult<Around> {
    let py = code.py();
    let mut around = Around::default();
    if DEBUGGED.load(Ordering::Relaxed) {
        debug(code, &mut around)?;
    }
    if is_profiled(py)? {
        around.enter(record(annotation()?.bind(py))?)?;
    }
    Ok(around)
}

/// Whether there is a debugger of compiled code, or a breakpoint in it.
static DEBUGGED: AtomicBool = AtomicBool::new(false);
static DEBUGGER: Mutex<Debugger> = Mutex::new(Debugger { callback: None, breakpoints: Vec::new() });

struct Debugger {
    callback: Option<Py<PyAny>>,
    /// Compiled code that stops; kept alive.
    breakpoints: Vec<Py<PyCode>>,
}

fn with_debugger<T>(work: impl FnOnce(&mut Debugger) -> T) -> T {
    work(&mut DEBUGGER.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cold]
fn debug(code: &Bound<'_, PyCode>, around: &mut Around) -> PyResult<()> {
    let py = code.py();
    let callback = || with_debugger(|it| it.callback.as_ref().map(|it| it.clone_ref(py)));
    let stops = with_debugger(|it| it.breakpoints.iter().any(|known| known.is(code)));
    if stops && callback().is_none() {
        let context =
            py.import("torch._dynamo.bytecode_debugger")?.call_method0("_DebugContext")?;
        context.setattr("_stop_at_new_code", false)?;
        around.enter(context)?;
    }
    if let Some(callback) = callback() {
        call(callback.bind(py), [code])?;
    }
    Ok(())
}

/// Sets what is called before compiled code begins.
#[pyfunction]
pub fn set_bytecode_debugger_callback(callback: Option<Py<PyAny>>) {
    let before = with_debugger(|it| {
        DEBUGGED.store(callback.is_some() || !it.breakpoints.is_empty(), Ordering::Relaxed);
        std::mem::replace(&mut it.callback, callback)
    });
    drop(before);
}

/// What was set so.
#[pyfunction]
pub fn get_bytecode_debugger_callback(py: Python<'_>) -> Option<Py<PyAny>> {
    with_debugger(|it| it.callback.as_ref().map(|callback| callback.clone_ref(py)))
}

/// Has torch's debugger begin when this compiled code does.
#[pyfunction]
pub fn register_breakpoint_code(code: Py<PyCode>) {
    with_debugger(|it| it.breakpoints.push(code));
    DEBUGGED.store(true, Ordering::Relaxed);
}
