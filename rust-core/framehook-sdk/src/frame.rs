//! Reading the frame that a hook is asked about.

use crate::api::{second, First, RawFrame};
use pyo3::exceptions::PySystemError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyString};
use std::ffi::c_int;
use std::ptr::NonNull;

/// A frame before its first instruction, until the hook returns.
///
/// It cannot be kept:
/// ```no_run
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::{prelude::*, types::PyCode};
/// # use std::sync::Mutex;
/// struct Keep(Mutex<Option<Py<PyCode>>>);
/// impl FrameHook for Keep {
///     type Word = ();
///     fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
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
///     type Word = ();
///     fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
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
/// The engine offers the frame `raw` to this thread's hook as long as the value exists.
pub struct Frame<'py> {
    py: Python<'py>,
    functions: &'static First,
    // Neither Send nor Sync.
    raw: NonNull<RawFrame>,
}

impl<'py> Frame<'py> {
    /// # Safety
    /// The engine offers this frame to the caller, and goes on doing so until the value is dropped.
    pub(crate) unsafe fn new(
        py: Python<'py>,
        functions: &'static First,
        raw: *mut RawFrame,
    ) -> PyResult<Self> {
        let raw = NonNull::new(raw).ok_or_else(|| PySystemError::new_err("no frame"))?;
        // INVARIANT: the caller promises it.
        Ok(Self { py, functions, raw })
    }

    /// The proof that this thread is attached to the interpreter.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    fn own(
        &self,
        get: unsafe extern "C" fn(*mut RawFrame) -> *mut PyObject,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: `get` is one of the header's functions. The frame is offered to this thread, as
        // the invariant says. A new reference, or NULL with an exception.
        unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw.as_ptr())) }
    }

    /// The code that is to run, as the hooks before this one have left it.
    pub fn code(&self) -> PyResult<Bound<'py, PyCode>> {
        let code = self.own(self.functions.PyUnstable_HookFrame_GetCode)?;
        // SAFETY: what a frame runs is a code object. A check would be paid at each start.
        Ok(unsafe { code.cast_into_unchecked() })
    }

    /// The function that was called. CPython makes one for a module, a class body and `exec` too.
    pub fn function(&self) -> PyResult<Bound<'py, PyFunction>> {
        Ok(self.own(self.functions.PyUnstable_HookFrame_GetFunction)?.cast_into()?)
    }

    /// The global variables.
    pub fn globals(&self) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.own(self.functions.PyUnstable_HookFrame_GetGlobals)?.cast_into()?)
    }

    /// The builtins: a dict, or another mapping where somebody has given one.
    pub fn builtins(&self) -> PyResult<Bound<'py, PyAny>> {
        self.own(self.functions.PyUnstable_HookFrame_GetBuiltins)
    }

    /// How many parameters the code has, `*args` and `**kwargs` included.
    pub fn argument_count(&self) -> usize {
        // SAFETY: the frame is offered to this thread, as the invariant says.
        let count =
            unsafe { (self.functions.PyUnstable_HookFrame_GetArgumentCount)(self.raw.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The value of a parameter: positional ones first, then keyword-only ones, `*args`,
    /// `**kwargs`. IndexError: there is none. UnboundLocalError: its cell is empty.
    pub fn argument(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let get = self.functions.PyUnstable_HookFrame_GetArgument;
        // SAFETY: as in `own`; any index is allowed.
        unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw.as_ptr(), signed(index))) }
    }

    /// The name of a parameter, in the same order.
    pub fn argument_name(&self, index: usize) -> PyResult<Bound<'py, PyString>> {
        let get = self.functions.PyUnstable_HookFrame_GetArgumentName;
        // SAFETY: as in `own`; any index is allowed.
        let name =
            unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw.as_ptr(), signed(index))) };
        Ok(name?.cast_into()?)
    }

    /// The value of the parameter of that name. Names are compared one by one. KeyError: there is
    /// none.
    pub fn argument_named(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let name = PyString::new(self.py, name);
        let get = self.functions.PyUnstable_HookFrame_GetArgumentByName;
        // SAFETY: as in `own`; the name is a str that lives.
        unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw.as_ptr(), name.as_ptr())) }
    }

    /// Names and values of all parameters, in order.
    pub fn arguments(
        &self,
    ) -> impl Iterator<Item = PyResult<(Bound<'py, PyString>, Bound<'py, PyAny>)>> + use<'_, 'py>
    {
        (0..self.argument_count())
            .map(|index| Ok((self.argument_name(index)?, self.argument(index)?)))
    }

    /// Whether the value of a parameter is this very object. No reference is counted. Second
    /// edition.
    pub fn argument_is(&self, index: usize, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let borrow = second("comparing an argument")?.PyUnstable_HookFrame_BorrowArgument;
        // SAFETY: the frame is offered to this thread; any index is allowed. The reference is
        // borrowed, and not used beyond the comparison: its address is enough.
        let argument = unsafe { borrow(self.raw.as_ptr(), signed(index)) };
        if argument.is_null() {
            return Err(PyErr::fetch(self.py));
        }
        Ok(std::ptr::eq(argument, object.as_ptr()))
    }

    /// The free variables that have a value, by name. Second edition.
    pub fn free_variables(&self) -> PyResult<Bound<'py, PyDict>> {
        let functions = second("reading free variables")?;
        Ok(self.own(functions.PyUnstable_HookFrame_GetFreeVariables)?.cast_into()?)
    }

    /// The mapping with the locals of a module, a class body or `exec`. Second edition.
    pub fn locals(&self) -> PyResult<Option<Bound<'py, PyAny>>> {
        let locals = self.own(second("reading locals")?.PyUnstable_HookFrame_GetLocals)?;
        Ok((!locals.is_none()).then_some(locals))
    }

    /// The code that called, and its line where that is known. `None` where Python code has not
    /// called. Second edition.
    pub fn caller(&self) -> PyResult<Option<(Bound<'py, PyCode>, Option<u32>)>> {
        let get = second("reading the caller")?.PyUnstable_HookFrame_GetCaller;
        let mut line: c_int = -1;
        // SAFETY: as in `own`, and there is room for the line.
        let caller =
            unsafe { Bound::from_owned_ptr_or_err(self.py, get(self.raw.as_ptr(), &mut line)) }?;
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
