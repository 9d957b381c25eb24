//! A frame at its entry, as torch and its guards see it.

use crate::code_state::CodeState;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};

/// The names of a frame's parameters, for [`CodeState::new`].
pub fn names(frame: &framehook::Frame<'_>) -> PyResult<Vec<Py<pyo3::types::PyString>>> {
    (0..frame.argument_count()).map(|index| Ok(frame.argument_name(index)?.unbind())).collect()
}

/// The locals of a frame that has not begun: its parameters and its free variables. For guards, which
/// do not mind their order.
pub fn locals<'py>(
    frame: &framehook::Frame<'py>,
    state: &CodeState,
) -> PyResult<Bound<'py, PyDict>> {
    let free = state.has_free_variables.then(|| frame.free_variables()).transpose()?;
    let locals = free.unwrap_or_else(|| PyDict::new(frame.py()));
    add_arguments(frame, state, &locals)?;
    Ok(locals)
}

/// The same for torch's compiler: parameters come first.
fn locals_in_order<'py>(
    frame: &framehook::Frame<'py>,
    state: &CodeState,
) -> PyResult<Bound<'py, PyDict>> {
    let locals = PyDict::new(frame.py());
    add_arguments(frame, state, &locals)?;
    if state.has_free_variables {
        locals.update(frame.free_variables()?.as_mapping())?;
    }
    Ok(locals)
}

fn add_arguments<'py>(
    frame: &framehook::Frame<'py>,
    state: &CodeState,
    locals: &Bound<'py, PyDict>,
) -> PyResult<()> {
    let py = frame.py();
    for (index, name) in state.names.iter().enumerate() {
        // None: its cell was emptied, so it is no local now.
        if let Some(value) = frame.variable(index)? {
            locals.set_item(name.bind(py), value)?;
        }
    }
    Ok(())
}

/// A frame for torch's compiler, before its first instruction.
#[pyclass(frozen, module = "torch._C._dynamo.eval_frame", name = "_PyInterpreterFrame")]
pub struct Frame {
    #[pyo3(get)]
    f_code: Py<PyCode>,
    #[pyo3(get)]
    f_locals: Py<PyDict>,
    #[pyo3(get)]
    f_globals: Py<PyDict>,
    #[pyo3(get)]
    f_builtins: Py<PyAny>,
    #[pyo3(get)]
    closure: Py<PyAny>,
}

impl Frame {
    /// Everything that torch may read. It has the values, and not the frame.
    pub fn of(frame: &framehook::Frame<'_>, state: &CodeState) -> PyResult<Self> {
        let py = frame.py();
        let closure = frame.function()?.getattr("__closure__")?;
        let closure = if closure.is_none() { PyTuple::empty(py).into_any() } else { closure };
        Ok(Self {
            f_code: frame.code()?.unbind(),
            f_locals: locals_in_order(frame, state)?.unbind(),
            f_globals: frame.globals()?.unbind(),
            f_builtins: frame.builtins()?.unbind(),
            closure: closure.unbind(),
        })
    }
}

#[pymethods]
impl Frame {
    /// It has not begun.
    #[getter]
    fn f_lasti(&self) -> i32 {
        0
    }

    /// The line where the function begins.
    #[getter]
    fn f_lineno<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.f_code.bind(py).getattr("co_firstlineno")
    }

    /// There is no frame object.
    #[getter]
    fn f_back(&self, py: Python<'_>) -> Py<PyAny> {
        py.None()
    }
}
