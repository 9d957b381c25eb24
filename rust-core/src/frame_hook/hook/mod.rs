//! A hook, and the references to it.
//!
//! ```text
//!   the list of installed hooks ──┐
//!   a dispatch, a callback ───────┴─► HookInUse ──┐ together one
//!   a watch, a removed hook before it ────────────┴─► HookRef ──► the block
//! ```
//!
//! A hook may be called as long as there is a [`HookInUse`]; the last one frees the user data. That happens when the
//! hook was removed and no callback of it runs. Its watches do not keep the user data, which may lead to what they
//! watch. The last [`HookRef`] frees the block.
//!
//! The list changes with the world stopped (`list`). A removed hook keeps `next` as it was, with a reference, so that a
//! dispatch that holds the hook reaches the rest of the list.

pub mod list;
pub mod references;

use super::c_types::{FrameHookEntryFunction, FrameHookEventFunction, FrameLoopFunction};
use super::counted::References;
use super::description::TraverseFunction;
use crate::cpython as c;
use crate::exception::run_aside;
use crate::frame::VisitFunction;
use crate::in_cpython::GROUP_SIZE;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::thread::ThreadState;
use core::ffi::{c_char, c_int, c_longlong, c_void};
use core::ptr::NonNull;

/// A hook.
///
/// # Invariants
/// The memory of `name` belongs to the hook. What is not atomic never changes once the hook is
/// installed. `next` is the next installed hook, or NULL; once the hook is removed it is the next one of
/// then, and the hook owns a reference to that.
pub struct Hook {
    /// Each [`HookRef`](references::HookRef), and one for all of `users` together.
    references: References,
    /// Each [`HookInUse`](references::HookInUse).
    users: References,
    next: AtomicPtr<Hook>,
    pub id: c_longlong,
    /// Its position in sets of hooks.
    pub slot: u32,
    /// The number of hooks ever added when this one was, itself included.
    pub epoch: u32,
    pub on_entry: FrameHookEntryFunction,
    pub user_data: *mut c_void,
    free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    name: *mut c_char,
    pub timed: bool,
    pub visible: bool,
    pub on_event: Option<FrameHookEventFunction>,
    #[cfg_attr(any(test, fuzzing), allow(dead_code))]
    pub on_loop: Option<FrameLoopFunction>,
    free_data: Option<unsafe extern "C" fn(*mut c_void)>,
    traverse_data: Option<TraverseFunction>,
    /// The `Thread::number` of the only thread in which it is called.
    pub only_in: Option<u64>,
    /// Why an open hook may not be called for a frame, or not as others are: bits, and above them the number of
    /// frames in progress, in any thread, for whose callees alone it is to be called.
    special: AtomicU32,
    /// It was removed. Changes with the world stopped, as the next three.
    removed: AtomicBool,
    /// Whether it is enabled apart from blocks.
    pub on: AtomicBool,
    /// How many blocks in progress disable it in all threads.
    pub suspensions: AtomicU32,
    /// How many blocks of the owner are in progress; 0: it was added without one.
    pub blocks: AtomicU32,
    /// The `with` blocks that install it; 0: none.
    pub owner: u64,
    pub calls: AtomicU64,
    pub replacements: AtomicU64,
    pub errors: AtomicU64,
    pub nanoseconds: AtomicU64,
}

impl Hook {
    /// The name, for messages: UTF-8.
    pub fn name(&self) -> *const c_char {
        self.name
    }

    /// It is disabled or removed: not called, not even by a dispatch in progress.
    const SILENT: u32 = 1;
    /// It is visible, or its time is measured.
    const APART: u32 = 2;
    /// One frame for whose callees alone it is to be called.
    const ONE_FRAME: u32 = 4;

    /// Whether it is called in the ordinary way wherever it is open.
    #[inline(always)]
    pub fn is_ordinary(&self) -> bool {
        self.special.load(Ordering::Relaxed) == 0
    }

    pub fn is_enabled(&self) -> bool {
        self.special.load(Ordering::Relaxed) & Hook::SILENT == 0
    }

    /// Whether it is to be called for the callees of some frames only.
    pub fn is_for_callees_alone(&self) -> bool {
        self.special.load(Ordering::Relaxed) >= Hook::ONE_FRAME
    }

    /// Counts one frame more, or less, for whose callees alone it is to be called.
    pub fn count_for_callees_alone(&self, begins: bool) {
        if begins {
            self.special.fetch_add(Hook::ONE_FRAME, Ordering::Relaxed);
        } else {
            self.special.fetch_sub(Hook::ONE_FRAME, Ordering::Relaxed);
        }
    }

    /// Enables or disables it, for dispatches in progress too.
    ///
    /// # Safety
    /// The world is stopped.
    pub unsafe fn set_enabled(&self, on: bool) {
        if on {
            self.special.fetch_and(!Hook::SILENT, Ordering::Relaxed);
        } else {
            self.special.fetch_or(Hook::SILENT, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// The group of its slot.
    pub fn group(&self) -> usize {
        self.slot as usize / GROUP_SIZE
    }

    /// Its bit in that group.
    #[inline(always)]
    pub fn bit(&self) -> u32 {
        1u32.wrapping_shl(self.slot)
    }

    /// Whether it may be called in that thread: it is for all, or for this one.
    pub fn is_for(&self, thread: ThreadState) -> bool {
        self.only_in.is_none_or(|only| only == thread.number())
    }

    /// The next hook.
    ///
    /// The result is valid while this hook is referred to, if it was removed; otherwise until the thread is stopped.
    #[inline(always)]
    fn next(&self) -> Option<NonNull<Hook>> {
        NonNull::new(self.next.load(Ordering::Relaxed))
    }

    /// Frees the data of a watch. The thread's exception stays as it is; one that `free_data` sets is reported.
    ///
    /// # Safety
    /// The data came with an answer of this hook and is freed this once, the thread is attached, and
    /// no lock is held.
    #[inline(always)]
    pub unsafe fn free_data(&self, data: *mut c_void) {
        let Some(free_data) = self.free_data else { return };
        // SAFETY: the hook's owner says that `free_data` takes such data; the caller says that it
        // is freed this once, by an attached thread without a lock, as any code may run.
        unsafe {
            let text = c"Exception ignored in free_data of frame hook %s".as_ptr();
            run_aside(|| free_data(data), || c::PyErr_FormatUnraisable(text, self.name()));
        }
    }

    /// Shows the collector what the data of a watch refers to.
    ///
    /// # Safety
    /// The data came with an answer of this hook and is not freed yet; `visit` and `argument` are the
    /// collector's.
    pub unsafe fn traverse_data(
        &self,
        data: *mut c_void,
        visit: VisitFunction,
        argument: *mut c_void,
    ) -> c_int {
        // SAFETY: the hook's owner says that `traverse_data` takes such data; the caller says that
        // it is not freed yet. The collector, which calls this, runs no Python code meanwhile.
        self.traverse_data.map_or(0, |traverse| unsafe { traverse(data, visit, argument) })
    }

    /// Frees the user data. The thread's exception stays as it is; one that `free_user_data` sets is reported.
    ///
    /// # Safety
    /// The data is the hook's and is freed this once, the thread is attached, and no lock is held.
    #[inline] // or its symbol would be exported
    unsafe fn free_user_data(&self) {
        let Some(free_user_data) = self.free_user_data else { return };
        // SAFETY: the hook's owner says that `free_user_data` takes its data; the caller says that it
        // is freed this once, by an attached thread without a lock, as any code may run.
        unsafe {
            let text = c"Exception ignored in free_user_data of frame hook %s".as_ptr();
            run_aside(
                || free_user_data(self.user_data),
                || c::PyErr_FormatUnraisable(text, self.name()),
            );
        }
    }

    /// Whether these are its entry callback and its user data.
    pub fn is(&self, on_entry: FrameHookEntryFunction, user_data: *mut c_void) -> bool {
        core::ptr::fn_addr_eq(self.on_entry, on_entry) && self.user_data == user_data
    }
}

/// Where a hook has atomics that do not begin a word, for loom.
#[cfg(test)]
#[cfg(loom)]
pub const SMALL_ATOMICS: [usize; 5] = [
    core::mem::offset_of!(Hook, special),
    core::mem::offset_of!(Hook, removed),
    core::mem::offset_of!(Hook, on),
    core::mem::offset_of!(Hook, suspensions),
    core::mem::offset_of!(Hook, blocks),
];
