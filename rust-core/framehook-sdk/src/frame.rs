//! Reading the frame of an entry callback.

use crate::raw::{self, Api};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyString};
use std::ffi::c_int;

/// A frame before its first instruction, until the entry callback returns.
///
/// It cannot be kept:
/// ```no_run
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::{prelude::*, types::PyCode};
/// # use std::sync::Mutex;
/// struct Keep(Mutex<Option<Py<PyCode>>>);
/// impl FrameHook for Keep {
///     type Data = ();
///     fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
///         let kept = self.0.lock().unwrap().replace(frame.code()?.unbind());
///         drop(kept); // the lock is free by now
///         Ok(Answer::pass())
///     }
/// }
/// ```
/// ```compile_fail,E0521
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::prelude::*;
/// # use std::cell::Cell;
/// thread_local!(static KEPT: Cell<Option<&'static Frame<'static>>> = Cell::default());
/// struct Keep;
/// impl FrameHook for Keep {
///     type Data = ();
///     fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
///         KEPT.set(Some(frame));
///         Ok(Answer::pass())
///     }
/// }
/// ```
/// Nor be used in another thread, nor while this one is detached:
/// ```no_run
/// fn elsewhere(frame: &framehook::Frame<'_>) {
///     let count = frame.argument_count();
///     std::thread::scope(|scope| { scope.spawn(move || println!("{count}")); });
///     frame.py().detach(|| println!("{count}"));
/// }
/// ```
/// ```compile_fail,E0277
/// fn elsewhere(frame: &framehook::Frame<'_>) {
///     std::thread::scope(|scope| { scope.spawn(|| println!("{}", frame.argument_count())); });
/// }
/// ```
/// ```compile_fail,E0277
/// fn detached(frame: &framehook::Frame<'_>) {
///     frame.py().detach(|| println!("{}", frame.argument_count()));
/// }
/// ```
///
/// # Invariants
/// An entry callback of this thread runs for the frame `raw` as long as the value exists.
pub struct Frame<'py> {
    py: Python<'py>,
    api: &'static Api,
    // Neither Send nor Sync.
    raw: *mut raw::Frame,
}

impl<'py> Frame<'py> {
    /// # Safety
    /// An entry callback of this thread runs for this frame until the value is dropped.
    pub(crate) unsafe fn new(py: Python<'py>, api: &'static Api, raw: *mut raw::Frame) -> Self {
        // INVARIANT: by contract.
        Self { py, api, raw }
    }

    /// The proof that this thread is attached to the interpreter.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    fn own(
        &self,
        get: unsafe extern "C" fn(*mut raw::Frame) -> *mut PyObject,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: `get` is one of the header's functions; by the invariant. A new reference, or NULL with an exception.
        unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw)) }
    }

    /// The code that is to run, as the hooks before this one have left it.
    pub fn code(&self) -> PyResult<Bound<'py, PyCode>> {
        let code = self.own(self.api.PyUnstable_FrameHook_GetCode)?;
        // SAFETY: what a frame runs is a code object. A check would be paid at each start.
        Ok(unsafe { code.cast_into_unchecked() })
    }

    /// The function that was called. CPython makes one for a module, a class body and `exec` too.
    pub fn function(&self) -> PyResult<Bound<'py, PyFunction>> {
        Ok(self.own(self.api.PyUnstable_FrameHook_GetFunction)?.cast_into()?)
    }

    /// The global variables.
    pub fn globals(&self) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.own(self.api.PyUnstable_FrameHook_GetGlobals)?.cast_into()?)
    }

    /// The builtins: a dict, or another mapping where one was given.
    pub fn builtins(&self) -> PyResult<Bound<'py, PyAny>> {
        self.own(self.api.PyUnstable_FrameHook_GetBuiltins)
    }

    /// How many parameters the code has, `*args` and `**kwargs` included.
    pub fn argument_count(&self) -> usize {
        // SAFETY: by the invariant.
        let count = unsafe { (self.api.PyUnstable_FrameHook_GetArgumentCount)(self.raw) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The value of a parameter: positional ones first, then keyword-only ones, `*args`,
    /// `**kwargs`. IndexError: there is none. UnboundLocalError: its cell is empty.
    pub fn argument(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let get = self.api.PyUnstable_FrameHook_GetArgument;
        // SAFETY: as in `own`; any index is allowed.
        unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw, signed(index))) }
    }

    /// The value of a variable by its index among all variables of the code: parameters, other locals,
    /// cells and free variables. `None`: it is unbound. IndexError: there is no such variable.
    pub fn variable(&self, index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let get = self.api.PyUnstable_InterpreterFrame_GetLocal;
        // SAFETY: as in `own`; any index is allowed.
        let value = unsafe { Bound::from_owned_ptr_or_opt(self.py, get(self.raw, signed(index))) };
        match PyErr::take(self.py) {
            Some(error) if value.is_none() => Err(error),
            _ => Ok(value),
        }
    }

    /// The name of a parameter, in the same order.
    pub fn argument_name(&self, index: usize) -> PyResult<Bound<'py, PyString>> {
        let get = self.api.PyUnstable_FrameHook_GetArgumentName;
        // SAFETY: as in `own`; any index is allowed.
        let name = unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw, signed(index))) };
        Ok(name?.cast_into()?)
    }

    /// The value of the parameter of that name. Names are compared one by one. KeyError: there is
    /// none.
    pub fn argument_named(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let name = PyString::new(self.py, name);
        let get = self.api.PyUnstable_FrameHook_GetArgumentByName;
        // SAFETY: as in `own`; the name is a str that lives.
        unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw, name.as_ptr())) }
    }

    /// Names and values of all parameters, in order.
    pub fn arguments(
        &self,
    ) -> impl Iterator<Item = PyResult<(Bound<'py, PyString>, Bound<'py, PyAny>)>> + use<'_, 'py>
    {
        (0..self.argument_count())
            .map(|index| Ok((self.argument_name(index)?, self.argument(index)?)))
    }

    /// Whether the value of a parameter is this very object. No reference is counted.
    pub fn argument_is(&self, index: usize, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let borrow = self.api.PyUnstable_FrameHook_BorrowArgument;
        // SAFETY: by the invariant; any index is allowed. The reference is
        // borrowed, and not used beyond the comparison: its address is enough.
        let argument = unsafe { borrow(self.raw, signed(index)) };
        if argument.is_null() {
            return Err(PyErr::fetch(self.py));
        }
        Ok(std::ptr::eq(argument, object.as_ptr()))
    }

    /// The free variables that have a value, by name.
    pub fn free_variables(&self) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.own(self.api.PyUnstable_FrameHook_GetFreeVariables)?.cast_into()?)
    }

    /// The mapping with the locals of a module, a class body or `exec`.
    pub fn locals(&self) -> PyResult<Option<Bound<'py, PyAny>>> {
        let locals = self.own(self.api.PyUnstable_FrameHook_GetLocals)?;
        Ok((!locals.is_none()).then_some(locals))
    }

    /// The code that called, and its line where that is known. `None` where Python code has not
    /// called.
    pub fn caller(&self) -> PyResult<Option<(Bound<'py, PyCode>, Option<u32>)>> {
        let get = self.api.PyUnstable_FrameHook_GetCaller;
        let mut line: c_int = -1;
        // SAFETY: as in `own`, and there is room for the line.
        let caller = unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw, &mut line)) }?;
        if caller.is_none() {
            return Ok(None);
        }
        Ok(Some((caller.cast_into()?, u32::try_from(line).ok())))
    }
}

/// An index as C has it. What does not fit is no parameter's index in any case.
fn signed(index: usize) -> isize {
    isize::try_from(index).unwrap_or(isize::MAX)
}
