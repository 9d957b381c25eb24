//! Installing the hook, and removing it.

use crate::on_entry::Dynamo;
use crate::{extra, switch};
use framehook::Builder;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Installs the hook. RuntimeError: it is there, or this interpreter has no frame hooks.
#[pyfunction]
pub fn install(py: Python<'_>) -> PyResult<()> {
    if switch::is_installed() {
        return Err(PyRuntimeError::new_err("ferrule_dynamo is installed"));
    }
    extra::reserve(py)?;
    switch::connect(Builder::new("TorchDynamo").install(py, Dynamo)?);
    Ok(())
}

/// Removes the hook. RuntimeError: a thread is in a compiled region.
#[pyfunction]
pub fn uninstall(py: Python<'_>) -> PyResult<()> {
    switch::disconnect(py)?;
    extra::clear_all(py)
}
