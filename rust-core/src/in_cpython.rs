//! What Ferrule keeps in CPython's own structures.
//!
//! ```text
//!   _PyThreadStateImpl ── ends with ──► DataStackState, FrameHookThread
//!   PyInterpreterState ── ends with ──► EvalGate, CodeExtraState, FrameHookState
//!   PyCodeObject.co_extra ────────────► Table
//! ```
//!
//! cbindgen shows these structs to C, which puts them into its own. The bindings know their sizes
//! and nothing else, so `cpython` needs nothing of the crate. Here the bytes get their types back,
//! and both sizes are compared.
//!
//! A struct says what its fields mean. The rules that hold between them are the invariants of the
//! module that works with the struct, and no other module touches a field: `data_stack`,
//! `eval_frame`, `code_extra`, `frame_hook`.

use crate::cpython::{
    _PyInterpreterFrame, _PyRust_CodeExtraState, _PyRust_DataStackState, _PyRust_EvalGate,
    _PyRust_FrameHookState, _PyRust_FrameHookThread, _PyStackChunk, _PyThreadStateImpl,
    PyCodeObject, PyInterpreterState, PyObject, PyThreadState,
};
use core::ffi::{c_int, c_longlong, c_void};
use core::mem::{align_of, size_of};
use static_assertions::const_assert_eq;

/// What Ferrule keeps for one thread beside CPython's own fields; it lies at the
/// end of `_PyThreadStateImpl`, and all zeros is its initial state.
#[repr(C)]
pub struct DataStackState {
    /// The first of the chunks kept for the next switches; means nothing while `spare_room` is 0.
    pub spare: *mut _PyStackChunk,
    /// Bytes of slots that the spare takes; 0 without a spare. One load answers
    /// "does it fit".
    pub spare_room: usize,
    /// Chunks kept behind the spare, which its `previous` leads to.
    pub behind_count: usize,
    /// Their bytes.
    pub behind_bytes: usize,
    /// The smallest number of them since the thread last freed those that it had not needed.
    pub fewest_behind: usize,
    /// Bytes that this thread may keep behind its spare.
    pub claimed: usize,
    /// Chunks that came from the arena allocator.
    pub chunks_allocated: usize,
    /// Chunks left, those that others had pushed included.
    pub chunks_popped: usize,
    /// Chunks entered that had been kept.
    pub cache_hits: usize,
    /// The most bytes of chunks that this thread held at once.
    pub bytes_high_water: usize,
}

/// `_PyFrameEvalFunction`: runs a frame and returns its result, or NULL with an
/// exception set.
pub type EvalFrameFunction = Option<
    unsafe extern "C" fn(*mut PyThreadState, *mut _PyInterpreterFrame, c_int) -> *mut PyObject,
>;

/// What Ferrule keeps for one interpreter beside `eval_frame`; it lies at the end
/// of `PyInterpreterState`, and all zeros is its initial state.
#[repr(C)]
pub struct EvalGate {
    /// Whether instructions are specialized while an evaluator is there.
    pub allow_specialization: bool,
    /// What was set as the evaluator; NULL for none.
    pub evaluator: EvalFrameFunction,
    /// The perf trampoline's evaluator while it is active, else NULL.
    pub trampoline: EvalFrameFunction,
}

/// What frees a value on a code object; `None`: nothing needs to be done.
pub type FreeFunction = Option<unsafe extern "C" fn(*mut c_void)>;

/// What one interpreter keeps; it lies at the end of `PyInterpreterState`, and
/// all zeros is its initial state but for the first field, which is -1.
#[repr(C)]
pub struct CodeExtraState {
    /// The perf trampoline's index in this interpreter, -1 for none. C's own:
    /// Python/perf_trampoline.c.
    pub perf_trampoline_index: isize,
    /// Slots that were used at least once.
    pub count: usize,
    /// Slots whose index is in use.
    pub in_use: usize,
    /// The first of the free slots; NULL when there is none.
    pub first_free: *mut Slot,
    /// The tables of this interpreter's code objects, and the markers of walks.
    pub tables: *mut Table,
    /// 16 slots, 16, 32, 64 and so on.
    pub segments: [*mut Slot; 17],
    /// A `PyMutex`. Guards everything here, the tables' lists and counts, and
    /// `co_extra`, against other writers. Held for no allocation and no free function.
    pub lock: u8,
    /// The interpreter is at its end: nothing is handed out or stored any more.
    pub finished: bool,
}

/// One place of the registry.
pub struct Slot {
    /// The index that the slot gave last, as a `Key`.
    pub key: usize,
    /// What frees the values under that index.
    pub free: FreeFunction,
    /// The next free slot, while this one is free; NULL when it is the last.
    pub next_free: *mut Slot,
}

/// The header; the entries follow.
pub struct Table {
    /// Words from one entry to the next, times the largest position: ANDed with
    /// twice an index it gives where the index belongs, in words.
    pub mask: usize,
    /// The tables beside this one in the owner's list.
    pub next: *mut Table,
    /// See `next`.
    pub previous: *mut Table,
    /// The registry whose list this table is for; NULL in a walk's marker. Never changes.
    pub owner: *mut CodeExtraState,
    /// NULL when the code object died under another interpreter.
    pub code: *mut PyCodeObject,
    /// How many keys there are.
    pub used: u32,
    /// How many values there are that are not NULL.
    pub live: u32,
}

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

impl SlotMask {
    /// All hooks there are and will be. No hook is ever added in such an epoch.
    pub const EVERYBODY: Self = SlotMask { epoch: u32::MAX, slots: u32::MAX };
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
/// `PyInterpreterState`. All zeros is its initial state, but for `extra_index`, which is -1.
///
/// A field changes only while no other thread of the interpreter runs, unless it says otherwise.
#[repr(C)]
pub struct FrameHookState {
    /// Whether any hook may have to be asked. The eval loop reads this.
    pub active: bool,
    /// No hook can be added any more: the interpreter ends.
    pub closed: bool,
    /// The index under which code objects hold their settled hooks; -1 for none, before the
    /// first hook. Set once, as an atomic.
    pub extra_index: isize,
    /// The handle that was given out last.
    pub last_id: i64,
    /// Counts the hooks added; see `SlotMask`.
    pub epoch: u32,
    /// The installed hooks, a `snapshot::Snapshot`; NULL: none yet. Owns one reference.
    pub snapshot: *mut c_void,
    /// The list of `suspended`: so many of them, in a block with room for so many. NULL: no room.
    pub suspended_codes: *mut SuspendedCode,
    pub suspended_count: usize,
    pub suspended_room: usize,
    /// The singleton `SETTLED`, or NULL. A strong reference, set as an atomic, as the next two.
    pub settled: *mut PyObject,
    /// The type of Python's view of a frame, or NULL.
    pub view_type: *mut PyObject,
    /// `IncompatibleCodeError`, or NULL.
    pub incompatible: *mut PyObject,
    /// The type of what a watched generator holds, or NULL.
    pub watched_type: *mut PyObject,
    /// What events for hooks in Python are made of, a tuple that `python::event` knows, or NULL.
    pub event_parts: *mut PyObject,
    /// The watched generators of the interpreter, a `watched::Watched`; NULL: none.
    pub watched: *mut c_void,
    /// A `PyMutex`. Guards the list of `watched`. Nothing waits or runs Python code under it.
    pub watched_lock: u8,
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
    /// How many of the levels of `tracing` are those of hooks that are hidden.
    pub hidden: c_int,
    /// The watches of frames that have begun and have not been left, a `watch::Watch`; NULL: none.
    pub watches: *mut c_void,
    /// The extents in force in this thread, an `extent::Extent`, the last one first; NULL: none.
    pub extents: *mut c_void,
    /// Memory for further watches, a list of so many.
    pub unused_watches: *mut c_void,
    pub unused_count: u32,
    /// How many calls are under way about which no hook is asked, and whose frame has not begun: in
    /// all greenlets, as `rounds` is.
    pub spared: u32,
    /// The watches of those that no frame has made, a `watch::Watch`; NULL: none.
    pub spared_at_roots: *mut c_void,
}

/// A struct of this module and the bytes that the bindings have for it: where they lie, and that
/// both are one size.
macro_rules! lies_in {
    ($owner:ident, $field:ident: $bytes:ident is $state:ident) => {
        const_assert_eq!(size_of::<$state>(), size_of::<$bytes>());
        const_assert_eq!(align_of::<$state>(), align_of::<$bytes>());

        impl $state {
            /// The one in `owner`.
            ///
            /// # Safety
            /// `owner` is live.
            #[inline(always)]
            pub unsafe fn of(owner: *mut $owner) -> *mut Self {
                // SAFETY: live, by contract. No reference is made: others have pointers to it too.
                let bytes: *mut $bytes = unsafe { &raw mut (*owner).$field };
                bytes.cast()
            }
        }
    };
}

lies_in!(_PyThreadStateImpl, data_stack: _PyRust_DataStackState is DataStackState);
lies_in!(_PyThreadStateImpl, frame_hooks: _PyRust_FrameHookThread is FrameHookThread);
lies_in!(PyInterpreterState, eval_gate: _PyRust_EvalGate is EvalGate);
lies_in!(PyInterpreterState, code_extra: _PyRust_CodeExtraState is CodeExtraState);
lies_in!(PyInterpreterState, frame_hooks: _PyRust_FrameHookState is FrameHookState);
