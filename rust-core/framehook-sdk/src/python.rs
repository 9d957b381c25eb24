//! The proof that this thread may touch Python objects.

use crate::api::{Api, InterpreterState};
use crate::error::{Error, Exception};
use crate::object::Object;
use crate::Result;
use std::marker::PhantomData;

/// A proof, good for `'py`: this thread has an attached thread state (holds the
/// GIL, where there is one), and the interpreter has what this crate needs.
///
/// A hook gets it from its frame ([`Frame::python`](crate::Frame::python)), a
/// function of a module as its first argument. It cannot be kept, nor given to
/// another thread:
///
/// ```
/// fn number(py: framehook::Python<'_>) -> framehook::Result<'_, framehook::Object<'_>> {
///     py.int(1)
/// }
/// ```
/// ```compile_fail,E0521
/// use framehook::{Frame, FrameHook, Python, Result, Verdict};
/// use std::cell::Cell;
/// thread_local!(static KEPT: Cell<Option<Python<'static>>> = Cell::default());
/// struct Hook;
/// impl FrameHook for Hook {
///     fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         KEPT.set(Some(frame.python()));
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// ```compile_fail,E0277
/// fn elsewhere(py: framehook::Python<'_>) {
///     std::thread::scope(|scope| { scope.spawn(move || { py.int(1).ok(); }); });
/// }
/// ```
///
/// # Invariants
/// The thread in which a value of this type exists has an attached thread state
/// as long as `'py` lasts.
#[derive(Clone, Copy)]
pub struct Python<'py> {
    pub(crate) api: &'static Api,
    // A raw pointer: neither Send nor Sync.
    attached: PhantomData<(&'py (), *mut ())>,
}

impl<'py> Python<'py> {
    /// The token, for code that knows from elsewhere that the thread is attached
    /// (another binding to Python, for example). `None` if this process has no
    /// CPython of at least 3.13.
    ///
    /// # Safety
    /// The calling thread has an attached thread state until `'py` ends.
    pub unsafe fn assume_attached() -> Option<Self> {
        // SAFETY: the caller's promise is handed on.
        Api::get().ok().map(|api| unsafe { Self::with(api) })
    }

    /// # Safety
    /// The calling thread has an attached thread state until `'py` ends.
    pub(crate) unsafe fn with(api: &'static Api) -> Self {
        // INVARIANT: the caller promises it.
        Self { api, attached: PhantomData }
    }

    /// Whether this interpreter has frame hooks; see [`available`](crate::available).
    pub fn has_hooks(self) -> bool {
        self.api.hooks.is_ok()
    }

    /// The interpreter that the thread is attached to.
    pub fn interpreter(self) -> Interpreter<'py> {
        // SAFETY: the thread is attached, so there is a thread state with an interpreter.
        let state = unsafe {
            let thread = (self.api.python.PyThreadState_GetUnchecked)();
            (self.api.python.PyThreadState_GetInterpreter)(thread)
        };
        Interpreter { python: self, state }
    }

    /// `None`.
    pub fn none(self) -> Object<'py> {
        // SAFETY: attached; the constant exists and the reference is ours.
        let none = unsafe {
            let none = (self.api.python.Py_GetConstant)(crate::api::CONSTANT_NONE);
            Object::from_owned(self, none)
        };
        none.expect("CPython has a None")
    }

    /// `True` or `False`.
    pub fn boolean(self, value: bool) -> Object<'py> {
        // SAFETY: attached; the reference is ours.
        let boolean = unsafe {
            let boolean = (self.api.python.PyBool_FromLong)(value.into());
            Object::from_owned(self, boolean)
        };
        boolean.expect("CPython has True and False")
    }

    /// A Python int. MemoryError if there is no memory.
    pub fn int(self, value: i64) -> Result<'py, Object<'py>> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { self.own((self.api.python.PyLong_FromLongLong)(value)) }
    }

    /// A Python str. MemoryError if there is no memory.
    pub fn string(self, text: &str) -> Result<'py, Object<'py>> {
        // A str's length fits into isize: Rust limits allocations to that.
        let length = text.len() as isize;
        // SAFETY: attached, and the text is valid UTF-8 of this length; a new
        // reference or NULL with an exception.
        unsafe {
            self.own((self.api.python.PyUnicode_FromStringAndSize)(text.as_ptr().cast(), length))
        }
    }

    /// A new empty dict. MemoryError if there is no memory.
    pub fn dict(self) -> Result<'py, Object<'py>> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { self.own((self.api.python.PyDict_New)()) }
    }

    /// The object, or the exception that was set when it was not made.
    ///
    /// # Safety
    /// `pointer` is a reference that the caller owns, or NULL with an exception set.
    pub(crate) unsafe fn own(self, pointer: *mut crate::api::PyObject) -> Result<'py, Object<'py>> {
        // SAFETY: the caller's promise is handed on.
        unsafe { Object::from_owned(self, pointer) }.ok_or_else(|| Error::take(self))
    }

    /// Nothing, or the exception that came with a status of -1.
    pub(crate) fn check(self, status: i64) -> Result<'py, ()> {
        if status < 0 {
            Err(Error::take(self))
        } else {
            Ok(())
        }
    }
}

/// An interpreter: the main one, or a subinterpreter. Hooks belong to one.
#[derive(Clone, Copy)]
pub struct Interpreter<'py> {
    pub(crate) python: Python<'py>,
    pub(crate) state: *mut InterpreterState,
}

impl<'py> Interpreter<'py> {
    /// Its number: 0 for the main interpreter, and never used twice while the
    /// process's Python lives.
    pub fn id(self) -> i64 {
        // SAFETY: attached to this interpreter, so it is there.
        unsafe { (self.python.api.python.PyInterpreterState_GetID)(self.state) }
    }

    /// Removes every hook of the interpreter, those of others too.
    pub fn clear_hooks(self) -> Result<'py, ()> {
        let hooks = self.python.hooks()?;
        // SAFETY: attached to this interpreter.
        let status = unsafe { (hooks.PyUnstable_ClearFrameHooks)(self.state) };
        self.python.check(status.into())
    }
}

impl<'py> Python<'py> {
    /// The functions of frame hooks, or a RuntimeError that says what is missing.
    pub(crate) fn hooks(self) -> Result<'py, &'static crate::api::Hooks> {
        self.api.hooks.as_ref().map_err(|missing| {
            let text = format!(
                "this interpreter has no frame hooks ({missing} is missing): they are a part of Ferrule"
            );
            Error::new(Exception::RuntimeError, text)
        })
    }
}

/// Runs `body` if the calling thread is attached to the interpreter of this number.
///
/// An exception that is set is put aside for that time, so that `body` may be part
/// of a destructor.
pub(crate) fn while_attached_to<T>(
    api: &'static Api,
    interpreter: i64,
    body: impl FnOnce(Python<'_>) -> T,
) -> Option<T> {
    // SAFETY: can be asked in any thread, attached or not, and without an interpreter.
    let thread = unsafe { (api.python.PyThreadState_GetUnchecked)() };
    if thread.is_null() {
        return None;
    }
    // SAFETY: there is a thread state, so the thread is attached, and stays so
    // while `body` runs: safe code cannot detach it.
    let python = unsafe { Python::with(api) };
    if python.interpreter().id() != interpreter {
        return None;
    }
    // SAFETY: attached; the exception that was set, or NULL, is ours now.
    let set_aside = unsafe { (api.python.PyErr_GetRaisedException)() };
    let value = body(python);
    // SAFETY: attached; takes the reference, and NULL means no exception.
    unsafe { (api.python.PyErr_SetRaisedException)(set_aside) };
    Some(value)
}
