//! The calling thread, as a proof that it may use Python.

use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, _PyThreadStateImpl, PyInterpreterState, PyThreadState};
use core::ptr::NonNull;
use core::sync::atomic::{compiler_fence, AtomicUsize, Ordering};

/// The calling thread's state. It is passed down by value, as a proof that a
/// thread state is attached.
///
/// No reference is made to the structure behind it: other threads write some of
/// its fields. Each field is read or written by itself.
///
/// # Invariants
/// The calling thread's own, attached thread state. A pointer makes the type neither `Send` nor
/// `Sync`.
#[derive(Clone, Copy, PartialEq)]
pub struct Thread(NonNull<_PyThreadStateImpl>);

impl Thread {
    /// # Safety
    /// `tstate` is the calling thread's own, attached thread state.
    #[inline(always)]
    pub unsafe fn new(tstate: *mut PyThreadState) -> Self {
        // SAFETY: never NULL, by contract; a `_PyThreadStateImpl` begins with it.
        Thread(unsafe { NonNull::new_unchecked(tstate.cast()) })
    }

    /// # Safety
    /// The calling thread has an attached thread state.
    #[inline] // or its symbol would be exported
    pub unsafe fn current() -> Self {
        // SAFETY: the caller's contract.
        unsafe { Thread::new(c::PyThreadState_Get()) }
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut _PyThreadStateImpl {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn tstate(self) -> *mut PyThreadState {
        self.as_ptr().cast()
    }

    #[inline(always)]
    pub fn interpreter(self) -> *mut PyInterpreterState {
        // SAFETY: live by the type's invariant; the field never changes.
        unsafe { (*self.tstate()).interp }
    }

    #[cfg_attr(any(test, fuzzing), allow(dead_code))] // for views in Python
    /// A number that no other thread of the interpreter ever has.
    pub fn number(self) -> u64 {
        // SAFETY: live by the type's invariant; the field never changes.
        unsafe { (*self.tstate()).id }
    }

    /// Makes `frame` the thread's current one; NULL: none. What was written to frames before is in
    /// memory first, and what is written to them afterwards comes later: a signal's handler may walk
    /// them between any two instructions, as that of `faulthandler` does.
    ///
    /// # Safety
    /// `frame` and those that it leads to are whole and alive.
    #[inline(always)]
    pub unsafe fn set_current_frame(self, frame: *mut _PyInterpreterFrame) {
        compiler_fence(Ordering::Release);
        // SAFETY: live by the type's invariant; the field is the thread's own.
        unsafe { (*self.tstate()).current_frame = frame };
        compiler_fence(Ordering::Release);
    }

    /// What the eval loop looks at: the version that code is to have, for monitoring, and below
    /// that, in `_PY_EVAL_EVENTS_BITS` bits, what is pending.
    #[inline(always)]
    pub fn eval_breaker(self) -> usize {
        // SAFETY: live by the type's invariant. Other threads write the field, as atomic, too.
        let breaker = unsafe { AtomicUsize::from_ptr(&raw mut (*self.tstate()).eval_breaker) };
        breaker.load(Ordering::Relaxed)
    }

    /// Whether an exception is set.
    #[inline(always)]
    pub fn has_exception(self) -> bool {
        // SAFETY: live by the type's invariant; the field is the thread's own.
        unsafe { !(*self.tstate()).current_exception.is_null() }
    }
}
