//! How the references of a frame are given up at the end of its call.

use crate::cpython::PyThreadState;
use crate::stack_ref::{Representation, StackRef};
use core::ptr::NonNull;

/// The end of a call: a destructor that runs is one level of C recursion deeper.
///
/// CPython counts that level for the whole of a call's end. Most calls end without a destructor,
/// and nothing but a destructor can see the count. So a call that ends without one does not count.
///
/// # Invariants
/// Points to the calling thread's own thread state, which outlives the value.
#[derive(Clone, Copy)]
pub struct EndOfCall(NonNull<PyThreadState>);

impl EndOfCall {
    /// # Safety
    /// `tstate` is the calling thread's own thread state; it outlives the value.
    #[inline(always)]
    pub unsafe fn new(tstate: *mut PyThreadState) -> Self {
        // SAFETY: the caller passes a live thread state, which is not NULL.
        EndOfCall(unsafe { NonNull::new_unchecked(tstate) })
    }

    /// Goes one level of C recursion deeper, until what is returned is dropped.
    #[inline(always)]
    pub fn deeper(self) -> Deeper {
        // SAFETY: live by the type's invariant. Only the thread itself writes its recursion depth.
        unsafe { (*self.0.as_ptr()).c_recursion_remaining -= 1 };
        Deeper(self)
    }

    /// Gives a reference up. The object's destructor may run.
    #[inline(always)]
    pub fn close<R: Representation>(self, reference: StackRef<R>) {
        reference.close_within(|| self.deeper());
    }
}

/// A level of C recursion. Dropping it ends the level.
pub struct Deeper(EndOfCall);

impl Drop for Deeper {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: live by the invariant of `EndOfCall`. Only the thread itself writes its recursion depth.
        unsafe { (*self.0 .0.as_ptr()).c_recursion_remaining += 1 };
    }
}
