//! Running a program as Python itself does.
//!
//! What it raises is printed here, where no frame of the profiler is in the traceback.

use pyo3::exceptions::PySystemExit;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{c_int, CString};
use std::io::Error;
use std::ptr;

/// Runs an open file in the module `__main__`, whose dict is given; without that one the file may also
/// be compiled, or a terminal, and calls of the loader are seen. False: it has raised. The file is
/// closed. `sys.exit()` ends the process.
pub fn run_file(
    py: Python<'_>,
    file: c_int,
    name: &[u8],
    globals: Option<&Bound<'_, PyDict>>,
) -> PyResult<bool> {
    let name = CString::new(name)?;
    // SAFETY: any number is allowed, and the mode is a text.
    let stream = unsafe { libc::fdopen(file, c"rb".as_ptr()) };
    if stream.is_null() {
        return Err(Error::last_os_error().into());
    }
    py.check_signals()?;
    let Some(globals) = globals else {
        // SAFETY: attached. The stream is given away, the name is copied.
        return Ok(unsafe {
            ffi::PyRun_AnyFileExFlags(stream, name.as_ptr(), 1, ptr::null_mut()) == 0
        });
    };
    let dict = globals.as_ptr();
    // SAFETY: as above. The result is a new reference, or null with an exception that is set.
    let result = unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyRun_FileExFlags(
                stream,
                name.as_ptr(),
                ffi::Py_file_input,
                dict,
                dict,
                1,
                ptr::null_mut(),
            ),
        )
    };
    for stream in [c"stderr", c"stdout"] {
        // SAFETY: attached. The reference is borrowed, and another one is made of it.
        let object =
            unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PySys_GetObject(stream.as_ptr())) };
        let _whatever = object.map(|object| object.call_method0("flush"));
    }
    let ended = result.map_err(|error| print(py, error)).is_ok();
    for name in ["__file__", "__cached__"] {
        let _gone = globals.del_item(name);
    }
    Ok(ended)
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
