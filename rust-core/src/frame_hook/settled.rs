//! Who need not be asked about a code object.

use super::snapshot::Snapshot;
use super::suspended::slots_about;
use crate::code::Code;
use crate::code_extra::{value_in_use, Error, Registry, NO_INDEX};
use crate::in_cpython::SlotMask;
use crate::sync::{AtomicIsize, Ordering};
use crate::thread::Thread;
use core::ffi::c_longlong;

/// The field that holds the index of the masks, or [`NO_INDEX`].
fn index_place<'a>(thread: Thread) -> &'a AtomicIsize {
    // SAFETY: the interpreter outlives its threads, and nobody here keeps what this returns. The
    // field is written as an atomic only.
    unsafe { AtomicIsize::from_ptr(&raw mut (*thread.state()).extra_index) }
}

/// Makes sure that code objects have a place for what is settled.
pub fn reserve(thread: Thread) -> Result<(), Error> {
    let place = index_place(thread);
    if place.load(Ordering::Acquire) != NO_INDEX {
        return Ok(());
    }
    // SAFETY: the `Thread` is attached.
    unsafe {
        let registry = Registry::of(thread.interpreter());
        let index = registry.request(None)?.raw();
        let set = place.compare_exchange(NO_INDEX, index, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // Another thread was faster; nobody has used this index.
            registry.release(index)?;
        }
    }
    Ok(())
}

/// The slots of those of `hooks` that need not be asked about `code`. Needs no lock.
#[inline(always)]
pub fn slots(thread: Thread, hooks: &Snapshot, code: Code) -> u32 {
    // SAFETY: a live code object, and an index that was handed out when the first
    // hook came. A missing value reads as NULL.
    let (mask, suspended) = unsafe {
        let (index, suspended) = ((*thread.state()).extra_index, (*thread.state()).suspended_count);
        (SlotMask::from_extra(value_in_use(code, index)), suspended != 0)
    };
    let settled = mask.valid(hooks);
    if suspended {
        settled | slots_about(thread, hooks, code)
    } else {
        settled
    }
}

/// Puts what `edit` makes of the mask of `code` in its place, as one step.
///
/// `edit` runs with a lock held: it calls nothing of CPython. It may run twice.
fn change(
    thread: Thread,
    code: Code,
    mut edit: impl FnMut(SlotMask) -> SlotMask,
) -> Result<(), Error> {
    let index = index_place(thread).load(Ordering::Acquire);
    // SAFETY: a live code object, and an index that was handed out.
    unsafe {
        Registry::of(thread.interpreter())
            .update(code, index, |extra| edit(SlotMask::from_extra(extra)).to_extra())
    }
}

/// Writes down that a hook has settled `code`, or has not. Nothing happens if the hook has been
/// removed.
///
/// `ForeignCode`: another interpreter has values on it.
pub fn settle(thread: Thread, code: Code, id: c_longlong, member: bool) -> Result<(), Error> {
    change(thread, code, |mask| {
        // The hooks of now: what those that were added meanwhile have settled must not get lost.
        // SAFETY: the thread cannot be stopped before this closure ends.
        let Some(hooks) = (unsafe { Snapshot::borrowed(thread) }) else { return mask };
        let Some(hook) = hooks.find(id) else { return mask };
        mask.with(hooks, hook.slot, member)
    })
}

/// Nobody is ever asked about `code`.
pub fn settle_for_everybody(thread: Thread, code: Code) -> Result<(), Error> {
    reserve(thread)?;
    change(thread, code, |_| SlotMask::EVERYBODY)
}
