//! Running a program as Python itself does.
//!
//! What it raises is printed here, where no frame of the profiler is in the traceback.

use pyo3::exceptions::PySystemExit;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::{c_int, CString};
use std::io::Error;
use std::ptr;

/// Runs an open file, of source or compiled, in the module `__main__`. False: it has raised. The
/// file is closed. `sys.exit()` ends the process.
pub fn run_file(py: Python<'_>, file: c_int, name: &[u8]) -> PyResult<bool> {
    let name = CString::new(name)?;
    // SAFETY: any number is allowed, and the mode is a text.
    let stream = unsafe { libc::fdopen(file, c"rb".as_ptr()) };
    if stream.is_null() {
        return Err(Error::last_os_error().into());
    }
    py.check_signals()?;
    // SAFETY: attached. The stream is given away, the name is copied.
    let failed = unsafe { ffi::PyRun_AnyFileExFlags(stream, name.as_ptr(), 1, ptr::null_mut()) };
    Ok(failed == 0)
}

/// Calls a function; what it has raised, which was printed, or nothing. `SystemExit` is for the caller.
pub fn run_function(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
) -> PyResult<Option<Py<PyAny>>> {
    let Err(error) = function.call1(arguments) else { return Ok(None) };
    if error.is_instance_of::<PySystemExit>(py) {
        return Err(error);
    }
    let value = error.value(py).clone().into_any().unbind();
    error.restore(py);
    // SAFETY: attached, with an exception that is set.
    unsafe { ffi::PyErr_Print() };
    Ok(Some(value))
}
