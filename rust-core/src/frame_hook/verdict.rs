//! Who need not be asked: about a code object, or in a thread.

use super::frame::Code;
use super::registry::Snapshot;
use super::state::SlotMask;
use super::switch::suspended_slots;
use super::Thread;
use crate::code_extra::{self, value_in_use, Error};
use core::ffi::{c_longlong, c_void};
use core::sync::atomic::{AtomicIsize, Ordering};

impl SlotMask {
    /// All hooks there are and will be. No hook is ever added in such an epoch.
    pub const EVERYBODY: Self = SlotMask { epoch: u32::MAX, slots: u32::MAX };

    /// The slots of those hooks of `snapshot` that are in the set.
    #[inline(always)]
    pub fn valid(self, snapshot: &Snapshot) -> u32 {
        if self.slots == 0 || self.epoch == snapshot.epoch() {
            return self.slots;
        }
        self.slots & snapshot.slots_added_until(self.epoch)
    }

    /// The same set, with `slot` in it or not, written down now.
    pub fn with(self, snapshot: &Snapshot, slot: u32, member: bool) -> Self {
        if self == Self::EVERYBODY {
            return self;
        }
        let others = self.valid(snapshot) & !(1 << slot);
        SlotMask { epoch: snapshot.epoch(), slots: others | u32::from(member) << slot }
    }

    /// As the value of a code object's extra slot, which is NULL for "never set".
    fn to_extra(self) -> *mut c_void {
        let value = (u64::from(self.epoch) << 32) | u64::from(self.slots);
        core::ptr::without_provenance_mut(value as usize)
    }

    #[inline(always)]
    fn from_extra(extra: *mut c_void) -> Self {
        let value = extra.addr() as u64;
        SlotMask { epoch: (value >> 32) as u32, slots: value as u32 }
    }
}

/// Where the index of the masks is kept, plus one.
fn index_place<'a>(thread: Thread) -> &'a AtomicIsize {
    // SAFETY: the interpreter outlives its threads, and nobody here keeps what this returns. The
    // field is written as an atomic only.
    unsafe { AtomicIsize::from_ptr(&raw mut (*thread.state()).extra_index_plus_one) }
}

/// Makes sure that code objects have a place for what is settled.
pub fn reserve(thread: Thread) -> Result<(), Error> {
    let place = index_place(thread);
    if place.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    // SAFETY: the `Thread` is attached.
    unsafe {
        let index = code_extra::request(thread.interpreter())?;
        let set = place.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // Another thread was faster; nobody has used this index.
            code_extra::release(thread.interpreter(), index)?;
        }
    }
    Ok(())
}

/// The slots of those of `hooks` that need not be asked about `code`. Needs no lock.
#[inline(always)]
pub fn settled(thread: Thread, hooks: &Snapshot, code: Code) -> u32 {
    // SAFETY: a live code object, and an index that was handed out when the first
    // hook came. A missing value reads as NULL.
    let (mask, suspended) = unsafe {
        let index = (*thread.state()).extra_index_plus_one - 1;
        let mask = SlotMask::from_extra(value_in_use(code.as_ptr(), index));
        (mask, (*thread.state()).suspended_count != 0)
    };
    let settled = mask.valid(hooks);
    if suspended {
        settled | suspended_slots(thread, hooks, code)
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
    let index = index_place(thread).load(Ordering::Acquire) - 1;
    // SAFETY: a live code object, and an index that was handed out.
    unsafe {
        code_extra::update(thread.interpreter(), code.as_ptr(), index, |extra| {
            edit(SlotMask::from_extra(extra)).to_extra()
        })
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
