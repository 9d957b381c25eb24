//! Calling a function without asking hooks, or as though no hook ran; and asking whether code can
//! stand in.

use crate::api::{outside as outside_functions, second};
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
pub fn outside<'a, 'py>(function: &'a Bound<'py, PyAny>) -> Outside<'a, 'py> {
    Outside { function }
}

/// From [`original`].
#[must_use]
pub struct Original<'a, 'py> {
    function: &'a Bound<'py, PyAny>,
    below: bool,
}

/// From [`outside`].
#[must_use]
pub struct Outside<'a, 'py> {
    function: &'a Bound<'py, PyAny>,
}

impl<'py> Outside<'_, 'py> {
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
        let call = outside_functions()?.PyUnstable_FrameHook_CallOutside;
        Vector::new(self.function.py(), arguments, keywords)?.call(|values, count, names| {
            // SAFETY: as `Vector::call` says.
            unsafe { call(self.function.as_ptr(), values, count, names) }
        })
    }
}

/// The arguments of a call, as the header's functions take them.
struct Vector<'py> {
    py: Python<'py>,
    // Values of their own, so that they live whatever the call does to a dict.
    values: Vec<Bound<'py, PyAny>>,
    positional: usize,
    names: Option<Bound<'py, PyTuple>>,
}

impl<'py> Vector<'py> {
    fn new<A>(
        py: Python<'py>,
        arguments: A,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
    {
        let positional = arguments.into_pyobject(py).map_err(Into::into)?;
        let mut values: Vec<Bound<'py, PyAny>> = positional.as_borrowed().iter().collect();
        let count = values.len();
        let mut names = Vec::new();
        for (name, value) in keywords.into_iter().flatten() {
            names.push(name);
            values.push(value);
        }
        let names = (!names.is_empty()).then(|| PyTuple::new(py, names)).transpose()?;
        Ok(Self { py, values, positional: count, names })
    }

    /// `call` gets the values, how many of them are positional, and the names of the others or
    /// NULL. All live until it returns. It gives a new reference, or NULL with an exception.
    fn call(
        &self,
        call: impl FnOnce(*const *mut PyObject, usize, *mut PyObject) -> *mut PyObject,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pointers: Vec<*mut PyObject> = self.values.iter().map(Bound::as_ptr).collect();
        let names = self.names.as_ref().map_or(null_mut(), Bound::as_ptr);
        let result = call(pointers.as_ptr(), self.positional, names);
        // SAFETY: attached. A new reference, or NULL with an exception, as this function's users say.
        unsafe { Bound::from_owned_ptr_or_err(self.py, result) }
    }
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
        let call = second("calling an original")?.PyUnstable_FrameHook_CallOriginal;
        let below = c_int::from(self.below);
        Vector::new(self.function.py(), arguments, keywords)?.call(|values, count, names| {
            // SAFETY: attached, and as `Vector::call` says.
            unsafe { call(self.function.as_ptr(), values, count, names, below) }
        })
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
