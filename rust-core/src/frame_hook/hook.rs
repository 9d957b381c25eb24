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
//! The list changes with the world stopped. A removed hook keeps `next` as it was, with a reference, so that a
//! dispatch that holds the hook reaches the rest of the list.

use super::counted::References;
use super::description::{
    Description, EntryFunction, EventFunction, LoopFunction, TraverseFunction,
};
use crate::cpython as c;
use crate::exception::run_aside;
use crate::frame::VisitFunction;
use crate::in_cpython::GROUP_SIZE;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::thread::{NotStopped, ThreadState};
use core::ffi::{c_char, c_int, c_longlong, c_void};
use core::marker::PhantomData;
use core::mem::forget;
use core::ops::Deref;
use core::ptr::{null_mut, NonNull};

/// A hook.
///
/// # Invariants
/// The memory of `name` belongs to the hook. What is not atomic never changes once the hook is
/// installed. `next` is the next installed hook, or NULL; once the hook is removed it is the next one of
/// then, and the hook owns a reference to that.
pub struct Hook {
    /// Each [`HookRef`], and one for all of `users` together.
    references: References,
    /// Each [`HookInUse`].
    users: References,
    next: AtomicPtr<Hook>,
    pub id: c_longlong,
    /// Its place in sets of hooks.
    pub slot: u32,
    /// The number of hooks ever added when this one was, itself included.
    pub epoch: u32,
    pub on_entry: EntryFunction,
    pub user_data: *mut c_void,
    free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    name: *mut c_char,
    pub timed: bool,
    pub visible: bool,
    pub on_event: Option<EventFunction>,
    #[cfg_attr(any(test, fuzzing), allow(dead_code))]
    pub on_loop: Option<LoopFunction>,
    free_data: Option<unsafe extern "C" fn(*mut c_void)>,
    traverse_data: Option<TraverseFunction>,
    /// The `Thread::number` of the only thread in which it is called.
    pub only_in: Option<u64>,
    /// Why it may not be called for a frame though it is open, or not as others are: bits, and above
    /// them how many frames last for whose callees alone it wants to be called, in any thread.
    special: AtomicU32,
    /// It was removed. Changes with the world stopped, as the next three.
    removed: AtomicBool,
    /// Whether it is enabled apart from blocks.
    pub on: AtomicBool,
    /// How many blocks last that disable it in all threads.
    pub suspensions: AtomicU32,
    /// How many blocks of the owner last; 0: it was added without one.
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

    /// It is disabled or removed: not called, not even by a dispatch that is under way.
    const SILENT: u32 = 1;
    /// It is visible, or its time is measured.
    const APART: u32 = 2;
    /// One frame for whose callees alone it wants to be called.
    const ONE_FRAME: u32 = 4;

    /// Whether it is just called, wherever it is open.
    #[inline(always)]
    pub fn is_ordinary(&self) -> bool {
        self.special.load(Ordering::Relaxed) == 0
    }

    pub fn is_enabled(&self) -> bool {
        self.special.load(Ordering::Relaxed) & Hook::SILENT == 0
    }

    /// Whether it wants to be called for the callees of some frames only.
    pub fn is_for_callees_alone(&self) -> bool {
        self.special.load(Ordering::Relaxed) >= Hook::ONE_FRAME
    }

    /// One frame more, or less, lasts for whose callees alone it wants to be called.
    pub fn count_for_callees_alone(&self, begins: bool) {
        if begins {
            self.special.fetch_add(Hook::ONE_FRAME, Ordering::Relaxed);
        } else {
            self.special.fetch_sub(Hook::ONE_FRAME, Ordering::Relaxed);
        }
    }

    /// Enables or disables it, for dispatches that are under way too.
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

    /// Whether it is called in that thread, unless something else keeps it from that.
    pub fn is_for(&self, thread: ThreadState) -> bool {
        self.only_in.is_none_or(|only| only == thread.number())
    }

    /// The next hook.
    ///
    /// The result is good as long as the caller knows that it is: a reference to this hook makes it so
    /// where that is removed, and otherwise that the thread has not been stopped since.
    #[inline(always)]
    fn next(&self) -> Option<NonNull<Hook>> {
        NonNull::new(self.next.load(Ordering::Relaxed))
    }

    /// A further reference to the block.
    #[inline(always)]
    pub fn share(&self) -> HookRef {
        self.references.share();
        HookRef(NonNull::from(self))
    }

    /// Begins to use it. `None`: it was removed.
    #[inline(always)]
    pub fn enter(&self) -> Option<HookInUse> {
        // An installed hook is in use by the list, and is not removed before this thread is stopped.
        (!self.is_removed()).then(|| {
            self.users.share();
            HookInUse(NonNull::from(self))
        })
    }

    /// Begins to use it, if it is ordinary: such a hook is installed, and so in use by the list.
    #[inline(always)]
    pub fn enter_ordinary(&self) -> Option<HookInUse> {
        self.is_ordinary().then(|| {
            self.users.share();
            HookInUse(NonNull::from(self))
        })
    }

    /// Frees the data of a watch. The thread's exception stays as it is; one that comes out of
    /// this is reported.
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

    /// Whether these are its entry callback and its user data.
    pub fn is(&self, on_entry: EntryFunction, user_data: *mut c_void) -> bool {
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

/// A hook that is not installed yet. Its user data is still the caller's.
///
/// # Invariants
/// Nobody else knows of it.
pub struct NewHook(NonNull<Hook>);

impl NewHook {
    /// `None` without memory.
    pub fn create(description: &Description) -> Option<Self> {
        let bytes = description.name.to_bytes_with_nul();
        // SAFETY: the raw allocator takes any size at any time, and aligns for every type here. The
        // block is ours, and large enough. So is the name's.
        unsafe {
            let room = NonNull::new(c::PyMem_RawMalloc(size_of::<Hook>()).cast::<Hook>())?;
            room.write(Hook {
                references: References::one(),
                users: References::one(),
                next: AtomicPtr::new(null_mut()),
                id: 0,
                slot: 0,
                epoch: 0,
                on_entry: description.on_entry,
                user_data: description.user_data,
                free_user_data: description.free_user_data,
                name: null_mut(),
                timed: description.timed,
                visible: description.visible,
                on_event: description.on_event,
                on_loop: description.on_loop,
                free_data: description.free_data,
                traverse_data: description.traverse_data,
                only_in: description.only_in,
                special: AtomicU32::new(if description.timed || description.visible {
                    Hook::APART
                } else {
                    0
                }),
                removed: AtomicBool::new(false),
                on: AtomicBool::new(true),
                suspensions: AtomicU32::new(0),
                blocks: AtomicU32::new(u32::from(description.owner != 0)),
                owner: description.owner,
                calls: AtomicU64::new(0),
                replacements: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                nanoseconds: AtomicU64::new(0),
            });
            let new = NewHook(room);
            let name = c::PyMem_RawMalloc(bytes.len()).cast::<c_char>();
            if name.is_null() {
                return None;
            }
            name.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            (*room.as_ptr()).name = name;
            Some(new)
        }
    }

    pub fn get(&self) -> &Hook {
        // SAFETY: alive while it is ours.
        unsafe { self.0.as_ref() }
    }

    /// Gives the hook its handle and its slot. The user data is its own from now on.
    pub fn identify(self, id: c_longlong, slot: u32, epoch: u32) -> HookInUse {
        let hook = self.0;
        forget(self);
        // SAFETY: nobody else knows of it, by the invariant.
        unsafe {
            (*hook.as_ptr()).id = id;
            (*hook.as_ptr()).slot = slot;
            (*hook.as_ptr()).epoch = epoch;
        }
        // INVARIANT: the one use is the caller's.
        HookInUse(hook)
    }

    /// Has the user data freed of a hook that is not wanted after all.
    ///
    /// # Safety
    /// The data is the hook's; the thread is attached, and holds no lock.
    pub unsafe fn free_user_data(self) {
        // SAFETY: the caller says that the data is the hook's, and that the thread is attached,
        // without a lock. Nothing else knows of the hook, so the data is freed this once.
        unsafe { free_user_data(self.get()) };
    }
}

impl Drop for NewHook {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: nobody else knows of it, by the invariant.
        unsafe { free_block(self.0) };
    }
}

/// # Safety
/// Nobody refers to the hook any more.
#[inline] // or its symbol would be exported
unsafe fn free_block(hook: NonNull<Hook>) {
    // SAFETY: the caller says that nothing refers to the hook any more. Both blocks came from the
    // raw allocator, or are NULL.
    unsafe {
        c::PyMem_RawFree(hook.as_ref().name.cast());
        c::PyMem_RawFree(hook.as_ptr().cast());
    }
}

/// Has the user data freed. The thread's exception stays as it is; one that comes out of this is
/// reported.
///
/// # Safety
/// The data is the hook's and is freed this once, the thread is attached, and no lock is held.
#[inline] // or its symbol would be exported
unsafe fn free_user_data(hook: &Hook) {
    let Some(free_user_data) = hook.free_user_data else { return };
    // SAFETY: the hook's owner says that `free_user_data` takes its data; the caller says that it
    // is freed this once, by an attached thread without a lock, as any code may run.
    unsafe {
        let text = c"Exception ignored in free_user_data of frame hook %s".as_ptr();
        run_aside(
            || free_user_data(hook.user_data),
            || c::PyErr_FormatUnraisable(text, hook.name()),
        );
    }
}

/// A reference to a hook's block. The hook may have been removed, and then its user data is gone.
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
        if self.get().references.give_up() {
            // SAFETY: the last reference is gone.
            unsafe { free_chain(self.0) };
        }
    }
}

/// Frees a hook, and those behind it that nothing else refers to. Runs no code of others.
///
/// # Safety
/// The last reference to the hook is gone, so it was removed.
#[cold]
#[inline] // or its symbol would be exported
unsafe fn free_chain(hook: NonNull<Hook>) {
    let mut at = Some(hook);
    while let Some(hook) = at {
        // SAFETY: the last reference is gone. A removed hook owns one to the next, which is given up here.
        unsafe {
            at = hook.as_ref().next().filter(|next| next.as_ref().references.give_up());
            free_block(hook);
        }
    }
}

/// A hook that may be called: its user data is there.
pub struct HookInUse(NonNull<Hook>);

impl HookInUse {
    pub fn get(&self) -> &Hook {
        // SAFETY: the users together own a reference.
        unsafe { self.0.as_ref() }
    }

    /// Ends the use of a hook that is ordinary, in one step: the hooks behind it. `Err`: it is of another kind, or was
    /// removed.
    #[inline(always)]
    pub fn leave_ordinary(self, _quiet: &NotStopped) -> Result<Hooks<'_>, Self> {
        if !self.get().is_ordinary() {
            return Err(self);
        }
        // Ordinary, so it is installed: the list uses it too, and changes when `_quiet` is over.
        let _ = self.get().users.give_up();
        let at = self.get().next();
        forget(self);
        Ok(Hooks { at, list: PhantomData })
    }

    /// Ends the use, and begins that of the next hook that was added until `epoch`. Code of the hook's
    /// owner may run where the hook was removed.
    pub fn into_next(self, epoch: u32) -> Option<HookInUse> {
        // SAFETY: this one is referred to until the next is entered.
        unsafe { first_in_use(self.get().next(), epoch) }
    }

    fn into_raw(self) -> NonNull<Hook> {
        let hook = self.0;
        forget(self);
        hook
    }
}

impl Drop for HookInUse {
    #[inline]
    fn drop(&mut self) {
        if self.get().users.give_up() {
            // SAFETY: nothing uses it any more, so it was removed. Who drops it is attached and holds no
            // lock. The reference was that of all users.
            unsafe { retire(self.0) };
        }
    }
}

/// Has the user data of a hook freed, and gives up the users' reference.
///
/// # Safety
/// Nothing uses the hook any more; attached, and no lock is held.
#[cold]
#[inline] // or its symbol would be exported
unsafe fn retire(hook: NonNull<Hook>) {
    let last = HookRef(hook);
    // SAFETY: the caller says that nothing uses the hook any more, so its data is freed this once;
    // the thread is attached, and holds no lock. `last` keeps the block.
    unsafe { free_user_data(last.get()) };
}

/// The first hook from `at` on that is installed and was added until `epoch`.
///
/// # Safety
/// `at` is in the list, or was and is referred to.
pub unsafe fn first_in_use(mut at: Option<NonNull<Hook>>, epoch: u32) -> Option<HookInUse> {
    // SAFETY: the caller says that `at` is in the list, or was and is referred to. Nothing here
    // waits or runs Python code, so an installed hook stays; a removed one owns a reference to the
    // next.
    unsafe {
        while let Some(hook) = at {
            let hook = hook.as_ref();
            if hook.epoch <= epoch {
                if let Some(in_use) = hook.enter() {
                    return Some(in_use);
                }
            }
            at = hook.next();
        }
        None
    }
}

/// A hook that is in the list, and stays there while it is borrowed.
#[derive(Clone, Copy)]
pub struct Installed<'a>(&'a Hook);

impl Installed<'_> {
    /// Begins to use it.
    #[inline(always)]
    pub fn enter(self) -> HookInUse {
        self.users.share();
        HookInUse(NonNull::from(self.0))
    }
}

impl Deref for Installed<'_> {
    type Target = Hook;

    #[inline(always)]
    fn deref(&self) -> &Hook {
        self.0
    }
}

/// The installed hooks in order.
///
/// # Invariants
/// `at` is NULL or in the list, which does not change as long as the [`NotStopped`] from which this is borrowed is
/// there.
#[derive(Clone, Copy)]
pub struct Hooks<'a> {
    at: Option<NonNull<Hook>>,
    list: PhantomData<&'a NotStopped>,
}

impl<'a> Hooks<'a> {
    /// # Safety
    /// *first*: it begins the list of the calling thread's interpreter, or is NULL.
    #[inline(always)]
    pub unsafe fn from(first: *mut c_void, _quiet: &'a NotStopped) -> Self {
        // INVARIANT: *first*, and the list changes with the world stopped.
        Hooks { at: NonNull::new(first.cast()), list: PhantomData }
    }
}

impl<'a> Iterator for Hooks<'a> {
    type Item = Installed<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Installed<'a>> {
        // SAFETY: in the list, by the invariant, so it is live and stays as long as it is borrowed.
        let hook = unsafe { self.at?.as_ref() };
        self.at = hook.next();
        Some(Installed(hook))
    }
}

/// What leads to a hook in the list: the list's beginning, or the hook before it.
#[derive(Clone, Copy)]
pub enum Link<'a> {
    First(*mut *mut c_void),
    Behind(&'a Hook),
}

impl<'a> Link<'a> {
    /// # Safety
    /// The world is stopped, and the list is live.
    unsafe fn lead_to(self, hook: *mut Hook) {
        match self {
            // SAFETY: the interpreter's own field.
            Link::First(place) => unsafe { place.write(hook.cast()) },
            Link::Behind(before) => before.next.store(hook, Ordering::Relaxed),
        }
    }

    /// # Safety
    /// The world is stopped, and the list is live.
    pub unsafe fn hook(self) -> Option<&'a Hook> {
        // SAFETY: the world is stopped, says the caller, so no other thread changes or frees the
        // list.
        unsafe {
            match self {
                Link::First(place) => place.read().cast::<Hook>().as_ref(),
                Link::Behind(before) => before.next().map(|next| next.as_ref()),
            }
        }
    }

    /// Puts a hook here, before the one to which this leads.
    ///
    /// # Safety
    /// The world is stopped, and the list is live.
    pub unsafe fn put(self, new: HookInUse) {
        // SAFETY: the world is stopped, says the caller, so no other thread walks the list. It uses
        // the hook from now on.
        unsafe {
            let behind = self.hook().map_or(null_mut(), |hook| (&raw const *hook).cast_mut());
            let new = new.into_raw();
            new.as_ref().next.store(behind, Ordering::Relaxed);
            self.lead_to(new.as_ptr());
        }
    }

    /// Takes out the hook to which this leads, and hands out the list's use of it.
    ///
    /// # Safety
    /// As above, and there is one.
    pub unsafe fn take(self) -> Option<HookInUse> {
        // SAFETY: the world is stopped, says the caller, so no other thread walks the list. The
        // removed hook keeps its way on, with a reference.
        unsafe {
            let hook = self.hook()?;
            let next = hook.next();
            if let Some(next) = next {
                next.as_ref().references.share();
            }
            self.lead_to(next.map_or(null_mut(), NonNull::as_ptr));
            hook.set_enabled(false);
            hook.removed.store(true, Ordering::Relaxed);
            Some(HookInUse(NonNull::from(hook)))
        }
    }
}
