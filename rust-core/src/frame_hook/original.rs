//! Calls about which no hook is asked.
//!
//! A replacement whose guard has failed calls the original, and must not get itself again. The call
//! lays a mark below the frame that makes it, and so the frame that it begins is known: it is the
//! first one of its function directly above. What runs before it begins, a destructor say, has another
//! function, or is further up; what binds the arguments may be the function itself, which is spared
//! then in its own place. A frame that nobody was asked about, as there was no hook, leaves the mark as
//! it is: where the function adds a hook, and what destroys its locals is the function itself, that is
//! spared as well. A greenlet that waits meanwhile keeps its mark, as it keeps its frames.

use super::error::Outcome;
use super::offered::never_offer;
use super::watch::Watch;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::{Frame, Owner};
use crate::object::Owned;
use crate::thread::Thread;
use core::ptr::null_mut;

/// Counts calls whose frame has not begun, by 1 or -1, so that [`is_spared`] is asked.
fn count(thread: Thread, by: i32) {
    // SAFETY: the calling thread's own.
    unsafe { (*thread.own()).spared = (*thread.own()).spared.wrapping_add_signed(by) };
}

/// The spared call of `function` that `frame` has made, if its own frame has not begun.
fn call_of(frame: Frame, function: *mut PyObject) -> Option<Watch> {
    frame.callers().map_while(Watch::at).find(|watch| watch.spares(function))
}

/// The spared call that this frame is that of. At a mark it starts where a frame has ended: what a
/// callback or a destructor starts there is none of the calls further down.
fn spared_call(thread: Thread, frame: Frame) -> Option<Watch> {
    for caller in frame.callers() {
        let call = call_of(caller, frame.function());
        if call.is_some() || caller.owner() != Owner::C_STACK || Watch::at(caller).is_some() {
            return call;
        }
    }
    Watch::spared_at_root(thread, frame.function())
}

/// Whether this is the frame of a call that is to be spared, which it is once.
pub fn is_spared(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    if unsafe { (*thread.own()).spared } == 0 {
        return false;
    }
    let Some(call) = spared_call(thread, frame) else { return false };
    call.has_spared();
    count(thread, -1);
    never_offer(frame);
    true
}

/// The function of Python that a call of this object runs; NULL: none that is known.
///
/// # Safety
/// `callable` is live.
unsafe fn function_of(callable: *mut PyObject) -> *mut PyObject {
    // SAFETY: live, by contract. Who is of the type of methods has their layout.
    unsafe {
        let is_method = (*callable).ob_type == &raw mut c::PyMethod_Type;
        let function =
            if is_method { (*callable.cast::<c::PyMethodObject>()).im_func } else { callable };
        if (*function).ob_type == &raw mut c::PyFunction_Type {
            function
        } else {
            null_mut()
        }
    }
}

/// Calls a function without asking any hook about its frame; nor about those below it, if `below`.
///
/// # Safety
/// As for `PyObject_Vectorcall`.
pub unsafe fn call(
    thread: Thread,
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    number: usize,
    names: *mut PyObject,
    below: bool,
) -> Outcome<Option<Owned>> {
    // SAFETY: the caller's contract. The function is compared with others, and not read through.
    let spared = unsafe { Watch::spare(thread, function_of(callable), below) }?;
    count(thread, spared.still_spares().into());
    // SAFETY: the caller's contract.
    let result = unsafe { Owned::new(c::PyObject_Vectorcall(callable, arguments, number, names)) };
    count(thread, -i32::from(spared.still_spares()));
    // SAFETY: its own call, which has left the current frame as it was.
    unsafe { spared.spare_no_more(thread) };
    Ok(result)
}
