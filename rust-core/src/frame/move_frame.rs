//! The move of a frame into a generator.

use super::handle::{first_slot, Frame};
use super::slots::move_slots;
use crate::check::check;
use crate::cpython::_PyInterpreterFrame;
use core::ptr::null_mut;
use memoffset::offset_of;

/// What `_PyFrame_Copy` does: moves a frame with all it owns from `source` to `target`, which is
/// linked to no other frame afterwards; the caller sets its owner. What is left at `source` owns
/// nothing. Never fails.
///
/// # Safety
/// `source` is a frame at rest that no other thread works on. `target` is memory for a frame of the same
/// code, elsewhere; nothing reads it as a frame yet, and it owns nothing. Nothing reads `source` as an
/// owner of references afterwards.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_MoveFrame(
    source: *mut _PyInterpreterFrame,
    target: *mut _PyInterpreterFrame,
) {
    // SAFETY: the caller passes a live frame that no other thread works on.
    let frame = unsafe { Frame::new(source) };
    check!(
        frame.slots_at_rest() >= frame.code().slots(),
        "a frame without all its locals moves into a generator"
    );
    let slots = frame.slots_at_rest();
    // SAFETY: the caller passes memory for a frame of the same code, elsewhere, that nothing reads yet.
    unsafe {
        let first = offset_of!(_PyInterpreterFrame, frame_obj);
        target.cast::<u8>().copy_from_nonoverlapping(source.cast::<u8>(), first);
        (*target).frame_obj = (*source).frame_obj;
        (*target).return_offset = (*source).return_offset;
        (*target).owner = (*source).owner;
        // It lives on without the frame that called it.
        (*target).previous = null_mut();
    }
    // These two were stored a moment ago. A load of more than was stored, which the compiler would make of two
    // fields, would wait until the store has left the processor's queue.
    // SAFETY: the fields of a live frame are set, and nothing reads `target` yet.
    unsafe {
        (*target).instr_ptr = (&raw const (*source).instr_ptr).read_volatile();
        (*target).stacktop = (&raw const (*source).stacktop).read_volatile();
    }
    // SAFETY: `source` has so many slots, and `target` is memory of a frame of the same code, elsewhere.
    unsafe { move_slots(first_slot(source), first_slot(target), slots) };
}
