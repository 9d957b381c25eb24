//! What a frame holds before its first instruction.
//!
//! This runs on every call of a Python function, inlined into the eval loop in
//! release builds.

use super::handle::first_slot;
use super::slots::{move_slots, write_empty};
use crate::code::Code;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyFunctionObject, PyObject, FRAME_OWNED_BY_THREAD,
};
use crate::reference_count::new_reference;
use core::ffi::c_int;
use core::ptr::null_mut;

/// `_PyFrame_Initialize`: makes a frame for a call of `func` out of raw slots.
/// Locals from `null_locals_from` on are NULL; those before are the caller's to
/// set. `previous` is not set: linking the frame does that.
///
/// Consumes the references to `func` and `locals` (which may be NULL). Never
/// fails.
///
/// # Safety
/// `frame` has the `co_framesize` slots of `code`, which is `func`'s code;
/// `null_locals_from` is neither negative nor above `co_nlocalsplus`.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyFrame_Initialize(
    frame: *mut _PyInterpreterFrame,
    func: *mut PyFunctionObject,
    locals: *mut PyObject,
    code: *mut PyCodeObject,
    null_locals_from: c_int,
) {
    // SAFETY: all three are live and the frame is writable, by contract.
    unsafe {
        (*frame).f_executable = new_reference(code.cast());
        (*frame).f_funcobj = func.cast();
        (*frame).f_globals = (*func).func_globals;
        (*frame).f_builtins = (*func).func_builtins;
        (*frame).f_locals = locals;
        (*frame).frame_obj = null_mut();
        (*frame).instr_ptr = Code::new(code).first_instruction();
        let locals_and_cells = (*code).co_nlocalsplus;
        (*frame).stacktop = locals_and_cells;
        (*frame).return_offset = 0;
        (*frame).owner = FRAME_OWNED_BY_THREAD;
        if null_locals_from < locals_and_cells {
            let first = first_slot(frame).add(null_locals_from as usize);
            write_empty(first, (locals_and_cells - null_locals_from) as usize);
        }
    }
}

/// Moves the arguments of a call whose number is just what the function takes
/// into the first locals of its frame: `self_or_null`, if it is not NULL, and
/// then the `count` references at `arguments`. Never fails.
///
/// # Safety
/// The frame is fresh from [`_PyFrame_Initialize`] and has that many arguments;
/// the caller gives up the references, which are stack references of this build.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_MoveArguments(
    frame: *mut _PyInterpreterFrame,
    self_or_null: *mut PyObject,
    arguments: *const *mut PyObject,
    count: c_int,
) {
    // SAFETY: every frame has a first slot, used or not: C's array has one.
    unsafe {
        let first = first_slot(frame);
        first.cast::<*mut PyObject>().write(self_or_null);
        let target = first.add(usize::from(!self_or_null.is_null()));
        move_slots(arguments.cast(), target, count as usize);
    }
}
