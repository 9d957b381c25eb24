//! Calling a function without asking hooks, and asking whether code can stand in.

use crate::api::second;
use crate::install::checked;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};
use pyo3::BoundObject;
use std::ffi::{c_int, CStr};
use std::ptr::null_mut;

/// A function whose frame no hook is asked about when it is called so. What is no Python function
/// is called like any other. Second edition.
///
/// ```no_run
/// use pyo3::prelude::*;
/// fn twice<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
///     let first = framehook::original(function).call1((1,))?;
///     framehook::original(function).below().call1((first,))
/// }
/// ```
pub fn original<'a, 'py>(function: &'a Bound<'py, PyAny>) -> Original<'a, 'py> {
    Original { function, below: false }
}

/// From [`original`].
#[must_use]
pub struct Original<'a, 'py> {
    function: &'a Bound<'py, PyAny>,
    below: bool,
}

impl<'py> Original<'_, 'py> {
    /// Nor about any frame below it.
    pub fn below(mut self) -> Self {
        self.below = true;
        self
    }

    /// Calls it without arguments.
    pub fn call0(self) -> PyResult<Bound<'py, PyAny>> {
        self.call((), None)
    }

    /// Calls it with positional arguments: a tuple.
    pub fn call1<A>(self, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
    {
        self.call(arguments, None)
    }

    /// Calls it with positional and keyword arguments.
    pub fn call<A>(
        self,
        arguments: A,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
    {
        let functions = second("calling an original")?;
        let py = self.function.py();
        let positional = arguments.into_pyobject(py).map_err(Into::into)?;
        let positional = positional.as_borrowed();
        // Values of their own, so that they live whatever the call does to the dict.
        let mut values: Vec<Bound<'py, PyAny>> = positional.iter().collect();
        let count = values.len();
        let mut names = Vec::new();
        for (name, value) in keywords.into_iter().flatten() {
            names.push(name);
            values.push(value);
        }
        let names = (!names.is_empty()).then(|| PyTuple::new(py, names)).transpose()?;
        let pointers: Vec<*mut PyObject> = values.iter().map(Bound::as_ptr).collect();
        // SAFETY: attached. So many positional arguments, and a value for each of the names. All of
        // them live until the call has returned. A new reference, or NULL with an exception.
        unsafe {
            let result = (functions.PyUnstable_FrameHook_CallOriginal)(
                self.function.as_ptr(),
                pointers.as_ptr(),
                count,
                names.as_ref().map_or(null_mut(), Bound::as_ptr),
                c_int::from(self.below),
            );
            Bound::from_owned_ptr_or_err(py, result)
        }
    }
}

/// Whether `other` could run in the place of `code`; if not, the inner error says why. Second
/// edition.
pub fn can_stand_in(
    code: &Bound<'_, PyCode>,
    other: &Bound<'_, PyCode>,
) -> PyResult<Result<(), &'static str>> {
    let ask = second("asking whether code can stand in")?.PyUnstable_FrameHook_CanStandIn;
    let mut reason = std::ptr::null();
    // SAFETY: attached; two code objects that live, and room for the reason.
    let status = unsafe { ask(code.as_ptr(), other.as_ptr(), &mut reason) };
    checked(code.py(), status)?;
    if status != 0 {
        return Ok(Ok(()));
    }
    if reason.is_null() {
        return Ok(Err("no reason was given"));
    }
    // SAFETY: not null, so it is a string that lives for ever, as the header says.
    let reason = unsafe { CStr::from_ptr(reason) };
    Ok(Err(reason.to_str().unwrap_or("for a reason that is no UTF-8")))
}
