//! Slots of frames, many at once.
//!
//! They are written one by one (`volatile`) on purpose: LLVM otherwise makes a
//! call of `memset`, or a vector loop with overlap checks, out of what is nearly
//! always a handful of slots, and such a loop takes more instructions to set up
//! than to run.

use super::closing::Closing;
use crate::stack_ref::StackSlot;
use core::arch::asm;

/// From how many slots on the vector loop is worth its set-up. Of a call of a
/// function with 15 to 30 locals it saves 6 to 10 %; with 10 there is no difference.
const MANY_SLOTS: usize = 12;

/// The same address, of which the compiler does not know that it is the same: how often a loop
/// runs that ends there is not known before it runs. Otherwise LLVM unrolls it, eight slots at a
/// time, and the set-up for that takes longer than the two or three slots that there are.
#[inline(always)]
fn unforeseen(slot: *mut StackSlot) -> *mut StackSlot {
    let mut address = slot.addr();
    // SAFETY: no instruction at all.
    unsafe {
        asm!("/* {0} */", inout(reg) address, options(pure, nomem, nostack, preserves_flags));
    }
    slot.with_addr(address)
}

/// Makes `count` empty slots out of memory that may hold anything.
///
/// # Safety
/// There are that many slots at `first`, none of which owns a reference, and
/// nobody reads them meanwhile.
#[inline(always)]
pub unsafe fn write_empty(first: *mut StackSlot, count: usize) {
    if count >= MANY_SLOTS {
        // SAFETY: the caller's contract.
        unsafe { write_many_empty(first, count) };
        return;
    }
    let mut slot = first;
    // SAFETY: one past the last slot.
    let end = unsafe { first.add(count) };
    while slot != end {
        // SAFETY: between the first and the last slot.
        unsafe {
            slot.write_volatile(StackSlot::EMPTY);
            slot = unforeseen(slot.add(1));
        }
    }
}

/// # Safety
/// As for [`write_empty`].
#[cold]
#[inline(never)]
unsafe fn write_many_empty(first: *mut StackSlot, count: usize) {
    for i in 0..count {
        // SAFETY: between the first and the last slot, by contract.
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
    let mut slot = target;
    // SAFETY: one past the last slot.
    let end = unsafe { target.add(count) };
    let mut source = source;
    while slot != end {
        // SAFETY: within both, by contract. The word at `source` is never used as a reference
        // again.
        unsafe {
            slot.write_volatile(source.read());
            slot = unforeseen(slot.add(1));
            source = source.add(1);
        }
    }
}

/// Gives up what `count` slots hold, from the first to the last. Their words stay as they are and
/// own nothing any more.
///
/// # Safety
/// There are `count` initialized slots at `first` that stay where they are, and
/// nobody takes them for filled from now on: destructors run meanwhile.
#[inline(always)]
pub unsafe fn close_slots(first: *mut StackSlot, count: usize, closing: impl Closing) {
    let mut i = 0;
    while i < count {
        // SAFETY: within the slots, by contract, and no one looks at it after.
        if let Some(held) = unsafe { StackSlot::leave(first.add(i)) } {
            closing.close(held);
        }
        i += 1;
    }
}
