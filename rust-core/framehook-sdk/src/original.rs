//! Calling a function without asking hooks, or as though no hook ran; and asking whether code can
//! stand in.

use crate::api::{later, second};
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
pub fn original<'a, 'py>(function: &'a Bound<'py, PyAny>) -> Callee<'a, 'py, Original> {
    Callee { function, way: Original { below: false } }
}

/// A callable that a hook calls as though the hook did not run: hooks are asked about the frames of
/// the call as about any, this hook among them. For hooks that run code of others while they are
/// asked or told, as a compiler does. Meanwhile the frame cannot be read. Second edition.
///
/// ```no_run
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::{prelude::*, types::PyCode};
/// struct Compile(Py<PyAny>);
/// impl FrameHook for Compile {
///     type Word = ();
///     fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
///         let compiler = self.0.bind(frame.py());
///         let code = framehook::outside(compiler).call1((frame.code()?,))?;
///         Ok(Answer::replace(code.cast_into::<PyCode>()?))
///     }
/// }
/// ```
pub fn outside<'a, 'py>(function: &'a Bound<'py, PyAny>) -> Callee<'a, 'py, Outside> {
    Callee { function, way: Outside { _private: () } }
}

/// What [`original`] and [`outside`] give: a callable, and the way in which it is called.
#[must_use]
pub struct Callee<'a, 'py, W> {
    function: &'a Bound<'py, PyAny>,
    way: W,
}

/// The way of [`original`].
pub struct Original {
    below: bool,
}

/// The way of [`outside`].
pub struct Outside {
    _private: (),
}

/// How a [`Callee`] is called.
pub trait Way: sealed::Way {}

impl<W: sealed::Way> Way for W {}

mod sealed {
    use pyo3::ffi::PyObject;
    use pyo3::PyResult;

    pub trait Way {
        /// A new reference, or NULL with an exception; or an error where the interpreter has no such
        /// way.
        ///
        /// # Safety
        /// Attached. The callable lives, and so do the values: so many positional ones, and one for
        /// each name of a tuple that lives or is NULL.
        unsafe fn call(
            &self,
            callable: *mut PyObject,
            values: *const *mut PyObject,
            positional: usize,
            names: *mut PyObject,
        ) -> PyResult<*mut PyObject>;
    }
}

impl sealed::Way for Original {
    unsafe fn call(
        &self,
        callable: *mut PyObject,
        values: *const *mut PyObject,
        positional: usize,
        names: *mut PyObject,
    ) -> PyResult<*mut PyObject> {
        let call = second("calling an original")?.PyUnstable_FrameHook_CallOriginal;
        // SAFETY: the caller's contract.
        Ok(unsafe { call(callable, values, positional, names, c_int::from(self.below)) })
    }
}

impl sealed::Way for Outside {
    unsafe fn call(
        &self,
        callable: *mut PyObject,
        values: *const *mut PyObject,
        positional: usize,
        names: *mut PyObject,
    ) -> PyResult<*mut PyObject> {
        let call = later("calling outside of a hook")?.PyUnstable_FrameHook_CallOutside;
        // SAFETY: the caller's contract.
        Ok(unsafe { call(callable, values, positional, names) })
    }
}

impl Callee<'_, '_, Original> {
    /// Nor about any frame below it.
    pub fn below(mut self) -> Self {
        self.way.below = true;
        self
    }
}

impl<'py, W: Way> Callee<'_, 'py, W> {
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
        let py = self.function.py();
        let positional = arguments.into_pyobject(py).map_err(Into::into)?;
        // Values of their own, so that they live whatever the call does to a dict.
        let mut values: Vec<Bound<'py, PyAny>> = positional.as_borrowed().iter().collect();
        let count = values.len();
        let mut names = Vec::new();
        for (name, value) in keywords.into_iter().flatten() {
            names.push(name);
            values.push(value);
        }
        let names = (!names.is_empty()).then(|| PyTuple::new(py, names)).transpose()?;
        let pointers: Vec<*mut PyObject> = values.iter().map(Bound::as_ptr).collect();
        let names = names.as_ref().map_or(null_mut(), Bound::as_ptr);
        // SAFETY: attached. The callable is borrowed, the values and the names are above.
        let result =
            unsafe { self.way.call(self.function.as_ptr(), pointers.as_ptr(), count, names) }?;
        // SAFETY: attached. A new reference, or NULL with an exception, as `Way::call` says.
        unsafe { Bound::from_owned_ptr_or_err(py, result) }
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
