//! Unhooked and re-entrant calls, and whether code is compatible.

use crate::install::checked;
use crate::raw::Api;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};
use pyo3::BoundObject;
use std::ffi::{c_int, CStr};
use std::ops::Deref;
use std::ptr::null_mut;

/// A function that is called without dispatching hooks for the frame of the call. Other callables are
/// called as usual.
///
/// ```no_run
/// use pyo3::prelude::*;
/// fn twice<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
///     let first = framehook::unhooked(function).call1((1,))?;
///     framehook::unhooked(function).and_callees().call1((first,))
/// }
/// ```
pub fn unhooked<'a, 'py>(function: &'a Bound<'py, PyAny>) -> Unhooked<'a, 'py> {
    Unhooked(Callee { function, way: Way::Unhooked { callees: false } })
}

/// A callable that a callback of a hook calls as if the callback did not run: hooks are dispatched for
/// the call, this hook among them. For hooks that run code of others, as a compiler does. The frame
/// cannot be read meanwhile.
///
/// ```no_run
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::{prelude::*, types::PyCode};
/// struct Compile(Py<PyAny>);
/// impl FrameHook for Compile {
///     type Data = ();
///     fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
///         let compiler = self.0.bind(frame.py());
///         let code = framehook::reentrant(compiler).call1((frame.code()?,))?;
///         Ok(Answer::replace(code.cast_into::<PyCode>()?))
///     }
/// }
/// ```
pub fn reentrant<'a, 'py>(function: &'a Bound<'py, PyAny>) -> Callee<'a, 'py> {
    Callee { function, way: Way::Reentrant }
}

/// A callable, and the way in which it is called.
#[must_use]
pub struct Callee<'a, 'py> {
    function: &'a Bound<'py, PyAny>,
    way: Way,
}

enum Way {
    Unhooked { callees: bool },
    Reentrant,
}

/// A [`Callee`] that is called without hooks.
#[must_use]
pub struct Unhooked<'a, 'py>(Callee<'a, 'py>);

impl Unhooked<'_, '_> {
    /// Dispatches no hook for the callees either.
    pub fn and_callees(mut self) -> Self {
        self.0.way = Way::Unhooked { callees: true };
        self
    }
}

impl<'a, 'py> Deref for Unhooked<'a, 'py> {
    type Target = Callee<'a, 'py>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'py> Callee<'_, 'py> {
    /// Calls it without arguments.
    pub fn call0(&self) -> PyResult<Bound<'py, PyAny>> {
        self.call((), None)
    }

    /// Calls it with positional arguments: a tuple.
    pub fn call1<A>(&self, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
    {
        self.call(arguments, None)
    }

    /// Calls it with positional and keyword arguments.
    pub fn call<A>(
        &self,
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
        let (api, callable, values) = (Api::get()?, self.function.as_ptr(), pointers.as_ptr());
        let result = match self.way {
            Way::Unhooked { callees } => {
                let (call, callees) = (api.PyUnstable_FrameHook_CallUnhooked, c_int::from(callees));
                // SAFETY: attached. The callable is borrowed. The values and the names are above: so
                // many positional ones, and one for each name.
                unsafe { call(callable, values, count, names, callees) }
            }
            Way::Reentrant => {
                let call = api.PyUnstable_FrameHook_CallReentrant;
                // SAFETY: attached, and the callable, the values and the names as for the other function.
                unsafe { call(callable, values, count, names) }
            }
        };
        // SAFETY: attached. A new reference, or NULL with an exception, as both functions return it.
        unsafe { Bound::from_owned_ptr_or_err(py, result) }
    }
}

/// Why a frame of `code` cannot run `other` instead; `None`: it can.
pub fn incompatibility(
    code: &Bound<'_, PyCode>,
    other: &Bound<'_, PyCode>,
) -> PyResult<Option<&'static str>> {
    let compare = Api::get()?.PyUnstable_FrameHook_Incompatibility;
    let mut reason = std::ptr::null();
    // SAFETY: attached; two code objects that live, and room for the reason.
    let status = unsafe { compare(code.as_ptr(), other.as_ptr(), &mut reason) };
    checked(code.py(), status)?;
    if status == 0 || reason.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, so it is a string that is never freed, as the header says.
    let reason = unsafe { CStr::from_ptr(reason) };
    Ok(Some(reason.to_str().unwrap_or("for a reason that is no UTF-8")))
}
