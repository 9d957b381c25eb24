//! What the hooks of an interpreter and of a thread share, as the calling thread reaches it.

use crate::in_cpython::{FrameHookState, FrameHookThread};
use crate::thread::Thread;

impl Thread {
    /// The interpreter's hooks. `FrameHookState` says who changes what.
    #[inline(always)]
    pub(super) fn state(self) -> *mut FrameHookState {
        // SAFETY: an attached thread's interpreter is live.
        unsafe { FrameHookState::of(self.interpreter()) }
    }

    /// What the hooks keep for this thread.
    #[inline(always)]
    pub(super) fn own(self) -> *mut FrameHookThread {
        // SAFETY: live by the type's invariant.
        unsafe { FrameHookThread::of(self.as_ptr()) }
    }
}

/// Whether the interpreter ends, and takes no more hooks.
pub fn is_closed(thread: Thread) -> bool {
    // SAFETY: the state is live; the field changes with the world stopped.
    unsafe { (*thread.state()).closed }
}
