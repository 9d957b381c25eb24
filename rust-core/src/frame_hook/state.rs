//! The state of an interpreter's and a thread's hooks, as the calling thread reaches it.

use super::hook::Hooks;
use crate::cpython as c;
use crate::frame::{Frame, Frames};
use crate::in_cpython::{FrameHookState, FrameHookThread};
use crate::sync::Ordering;
use crate::thread::{NotStopped, Thread, ThreadState};

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
        self.its_state().own()
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

impl NotStopped {
    /// The installed hooks in order.
    #[inline(always)]
    pub(super) fn hooks(&self) -> Hooks<'_> {
        // SAFETY: the state is live; *first* is what the field says.
        unsafe { Hooks::from((*self.thread().state()).hooks, self) }
    }
}

impl ThreadState {
    /// What the hooks keep for that thread.
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

const ONE_ROUND: u64 = 1;
const ONE_HIDDEN: u64 = 1 << 32;

/// How many dispatches and callbacks are under way in the thread, and how many levels of `tracing` are
/// theirs.
#[inline(always)]
pub fn levels(thread: Thread) -> (u32, u32) {
    // SAFETY: the calling thread's own.
    let levels = unsafe { (*thread.own()).levels };
    (levels as u32, (levels >> 32) as u32)
}

/// Adds to what [`levels`] tells.
#[inline(always)]
fn add_levels(thread: Thread, amount: u64) {
    // SAFETY: the calling thread's own.
    unsafe { (*thread.own()).levels = (*thread.own()).levels.wrapping_add(amount) };
}

/// Counts a dispatch or a callback less, or more again: one that steps out of the way.
pub fn step_out(thread: Thread, begins: bool) {
    add_levels(thread, if begins { ONE_ROUND.wrapping_neg() } else { ONE_ROUND });
}

/// What the eval loop would do before some next instruction, and may raise: signals' handlers, exceptions
/// from other threads, and pending calls.
const RAISES: usize =
    (c::_PY_SIGNALS_PENDING_BIT | c::_PY_ASYNC_EXCEPTION_BIT | c::_PY_CALLS_TO_DO_BIT) as usize;

/// A dispatch or a callback that is under way. It is counted for the thread, so that a thread without any need
/// not look for it; which frames start within a hook is told by the frames below them.
///
/// Trace, profile and monitoring functions do not see the Python code that it runs. What is pending as it begins
/// is left for the program: CPython does not look everywhere where hooks are called, so it would be raised elsewhere.
pub struct Round {
    thread: Thread,
    /// What was pending.
    pending: usize,
}

impl Round {
    #[inline(always)]
    pub fn begin(thread: Thread) -> Self {
        add_levels(thread, ONE_ROUND | ONE_HIDDEN);
        // SAFETY: the calling thread's own.
        unsafe { (*thread.tstate()).tracing += 1 };
        let pending = thread.eval_breaker() & RAISES;
        if pending != 0 {
            put_off(thread, pending);
        }
        Round { thread, pending }
    }
}

#[cold]
#[inline] // or its symbol would be exported
fn put_off(thread: Thread, pending: usize) {
    thread.eval_breaker_word().fetch_and(!pending, Ordering::Relaxed);
}

#[cold]
#[inline] // or its symbol would be exported
fn put_back(thread: Thread, pending: usize) {
    thread.eval_breaker_word().fetch_or(pending, Ordering::Relaxed);
}

impl Drop for Round {
    #[inline(always)]
    fn drop(&mut self) {
        add_levels(self.thread, (ONE_ROUND | ONE_HIDDEN).wrapping_neg());
        // SAFETY: the calling thread's own.
        unsafe { (*self.thread.tstate()).tracing -= 1 };
        if self.pending != 0 {
            put_back(self.thread, self.pending);
        }
    }
}

/// Runs `work` within a [`Round`], and shows its Python code to trace, profile and monitoring functions, if it is
/// to be `visible`.
#[inline(always)]
pub fn visible_if<T>(visible: bool, thread: Thread, work: impl FnOnce() -> T) -> T {
    if !visible {
        return work();
    }
    add_levels(thread, ONE_HIDDEN.wrapping_neg());
    // SAFETY: the calling thread's own.
    unsafe { (*thread.tstate()).tracing -= 1 };
    let result = work();
    add_levels(thread, ONE_HIDDEN);
    // SAFETY: the calling thread's own again, whatever `work` has run.
    unsafe { (*thread.tstate()).tracing += 1 };
    result
}
