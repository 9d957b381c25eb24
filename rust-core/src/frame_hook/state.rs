//! The state of an interpreter's and a thread's hooks, as the calling thread reaches it.

use super::hook::list::Hooks;
use super::list;
use crate::cpython as c;
use crate::frame::{Frame, Frames};
use crate::in_cpython::{FrameHookState, FrameHookThread};
use crate::sync::Ordering;
use crate::thread::{NotStopped, Thread, ThreadState};

impl Thread {
    /// The interpreter's hooks. `FrameHookState` says when its fields change.
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

    /// The innermost frame of the current stack, if there is one.
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

/// Whether any generator of an interpreter is watched. Read without `watched_lock`, hence stale where a generator of
/// another thread is concerned.
///
/// # Safety
/// `state` is live.
#[inline(always)]
pub unsafe fn any_watched(state: *mut FrameHookState) -> bool {
    // SAFETY: live, says the caller. No reference is made; the type of the members does not matter to a look at the
    // beginning.
    !unsafe { list::is_empty::<c::PyObject>((&raw mut (*state).watched).cast()) }
}

const ONE_DISPATCH: u64 = 1;
const ONE_VISIBLE: u64 = 1 << 32;

/// How many dispatches and callbacks are in progress in the thread, and how many levels of `tracing` are
/// theirs.
#[inline(always)]
pub fn levels(thread: Thread) -> (u32, u32) {
    // SAFETY: the calling thread's own.
    let levels = unsafe { (*thread.own()).levels };
    let (dispatches, visible) = (levels as u32, (levels >> 32) as u32);
    (dispatches, dispatches.wrapping_sub(visible))
}

/// Whether a dispatch or a callback is in progress in this thread.
#[cfg(not(any(test, fuzzing)))]
pub fn in_callback(thread: Thread) -> bool {
    levels(thread).0 != 0
}

/// Adds to both counts.
#[inline(always)]
fn add_levels(thread: Thread, amount: u64) {
    // SAFETY: the calling thread's own.
    unsafe { (*thread.own()).levels = (*thread.own()).levels.wrapping_add(amount) };
}

/// Counts a dispatch or a callback less during a re-entrant call, and more again after it.
pub fn leave_dispatch(thread: Thread, begins: bool) {
    let one = ONE_DISPATCH + ONE_VISIBLE;
    add_levels(thread, if begins { one.wrapping_neg() } else { one });
}

/// Pending work that may raise: signal handlers, exceptions from other threads, and pending calls.
const RAISES: usize =
    (c::_PY_SIGNALS_PENDING_BIT | c::_PY_ASYNC_EXCEPTION_BIT | c::_PY_CALLS_TO_DO_BIT) as usize;

/// A dispatch or a callback in progress, until it is dropped. It is counted for the thread, so that frames are searched
/// for one only if there may be one: a frame starts within a callback if a frame below it says so.
///
/// Trace, profile and monitoring functions do not see the Python code that it runs. Work that is pending when it begins
/// is deferred: CPython does not check for it everywhere where hooks are called, so it would be raised elsewhere.
pub struct DispatchGuard {
    thread: Thread,
    /// The deferred work.
    pending: usize,
}

impl DispatchGuard {
    #[inline(always)]
    pub fn begin(thread: Thread) -> Self {
        let pending = thread.eval_breaker() & RAISES;
        if pending != 0 {
            defer(thread, pending);
        }
        DispatchGuard::begin_deferring(thread, pending)
    }

    /// [`begin`](Self::begin) where no work is pending. `None` if some is: nothing was done.
    #[inline(always)]
    pub fn begin_if_nothing_pends(thread: Thread) -> Option<Self> {
        let pends = thread.eval_breaker() & RAISES != 0;
        (!pends).then(|| DispatchGuard::begin_deferring(thread, 0))
    }

    #[inline(always)]
    fn begin_deferring(thread: Thread, pending: usize) -> Self {
        add_levels(thread, ONE_DISPATCH);
        // SAFETY: the calling thread's own.
        unsafe { (*thread.tstate()).tracing += 1 };
        DispatchGuard { thread, pending }
    }

    /// Whether work was pending, and is deferred.
    pub fn defers(&self) -> bool {
        self.pending != 0
    }
}

#[cold]
#[inline] // or its symbol would be exported
fn defer(thread: Thread, pending: usize) {
    thread.eval_breaker_word().fetch_and(!pending, Ordering::Relaxed);
}

#[cold]
#[inline] // or its symbol would be exported
fn restore(thread: Thread, pending: usize) {
    thread.eval_breaker_word().fetch_or(pending, Ordering::Relaxed);
}

impl Drop for DispatchGuard {
    #[inline(always)]
    fn drop(&mut self) {
        add_levels(self.thread, ONE_DISPATCH.wrapping_neg());
        // SAFETY: the calling thread's own.
        unsafe { (*self.thread.tstate()).tracing -= 1 };
        if self.pending != 0 {
            restore(self.thread, self.pending);
        }
    }
}

/// Runs `work` within a [`DispatchGuard`], and shows its Python code to trace, profile and monitoring functions, if it is
/// to be `visible`.
#[inline(always)]
pub fn visible_if<T>(visible: bool, thread: Thread, work: impl FnOnce() -> T) -> T {
    if !visible {
        return work();
    }
    add_levels(thread, ONE_VISIBLE);
    // SAFETY: the calling thread's own.
    unsafe { (*thread.tstate()).tracing -= 1 };
    let result = work();
    add_levels(thread, ONE_VISIBLE.wrapping_neg());
    // SAFETY: the calling thread's own again, whatever `work` has run.
    unsafe { (*thread.tstate()).tracing += 1 };
    result
}
