//! Frame hooks: tools that look at a frame before its first instruction.
//!
//! ```text
//!   RESUME, RETURN_GENERATOR ──► dispatch ──► registry   who is asked, in which order
//!                                   │   └───► verdict    who has settled which code object
//!                                   ├───────► view       what a hook may read
//!                                   └───────► replace    other code for the frame
//!   c_api, python ──► registry, switch, verdict, view
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
//!
//! Any call into CPython that gives up a reference or makes an object may run Python
//! code, and that code may add and remove hooks, or let another thread do so. So what
//! was found before such a call is looked up again after it.

pub mod c_api;
mod dispatch;
mod error;
mod frame;
#[cfg(not(test))]
pub mod python;
#[cfg(test)]
#[path = "tests/python.rs"]
mod python;
mod registry;
mod replace;
mod state;
mod switch;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

pub use crate::thread::Thread;
pub use dispatch::offer_before_evaluator;
pub use state::{FrameHookState, FrameHookThread};

/// How a frame goes on after it was offered to the hooks.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(test, derive(Debug))]
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

impl Thread {
    /// The interpreter's hooks. `FrameHookState` says who changes what.
    #[inline(always)]
    fn state(self) -> *mut FrameHookState {
        // SAFETY: an attached thread's interpreter is live.
        unsafe { &raw mut (*self.interpreter()).frame_hooks }
    }

    /// What the hooks keep for this thread.
    #[inline(always)]
    fn own(self) -> *mut FrameHookThread {
        // SAFETY: live by the type's invariant.
        unsafe { &raw mut (*self.as_ptr()).frame_hooks }
    }
}
