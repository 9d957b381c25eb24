//! What lies in CPython's own structures for the hooks.

use crate::cpython::{PyMutex, PyObject};
use core::ffi::c_void;

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

/// What Ferrule keeps for the hooks of one interpreter; at the end of
/// `PyInterpreterState`. All zeros is its initial state.
#[repr(C)]
pub struct FrameHookState {
    /// Whether any hook may have to be asked. The eval loop reads this.
    pub active: bool,
    /// Held while the hooks that a code object has settled are written down.
    pub verdicts: PyMutex,
    /// No hook can be added any more: the interpreter ends.
    pub closed: bool,
    /// One more than the index of the slot in code objects that holds their
    /// settled hooks; 0 before the first hook.
    pub extra_index_plus_one: isize,
    /// The handle that was given out last.
    pub last_id: i64,
    /// Counts the hooks added; see `SlotMask`.
    pub epoch: u32,
    /// The installed hooks, a `registry::Snapshot`; NULL: none yet. Owns one reference.
    pub snapshot: *mut c_void,
    /// The singleton `SETTLED`, or NULL. A strong reference, as the next two.
    pub settled: *mut PyObject,
    /// The type of Python's view of a frame, or NULL.
    pub view_type: *mut PyObject,
    /// `IncompatibleCodeError`, or NULL.
    pub incompatible: *mut PyObject,
}

/// What Ferrule keeps for the hooks in one thread; at the end of
/// `_PyThreadStateImpl`. All zeros is its initial state.
#[repr(C)]
pub struct FrameHookThread {
    /// Hooks that this thread does not ask.
    pub disabled: SlotMask,
    /// How many rounds of hooks are under way in this thread.
    pub rounds: u32,
}
