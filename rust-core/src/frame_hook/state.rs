//! What lies in CPython's own structures for the hooks.

use crate::cpython::{PyCodeObject, PyObject};
use core::ffi::{c_longlong, c_void};

/// How many hooks an interpreter can have: as many as a [`SlotMask`] has slots.
pub const MOST_HOOKS: usize = 32;

/// A set of hooks, by slot, with the epoch in which it was written down: the
/// number of hooks that had ever been added by then.
///
/// A slot is used again for another hook. That hook has been added in a later
/// epoch than the set's, and so is known not to be meant.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
pub struct SlotMask {
    pub epoch: u32,
    pub slots: u32,
}

/// A code object about which a hook is not asked while some blocks last.
#[repr(C)]
pub struct SuspendedCode {
    /// The hook's handle.
    pub id: c_longlong,
    /// A strong reference.
    pub code: *mut PyCodeObject,
    /// How many blocks last.
    pub blocks: usize,
}

/// What Ferrule keeps for the hooks of one interpreter; at the end of
/// `PyInterpreterState`. All zeros is its initial state.
///
/// A field changes only while no other thread of the interpreter runs, unless it says otherwise.
#[repr(C)]
pub struct FrameHookState {
    /// Whether any hook may have to be asked. The eval loop reads this.
    pub active: bool,
    /// No hook can be added any more: the interpreter ends.
    pub closed: bool,
    /// One more than the index of the slot in code objects that holds their
    /// settled hooks; 0 before the first hook. Set once, as an atomic.
    pub extra_index_plus_one: isize,
    /// The handle that was given out last.
    pub last_id: i64,
    /// Counts the hooks added; see `SlotMask`.
    pub epoch: u32,
    /// The installed hooks, a `registry::Snapshot`; NULL: none yet. Owns one reference.
    pub snapshot: *mut c_void,
    /// The list of `switch`: so many of them, in a block with room for so many. NULL: no room.
    pub suspended_codes: *mut SuspendedCode,
    pub suspended_count: usize,
    pub suspended_room: usize,
    /// The singleton `SETTLED`, or NULL. A strong reference, set as an atomic, as the next two.
    pub settled: *mut PyObject,
    /// The type of Python's view of a frame, or NULL.
    pub view_type: *mut PyObject,
    /// `IncompatibleCodeError`, or NULL.
    pub incompatible: *mut PyObject,
}

/// What Ferrule keeps for the hooks in one thread; at the end of
/// `_PyThreadStateImpl`. All zeros is its initial state. The thread alone uses it.
#[repr(C)]
pub struct FrameHookThread {
    /// Hooks that this thread does not ask.
    pub disabled: SlotMask,
    /// Hooks that it does not ask while some blocks last.
    pub suspended: SlotMask,
    /// How many blocks, by slot, where `suspended` has the slot.
    pub suspensions: [u32; MOST_HOOKS],
    /// How many rounds of hooks are under way in this thread, in all its greenlets. A greenlet that is
    /// given up in the middle of one leaves it counted.
    pub rounds: u32,
}
