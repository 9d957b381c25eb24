//! Slots of frames, many at once.
//!
//! They are written one by one (`volatile`) on purpose: LLVM otherwise makes a call of `memset`, or
//! a vector loop with overlap checks, out of what is nearly always a handful of slots, and such a
//! loop takes more instructions to set up than to run.

use crate::object::Owned;
use crate::stack_ref::{StackRef, StackSlot};
use core::ptr::NonNull;

/// How many slots are written one by one, without a loop: it takes more instructions to set one up
/// than to write the two or three slots that there are.
const FEW_SLOTS: usize = 4;

/// Makes `count` empty slots out of memory that may hold anything.
///
/// # Safety
/// There are that many slots at `first`, none of which owns a reference, and
/// nothing reads them meanwhile.
#[inline(always)]
pub unsafe fn write_empty(first: *mut StackSlot, count: usize) {
    for i in 0..FEW_SLOTS {
        if i == count {
            return;
        }
        // SAFETY: `i` is below `count`, and the caller has so many slots here, which own nothing.
        unsafe { first.add(i).write_volatile(StackSlot::EMPTY) };
    }
    if count != FEW_SLOTS {
        // SAFETY: there are more than `FEW_SLOTS` slots (else the loop had returned); these are the rest.
        unsafe { write_many_empty(first.add(FEW_SLOTS), count - FEW_SLOTS) };
    }
}

/// # Safety
/// As for [`write_empty`].
#[cold]
#[inline(never)]
unsafe fn write_many_empty(first: *mut StackSlot, count: usize) {
    for i in 0..count {
        // SAFETY: `i` is below `count`, and the caller has so many slots here, which own nothing.
        unsafe { first.add(i).write(StackSlot::EMPTY) };
    }
}

/// Moves `count` slots: the references are those of `target` afterwards, and
/// what is left at `source` owns nothing.
///
/// # Safety
/// There are `count` initialized slots at `source`, and memory for as many at
/// `target`, which is other memory and owns nothing.
#[inline(always)]
pub unsafe fn move_slots(source: *const StackSlot, target: *mut StackSlot, count: usize) {
    for i in 0..FEW_SLOTS {
        if i == count {
            return;
        }
        // SAFETY: `i` is below `count`, and the caller has so many slots in both places, which do not
        // overlap. What is left at `source` is not used as a reference again.
        unsafe { target.add(i).write_volatile(source.add(i).read()) };
    }
    if count != FEW_SLOTS {
        // SAFETY: there are more than `FEW_SLOTS` slots (else the loop had returned); these are the rest.
        unsafe { move_many(source.add(FEW_SLOTS), target.add(FEW_SLOTS), count - FEW_SLOTS) };
    }
}

/// # Safety
/// As for [`move_slots`].
#[cold]
#[inline(never)]
unsafe fn move_many(source: *const StackSlot, target: *mut StackSlot, count: usize) {
    // SAFETY: the caller has `count` slots in both places, which do not overlap.
    unsafe { target.copy_from_nonoverlapping(source, count) };
}

/// Gives what `count` slots hold to `close`, from the first to the last. The words in the slots
/// stay as they are, and own nothing any more.
///
/// # Safety
/// There are `count` initialized slots at `first` that stay where they are, and
/// nothing treats them as filled from now on: destructors run meanwhile.
#[inline(always)]
pub unsafe fn close_slots(first: *mut StackSlot, count: usize, close: impl Fn(StackRef)) {
    let mut i = 0;
    while i < count {
        // SAFETY: `i` is below `count`. The caller says that the slots stay where they are and that
        // nothing reads them as filled, whatever destructors run.
        if let Some(held) = unsafe { StackSlot::leave(first.add(i)) } {
            close(held);
        }
        i += 1;
    }
}

/// A word for a reference, or for none.
pub fn slot_with(value: Option<Owned>) -> StackSlot {
    let mut slot = StackSlot::EMPTY;
    let value = value.and_then(|value| NonNull::new(value.into_raw()));
    // SAFETY: `into_raw` has handed the reference over.
    drop(slot.replace(value.map(|it| unsafe { StackRef::steal(it) })));
    slot
}
