//! Calls about which no hook is asked.
//!
//! A replacement whose guard has failed calls the original, and must not get itself again. The call
//! lays a mark onto the stack, and its frame is known by that: it is the first one of its function
//! directly above. What runs before it begins, a destructor say, has another function, or is further
//! up. A greenlet that waits meanwhile keeps its mark, as it keeps its frames.

use super::error::Outcome;
use super::offered::never_offer;
use super::watch::Watch;
use crate::cpython as c;
use crate::cpython::{PyFunctionObject, PyObject};
use crate::frame::{Frame, Owner};
use crate::object::Owned;
use crate::thread::Thread;
use core::ptr::NonNull;

/// Counts calls whose frame has not begun, by 1 or -1, so that [`is_spared`] is asked.
fn count(thread: Thread, by: i32) {
    // SAFETY: the calling thread's own.
    unsafe { (*thread.own()).rounds = (*thread.own()).rounds.wrapping_add_signed(by) };
}

/// Whether this is the frame of a call that is to be spared, which it is once.
pub fn is_spared(thread: Thread, frame: Frame) -> bool {
    let mut at = frame.previous();
    while let Some(below) = at.filter(|below| below.owner() == Owner::C_STACK) {
        if let Some(call) = Watch::at(below).filter(|call| call.spares(frame.function())) {
            call.has_spared();
            count(thread, -1);
            never_offer(frame);
            return true;
        }
        at = below.previous();
    }
    false
}

/// The function of Python that a call of this object runs; `None`: none that is known.
///
/// # Safety
/// `callable` is live.
unsafe fn function_of(callable: *mut PyObject) -> Option<NonNull<PyFunctionObject>> {
    // SAFETY: live, by contract. Who is of the type of methods has their layout.
    let (function, kind) = unsafe {
        let is_method = (*callable).ob_type == &raw mut c::PyMethod_Type;
        let function =
            if is_method { (*callable.cast::<c::PyMethodObject>()).im_func } else { callable };
        (function, (*function).ob_type)
    };
    // INVARIANT: not NULL, as it was read.
    (kind == &raw mut c::PyFunction_Type).then(|| NonNull::new(function.cast())).flatten()
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
    // SAFETY: the caller's contract.
    let spared = unsafe { Watch::spare(thread, function_of(callable), below) }?;
    count(thread, spared.still_spares().into());
    // SAFETY: the caller's contract.
    let result = unsafe { Owned::new(c::PyObject_Vectorcall(callable, arguments, number, names)) };
    count(thread, -i32::from(spared.still_spares()));
    // SAFETY: its own call, which has left the current frame as it was.
    unsafe { spared.spare_no_more(thread) };
    Ok(result)
}
