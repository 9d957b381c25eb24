//! What an entry callback may read of its frame.

use super::entry_frame::Look;
use super::error::{Outcome, Raised};
use crate::code::{Code, Parameters};
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame::Frame;
use crate::object::Owned;
use crate::reference_count::new_reference;
use crate::thread::Thread;
use core::ffi::c_int;

/// A frame while an entry callback reads it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    frame: Look<'a>,
    thread: Thread,
}

impl View<'_> {
    /// `RuntimeError` if the frame is not being dispatched.
    ///
    /// # Safety
    /// - *dispatched*: the calling thread has an attached thread state, and an entry callback of it
    ///   was called with `frame`, which has not been left since.
    /// - *returns*: the result is not used any more once the callback returns.
    pub unsafe fn new(frame: *mut _PyInterpreterFrame) -> Outcome<Self> {
        // SAFETY: *dispatched*, says the caller: the thread is attached, and the frame live.
        // *returns*, too.
        let (thread, look) = unsafe { (Thread::current(), Look::if_dispatched(Frame::new(frame))) };
        let frame = look.ok_or_else(|| {
            Raised::runtime_error(
                thread,
                c"this frame is not being dispatched: an entry callback may read it until it returns",
            )
        })?;
        Ok(View { frame, thread })
    }

    pub fn code(self) -> Code {
        self.frame.frame().code()
    }

    fn parameters(self) -> Parameters {
        self.code().parameters()
    }

    /// # Safety
    /// `object` is live.
    unsafe fn owned(object: *mut PyObject) -> Owned {
        // SAFETY: live, so that a new reference can be made, which is not NULL.
        unsafe { Owned::from_new_reference(new_reference(object)) }
    }

    pub fn code_object(self) -> Owned {
        // SAFETY: the frame holds it.
        unsafe { View::owned(self.code().as_object()) }
    }

    pub fn function(self) -> Owned {
        // SAFETY: the frame holds it.
        unsafe { View::owned(self.frame.frame().function()) }
    }

    pub fn globals(self) -> Owned {
        // SAFETY: the frame's function holds it.
        unsafe { View::owned((*self.frame.frame().as_ptr()).f_globals) }
    }

    pub fn builtins(self) -> Owned {
        // SAFETY: the frame's function holds it.
        unsafe { View::owned((*self.frame.frame().as_ptr()).f_builtins) }
    }

    pub fn argument_count(self) -> usize {
        self.parameters().count()
    }

    /// `index` as that of a parameter, or `IndexError`.
    fn checked(self, index: isize) -> Outcome<usize> {
        match usize::try_from(index) {
            Ok(index) if index < self.argument_count() => Ok(index),
            _ => Err(Raised::index_error(self.thread, c"the code has no parameter of that number")),
        }
    }

    /// The value of a parameter, which is one of the code; `None`: it has none any more.
    fn value(self, index: usize) -> Option<Owned> {
        self.frame.argument(index)
    }

    /// As [`value`](Self::value), or `UnboundLocalError`.
    fn expect(self, index: usize) -> Outcome<Owned> {
        self.value(index).ok_or_else(|| unbound(self.thread, self.code(), index))
    }

    pub fn argument(self, index: isize) -> Outcome<Owned> {
        self.expect(self.checked(index)?)
    }

    /// As [`argument`](Self::argument), borrowed from the frame, or from its cell.
    pub fn borrowed_argument(self, index: isize) -> Outcome<*mut PyObject> {
        let index = self.checked(index)?;
        self.frame.borrowed_argument(index).ok_or_else(|| unbound(self.thread, self.code(), index))
    }

    /// A new dict of the free variables by name, but for those without a value.
    pub fn free_variables(self) -> Outcome<Owned> {
        let failed = || Raised::by_cpython(self.thread);
        let dict = Owned::dict(self.thread).ok_or_else(failed)?;
        // SAFETY: the frame holds its function.
        let closure =
            unsafe { (*self.frame.frame().function().cast::<c::PyFunctionObject>()).func_closure };
        let (code, free) = (self.code(), self.code().free_variables());
        for index in 0..if closure.is_null() { 0 } else { free } {
            // SAFETY: a function's closure is NULL, or a tuple with a cell for each free variable of its code, and
            // other code for the frame has the same ones.
            let value =
                unsafe { Owned::new(c::PyCell_Get(c::PyTuple_GetItem(closure, index as isize))) };
            let Some(value) = value else { continue };
            let name = code.slot_name(code.slots() - free + index);
            // SAFETY: storing under a str in a new dict runs no Python code.
            if unsafe { c::PyDict_SetItem(dict.as_ptr(), name, value.as_ptr()) } != 0 {
                return Err(failed());
            }
        }
        Ok(dict)
    }

    /// The mapping of the locals of a module, a class body or `exec`; None: there is none.
    pub fn locals(self) -> Owned {
        let locals = self.frame.frame().locals();
        // SAFETY: the frame holds it; None lives for ever.
        unsafe { View::owned(if locals.is_null() { &raw mut c::_Py_NoneStruct } else { locals }) }
    }

    /// Whether the frame is below the thread's current one. If not, its callback waits in another
    /// greenlet.
    fn is_on_this_stack(self) -> bool {
        self.thread.frames().any(|frame| frame == self.frame.frame())
    }

    /// The code and the line of the calling frame, as in tracebacks; None and -1: no Python code has called.
    /// `RuntimeError` if the callback waits in another greenlet: frames below this one may lie on the C stack, which
    /// that greenlet does not occupy now.
    pub fn caller(self) -> Outcome<(Owned, c_int)> {
        if !self.is_on_this_stack() {
            return Err(Raised::runtime_error(
                self.thread,
                c"this frame belongs to another greenlet, where alone its caller is known",
            ));
        }
        Ok(match self.frame.frame().previous().and_then(Frame::first_complete) {
            // SAFETY: such a frame has code, which it holds.
            Some(caller) => unsafe {
                let code = caller.code();
                let offset = caller.instruction_offset() as c_int;
                (View::owned(code.as_object()), c::PyCode_Addr2Line(code.as_ptr(), offset))
            },
            // SAFETY: None lives for ever.
            None => (unsafe { View::owned(&raw mut c::_Py_NoneStruct) }, -1),
        })
    }

    /// As [`argument`](Self::argument), but `None` if the parameter has no value any more.
    pub fn argument_if_any(self, index: isize) -> Outcome<Option<Owned>> {
        Ok(self.value(self.checked(index)?))
    }

    pub fn argument_name(self, index: isize) -> Outcome<Owned> {
        let index = self.checked(index)?;
        // SAFETY: the code object holds it.
        Ok(unsafe { View::owned(self.code().slot_name(index)) })
    }

    /// The argument called `name`, or `KeyError`.
    ///
    /// # Safety
    /// `name` is a live object.
    pub unsafe fn argument_by_name(self, name: *mut PyObject) -> Outcome<Owned> {
        // SAFETY: the caller says that `name` is live.
        if unsafe { c::PyType_IsSubtype((*name).ob_type, &raw mut c::PyUnicode_Type) } == 0 {
            return Err(Raised::type_error(self.thread, c"the name of a parameter is a str"));
        }
        for index in 0..self.argument_count() {
            // SAFETY: two strings.
            if unsafe { c::PyUnicode_Compare(self.code().slot_name(index), name) } == 0 {
                return self.expect(index);
            }
        }
        // SAFETY: a class, and a live object.
        unsafe { c::PyErr_SetObject(c::PyExc_KeyError, name) };
        Err(Raised::by_cpython(self.thread))
    }
}

/// `UnboundLocalError` for a parameter without a value.
#[cold]
pub fn unbound(thread: Thread, code: Code, index: usize) -> Raised {
    // SAFETY: the format takes a string object, which the code holds.
    unsafe {
        c::PyErr_Format(
            c::PyExc_UnboundLocalError,
            c"parameter '%U' has no value any more: its cell was emptied".as_ptr(),
            code.slot_name(index),
        );
    }
    Raised::by_cpython(thread)
}
