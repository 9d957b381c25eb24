//! Re-entrant calls: calls from within a callback for which hooks are dispatched as if it did not run.
//!
//! Frames above a callback are not dispatched. A compiler runs foreign code in its entry callback, and that code may
//! need hooks as it does elsewhere.

use super::return_offset::Stage;
use super::state::leave_dispatch;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;

/// A re-entrant call in progress. Frames that start meanwhile do not start within the callback that makes it.
///
/// # Invariants
/// The frame is live: it is being dispatched, or is the shim of an event callback, and the callback that makes the call
/// has not returned. `stage` is its stage apart from the call.
struct ReentrantCall {
    thread: Thread,
    frame: Frame,
    stage: Stage,
}

impl ReentrantCall {
    /// From the innermost callback on this stack. `None`: no callback runs there.
    fn begin(thread: Thread) -> Option<Self> {
        let frame = thread.frames().find(|frame| Stage::of(*frame).is_being_dispatched())?;
        let stage = Stage::of(frame);
        // One dispatch or callback less: this one. Those that wait in other greenlets, or have started this one, stay.
        leave_dispatch(thread, true);
        stage.reentrant().write_to(frame);
        // INVARIANT: the stage says what it is.
        Some(ReentrantCall { thread, frame, stage })
    }
}

impl Drop for ReentrantCall {
    fn drop(&mut self) {
        self.stage.write_to(self.frame);
        leave_dispatch(self.thread, false);
    }
}

/// Calls a callable, and dispatches hooks for the frames of the call as for any. Without a callback on this stack it is
/// a call like any other.
///
/// # Safety
/// As for `PyObject_Vectorcall`.
pub unsafe fn call(
    thread: Thread,
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> Option<Owned> {
    let reentrant = ReentrantCall::begin(thread);
    // SAFETY: the caller says what `PyObject_Vectorcall` needs: the callable, the arguments and the
    // names are live. The callback that makes this call has not returned, so its frame is live.
    let result = unsafe { Owned::new(c::PyObject_Vectorcall(callable, arguments, count, names)) };
    drop(reentrant);
    result
}
