//! Frame hooks: tools that look at a frame before its first instruction.
//!
//! ```text
//!   RESUME, RETURN_GENERATOR ──► dispatch ──► registry   who is asked, in which order
//!                                   │   └───► verdict    who has settled which code object
//!                                   ├───────► view       what a hook may read
//!                                   └───────► replace    other code for the frame
//!   c_api, python ──► registry, verdict, view
//! ```
//!
//! Where a hook is asked costs nothing to those who have none: the eval loop's
//! `RESUME` asks, and its quick form `RESUME_CHECK` does not. Adding a hook raises
//! the instrumentation version, as a monitoring tool does, so that every code
//! object meets `RESUME` once more. Where all hooks have settled, `RESUME` becomes
//! quick again; where one wants to be asked each time, it stays.
//!
//! At that point the frame's prologue has run: cells are made, free variables are
//! in place. Nobody has seen them, so `view` looks through them and `replace`
//! takes them back. A generator's frame moves into its object before `RESUME`,
//! so there `RETURN_GENERATOR` asks.

pub mod c_api;
mod dispatch;
mod error;
mod frame;
pub mod python;
mod registry;
mod replace;
mod state;
mod verdict;
mod view;

use crate::cpython::{_PyThreadStateImpl, PyInterpreterState, PyThreadState};
use core::ptr::NonNull;
pub use dispatch::offer_before_evaluator;
pub use state::{FrameHookState, FrameHookThread};

/// How a frame goes on after it was offered to the hooks.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
pub enum Answer {
    /// An exception is set; the thread's current frame is to be unwound.
    Failed = -1,
    /// Go on, and nobody wants to see this code object again.
    Settled = 0,
    /// Go on, and offer the next frame of this code object too.
    AskAgain = 1,
    /// The thread's current frame is another one now; start it.
    Replaced = 2,
}

/// The calling thread: its state, and its interpreter's. A proof that a thread
/// state is attached; it is passed down by value.
///
/// # Invariants
/// The calling thread's own, attached thread state.
#[derive(Clone, Copy)]
pub struct Thread(NonNull<_PyThreadStateImpl>);

impl Thread {
    /// # Safety
    /// `tstate` is the calling thread's own, attached thread state.
    #[inline(always)]
    unsafe fn new(tstate: *mut PyThreadState) -> Self {
        // SAFETY: never NULL, by contract; a `_PyThreadStateImpl` begins with it.
        Thread(unsafe { NonNull::new_unchecked(tstate.cast()) })
    }

    /// # Safety
    /// The calling thread has an attached thread state.
    unsafe fn current() -> Self {
        // SAFETY: the caller's contract.
        unsafe { Thread::new(crate::cpython::PyThreadState_Get()) }
    }

    #[inline(always)]
    fn tstate(self) -> *mut PyThreadState {
        self.0.as_ptr().cast()
    }

    #[inline(always)]
    fn interpreter(self) -> *mut PyInterpreterState {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.tstate()).interp }
    }

    /// The interpreter's hooks. Fields change with the world stopped only, but
    /// for those that have a lock or are set once.
    #[inline(always)]
    fn state(self) -> *mut FrameHookState {
        // SAFETY: an attached thread's interpreter is live.
        unsafe { &raw mut (*self.interpreter()).frame_hooks }
    }

    #[inline(always)]
    fn own(self) -> *mut FrameHookThread {
        // SAFETY: live by the type's invariant.
        unsafe { &raw mut (*self.0.as_ptr()).frame_hooks }
    }

    /// Whether an exception is set.
    #[inline(always)]
    fn has_exception(self) -> bool {
        // SAFETY: live by the type's invariant; the field is the thread's own.
        unsafe { !(*self.tstate()).current_exception.is_null() }
    }

    /// Whether a trace, profile or monitoring callback runs.
    #[inline(always)]
    fn is_tracing(self) -> bool {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.tstate()).tracing != 0 }
    }
}
