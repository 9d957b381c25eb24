//! Sets of hooks by slot: in memory, and as stored with an epoch.

use super::hook::list::{Hooks, Installed};
use super::hook::Hook;
use crate::in_cpython::{SlotMask, HOOK_GROUPS};
use crate::thread::Thread;
use core::ffi::c_void;

/// Adds a hook to a set, or removes it.
pub fn put(groups: &mut [u32; HOOK_GROUPS], hook: &Hook, member: bool) {
    if let Some(group) = groups.get_mut(hook.group()) {
        *group = if member { *group | hook.bit() } else { *group & !hook.bit() };
    }
}

/// Whether there is no hook in a set.
pub fn is_empty(groups: &[u32; HOOK_GROUPS]) -> bool {
    groups.iter().all(|group| *group == 0)
}

/// A set of the hooks of one moment, by slot.
#[derive(Clone, Copy)]
pub struct HookSet([u32; HOOK_GROUPS]);

impl HookSet {
    pub const NONE: Self = HookSet([0; HOOK_GROUPS]);
    pub const ALL: Self = HookSet([u32::MAX; HOOK_GROUPS]);

    /// The hooks that are enabled, in whatever thread.
    pub fn enabled(thread: Thread) -> Self {
        // SAFETY: the state is live; the field changes with the world stopped. A copy.
        HookSet(unsafe { (*thread.state()).enabled })
    }

    /// Hooks of the first group.
    pub fn of_first_group(slots: u32) -> Self {
        let mut set = HookSet::NONE;
        set.0[0] = slots;
        set
    }

    pub fn first_group(&self) -> u32 {
        self.0[0]
    }

    pub fn group_mut(&mut self, group: usize) -> Option<&mut u32> {
        self.0.get_mut(group)
    }

    /// The hooks that are called in this thread now.
    pub fn open(thread: Thread) -> Self {
        // SAFETY: the calling thread's own; a copy.
        HookSet(unsafe { (*thread.own()).open })
    }

    pub fn has(&self, hook: &Hook) -> bool {
        self.0.get(hook.group()).is_some_and(|group| group & hook.bit() != 0)
    }

    #[inline] // or its symbol would be exported
    pub fn put(&mut self, hook: &Hook, member: bool) {
        put(&mut self.0, hook, member);
    }

    pub fn is_empty(&self) -> bool {
        is_empty(&self.0)
    }

    /// Without those of the other one.
    pub fn without(&self, other: &HookSet) -> Self {
        let mut rest = *self;
        rest.0.iter_mut().zip(other.0).for_each(|(group, other)| *group &= !other);
        rest
    }
}

impl SlotMask {
    /// The slots of those of the group's hooks that are in the set. `epoch` is the interpreter's.
    #[inline(always)]
    pub fn valid(self, epoch: u32, hooks: Hooks<'_>, group: usize) -> u32 {
        if self.slots == 0 || self.epoch == epoch {
            return self.slots;
        }
        self.valid_of_before(hooks, group)
    }

    /// [`valid`](Self::valid), where hooks were added since.
    #[cold]
    #[inline(never)]
    fn valid_of_before(self, hooks: Hooks<'_>, group: usize) -> u32 {
        let is_meant = |hook: &Installed| hook.group() == group && hook.epoch <= self.epoch;
        self.slots & hooks.filter(is_meant).fold(0, |slots, hook| slots | hook.bit())
    }

    /// As the value of a code object's extra slot, which is NULL for "never set".
    pub fn to_extra(self) -> *mut c_void {
        let value = (u64::from(self.epoch) << 32) | u64::from(self.slots);
        core::ptr::without_provenance_mut(value as usize)
    }

    #[inline(always)]
    pub fn from_extra(extra: *mut c_void) -> Self {
        let value = extra.addr() as u64;
        SlotMask { epoch: (value >> 32) as u32, slots: value as u32 }
    }
}
