//! Installing the hook, and removing it.

use crate::on_entry::Dynamo;
use crate::{evaluator, extra, switch, torch_2_6};
use framehook::Builder;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Gets ready for an installation, before other functions are put into the place of those of torch's `extension`.
#[pyfunction]
pub fn prepare(extension: &Bound<'_, PyAny>) -> PyResult<()> {
    extra::reserve(extension.py())?;
    evaluator::remember(extension)?;
    torch_2_6::remember(extension)
}

/// Installs the hook. RuntimeError: it is there, or this interpreter has no frame hooks.
#[pyfunction]
pub fn install(py: Python<'_>) -> PyResult<()> {
    if switch::is_installed() {
        return Err(PyRuntimeError::new_err("ferrule_dynamo is installed"));
    }
    switch::connect(Builder::new("TorchDynamo").install(py, Dynamo)?);
    evaluator::look(py)
}

/// Removes the hook. RuntimeError: a thread is in a compiled region.
#[pyfunction]
pub fn uninstall(py: Python<'_>) -> PyResult<()> {
    switch::disconnect(py)?;
    extra::clear_all(py)
}
