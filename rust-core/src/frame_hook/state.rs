//! What the hooks of an interpreter and of a thread share, as the calling thread reaches it.

use crate::frame::{Frame, Frames};
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

    /// The innermost frame of the stack that the thread is on, if there is one.
    #[inline(always)]
    pub(super) fn current_frame(self) -> Option<Frame> {
        // SAFETY: the thread's own field. Its current frame is live, and it is no other stack's.
        unsafe { Frame::or_none((*self.tstate()).current_frame) }
    }

    /// The frames of that stack, the innermost first.
    #[inline(always)]
    pub(super) fn frames(self) -> Frames {
        Frames(self.current_frame())
    }
}

/// Whether the interpreter ends, and takes no more hooks.
pub fn is_closed(thread: Thread) -> bool {
    // SAFETY: the state is live; the field changes with the world stopped.
    unsafe { (*thread.state()).closed }
}

/// Has the eval loop offer frames, or not: while any hook is `enabled`, or any generator watched.
///
/// # Safety
/// No other thread of the interpreter runs.
pub unsafe fn set_active(thread: Thread, enabled: bool) {
    // SAFETY: the state is live, and nobody else reads or writes it, by contract.
    unsafe { (*thread.state()).active = enabled || !(*thread.state()).watched.is_null() };
}

/// Code of hooks that is under way. It is counted for the thread, so that a thread without any need
/// not look for it; which frames start within a hook is told by the frames below them.
pub struct Round(Thread);

impl Round {
    #[inline(always)]
    pub fn begin(thread: Thread) -> Self {
        // SAFETY: the calling thread's own.
        unsafe { (*thread.own()).rounds = (*thread.own()).rounds.wrapping_add(1) };
        Round(thread)
    }
}

impl Drop for Round {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the calling thread's own.
        unsafe { (*self.0.own()).rounds = (*self.0.own()).rounds.wrapping_sub(1) };
    }
}

/// Runs `work` and keeps its Python code from trace, profile and monitoring functions, if it is to
/// be `hidden`.
#[inline(always)]
pub fn hidden_if<T>(hidden: bool, thread: Thread, work: impl FnOnce() -> T) -> T {
    let change = |by: i32| {
        // SAFETY: the calling thread's own.
        unsafe {
            (*thread.tstate()).tracing += by;
            (*thread.own()).hidden += by;
        }
    };
    if !hidden {
        return work();
    }
    change(1);
    let result = work();
    change(-1);
    result
}
