//! A generator, coroutine or asynchronous generator: its state, its frame, and the instruction at which it is resumed.

use super::resume::is_after_yield;
use crate::check::check;
use crate::cpython as c;
use crate::cpython::{PyGenObject, PyObject};
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;

/// A generator, coroutine or asynchronous generator.
///
/// # Invariants
/// Live for `'a`, and not finished.
#[derive(Clone, Copy)]
pub struct Generator<'a>(NonNull<PyGenObject>, PhantomData<&'a Owned>);

impl<'a> Generator<'a> {
    /// # Safety
    /// *live*: as the type's invariant says. The caller knows of a reference to it that stays for as long as the result
    /// is used.
    pub unsafe fn new(generator: *mut PyObject) -> Self {
        // SAFETY: *live*, so not NULL. All three begin with the same fields.
        Generator(unsafe { NonNull::new_unchecked(generator.cast()) }, PhantomData)
    }

    /// `None`: the object is of another type.
    ///
    /// # Safety
    /// *live*: the object lives for as long as the result is used. It may be finished; then only its state is read.
    pub unsafe fn if_it_is_one(object: *mut PyObject) -> Option<Self> {
        let kinds = [&raw mut c::PyGen_Type, &raw mut c::PyCoro_Type, &raw mut c::PyAsyncGen_Type];
        // SAFETY: *live*; then one of the three.
        unsafe { kinds.contains(&(*object).ob_type).then(|| Self::new(object)) }
    }

    /// `None`: the object is no generator that has just been made of `code`. An evaluator may return any object for a
    /// frame.
    pub fn if_made_of(code: *mut PyObject, object: &'a Owned) -> Option<Self> {
        // SAFETY: a live object, for `'a`. The state is there also if it is finished, and nothing
        // else is read of it then.
        let made = unsafe { Self::if_it_is_one(object.as_ptr()) }?;
        (made.state() == c::FRAME_CREATED && made.frame().code().as_object() == code)
            .then_some(made)
    }

    /// The one that a frame lies in.
    ///
    /// # Safety
    /// *live*: the frame's owner is a generator, which is not finished, for as long as the result is used.
    pub unsafe fn of_frame(frame: Frame) -> Self {
        check!(
            frame.owner() == crate::frame::Owner::GENERATOR,
            "a frame that lies in no generator"
        );
        // SAFETY: *live*: the frame lies within the generator.
        unsafe { Self::new(frame.as_ptr().byte_sub(offset_of!(PyGenObject, gi_iframe)).cast()) }
    }

    pub fn frame(self) -> Frame {
        // SAFETY: live by the type's invariant.
        unsafe { Frame::new((&raw mut (*self.0.as_ptr()).gi_iframe).cast()) }
    }

    pub fn state(self) -> i8 {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.0.as_ptr()).gi_frame_state }
    }

    pub fn set_state(self, state: i8) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.0.as_ptr()).gi_frame_state = state };
    }

    /// Re-enters the generator on the current thread, right after its yield.
    ///
    /// # Safety
    /// It has just yielded, and the shim that it was left to is the thread's current frame.
    pub unsafe fn reenter(self, thread: Thread) {
        self.set_state(c::FRAME_EXECUTING);
        let (generator, tstate) = (self.0.as_ptr(), thread.tstate());
        // SAFETY: what the eval loop does when a generator is resumed, on the thread's own state.
        unsafe {
            (*generator).gi_exc_state.previous_item = (*tstate).exc_info;
            (*tstate).exc_info = &raw mut (*generator).gi_exc_state;
            (*tstate).py_recursion_remaining -= 1;
            self.frame().set_previous((*tstate).current_frame);
            thread.set_current_frame(self.frame().as_ptr());
        }
    }
}

/// A generator's frame between two runs, and the instruction at which it is resumed.
///
/// A debugger may send the frame to another line during a callback. It is resumed there then.
///
/// # Invariants
/// The generator is not finished, and executes nothing of its own while this is used. If `instr_ptr` is `resumes_at`,
/// and that is after a yield, the stack is as before the yield: the value on top is the one that was sent, or any other.
pub struct Resumption {
    pub frame: Frame,
    pub resumes_at: *mut c::_Py_CODEUNIT,
}

impl Resumption {
    /// # Safety
    /// As the type's invariants say, but that the value on top of the stack may still be missing.
    pub unsafe fn of(frame: Frame) -> Self {
        Resumption { frame, resumes_at: frame.instruction() }
    }

    /// Whether the frame was sent to another line.
    pub fn was_moved(&self) -> bool {
        self.frame.instruction() != self.resumes_at
    }

    /// Runs `work` with the frame at the yield instead of the `RESUME` after it: CPython closes a generator at such a
    /// `RESUME` although it executes.
    ///
    /// A debugger may send the frame to another line within `work`, and it stays there. The jump drops stack items that
    /// the other line does not need, by the stack before a yield.
    ///
    /// # Safety
    /// The generator's state is that of one that executes.
    pub unsafe fn at_yield<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: an instruction of its code.
        if self.was_moved() || !unsafe { is_after_yield(self.resumes_at) } {
            return work();
        }
        // SAFETY: the yield lies before it.
        let yields_at = unsafe { self.resumes_at.sub(1) };
        self.frame.set_instruction(yields_at);
        let result = work();
        if self.frame.instruction() == yields_at {
            self.frame.set_instruction(self.resumes_at);
        }
        result
    }
}
