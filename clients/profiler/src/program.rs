//! Running a program as Python itself does.
//!
//! What it raises is printed here, where no frame of the profiler is in the traceback.

use crate::session::modules;
use pyo3::exceptions::{PyRuntimeError, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{c_int, CStr, CString};
use std::io::Error;
use std::ptr;

/// The dict of the module `__main__`.
fn main_dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let none = || PyRuntimeError::new_err("there is no sys.modules");
    let main = modules(py).ok_or_else(none)?.get_item("__main__")?;
    Ok(main.getattr("__dict__")?.cast_into()?)
}

/// Runs an open file in the module `__main__`. One that is no `source` is compiled or a terminal, and
/// calls of its loader are seen. False: it has raised. The file is closed. `sys.exit()` ends the
/// process.
pub fn run_file(py: Python<'_>, file: c_int, name: &[u8], source: bool) -> PyResult<bool> {
    let name = CString::new(name)?;
    // SAFETY: any number is allowed, and the mode is a text.
    let stream = unsafe { libc::fdopen(file, c"rb".as_ptr()) };
    if stream.is_null() {
        return Err(Error::last_os_error().into());
    }
    py.check_signals()?;
    if !source {
        // SAFETY: attached. The stream is given away, the name is copied.
        return Ok(unsafe {
            ffi::PyRun_AnyFileExFlags(stream, name.as_ptr(), 1, ptr::null_mut()) == 0
        });
    }
    let globals = main_dict(py)?;
    let error = run_source(py, stream, &name, &globals);
    for stream in [c"stderr", c"stdout"] {
        // SAFETY: attached. The reference is borrowed, and another one is made of it.
        let object =
            unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PySys_GetObject(stream.as_ptr())) };
        let _whatever = object.map(|object| object.call_method0("flush"));
    }
    let raised = error.is_some();
    let left = match error {
        None => Some(globals),
        Some(error) => {
            // It may be the last reference to what the program has made.
            drop(globals);
            print(py, error);
            main_dict(py).ok()
        }
    };
    for name in ["__file__", "__cached__"] {
        let _gone = left.as_ref().map(|globals| globals.del_item(name));
    }
    Ok(!raised)
}

/// What the source has raised.
fn run_source(
    py: Python<'_>,
    stream: *mut libc::FILE,
    name: &CStr,
    globals: &Bound<'_, PyDict>,
) -> Option<PyErr> {
    let dict = globals.as_ptr();
    let (start, flags) = (ffi::Py_file_input, ptr::null_mut());
    // SAFETY: attached. The stream is given away, the name is copied. The result is a new reference,
    // or null with an exception that is set.
    let result = unsafe {
        let made = ffi::PyRun_FileExFlags(stream, name.as_ptr(), start, dict, dict, 1, flags);
        Bound::from_owned_ptr_or_err(py, made)
    };
    result.err()
}

/// Prints an exception as Python does at the end of a program. `SystemExit` ends the process.
fn print(py: Python<'_>, error: PyErr) {
    error.restore(py);
    // SAFETY: attached, with an exception that is set.
    unsafe { ffi::PyErr_Print() };
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
    print(py, error);
    Ok(Some(value))
}
