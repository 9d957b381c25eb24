//! Locals of comprehensions that were compiled into the function around them (PEP 709).

use super::handle::Frame;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use core::sync::atomic::{AtomicPtr, Ordering};

/// Whether a cell holds something.
///
/// # Safety
/// `cell` is a live cell.
#[inline(always)]
unsafe fn is_filled(cell: *mut PyObject) -> bool {
    let cell: *mut c::PyCellObject = cell.cast();
    // SAFETY: the caller says that the cell is live. Without the GIL another thread may fill or empty it,
    // with an atomic store; what it referred to is not read here.
    let content = unsafe { AtomicPtr::from_ptr(&raw mut (*cell).ob_ref) };
    !content.load(Ordering::Relaxed).is_null()
}

/// Whether the variable in this slot has a value.
///
/// # Safety
/// The frame's code has more than `slot` variables, of which this is one of kind `kind`. The frame's
/// variables are set, and nothing changes them meanwhile.
unsafe fn has_value(frame: Frame, slot: usize, kind: u32) -> bool {
    // SAFETY: the caller says that the slot is one of the frame's, and that it is not changed now.
    let Some(value) = (unsafe { frame.held(slot) }) else {
        return false;
    };
    let value = value.object().as_ptr();
    let may_be_cell = kind == c::CO_FAST_FREE || kind & c::CO_FAST_CELL != 0;
    // A variable of the comprehension may have the name of a cell without being one.
    // SAFETY: the slot holds a reference to `value`, so it is alive; only a cell is read as one.
    unsafe {
        let is_cell = may_be_cell && (*value).ob_type == &raw mut c::PyCell_Type;
        !is_cell || is_filled(value)
    }
}

/// `_PyFrame_HasHiddenLocals`: whether a comprehension that is part of this frame's code has
/// variables with a value just now. Never fails; takes a look at each variable.
///
/// # Safety
/// `frame` is a live frame with code whose variables are set: of the calling thread, which executes
/// none of its instructions meanwhile, or of a stopped one. The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyFrame_HasHiddenLocals(frame: *mut _PyInterpreterFrame) -> bool {
    // SAFETY: the caller passes a live frame that no other thread works on.
    let frame = unsafe { Frame::new(frame) };
    let code = frame.code();
    let mut slot = 0;
    while slot < code.slots() {
        let kind = code.slot_kind(slot);
        // SAFETY: below `code.slots()`, and of that kind. The caller keeps the variables as they are.
        if kind & c::CO_FAST_HIDDEN != 0 && unsafe { has_value(frame, slot, kind) } {
            return true;
        }
        slot += 1;
    }
    false
}
