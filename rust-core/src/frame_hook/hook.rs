//! A hook that is added.
//!
//! A hook is a block with a count of references: one for each snapshot that has it. The last one
//! that goes frees it, and has its user data freed.

use super::description::{Callee, Description, TellFunction};
use crate::cpython as c;
use crate::exception::run_aside;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::thread::Thread;
use core::ffi::{c_char, c_longlong, c_void};
use core::ptr::{null_mut, NonNull};

/// Adds to a counter, and returns what it was. With the GIL that needs no atomic instruction.
#[inline(always)]
pub fn add_to(counter: &AtomicU64, amount: u64) -> u64 {
    if cfg!(any(ferrule_free_threaded, loom)) {
        counter.fetch_add(amount, Ordering::AcqRel)
    } else {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        before
    }
}

/// Counts one more.
#[inline(always)]
pub fn count_one(counter: &AtomicU64) {
    add_to(counter, 1);
}

/// An installed hook.
///
/// # Invariants
/// The memory of `name` belongs to the hook. `references` counts the snapshots that have the hook,
/// and whoever is about to put it into one. What is not atomic never changes once the hook is in a
/// snapshot.
pub struct Hook {
    references: AtomicU64,
    pub id: c_longlong,
    pub slot: u32,
    /// The number of hooks ever added when this one was, itself included.
    pub epoch: u32,
    pub callee: Callee,
    pub user_data: *mut c_void,
    free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    name: *mut c_char,
    pub timed: bool,
    pub tell: Option<TellFunction>,
    pub free_word: Option<unsafe extern "C" fn(*mut c_void)>,
    pub words_are_objects: bool,
    pub hidden: bool,
    only_in: Option<u64>,
    /// Why it may not be asked about a frame, though it is enabled, or not as others are: bits, and
    /// above them how many frames last below which it wants to be asked and nowhere else.
    special: AtomicU32,
    /// It was removed, and is told nothing any more.
    removed: AtomicBool,
    /// Whether it is to be asked where no block says otherwise. Changes with the world stopped,
    /// as the next three.
    pub on: AtomicBool,
    /// How many blocks last in which it is not to be asked.
    pub suspensions: AtomicU32,
    /// How many blocks of the owner last; 0: it was added without one.
    pub blocks: AtomicU32,
    pub owner: *mut c_void,
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

    /// It is not asked, not even in a round that is under way.
    const SILENT: u32 = 1;
    /// It is asked in one thread only.
    const IN_ONE_THREAD: u32 = 2;
    /// It is hidden, or its time is measured.
    const APART: u32 = 4;
    /// One frame below which it wants to be asked and nowhere else.
    const ONE_FRAME: u32 = 8;

    /// Whether it is just called, wherever it is enabled.
    #[inline(always)]
    pub fn is_ordinary(&self) -> bool {
        self.special.load(Ordering::Relaxed) == 0
    }

    pub fn is_silent(&self) -> bool {
        self.special.load(Ordering::Relaxed) & Hook::SILENT != 0
    }

    /// Whether it is never asked in this thread.
    pub fn is_for_another_thread(&self, thread: Thread) -> bool {
        self.only_in.is_some_and(|only| only != thread.number())
    }

    /// Whether it wants to be asked below some frames only.
    pub fn is_only_below(&self) -> bool {
        self.special.load(Ordering::Relaxed) >= Hook::ONE_FRAME
    }

    /// One frame more, or less, lasts below which it wants to be asked and nowhere else.
    pub fn count_only_below(&self, begins: bool) {
        if begins {
            self.special.fetch_add(Hook::ONE_FRAME, Ordering::Relaxed);
        } else {
            self.special.fetch_sub(Hook::ONE_FRAME, Ordering::Relaxed);
        }
    }

    /// Says whether it is not asked, not even in a round that is under way.
    pub fn set_silent(&self, on: bool) {
        if on {
            self.special.fetch_or(Hook::SILENT, Ordering::Relaxed);
        } else {
            self.special.fetch_and(!Hook::SILENT, Ordering::Relaxed);
        }
    }

    /// It is removed: from now on it is not asked, not even in a round that is under way, and told
    /// nothing.
    pub fn silence(&self) {
        self.set_silent(true);
        self.removed.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// A further reference to it.
    #[inline(always)]
    pub fn share(&self) -> HookRef {
        count_one(&self.references);
        HookRef(NonNull::from(self))
    }

    #[inline(always)]
    pub fn bit(&self) -> u32 {
        1 << self.slot
    }

    /// Has the user data freed. The thread's exception stays as it is; one that comes out of this
    /// is reported.
    ///
    /// # Safety
    /// The data is the hook's and is freed this once, the thread is attached, and no lock is held.
    #[inline] // or its symbol would be exported
    pub unsafe fn free_user_data(&self) {
        let Some(free_user_data) = self.free_user_data else { return };
        // SAFETY: the contract of whoever added the hook, and the caller's.
        unsafe {
            let text = c"Exception ignored in free_user_data of frame hook %s".as_ptr();
            run_aside(
                || free_user_data(self.user_data),
                || c::PyErr_FormatUnraisable(text, self.name()),
            );
        }
    }

    /// Has the word of a watch freed. The thread's exception stays as it is; one that comes out of
    /// this is reported.
    ///
    /// # Safety
    /// The word came with an answer of this hook and is freed this once, the thread is attached, and
    /// no lock is held.
    #[inline(always)]
    pub unsafe fn free_word(&self, word: *mut c_void) {
        let Some(free_word) = self.free_word else { return };
        // SAFETY: the contract of whoever added the hook, and the caller's.
        unsafe {
            let text = c"Exception ignored in free_word of frame hook %s".as_ptr();
            run_aside(|| free_word(word), || c::PyErr_FormatUnraisable(text, self.name()));
        }
    }

    /// Whether it calls this, with this data where it is no simple hook.
    pub fn is(&self, callee: Callee, user_data: *mut c_void) -> bool {
        match (self.callee, callee) {
            (Callee::Simple(one), Callee::Simple(other)) => core::ptr::fn_addr_eq(one, other),
            (Callee::Extended(one), Callee::Extended(other)) => {
                core::ptr::fn_addr_eq(one, other) && self.user_data == user_data
            }
            (Callee::Asked(one), Callee::Asked(other)) => {
                core::ptr::fn_addr_eq(one, other) && self.user_data == user_data
            }
            _ => false,
        }
    }
}

/// What there is to see to before such a hook is asked.
fn special(description: &Description) -> u32 {
    let mut special = 0;
    if description.only_in.is_some() {
        special |= Hook::IN_ONE_THREAD;
    }
    if description.timed || description.hidden {
        special |= Hook::APART;
    }
    special
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

/// A block of the raw allocator, which takes any size at any time; `None` without memory.
fn allocate<T>() -> Option<NonNull<T>> {
    // SAFETY: as it says. malloc aligns for every type here.
    NonNull::new(unsafe { c::PyMem_RawMalloc(size_of::<T>()) }.cast())
}

/// # Safety
/// From the raw allocator, and used no more.
pub unsafe fn free<T>(block: *mut T) {
    // SAFETY: the caller's contract.
    unsafe { c::PyMem_RawFree(block.cast()) };
}

/// A hook that is in no snapshot yet. Its user data is still the caller's.
///
/// # Invariants
/// Nobody else knows of it.
pub struct NewHook(NonNull<Hook>);

impl NewHook {
    /// `None` without memory.
    pub fn create(description: &Description) -> Option<Self> {
        let bytes = description.name.to_bytes_with_nul();
        let new = NewHook(allocate()?);
        // SAFETY: ours, and large enough.
        unsafe {
            new.0.write(Hook {
                references: AtomicU64::new(1),
                id: 0,
                slot: 0,
                epoch: 0,
                callee: description.callee,
                user_data: description.user_data,
                free_user_data: description.free_user_data,
                name: null_mut(),
                timed: description.timed,
                tell: description.tell,
                free_word: description.free_word,
                words_are_objects: description.words_are_objects,
                hidden: description.hidden,
                only_in: description.only_in,
                special: AtomicU32::new(special(description)),
                removed: AtomicBool::new(false),
                on: AtomicBool::new(true),
                suspensions: AtomicU32::new(0),
                blocks: AtomicU32::new(u32::from(!description.owner.is_null())),
                owner: description.owner,
                calls: AtomicU64::new(0),
                replacements: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                nanoseconds: AtomicU64::new(0),
            });
            let hook = new.0.as_ptr();
            (*hook).name = c::PyMem_RawMalloc(bytes.len()).cast();
            if (*hook).name.is_null() {
                return None;
            }
            (*hook).name.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        }
        Some(new)
    }

    pub fn get(&self) -> &Hook {
        // SAFETY: alive while it is ours.
        unsafe { self.0.as_ref() }
    }

    /// Gives the hook its place among the others. The user data is its own from now on.
    pub fn place(self, id: c_longlong, slot: u32, epoch: u32) -> HookRef {
        let hook = self.0;
        core::mem::forget(self);
        // SAFETY: nobody else knows of it, by the invariant.
        unsafe {
            (*hook.as_ptr()).id = id;
            (*hook.as_ptr()).slot = slot;
            (*hook.as_ptr()).epoch = epoch;
        }
        // INVARIANT: the one reference is the caller's.
        HookRef(hook)
    }
}

impl Drop for NewHook {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: nobody else knows of it, by the invariant.
        unsafe { free_hook(self.0) };
    }
}

/// # Safety
/// Nobody refers to the hook any more.
#[inline] // or its symbol would be exported
unsafe fn free_hook(hook: NonNull<Hook>) {
    // SAFETY: by contract. Both blocks came from the raw allocator, or are NULL.
    unsafe {
        free(hook.as_ref().name);
        free(hook.as_ptr());
    }
}

/// A counted reference to a hook.
pub struct HookRef(NonNull<Hook>);

impl HookRef {
    /// The reference is the caller's from now on.
    pub fn into_raw(self) -> *mut Hook {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// Takes over a reference.
    ///
    /// # Safety
    /// The caller gives up a reference to `hook`.
    pub unsafe fn from_raw(hook: NonNull<Hook>) -> Self {
        HookRef(hook)
    }

    pub fn get(&self) -> &Hook {
        // SAFETY: alive while referred to.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for HookRef {
    #[inline]
    fn drop(&mut self) {
        if add_to(&self.get().references, u64::MAX) == 1 {
            retire(self.0);
        }
    }
}

/// Frees a hook that nobody refers to, and has its user data freed.
#[cold]
#[inline] // or its symbol would be exported
fn retire(hook: NonNull<Hook>) {
    // SAFETY: nobody refers to the hook any more, and whoever drops a snapshot is attached and
    // holds no lock.
    unsafe {
        hook.as_ref().free_user_data();
        free_hook(hook);
    }
}
