//! Sets of hooks, as they are written down.

use super::snapshot::Snapshot;
use crate::in_cpython::SlotMask;
use core::ffi::c_void;

impl SlotMask {
    /// The slots of those hooks of `snapshot` that are in the set.
    #[inline(always)]
    pub fn valid(self, snapshot: &Snapshot) -> u32 {
        if self.slots == 0 || self.epoch == snapshot.epoch() {
            return self.slots;
        }
        self.valid_of_before(snapshot)
    }

    /// [`valid`](Self::valid), where hooks were added since.
    #[cold]
    #[inline(never)]
    fn valid_of_before(self, snapshot: &Snapshot) -> u32 {
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
