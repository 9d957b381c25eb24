//! A frame that has just been entered, whatever has reported it.

use pyo3::exceptions::PyIndexError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyString, PyTuple};

const VARARGS: u32 = 0x4;
const VARKEYWORDS: u32 = 0x8;

/// The parameters of a frame: positional ones first, then keyword-only ones, `*args`, `**kwargs`.
pub trait Entered<'py> {
    /// How many there are.
    fn argument_count(&self) -> usize;
    /// The name of one.
    fn argument_name(&self, index: usize) -> PyResult<Bound<'py, PyString>>;
    /// The value of one.
    fn argument(&self, index: usize) -> PyResult<Bound<'py, PyAny>>;
}

impl<'py> Entered<'py> for framehook::Frame<'py> {
    fn argument_count(&self) -> usize {
        self.argument_count()
    }

    fn argument_name(&self, index: usize) -> PyResult<Bound<'py, PyString>> {
        self.argument_name(index)
    }

    fn argument(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        self.argument(index)
    }
}

/// The frame that runs in this thread, of this code. CPython makes a frame object where a value is read.
pub struct CurrentFrame<'a, 'py>(pub &'a Bound<'py, PyCode>);

impl<'py> Entered<'py> for CurrentFrame<'_, 'py> {
    fn argument_count(&self) -> usize {
        let number = |name| self.0.getattr(name).and_then(|value| value.extract::<u32>());
        let flags = number("co_flags").unwrap_or(0);
        let named = number("co_argcount").unwrap_or(0) + number("co_kwonlyargcount").unwrap_or(0);
        let more = [VARARGS, VARKEYWORDS].into_iter().filter(|flag| flags & flag != 0).count();
        named as usize + more
    }

    fn argument_name(&self, index: usize) -> PyResult<Bound<'py, PyString>> {
        let names = self.0.getattr("co_varnames")?.cast_into::<PyTuple>()?;
        Ok(names.get_item(index)?.cast_into()?)
    }

    fn argument(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let (py, name) = (self.0.py(), self.argument_name(index)?);
        // SAFETY: attached. The frame is borrowed from the thread, in which it runs meanwhile. The value
        // is a new reference, or null with an exception that is set.
        unsafe {
            let frame = ffi::PyEval_GetFrame();
            if frame.is_null() {
                return Err(PyIndexError::new_err("no frame runs"));
            }
            Bound::from_owned_ptr_or_err(py, ffi::PyFrame_GetVar(frame, name.as_ptr()))
        }
    }
}
