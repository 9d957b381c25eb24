//! Exceptions as a type: a [`Raised`] proves that one is set.

use crate::code_extra::Error;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::exception::drop_aside;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::CStr;

/// An exception is set in this thread.
#[must_use]
pub struct Raised(());

pub type Outcome<T> = Result<T, Raised>;

/// The value of a call, unless a callback has failed: then it is released, and its destructor may run.
#[inline(always)]
pub fn value_unless(value: Owned, outcome: Outcome<()>) -> Outcome<Owned> {
    match outcome {
        Ok(()) => Ok(value),
        Err(raised) => {
            // SAFETY: a thread state is attached, and no lock is held: Python code has just run.
            unsafe { drop_aside(value) };
            Err(raised)
        }
    }
}

impl Raised {
    /// A call into CPython has just failed.
    // `inline` for the same reason as the `fail` that it calls: no symbol.
    #[inline]
    pub fn by_cpython(_thread: Thread) -> Self {
        crate::check::check!(_thread.has_exception(), "a call failed without an exception");
        Raised(())
    }

    /// Raises the error that a value could not be stored on a code object.
    #[cold]
    pub fn by_code_extra(thread: Thread, error: Error) -> Self {
        match error {
            Error::NoMemory => Raised::no_memory(thread),
            Error::ForeignCode => Raised::runtime_error(
                thread,
                c"the code object belongs to another interpreter, which has frame hooks too",
            ),
            Error::Finished => Raised::runtime_error(thread, c"the interpreter is at its end"),
            _ => Raised::runtime_error(thread, c"no co_extra index is left for frame hooks"),
        }
    }

    pub fn no_memory(_thread: Thread) -> Self {
        // SAFETY: a thread state is attached, says the `Thread`.
        unsafe { c::PyErr_NoMemory() };
        Raised(())
    }

    /// Raises `kind` with a fixed text.
    ///
    /// # Safety
    /// `kind` is an exception class.
    unsafe fn with_text(_thread: Thread, kind: *mut PyObject, text: &CStr) -> Self {
        // SAFETY: the caller says that `kind` is an exception class; the text is NUL-terminated
        // UTF-8.
        unsafe { c::PyErr_SetString(kind, text.as_ptr()) };
        Raised(())
    }

    pub fn value_error(thread: Thread, text: &CStr) -> Self {
        // SAFETY: `ValueError` is a class.
        unsafe { Raised::with_text(thread, c::PyExc_ValueError, text) }
    }

    pub fn runtime_error(thread: Thread, text: &CStr) -> Self {
        // SAFETY: `RuntimeError` is a class.
        unsafe { Raised::with_text(thread, c::PyExc_RuntimeError, text) }
    }

    pub fn type_error(thread: Thread, text: &CStr) -> Self {
        // SAFETY: `TypeError` is a class.
        unsafe { Raised::with_text(thread, c::PyExc_TypeError, text) }
    }

    pub fn index_error(thread: Thread, text: &CStr) -> Self {
        // SAFETY: `IndexError` is a class.
        unsafe { Raised::with_text(thread, c::PyExc_IndexError, text) }
    }

    /// StopIteration and StopAsyncIteration become RuntimeError, as in PEP 479; other exceptions stay.
    #[cold]
    pub fn but_no_stop_iteration(self, _thread: Thread) -> Self {
        // SAFETY: an exception is set, says `self`; classes, and a format without arguments.
        unsafe {
            if c::PyErr_ExceptionMatches(c::PyExc_StopIteration)
                | c::PyErr_ExceptionMatches(c::PyExc_StopAsyncIteration)
                != 0
            {
                let text = c"a frame hook's callback for a generator raised StopIteration";
                c::_PyErr_FormatFromCause(c::PyExc_RuntimeError, text.as_ptr());
            }
        }
        self
    }
}
