//! What evaluators and profilers may ask of a frame: CPython's unstable C interface.

use super::handle::Frame;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::reference_count::new_reference;
use core::ffi::c_int;

/// `PyUnstable_InterpreterFrame_GetCode`: what the frame runs, a new reference: a code object, or
/// None on the C stack.
///
/// # Safety
/// `frame` is a live frame; a thread state is held.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetCode(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { new_reference((*frame).f_executable) }
}

/// `PyUnstable_InterpreterFrame_GetLasti`: the offset in bytes of the instruction that runs.
///
/// # Safety
/// `frame` is a live frame with code.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetLasti(
    frame: *mut _PyInterpreterFrame,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { Frame::new(frame) }.instruction_offset() as c_int
}

/// `PyUnstable_InterpreterFrame_GetLine`: the line of the instruction that runs; -1 where it has
/// none.
///
/// # Safety
/// `frame` is a live frame with code.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetLine(
    frame: *mut _PyInterpreterFrame,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let frame = Frame::new(frame);
        c::PyCode_Addr2Line(frame.code().as_ptr(), frame.instruction_offset() as c_int)
    }
}
