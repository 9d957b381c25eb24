//! Calls about which no hook is asked.
//!
//! A replacement whose guard has failed calls the original, and must not get itself again. The call
//! is known by its function and by the frame that it is made from: what runs before its frame
//! begins, a destructor say, has another function, or is further up.

use super::error::Outcome;
use super::offered::never_offer;
use super::watch::Watch;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame::{Frame, Owner};
use crate::object::Owned;
use crate::thread::Thread;
use core::ptr::null_mut;

/// The first of these frames that is not on the C stack; NULL: there is none.
fn python_frame(from: Option<Frame>) -> *mut _PyInterpreterFrame {
    let mut at = from;
    while let Some(frame) = at.filter(|frame| frame.owner() == Owner::C_STACK) {
        at = frame.previous();
    }
    at.map_or(null_mut(), Frame::as_ptr)
}

/// Whether this is the frame of the call that is to be spared, which it is once.
pub fn is_spared(thread: Thread, frame: Frame) -> bool {
    let own = thread.own();
    // SAFETY: the calling thread's own.
    unsafe {
        let spared = (*own).spared;
        if spared.is_null()
            || spared != frame.function()
            || (*own).spared_by != python_frame(frame.previous())
        {
            return false;
        }
        (*own).spared = null_mut();
        (*own).rounds = (*own).rounds.wrapping_sub(1);
    }
    never_offer(frame);
    true
}

/// The function that a call of this object runs.
///
/// # Safety
/// `callable` is live.
unsafe fn function_of(callable: *mut PyObject) -> *mut PyObject {
    // SAFETY: live, by contract. Who is of the type of methods has their layout.
    unsafe {
        if (*callable).ob_type == &raw mut c::PyMethod_Type {
            (*callable.cast::<c::PyMethodObject>()).im_func
        } else {
            callable
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
    count: usize,
    names: *mut PyObject,
    below: bool,
) -> Outcome<Option<Owned>> {
    let all = if below { Some(Watch::spare_all(thread)?) } else { None };
    let own = thread.own();
    // SAFETY: the calling thread's own state; then the caller's contract. The function is compared
    // with frames' functions and never read through.
    let result = unsafe {
        let before = ((*own).spared, (*own).spared_by);
        let current = (*thread.tstate()).current_frame;
        let current = if current.is_null() { None } else { Some(Frame::new(current)) };
        (*own).spared = function_of(callable);
        (*own).spared_by = python_frame(current);
        (*own).rounds = (*own).rounds.wrapping_add(1);
        let result = Owned::new(c::PyObject_Vectorcall(callable, arguments, count, names));
        if !(*own).spared.is_null() {
            (*own).rounds = (*own).rounds.wrapping_sub(1);
        }
        ((*own).spared, (*own).spared_by) = before;
        result
    };
    if let Some(all) = all {
        all.spare_no_more(thread);
    }
    Ok(result)
}
