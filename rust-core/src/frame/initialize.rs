//! What a frame holds before its first instruction.
//!
//! This runs on every call of a Python function, inlined into the eval loop in
//! release builds.

use super::handle::first_slot;
use super::slots::{move_slots, write_empty};
use crate::code::Code;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyFunctionObject, PyObject, PyThreadState,
    FRAME_OWNED_BY_THREAD,
};
use crate::data_stack::{DataStack, Slots};
use crate::reference_count::new_reference;
use core::ffi::c_int;
use core::ptr::null_mut;
use memoffset::offset_of;
use static_assertions::const_assert_eq;

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
    // SAFETY: the caller's contract.
    unsafe {
        write_fields(frame, func, locals, code);
        let locals_and_cells = (*code).co_nlocalsplus;
        if null_locals_from < locals_and_cells {
            let first = first_slot(frame).add(null_locals_from as usize);
            write_empty(first, (locals_and_cells - null_locals_from) as usize);
        }
    }
}

/// Sets all fields of a frame but `previous`, and no slot.
///
/// # Safety
/// As for [`_PyFrame_Initialize`].
#[inline(always)]
unsafe fn write_fields(
    frame: *mut _PyInterpreterFrame,
    func: *mut PyFunctionObject,
    locals: *mut PyObject,
    code: *mut PyCodeObject,
) {
    // SAFETY: all three are live and the frame is writable, by contract.
    unsafe {
        (*frame).f_executable = new_reference(code.cast());
        (*frame).f_funcobj = func.cast();
        // Both are read before the first is written: they lie side by side in both structures, and
        // so each is one read and one write.
        let (globals, builtins) = ((*func).func_globals, (*func).func_builtins);
        (*frame).f_globals = globals;
        (*frame).f_builtins = builtins;
        (*frame).f_locals = locals;
        (*frame).frame_obj = null_mut();
        (*frame).instr_ptr = Code::new(code).first_instruction();
        let [a, b, c, d] = (*code).co_nlocalsplus.to_ne_bytes();
        let [e, f] = 0u16.to_ne_bytes();
        let owner = FRAME_OWNED_BY_THREAD as u8;
        // `stacktop`, `return_offset`, `owner` and a byte that nobody uses, as one write. Where
        // they lie is asserted below.
        (&raw mut (*frame).stacktop)
            .cast::<u64>()
            .write(u64::from_ne_bytes([a, b, c, d, e, f, owner, 0]));
    }
}

const_assert_eq!(offset_of!(_PyInterpreterFrame, stacktop) % 8, 0);
const_assert_eq!(
    offset_of!(_PyInterpreterFrame, return_offset),
    offset_of!(_PyInterpreterFrame, stacktop) + 4
);
const_assert_eq!(
    offset_of!(_PyInterpreterFrame, owner),
    offset_of!(_PyInterpreterFrame, stacktop) + 6
);
const_assert_eq!(
    offset_of!(_PyInterpreterFrame, localsplus),
    offset_of!(_PyInterpreterFrame, stacktop) + 8
);

/// The beginning of a call whose number of arguments is just what the function takes: a frame on
/// the data stack, with the arguments in its first locals and the other locals empty. These are
/// `self_or_null`, if it is not NULL, and then the `count` references at `arguments`. `previous` is
/// not set.
///
/// Consumes the references to `func` and to the arguments. NULL where the data stack has no space
/// without asking for memory: then nothing has changed, and the references stay the caller's.
///
/// # Safety
/// `tstate` is the calling thread's own; `func` is alive and takes that many arguments; they are
/// stack references of this build.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_BeginCall(
    tstate: *mut PyThreadState,
    func: *mut PyFunctionObject,
    self_or_null: *mut PyObject,
    arguments: *const *mut PyObject,
    count: c_int,
) -> *mut _PyInterpreterFrame {
    // SAFETY: a function has a code object, whose arguments are among its locals. What was pushed
    // is a frame for that code, which nobody else can see yet.
    unsafe {
        let code: *mut PyCodeObject = (*func).func_code.cast();
        let size = Slots::new((*code).co_framesize as usize);
        let Some(base) = DataStack::of(tstate).push_if_space(size) else { return null_mut() };
        let frame: *mut _PyInterpreterFrame = base.as_ptr().cast();
        write_fields(frame, func, null_mut(), code);
        let slot = first_slot(frame);
        // Where there is no self, the next write takes this one's place; every frame has a first
        // slot, used or not.
        slot.cast::<*mut PyObject>().write_volatile(self_or_null);
        let slot = slot.add(usize::from(!self_or_null.is_null()));
        move_slots(arguments.cast(), slot, count as usize);
        let filled = count + c_int::from(!self_or_null.is_null());
        write_empty(slot.add(count as usize), ((*code).co_nlocalsplus - filled) as usize);
        frame
    }
}
