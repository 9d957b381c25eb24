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

/// The opcode by which the eval loop leaves a shim. It is none of CPython's 3.13: the eval loop recognizes it where it
/// would raise `SystemError` for an unknown opcode, and in a shim only. So `opcode`, `dis` and the magic number of .pyc
/// files do not know of it, and code that has it behaves as on stock.
pub const RETURN_TO_SHIM: u8 = 235;

/// What Ferrule keeps for one thread beside CPython's own fields; it lies at the
/// end of `_PyThreadStateImpl`, and all zeros is its initial state.
#[repr(C)]
pub struct DataStackState {
    /// The first chunk of the cache; undefined while `cached_room` is 0.
    pub first_cached: *mut _PyStackChunk,
    /// Bytes of slots that the first cached chunk has room for; 0 with an empty cache. One load answers
    /// "does it fit".
    pub cached_room: usize,
    /// Cached chunks after the first, which its `previous` leads to.
    pub rest_count: usize,
    /// Their bytes.
    pub rest_bytes: usize,
    /// The smallest number of them since the thread last freed those that it had not needed.
    pub fewest_rest: usize,
    /// Bytes that this thread may cache after the first chunk.
    pub claimed: usize,
    /// Chunks that came from the arena allocator.
    pub chunks_allocated: usize,
    /// Chunks left, those that others had pushed included.
    pub chunks_popped: usize,
    /// Chunks entered that came from the cache.
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

/// How many slots a [`SlotMask`] has.
pub const GROUP_SIZE: usize = 32;
/// How many groups of so many slots there are. Nearly always only the first one is in use.
pub const HOOK_GROUPS: usize = 32;

/// A set of hooks of one group, by slot, with the epoch in which it was written: the number of hooks
/// that had ever been added by then.
///
/// A slot is used again for another hook. That hook was added in a later epoch than the set's, so the
/// set does not mean it.
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

/// A code object for which a hook is disabled while some blocks last.
#[repr(C)]
pub struct SuspendedCode {
    /// The hook's handle.
    pub id: c_longlong,
    /// A strong reference.
    pub code: *mut PyCodeObject,
    /// How many blocks last.
    pub blocks: usize,
}

/// A hook that is disabled in a thread.
#[repr(C)]
pub struct DisabledHook {
    /// The hook's handle.
    pub id: c_longlong,
    /// How many blocks last that disable it.
    pub blocks: u32,
    /// It is disabled apart from blocks.
    pub off: bool,
}

/// What Ferrule keeps for the hooks of one interpreter; at the end of
/// `PyInterpreterState`. All zeros is its initial state.
///
/// A field changes only while no other thread of the interpreter runs, unless it says otherwise.
#[repr(C)]
pub struct FrameHookState {
    /// Whether any hook is enabled in any thread, or any generator is watched. The eval loop reads this.
    pub active: bool,
    /// No hook can be added any more: the interpreter ends.
    pub closed: bool,
    /// The groups of slots that are in use: so many, from the first one on.
    pub groups: u32,
    /// Counts the hooks added; see `SlotMask`.
    pub epoch: u32,
    /// Whether some thread may have no hook that is called in it: whether it listens follows from whether any generator is watched.
    pub some_listen_not: bool,
    /// The handle that was given out last.
    pub last_id: i64,
    /// The first of the installed hooks, a `hook::Hook`, which leads to the next; NULL: none.
    pub hooks: *mut c_void,
    /// The slots of the installed hooks.
    pub used: [u32; HOOK_GROUPS],
    /// The slots of those that are enabled, in whatever thread.
    pub enabled: [u32; HOOK_GROUPS],
    /// The slots of those that are called in a thread that has nothing of its own to say.
    pub everywhere: [u32; HOOK_GROUPS],
    /// For each group the index under which code objects hold the hooks that are disabled for them,
    /// plus 1; 0: none yet. Each is set once, as an atomic.
    pub extra_indices: [isize; HOOK_GROUPS],
    /// The list of `suspended`: so many of them, in a block with room for so many. NULL: no room.
    pub suspended_codes: *mut SuspendedCode,
    pub suspended_count: usize,
    pub suspended_room: usize,
    /// The singleton `framehook.DISABLE`, or NULL. A strong reference, set as an atomic, as the next ones.
    pub disable_answer: *mut PyObject,
    /// The type of Python's view of a frame, or NULL.
    pub view_type: *mut PyObject,
    /// `IncompatibleCodeError`, or NULL.
    pub incompatible: *mut PyObject,
    /// The type of what a watched generator holds, or NULL.
    pub watched_type: *mut PyObject,
    /// What events for hooks in Python are made of, a tuple that `python::event` knows, or NULL.
    pub event_parts: *mut PyObject,
    /// The watched generators of the interpreter, a `generator_watch::Watched`; NULL: none. Changes under `watched_lock`
    /// and is read without it, always as an atomic.
    pub watched: *mut c_void,
    /// A `PyMutex`. Guards the list of `watched`. Nothing waits or runs Python code under it.
    pub watched_lock: u8,
    /// Whether loops of some code object are or were watched.
    pub loops: bool,
    /// Whether a word of `observers` was given out.
    pub observers_known: bool,
    /// The index under which code objects have a `code_record`, plus 1; 0: none yet. Set once, as an atomic.
    pub record_index: isize,
}

/// Which threads of the interpreter have a hook that is called there, or a watched generator to resume.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq)]
pub enum Listening {
    /// None: the interpreter is not `active`.
    Nowhere = 0,
    /// Others, and not this one. Its `RESUME` stays unspecialized for their sake.
    Elsewhere = 1,
    /// This one, at least.
    Here = 2,
}

/// What Ferrule keeps for the hooks in one thread; at the end of
/// `_PyThreadStateImpl`. All zeros is its initial state. The thread alone uses it, but for the fields
/// that say otherwise.
#[repr(C)]
pub struct FrameHookThread {
    /// Whether Rust has anything to do at a `RESUME` of this thread. The eval loop reads this. Other threads
    /// write it with the world stopped, as the next field.
    pub listening: Listening,
    /// The slots of the enabled hooks that are called in this thread.
    pub open: [u32; HOOK_GROUPS],
    /// Hooks that are disabled in this thread: so many, in a block with room for so many. Other threads
    /// may end a block with the world stopped.
    pub disabled: *mut DisabledHook,
    pub disabled_count: u32,
    pub disabled_room: u32,
    /// No hook is called in this thread: it ends.
    pub ends: bool,
    /// Two counts, so that one step changes both. Low half: the number of dispatches and callbacks in progress
    /// in this thread, in all its greenlets. A greenlet that never returns from one leaves it counted. High half: that
    /// number less the number of levels of `tracing` that are those of hooks.
    pub levels: u64,
    /// The watches of frames that have begun and have not been left, a `watch::Watch`; NULL: none.
    pub watches: *mut c_void,
    /// The scopes in force in this thread, a `scope::Scope`, the last one first; NULL: none.
    pub scopes: *mut c_void,
    /// Memory for further watches, a list of so many.
    pub unused_watches: *mut c_void,
    pub unused_count: u32,
    /// The number of unhooked calls in progress whose frame has not started, in all greenlets.
    pub unhooked: u32,
    /// The watches of those that no frame has made, a `watch::Watch`; NULL: none.
    pub unhooked_at_roots: *mut c_void,
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
                // SAFETY: the caller passes a live owner. No reference is made, as C has pointers to it too.
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
