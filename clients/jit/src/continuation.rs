//! What continues a call that compiled code has left, as an object to which the interpreter makes the call again.

// What PyO3 writes into a macro of ours counts as ours.
#![allow(unsafe_op_in_unsafe_fn)]

use crate::exit::Frames;
use crate::operators::without_method;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Mutex;

/// In the place of a callable, of a container, or of an operand: its call, its item, or the operator's result, is the result of frames that
/// were left.
#[pyclass(frozen, module = "ferrule_jit")]
pub struct Continuation(Mutex<Option<Frames>>);

impl Continuation {
    pub fn of(frames: Frames) -> Self {
        Self(Mutex::new(Some(frames)))
    }

    fn take(&self) -> PyResult<Frames> {
        let frames = self.0.lock().ok().and_then(|mut place| place.take());
        frames.ok_or_else(|| PyRuntimeError::new_err("it was continued already"))
    }

    fn result<'py>(py: Python<'py>, frames: Frames) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: attached, in a call; a new reference, or NULL with an exception.
        unsafe { Bound::from_owned_ptr_or_err(py, frames.run()) }
    }

    /// The result of an operator.
    fn operator<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let mut frames = self.take()?;
        let (own, special) = (frames.instance.take(), frames.special);
        let result = Self::result(py, frames)?;
        match (own, special) {
            (Some(own), Some(special)) if result.is(py.NotImplemented()) => {
                without_method(special, own.bind(py), other)
            }
            _ => Ok(result),
        }
    }
}

/// PyO3 wants all methods of a class in one block.
macro_rules! methods {
    ($($own:ident $reflected:ident,)*) => {
        #[pymethods]
        impl Continuation {
            #[pyo3(signature = (*_arguments, **_names))]
            fn __call__<'py>(
                &self,
                py: Python<'py>,
                _arguments: &Bound<'py, PyTuple>,
                _names: Option<&Bound<'py, PyDict>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let mut frames = self.take()?;
                let instance = frames.instance.take();
                let result = Self::result(py, frames)?;
                match instance {
                    None => Ok(result),
                    Some(instance) if result.is_none() => Ok(instance.into_bound(py)),
                    Some(_) => {
                        let name = result.get_type().qualname()?;
                        let message = format!("__init__() should return None, not '{name}'");
                        Err(PyTypeError::new_err(message))
                    }
                }
            }

            fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                Self::result(index.py(), self.take()?)
            }

            fn __setitem__(
                &self,
                index: &Bound<'_, PyAny>,
                _value: &Bound<'_, PyAny>,
            ) -> PyResult<()> {
                self.__getitem__(index).map(drop)
            }

            fn __neg__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                Self::result(py, self.take()?)
            }

            fn __richcmp__<'py>(
                &self,
                other: &Bound<'py, PyAny>,
                _operator: CompareOp,
            ) -> PyResult<Bound<'py, PyAny>> {
                self.operator(other)
            }

            $(
            fn $own<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                self.operator(other)
            }

            fn $reflected<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                self.operator(other)
            }
            )*
        }
    };
}

methods! {
    __add__ __radd__,
    __and__ __rand__,
    __floordiv__ __rfloordiv__,
    __lshift__ __rlshift__,
    __matmul__ __rmatmul__,
    __mul__ __rmul__,
    __mod__ __rmod__,
    __or__ __ror__,
    __rshift__ __rrshift__,
    __sub__ __rsub__,
    __truediv__ __rtruediv__,
    __xor__ __rxor__,
}
