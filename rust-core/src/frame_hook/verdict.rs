//! Who need not be asked: about a code object, or in a thread.

use super::error::{Outcome, Raised};
use super::frame::Code;
use super::registry::{Snapshot, SnapshotRef};
use super::state::SlotMask;
use super::Thread;
use crate::code_extra::value_in_use;
use crate::cpython as c;
use core::ffi::{c_longlong, c_void};

impl SlotMask {
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

/// Runs `work` while no other thread writes verdicts of the same interpreter.
fn while_writing<T>(thread: Thread, work: impl FnOnce() -> T) -> T {
    // SAFETY: the state is live. What runs in between blocks on no other lock
    // that is held while this one is waited for.
    unsafe {
        c::PyMutex_Lock(&raw mut (*thread.state()).verdicts);
        let result = work();
        c::PyMutex_Unlock(&raw mut (*thread.state()).verdicts);
        result
    }
}

/// Makes sure that code objects have a place for what is settled.
pub fn reserve(thread: Thread) -> Outcome<()> {
    let state = thread.state();
    // SAFETY: the state is live; the lock keeps other writers away.
    while_writing(thread, || unsafe {
        if (*state).extra_index_plus_one == 0 {
            let index = c::PyUnstable_Eval_RequestCodeExtraIndex(None);
            if index < 0 {
                if c::PyErr_Occurred().is_null() {
                    return Err(Raised::runtime_error(
                        thread,
                        c"no co_extra index is left for frame hooks",
                    ));
                }
                return Err(Raised::by_cpython(thread));
            }
            (*state).extra_index_plus_one = index + 1;
        }
        Ok(())
    })
}

/// The hooks that have settled `code`. Needs no lock.
#[inline(always)]
pub fn settled(thread: Thread, code: Code) -> SlotMask {
    // SAFETY: a live code object, and an index that was handed out when the first
    // hook came. A missing value reads as NULL.
    unsafe {
        let index = (*thread.state()).extra_index_plus_one - 1;
        SlotMask::from_extra(value_in_use(code.as_ptr(), index))
    }
}

/// Writes down that a hook has settled `code`, or has not. Nothing happens if the
/// hook has been removed.
pub fn settle(thread: Thread, code: Code, id: c_longlong, member: bool) -> Outcome<()> {
    while_writing(thread, || {
        // The hooks of now, not those of the round under way: what hooks added
        // since have settled must not get lost.
        let Some(snapshot) = SnapshotRef::current(thread) else { return Ok(()) };
        let hooks = snapshot.get();
        let Some(hook) = hooks.find(id) else { return Ok(()) };
        let mask = settled(thread, code).with(hooks, hook.slot, member);
        // SAFETY: a live code object, and an index that was handed out.
        let status = unsafe {
            let index = (*thread.state()).extra_index_plus_one - 1;
            c::PyUnstable_Code_SetExtra(code.object(), index, mask.to_extra())
        };
        if status == 0 {
            return Ok(());
        }
        // Out of memory, for a code object and an index that are right.
        // SAFETY: a thread state is attached.
        if unsafe { c::PyErr_Occurred().is_null() } {
            return Err(Raised::no_memory(thread));
        }
        Err(Raised::by_cpython(thread))
    })
}
