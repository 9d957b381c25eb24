//! What evaluators and profilers may read of a frame: CPython's unstable C interface.
//!
//! # Invariants
//! - *Readable frame*: the caller passes a live frame of the calling thread, or of a thread that is
//!   stopped. So no other thread changes the frame while it is read, and nothing here runs code that
//!   could clear it.

use super::handle::Frame;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::reference_count::new_reference;
use core::ffi::c_int;

/// `PyUnstable_InterpreterFrame_GetCode`: what the frame runs, a new reference: a code object, or
/// None on the C stack.
///
/// # Safety
/// `frame` is a live frame of the calling thread, or of a stopped one. The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetCode(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: *readable frame*. The frame owns its executable, which is alive therefore.
    unsafe { new_reference((*frame).f_executable) }
}

/// `PyUnstable_InterpreterFrame_GetLasti`: the offset in bytes of the instruction that runs.
///
/// # Safety
/// `frame` is a live frame with code, of the calling thread or of a stopped one.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetLasti(
    frame: *mut _PyInterpreterFrame,
) -> c_int {
    // SAFETY: *readable frame*, which makes the invariant of `Frame`.
    unsafe { Frame::new(frame) }.instruction_offset() as c_int
}

/// `PyUnstable_InterpreterFrame_GetLine`: the line of the instruction that runs; -1 where it has
/// none.
///
/// # Safety
/// `frame` is a live frame with code, of the calling thread or of a stopped one.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetLine(
    frame: *mut _PyInterpreterFrame,
) -> c_int {
    // SAFETY: *readable frame*, which makes the invariant of `Frame`.
    let frame = unsafe { Frame::new(frame) };
    let (code, offset) = (frame.code().as_ptr(), frame.instruction_offset() as c_int);
    // SAFETY: the frame owns its code object. Any offset is allowed: one outside has no line.
    unsafe { c::PyCode_Addr2Line(code, offset) }
}
