//! What a frame holds before its first instruction.
//!
//! This runs on every call of a Python function, inlined into the eval loop in
//! release builds.
//!
//! # Invariants
//! - *New frame*: memory that the calling thread has just pushed or allocated. No frame, thread state
//!   or frame object leads to it, so no sampler, debugger or collector reads it, and none of its words
//!   owns a reference.

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
/// `frame` is memory that the calling thread has just pushed or allocated, and to which nothing leads
/// yet. It has the `co_framesize` slots of `code`, which is `func`'s code; both are alive. The references
/// to `func` and `locals` are the caller's to give. `null_locals_from` is neither negative nor above
/// `co_nlocalsplus`. The calling thread is attached.
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
    // SAFETY: the caller passes a *new frame*, live objects, and references that the frame takes over.
    unsafe { write_fields(frame, func, locals, code) };
    // SAFETY: the caller says that `code` is alive; the field never changes.
    let locals_and_cells = unsafe { (*code).co_nlocalsplus };
    if null_locals_from < locals_and_cells {
        // SAFETY: the caller says that `null_locals_from` is not negative, so these slots lie among the
        // first `co_nlocalsplus` ones, which every frame of the code has. *New frame*.
        unsafe {
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
    // SAFETY: *new frame*: writable, and nothing reads it yet. The caller says that `code` is alive.
    unsafe {
        (*frame).f_executable = new_reference(code.cast());
        (*frame).f_funcobj = func.cast();
    }
    // Both are read before the first is written: they lie side by side in both structures, and so each
    // is one read and one write.
    // SAFETY: the caller says that `func` is alive. Both fields are set when a function is made.
    let (globals, builtins) = unsafe { ((*func).func_globals, (*func).func_builtins) };
    // SAFETY: *new frame*. Globals and builtins are borrowed from the function, which the frame owns.
    unsafe {
        (*frame).f_globals = globals;
        (*frame).f_builtins = builtins;
        (*frame).f_locals = locals;
        (*frame).frame_obj = null_mut();
    }
    // SAFETY: the caller says that `code` is alive; the field never changes.
    let (code, slots) = unsafe { (Code::new(code), (*code).co_nlocalsplus) };
    let [a, b, c, d] = slots.to_ne_bytes();
    let [e, f] = 0u16.to_ne_bytes();
    let last = u64::from_ne_bytes([a, b, c, d, e, f, FRAME_OWNED_BY_THREAD as u8, 0]);
    // SAFETY: *new frame*. The word is `stacktop`, `return_offset`, `owner` and an unused byte, as one
    // write: where they lie, and that they are aligned, is asserted below.
    unsafe {
        (*frame).instr_ptr = code.first_instruction();
        (&raw mut (*frame).stacktop).cast::<u64>().write(last);
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
/// without an allocation: then nothing has changed, and the references stay the caller's.
///
/// # Safety
/// `tstate` is the calling thread's own, and attached; `func` is alive and takes that many arguments;
/// they are stack references of this build, and the caller's to give, as is that to `func`.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_BeginCall(
    tstate: *mut PyThreadState,
    func: *mut PyFunctionObject,
    self_or_null: *mut PyObject,
    arguments: *const *mut PyObject,
    count: isize,
) -> *mut _PyInterpreterFrame {
    // SAFETY: the caller says that `func` is alive; it owns a code object, whose frame size is between 0
    // and `INT_MAX / 8`. The caller also says that the data stack is the calling thread's own.
    let (code, pushed) = unsafe {
        let code: *mut PyCodeObject = (*func).func_code.cast();
        let size = Slots::new((*code).co_framesize as usize);
        (code, DataStack::of(tstate).push_if_space(size))
    };
    let Some(base) = pushed else { return null_mut() };
    let frame: *mut _PyInterpreterFrame = base.as_ptr().cast();
    // SAFETY: just pushed, so a *new frame* with the slots of that code. The reference to `func` is the
    // caller's to give.
    unsafe { write_fields(frame, func, null_mut(), code) };
    let has_self = !self_or_null.is_null();
    // SAFETY: *new frame*. Its first locals are the arguments, as many as the caller passes, and every
    // frame has a first slot, used or not: without a self, the next write goes to the same slot.
    unsafe {
        let first = first_slot(frame);
        first.cast::<*mut PyObject>().write_volatile(self_or_null);
        let slot = first.add(usize::from(has_self));
        move_slots(arguments.cast(), slot, count as usize);
        // As many arguments as the caller passes. The code object has their number in one word.
        let taken = (*code).co_argcount;
        let empty = (*code).co_nlocalsplus - taken;
        write_empty(first.add(taken as usize), empty as usize);
    }
    frame
}
