//! A frame at the head of a hot loop.

use crate::raw;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::ffi::c_int;

/// What a loop callback answers; an error is raised at the loop's head, where the function may handle it.
#[derive(Debug)]
#[must_use]
pub enum LoopAnswer<'py> {
    /// The frame continues at the loop's head, with its slots as they are now.
    Continue,
    /// The function returns this value.
    Result(Bound<'py, PyAny>),
    /// This exception leaves the function, and no handler of it is executed.
    Unwind(PyErr),
}

/// A frame at the head of a hot loop, until the loop callback returns.
///
/// # Invariants
/// `raw` is what the interpreter has passed to a loop callback that runs in this thread. Each slot is NULL or owns a
/// reference.
pub struct HotLoop<'a, 'py> {
    py: Python<'py>,
    raw: &'a mut raw::Loop,
}

impl<'a, 'py> HotLoop<'a, 'py> {
    /// # Safety
    /// As the type's invariant says.
    pub(crate) unsafe fn new(py: Python<'py>, raw: &'a mut raw::Loop) -> Self {
        // INVARIANT: by contract.
        Self { py, raw }
    }

    /// The proof that this thread is attached to the interpreter.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    /// The code that runs.
    pub fn code(&self) -> Bound<'py, PyCode> {
        // SAFETY: a code object, which the frame holds.
        unsafe { Bound::from_borrowed_ptr(self.py, self.raw.code).cast_into_unchecked() }
    }

    /// The function that runs.
    pub fn function(&self) -> Bound<'py, PyAny> {
        // SAFETY: the frame holds it.
        unsafe { Bound::from_borrowed_ptr(self.py, self.raw.function) }
    }

    /// The index of the JUMP_BACKWARD, in code units.
    pub fn jump(&self) -> usize {
        self.raw.jump as usize
    }

    /// The index of the loop's head, in code units.
    pub fn head(&self) -> usize {
        self.raw.instruction as usize
    }

    fn local_count(&self) -> usize {
        self.raw.local_count as usize
    }

    /// # Safety
    /// The slot is one of the frame's.
    unsafe fn slot(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the caller says that the slot is the frame's; by the invariant it is NULL or owns a reference.
        unsafe { Bound::from_borrowed_ptr_or_opt(self.py, *self.raw.slots.add(index)) }
    }

    /// What a local variable holds: the cell, if it is one. `None`: it is unbound. IndexError: there is no such variable.
    pub fn local(&self, index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        if index >= self.local_count() {
            return Err(PyIndexError::new_err("the code has no local variable of that number"));
        }
        // SAFETY: the frame has so many.
        Ok(unsafe { self.slot(index) })
    }

    /// How many values are on the evaluation stack: the iterators of the loops, and more.
    pub fn stack_depth(&self) -> usize {
        self.raw.stack_depth as usize
    }

    /// A value of the evaluation stack, from the bottom.
    pub fn stack(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: so many values follow the local variables.
        (index < self.stack_depth()).then(|| unsafe { self.slot(self.local_count() + index) })?
    }

    /// Sets a local variable that is no cell. TypeError: it is one. IndexError: there is no such variable.
    pub fn set_local(&mut self, index: usize, value: Bound<'py, PyAny>) -> PyResult<()> {
        if index >= self.local_count() {
            return Err(PyIndexError::new_err("the code has no local variable of that number"));
        }
        if !self.is_no_cell(index)? {
            return Err(PyTypeError::new_err("this variable is a cell, which functions may share"));
        }
        // SAFETY: the frame has so many slots; the old reference is given up after the new one is stored.
        let old = unsafe { std::mem::replace(&mut *self.raw.slots.add(index), value.into_ptr()) };
        // SAFETY: NULL, or the slot's own reference.
        drop(unsafe { Bound::from_owned_ptr_or_opt(self.py, old) });
        Ok(())
    }

    /// Whether a variable is among the names of local variables and not among those of cells.
    fn is_no_cell(&self, index: usize) -> PyResult<bool> {
        let names = self.code().getattr("co_varnames")?;
        if index >= names.len()? {
            return Ok(false);
        }
        Ok(!self.code().getattr("co_cellvars")?.contains(names.get_item(index)?)?)
    }

    /// After how many further turns of this loop the callback is called again; 0: not until the code is
    /// instrumented anew, as when a tool or a hook was added.
    pub fn set_turns(&mut self, turns: u16) {
        self.raw.turns = c_int::from(turns);
    }

    /// The struct of C, for compilers, which know the code's instructions.
    pub fn raw(&mut self) -> *mut raw::Loop {
        self.raw
    }
}

impl LoopAnswer<'_> {
    /// The number, and the reference that the interpreter takes over. Sets the exception.
    pub(crate) fn into_raw(self, py: Python<'_>) -> (c_int, *mut PyObject) {
        match self {
            Self::Continue => (raw::LOOP_CONTINUE, std::ptr::null_mut()),
            Self::Result(value) => (raw::LOOP_RESULT, value.into_ptr()),
            Self::Unwind(error) => {
                error.restore(py);
                (raw::LOOP_UNWIND, std::ptr::null_mut())
            }
        }
    }
}
