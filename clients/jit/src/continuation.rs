//! What continues a call that compiled code has left, as an object to which the interpreter makes the call again.

// What PyO3 writes into a macro of ours counts as ours.
#![allow(unsafe_op_in_unsafe_fn)]

use crate::opcode::Special;
use crate::operators::without_method;
use framehook::raw::{Api, Record};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::c_int;
use std::sync::Mutex;

/// Frames of the interpreter in the place of those that compiled code has left, the outermost first. They own what is in their slots.
pub struct Frames {
    records: Vec<Record>,
    slots: Vec<Vec<*mut PyObject>>,
    /// What the innermost one gets as the result of its call, or NULL.
    pub value: *mut PyObject,
    /// There was no memory for all of it.
    pub lacks_memory: bool,
    /// What a call of its class returns in the place of what `__init__` does, or the operand whose method it is.
    pub instance: Option<Py<PyAny>>,
    /// The method of that operand.
    pub special: Option<Special>,
}

// SAFETY: objects of the interpreter, used by attached threads alone.
unsafe impl Send for Frames {}

impl Frames {
    pub fn none() -> Self {
        let (records, slots, value) = (Vec::new(), Vec::new(), std::ptr::null_mut());
        Self { records, slots, value, lacks_memory: false, instance: None, special: None }
    }

    /// A frame that the last one has called. `slots`, of which `depth` are on its stack, become its own.
    ///
    /// # Safety
    /// Attached, and a function that is alive.
    pub unsafe fn push(
        &mut self,
        function: *mut PyObject,
        unit: u32,
        depth: usize,
        mut slots: Vec<*mut PyObject>,
    ) {
        // SAFETY: by contract. It is alive now, but what is released may run code of the program.
        unsafe { ffi::Py_INCREF(function) };
        self.records.push(Record {
            function,
            code: std::ptr::null_mut(),
            locals: std::ptr::null_mut(),
            instruction: unit as c_int,
            stack_depth: depth as c_int,
            slots: slots.as_mut_ptr(),
        });
        self.slots.push(slots);
    }

    /// The result of the outermost one.
    ///
    /// # Safety
    /// Attached, and no exception is set.
    pub unsafe fn run(mut self) -> *mut PyObject {
        let value = std::mem::replace(&mut self.value, std::ptr::null_mut());
        if self.records.is_empty() && !self.lacks_memory {
            return value;
        }
        if let (Ok(api), false) = (Api::get(), self.lacks_memory) {
            self.slots.iter_mut().for_each(Vec::clear); // in place: the records have the addresses
            let (records, count) = (self.records.as_ptr(), self.records.len() as isize);
            // SAFETY: the records describe frames of these functions, whose slots are owned and as many as the code's variables and
            // what is on the stack; they are consumed.
            return unsafe { (api.PyUnstable_Frame_Continue)(records, count, value) };
        }
        self.value = value;
        drop(self);
        // SAFETY: attached.
        unsafe { ffi::PyErr_NoMemory() }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let functions = std::mem::take(&mut self.records).into_iter().map(|r| r.function);
        let slots = std::mem::take(&mut self.slots).into_iter().flatten();
        for object in slots.chain(functions).chain([self.value]) {
            // SAFETY: owned, or NULL; attached, as where it was made.
            unsafe { ffi::Py_XDECREF(object) };
        }
    }
}

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
                        let text = c"__init__() should return None, not '%.200s'".as_ptr();
                        // SAFETY: attached; the name is its type's, which the result keeps.
                        unsafe {
                            let name = (*ffi::Py_TYPE(result.as_ptr())).tp_name;
                            ffi::PyErr_Format(ffi::PyExc_TypeError, text, name);
                        }
                        Err(PyErr::fetch(py))
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
