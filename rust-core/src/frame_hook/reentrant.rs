//! Re-entrant calls: calls from within a callback for which hooks are dispatched as if it did not run.
//!
//! Frames above a callback are not dispatched. A compiler runs foreign code in its entry callback, and that code may
//! need hooks as it does elsewhere.

use super::entry_frame::{SteppedOut, StepsOut};
use super::state::step_out;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::object::Owned;
use crate::thread::Thread;

/// The frame whose callback makes this call: the innermost one on this stack that is being dispatched, or a shim at
/// which an event callback runs.
fn asked_about(thread: Thread) -> Option<StepsOut> {
    thread.frames().find_map(StepsOut::if_it_is_offered)
}

/// The hook of a frame is not counted as one that runs.
struct Outside {
    thread: Thread,
    frame: SteppedOut,
}

impl Outside {
    fn begin(thread: Thread, frame: StepsOut) -> Self {
        // The hook's own round. Those of hooks that wait in other greenlets, or have started this
        // one, stay.
        step_out(thread, true);
        Outside { thread, frame: frame.step_out() }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.frame.come_back();
        step_out(self.thread, false);
    }
}

/// Calls a callable, and asks hooks about the frames of the call as about any. Where no hook runs it
/// is a call like any other.
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
    let outside = asked_about(thread).map(|frame| Outside::begin(thread, frame));
    // SAFETY: the caller says what `PyObject_Vectorcall` needs: the callable, the arguments and the
    // names are live. The callback that makes this call has not returned, so its frame is live.
    let result = unsafe { Owned::new(c::PyObject_Vectorcall(callable, arguments, count, names)) };
    drop(outside);
    result
}
