//! The hooks of an interpreter at one moment.
//!
//! What a round of hooks reads is a [`Snapshot`], whose list never changes. Adding and
//! removing put another one in its place, with the world stopped. A round holds a
//! reference to the snapshot that it began with, so hooks may come and go meanwhile. A
//! hook lives as long as a snapshot that has it.
//!
//! Reading the current snapshot takes no lock: between reading the pointer and
//! counting the reference there is no point at which a thread can be stopped.

use super::verdict::{HookAnswer, HookEvent};
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject};
use crate::exception::run_aside;
use crate::in_cpython::MOST_HOOKS;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::thread::Thread;
use core::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use core::marker::PhantomData;
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

/// A simple hook, as the header has it.
pub type SimpleHook = unsafe extern "C" fn(*mut _PyInterpreterFrame) -> *mut PyCodeObject;

/// An extended hook, as the header has it.
pub type ExtendedHook =
    unsafe extern "C" fn(*mut _PyInterpreterFrame, *mut c_void, *mut *mut PyCodeObject) -> c_int;

/// A hook of the second edition, as the header has it.
pub type AskFunction =
    unsafe extern "C" fn(*mut _PyInterpreterFrame, *mut c_void, *mut HookAnswer) -> c_int;

/// What tells a hook of the second edition what has happened to a frame.
pub type TellFunction = unsafe extern "C" fn(*const HookEvent, *mut c_void) -> c_int;

/// What is called.
#[derive(Clone, Copy)]
pub enum Callee {
    Asked(AskFunction),
    Extended(ExtendedHook),
    Simple(SimpleHook),
}

/// Where a hook comes among the others: `PyUnstable_FRAMEHOOK_*` in the header.
pub const FRAMEHOOK_LAST: c_int = 0;
pub const FRAMEHOOK_FIRST: c_int = 1;
pub const FRAMEHOOK_BEFORE: c_int = 2;
pub const FRAMEHOOK_BEHIND: c_int = 3;

/// Where a new hook comes among the others.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    Last,
    First,
    /// Before or behind the hook with this handle.
    Before(c_longlong),
    Behind(c_longlong),
}

impl Place {
    /// `None` for a number that the header does not have.
    pub fn from_c(number: c_int, other: c_longlong) -> Option<Self> {
        match number {
            FRAMEHOOK_LAST => Some(Place::Last),
            FRAMEHOOK_FIRST => Some(Place::First),
            FRAMEHOOK_BEFORE => Some(Place::Before(other)),
            FRAMEHOOK_BEHIND => Some(Place::Behind(other)),
            _ => None,
        }
    }
}

/// What the caller who adds a hook says of it.
pub struct Description<'a> {
    pub callee: Callee,
    pub user_data: *mut c_void,
    pub free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    /// UTF-8.
    pub name: &'a CStr,
    /// Whether to measure the time that it takes.
    pub timed: bool,
    /// Whose `with` blocks install it: an address that stands for the owner. NULL: it is installed
    /// without a block.
    pub owner: *mut c_void,
    /// Who is told what happens to a frame.
    pub tell: Option<TellFunction>,
    /// What frees the word of a watch.
    pub free_word: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Whether the words of its watches are Python objects, which the collector is to see.
    pub words_are_objects: bool,
    /// Whether the Python code that it runs is kept from trace, profile and monitoring functions.
    pub hidden: bool,
    /// The `Thread::number` of the only thread in which it is asked.
    pub only_in: Option<u64>,
    pub place: Place,
}

impl<'a> Description<'a> {
    /// A hook that is asked in all threads, behind all others, and told nothing.
    pub fn new(callee: Callee, user_data: *mut c_void, name: &'a CStr) -> Self {
        Description {
            callee,
            user_data,
            free_user_data: None,
            name,
            timed: false,
            owner: null_mut(),
            tell: None,
            free_word: None,
            words_are_objects: false,
            hidden: false,
            only_in: None,
            place: Place::Last,
        }
    }
}

impl Description<'_> {
    /// What there is to see to before such a hook is asked.
    fn special(&self) -> u32 {
        let mut special = 0;
        if self.only_in.is_some() {
            special |= Hook::IN_ONE_THREAD;
        }
        if self.timed || self.hidden {
            special |= Hook::APART;
        }
        special
    }
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
    epoch: u32,
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
    /// The snapshot that will take the place of the one with this hook when it is removed. NULL
    /// once it was taken.
    reserve: AtomicPtr<Snapshot>,
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

    fn set_silent(&self, on: bool) {
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

    /// The snapshot that was brought for the hook's removal; `None` once it has been taken. It is
    /// empty.
    pub fn take_reserve(&self) -> Option<NewSnapshot> {
        let reserve = self.reserve.swap(null_mut(), Ordering::Relaxed);
        // INVARIANT: nobody has seen it.
        NonNull::new(reserve).map(NewSnapshot)
    }

    fn is(&self, callee: Callee, user_data: *mut c_void) -> bool {
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
unsafe fn free<T>(block: *mut T) {
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
                special: AtomicU32::new(description.special()),
                removed: AtomicBool::new(false),
                on: AtomicBool::new(true),
                suspensions: AtomicU32::new(0),
                blocks: AtomicU32::new(u32::from(!description.owner.is_null())),
                owner: description.owner,
                reserve: AtomicPtr::new(null_mut()),
                calls: AtomicU64::new(0),
                replacements: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                nanoseconds: AtomicU64::new(0),
            });
            let hook = new.0.as_ptr();
            (*hook).reserve = AtomicPtr::new(Snapshot::allocate()?.into_raw());
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
    // SAFETY: by contract. All three blocks came from the raw allocator, or are NULL.
    unsafe {
        free(hook.as_ref().reserve.load(Ordering::Relaxed));
        free(hook.as_ref().name);
        free(hook.as_ptr());
    }
}

/// A counted reference to a hook.
pub struct HookRef(NonNull<Hook>);

impl HookRef {
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

/// The hooks at one moment.
///
/// # Invariants
/// `hooks[..count]` are live, and the snapshot owns a reference to each; NULL follows. Nothing
/// but `references` and `enabled` changes once the snapshot can be seen.
pub struct Snapshot {
    references: AtomicU64,
    epoch: u32,
    /// The slots of the hooks that are enabled. Changes with the world stopped.
    enabled: AtomicU32,
    count: usize,
    hooks: [*mut Hook; MOST_HOOKS + 1],
}

/// A snapshot that nobody has seen yet; empty at first.
pub struct NewSnapshot(NonNull<Snapshot>);

impl NewSnapshot {
    /// The one reference to it, which is the caller's from now on.
    pub fn into_raw(self) -> *mut Snapshot {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    pub fn get_mut(&mut self) -> &mut Snapshot {
        // SAFETY: nobody has seen it yet.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for NewSnapshot {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: nobody has seen it, and it is empty: it is filled and published in one go.
        unsafe { free(self.0.as_ptr()) };
    }
}

impl Snapshot {
    /// `None` without memory.
    pub fn allocate() -> Option<NewSnapshot> {
        // SAFETY: the raw allocator takes any size at any time; zeros are valid for every field.
        let snapshot = unsafe { c::PyMem_RawCalloc(1, size_of::<Snapshot>()) }.cast::<Snapshot>();
        let snapshot = NewSnapshot(NonNull::new(snapshot)?);
        // SAFETY: ours.
        unsafe { (*snapshot.0.as_ptr()).references = AtomicU64::new(1) };
        Some(snapshot)
    }

    /// The snapshot of now, which the interpreter's state keeps alive. `None` before the first
    /// hook.
    ///
    /// # Safety
    /// The caller does not use it any more when the thread can be stopped next: it calls nothing
    /// that may wait, or run Python code, meanwhile.
    pub unsafe fn borrowed<'a>(thread: Thread) -> Option<&'a Self> {
        // SAFETY: the state is live, and owns a reference.
        unsafe { (*thread.state()).snapshot.cast::<Snapshot>().as_ref() }
    }

    #[inline(always)]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The slots of the enabled hooks.
    #[inline(always)]
    pub fn enabled(&self) -> u32 {
        self.enabled.load(Ordering::Relaxed)
    }

    /// The hooks in order.
    #[inline(always)]
    pub fn iter(&self) -> Hooks<'_> {
        Hooks { next: NonNull::from(&self.hooks).cast(), of: PhantomData }
    }

    /// The slots of the hooks that were there in `epoch`.
    pub fn slots_added_until(&self, epoch: u32) -> u32 {
        self.iter().filter(|hook| hook.epoch <= epoch).fold(0, |slots, hook| slots | hook.bit())
    }

    /// The hook with this handle.
    pub fn find(&self, id: c_longlong) -> Option<&Hook> {
        self.iter().find(|hook| hook.id == id)
    }

    /// The hook that calls this, with this data where it is an extended one.
    pub fn find_callee(&self, callee: Callee, user_data: *mut c_void) -> Option<&Hook> {
        self.iter().find(|hook| hook.is(callee, user_data))
    }

    /// The hook that blocks of this owner have installed.
    ///
    /// The last one, if there are several: an owner that is gone may have had the same address, and
    /// may have begun a block that never ends.
    pub fn last_of_blocks(&self, owner: *mut c_void) -> Option<&Hook> {
        self.iter()
            .filter(|hook| hook.owner == owner && hook.blocks.load(Ordering::Relaxed) != 0)
            .last()
    }

    /// Takes over the hooks of `before`, and puts a new one, which was added in a new epoch, where
    /// `place` says. A neighbour that `place` names is there.
    pub fn copy_with(&mut self, before: Option<&Snapshot>, new: &HookRef, place: Place) {
        if place == Place::First {
            self.push(new.get(), true);
        }
        for (hooks, hook) in before.iter().flat_map(|hooks| hooks.iter().map(move |it| (hooks, it)))
        {
            if place == Place::Before(hook.id) {
                self.push(new.get(), true);
            }
            self.push(hook, hooks.enabled() & hook.bit() != 0);
            if place == Place::Behind(hook.id) {
                self.push(new.get(), true);
            }
        }
        if place == Place::Last {
            self.push(new.get(), true);
        }
        self.epoch = new.get().epoch;
    }

    /// Appends those hooks of `before` that are to stay, as they are.
    pub fn copy(&mut self, before: &Snapshot, stays: impl Fn(&Hook) -> bool) {
        self.epoch = before.epoch;
        for hook in before.iter().filter(|hook| stays(hook)) {
            self.push(hook, before.enabled() & hook.bit() != 0);
        }
    }

    /// Appends, with a new reference to the hook. There is room.
    fn push(&mut self, hook: &Hook, enabled: bool) {
        count_one(&hook.references);
        if let Some(place) = self.hooks[..MOST_HOOKS].get_mut(self.count) {
            *place = core::ptr::from_ref(hook).cast_mut();
            self.count += 1;
        }
        if enabled {
            *self.enabled.get_mut() |= hook.bit();
        }
    }

    /// Enables or disables one of its hooks.
    ///
    /// # Safety
    /// The world is stopped.
    pub unsafe fn set_enabled(&self, hook: &Hook, on: bool) {
        let others = self.enabled() & !hook.bit();
        let own = if on { hook.bit() } else { 0 };
        self.enabled.store(others | own, Ordering::Relaxed);
        hook.set_silent(!on);
    }
}

/// The hooks of a snapshot, in order.
///
/// # Invariants
/// `next` is one of the snapshot's places, up to the NULL behind the last hook.
pub struct Hooks<'a> {
    next: NonNull<*mut Hook>,
    of: PhantomData<&'a Snapshot>,
}

impl<'a> Iterator for Hooks<'a> {
    type Item = &'a Hook;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a Hook> {
        // SAFETY: one of the snapshot's places, by the invariant; its hooks are as live as it is.
        unsafe {
            let hook = self.next.read().as_ref()?;
            self.next = self.next.add(1);
            Some(hook)
        }
    }
}

/// A counted reference to a snapshot.
pub struct SnapshotRef(NonNull<Snapshot>);

impl SnapshotRef {
    /// The hooks now. `None` before the first was added.
    #[inline(always)]
    pub fn current(thread: Thread) -> Option<Self> {
        // SAFETY: the state owns a reference while the pointer is there, and cannot drop it before
        // this thread can be stopped again.
        unsafe {
            let snapshot = NonNull::new((*thread.state()).snapshot.cast::<Snapshot>())?;
            count_one(&snapshot.as_ref().references);
            Some(SnapshotRef(snapshot))
        }
    }

    /// Takes over a reference; `None` where there is none.
    ///
    /// # Safety
    /// `snapshot` is NULL, or a snapshot to which the caller gives up a reference.
    pub unsafe fn from_raw(snapshot: *mut Snapshot) -> Option<Self> {
        NonNull::new(snapshot).map(SnapshotRef)
    }

    #[inline(always)]
    pub fn get(&self) -> &Snapshot {
        // SAFETY: alive while referred to.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SnapshotRef {
    #[inline(always)]
    fn drop(&mut self) {
        if add_to(&self.get().references, u64::MAX) == 1 {
            drop_snapshot(self.0);
        }
    }
}

/// Frees a snapshot that nobody refers to. Hooks may go with it, and then code of their owners
/// runs.
#[cold]
#[inline] // or its symbol would be exported
fn drop_snapshot(snapshot: NonNull<Snapshot>) {
    // SAFETY: nobody else refers to it; it owns a reference to each hook.
    unsafe {
        for i in 0..snapshot.as_ref().count {
            if let Some(hook) = snapshot.as_ref().hooks.get(i).copied().and_then(NonNull::new) {
                drop(HookRef(hook));
            }
        }
        free(snapshot.as_ptr());
    }
}
