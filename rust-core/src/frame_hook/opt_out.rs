//! Per-code opt-out: a mask of disabled hooks for each group of slots, in the code's extra slots.

use super::hook::list::Installed;
use super::listening::enabled_in_first_group;
use super::set::HookSet;
use super::suspended;
use crate::code::Code;
use crate::code_extra::{value_in_use, Error, Registry};
use crate::in_cpython::{SlotMask, HOOK_GROUPS};
use crate::sync::{AtomicIsize, Ordering};
use crate::thread::Thread;
use core::ffi::c_longlong;

/// The field that holds the index of a group's masks, plus 1; 0: none.
fn index_place<'a>(thread: Thread, group: usize) -> Option<&'a AtomicIsize> {
    // SAFETY: the interpreter outlives its threads, and no function here keeps the result. The
    // field is written as an atomic only.
    unsafe {
        let places = &raw mut (*thread.state()).extra_indices;
        (group < HOOK_GROUPS).then(|| AtomicIsize::from_ptr(places.cast::<isize>().add(group)))
    }
}

/// Makes sure that code objects have a place for the hooks of a group.
pub fn reserve(thread: Thread, group: usize) -> Result<(), Error> {
    let Some(place) = index_place(thread, group) else { return Ok(()) };
    if place.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    // SAFETY: the `Thread` is attached.
    unsafe {
        let registry = Registry::of(thread.interpreter());
        let index = registry.request(None)?.raw();
        let set = place.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // Another thread was faster; this index is unused.
            registry.release(index)?;
        }
    }
    Ok(())
}

/// The mask of a group's hooks that are disabled for `code`.
#[inline(always)]
fn mask(thread: Thread, code: Code, group: usize) -> SlotMask {
    // SAFETY: a live code object, and an index that was allocated when the group's first hook was added. A
    // missing value reads as NULL.
    unsafe {
        let index = (&raw const (*thread.state()).extra_indices).cast::<isize>().add(group).read();
        SlotMask::from_extra(value_in_use(code, index - 1))
    }
}

/// The slots of those hooks of the first group that are disabled for `code`; it has hooks. Needs no lock.
#[inline(always)]
pub fn slots_of_first_group(thread: Thread, code: Code) -> u32 {
    // SAFETY: *quiet*: fields are read. The state is live.
    let (disabled, suspended) = unsafe {
        let (state, quiet) = (thread.state(), thread.not_stopped());
        let disabled = mask(thread, code, 0).valid((*state).epoch, quiet.hooks(), 0);
        (disabled, (*state).suspended_count != 0)
    };
    if suspended {
        disabled | suspended::set_for(thread, code).first_group()
    } else {
        disabled
    }
}

/// Whether all hooks are disabled for `code`, in all threads, if that is seen at a glance: a leaf, without a stack frame. False
/// says nothing.
#[inline(always)]
pub fn is_for_all_hooks(thread: Thread, code: Code) -> bool {
    let (groups, enabled) = enabled_in_first_group(thread);
    if groups != 1 {
        return false;
    }
    let mask = mask(thread, code, 0);
    // SAFETY: the state is live.
    let (epoch, suspended) =
        unsafe { ((*thread.state()).epoch, (*thread.state()).suspended_count) };
    mask.epoch == epoch && enabled & !mask.slots == 0 && suspended == 0
}

/// The hooks that are disabled for `code`.
#[inline(never)]
pub fn set(thread: Thread, code: Code) -> HookSet {
    // SAFETY: nothing here waits or runs Python code.
    let (groups, epoch, suspended) = unsafe {
        let state = thread.state();
        ((*state).groups as usize, (*state).epoch, (*state).suspended_count != 0)
    };
    let mut all = if suspended { suspended::set_for(thread, code) } else { HookSet::NONE };
    for group in 0..groups {
        let mask = mask(thread, code, group);
        if group == 0 && mask == SlotMask::EVERYBODY {
            return HookSet::ALL;
        }
        // SAFETY: *quiet*: fields are read.
        let valid = mask.valid(epoch, unsafe { thread.not_stopped() }.hooks(), group);
        if let Some(slots) = all.group_mut(group) {
            *slots |= valid;
        }
    }
    all
}

/// Replaces a mask of `code` by what `edit` makes of it, as one step.
///
/// `edit` runs with a lock held: it calls nothing of CPython. It may run twice.
fn change(
    thread: Thread,
    code: Code,
    group: usize,
    mut edit: impl FnMut(SlotMask) -> SlotMask,
) -> Result<(), Error> {
    let index = index_place(thread, group).map_or(0, |place| place.load(Ordering::Acquire)) - 1;
    // SAFETY: a live code object, and an index that was allocated.
    unsafe {
        Registry::of(thread.interpreter())
            .update(code, index, |extra| edit(SlotMask::from_extra(extra)).to_extra())
    }
}

/// Disables a hook for `code`, or enables it. Nothing happens if it has been removed.
///
/// `ForeignCode`: another interpreter has values on it.
pub fn set_disabled(thread: Thread, code: Code, id: c_longlong, member: bool) -> Result<(), Error> {
    let is_it = |hook: &Installed| hook.id == id;
    // SAFETY: *quiet*: fields are read. A slot does not change.
    let group = unsafe { thread.not_stopped() }.hooks().find(is_it).map(|hook| hook.group());
    let Some(group) = group else { return Ok(()) };
    change(thread, code, group, |mask| {
        // The hooks of this moment: bits of hooks that were added meanwhile must not get lost.
        // SAFETY: *quiet*: fields are read until this closure ends.
        let quiet = unsafe { thread.not_stopped() };
        let Some(hook) = quiet.hooks().find(is_it).filter(|_| mask != SlotMask::EVERYBODY) else {
            return mask;
        };
        // SAFETY: the state is live.
        let epoch = unsafe { (*thread.state()).epoch };
        let others = mask.valid(epoch, quiet.hooks(), group) & !hook.bit();
        SlotMask { epoch, slots: if member { others | hook.bit() } else { others } }
    })
}

/// No hook is ever called for `code`.
pub fn disable_for_all_hooks(thread: Thread, code: Code) -> Result<(), Error> {
    reserve(thread, 0)?;
    change(thread, code, 0, |_| SlotMask::EVERYBODY)
}
