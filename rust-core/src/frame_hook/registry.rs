//! The hooks of an interpreter, in order.
//!
//! What a round of hooks reads is a [`Snapshot`], whose list never changes; adding and
//! removing put another one in its place, with the world stopped. A round holds a
//! reference to the snapshot that it began with, so hooks may come and go meanwhile. A
//! hook lives as long as a snapshot that has it.
//!
//! Removing a hook needs no memory: each brings the snapshot that takes its place.
//!
//! Reading the current snapshot takes no lock: between reading the pointer and
//! counting the reference there is no point at which a thread can be stopped.

use super::error::{Outcome, Raised};
use super::state::{SlotMask, MOST_HOOKS};
use super::verdict;
use super::Thread;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject};
use crate::exception::run_aside;
use core::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Adds to a counter. With the GIL that needs no atomic instruction.
#[inline(always)]
pub fn add_to(counter: &AtomicU64, amount: u64) -> u64 {
    if cfg!(ferrule_free_threaded) {
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

/// What is called.
#[derive(Clone, Copy)]
pub enum Callee {
    Simple(SimpleHook),
    Extended(ExtendedHook),
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
    /// Whose blocks install it, by any address that is his own; NULL: it is installed without a block.
    pub owner: *mut c_void,
}

/// An installed hook.
///
/// # Invariants
/// `name` is ours. `references` counts the snapshots that have the hook, and
/// whoever is about to put it into one. What is not atomic never changes once the hook is in a
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
    /// Not to be asked, in a round that is under way neither.
    silent: AtomicBool,
    /// Whether it is to be asked where no block says otherwise. Changes with the world stopped,
    /// as the next three.
    pub on: AtomicBool,
    /// How many blocks last in which it is not to be asked.
    pub suspensions: AtomicU32,
    /// How many blocks of the owner last; 0: it was added without one.
    blocks: AtomicU32,
    owner: *mut c_void,
    /// The snapshot for its removal; NULL once that has been.
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

    #[inline(always)]
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn bit(&self) -> u32 {
        1 << self.slot
    }

    /// Has the user data freed. The thread's exception stays as it is; one that comes out of this is reported.
    ///
    /// # Safety
    /// The data is the hook's and is freed this once, the thread is attached, and no lock is held.
    #[inline] // or its symbol would be exported
    unsafe fn free_user_data(&self) {
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

    fn is(&self, callee: Callee, user_data: *mut c_void) -> bool {
        match (self.callee, callee) {
            (Callee::Simple(one), Callee::Simple(other)) => core::ptr::fn_addr_eq(one, other),
            (Callee::Extended(one), Callee::Extended(other)) => {
                core::ptr::fn_addr_eq(one, other) && self.user_data == user_data
            }
            _ => false,
        }
    }
}

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
struct NewHook(NonNull<Hook>);

impl NewHook {
    /// `None` without memory.
    fn create(description: &Description) -> Option<Self> {
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
                silent: AtomicBool::new(false),
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

    /// Gives the hook its place among the others. The user data is its own from now on.
    fn place(self, id: c_longlong, slot: u32, epoch: u32) -> HookRef {
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
struct HookRef(NonNull<Hook>);

impl HookRef {
    fn get(&self) -> &Hook {
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
    // SAFETY: nobody refers to the hook any more, and whoever drops a snapshot is attached and holds no lock.
    unsafe {
        hook.as_ref().free_user_data();
        free_hook(hook);
    }
}

/// The hooks at one moment.
///
/// # Invariants
/// `hooks[..count]` are live, and the snapshot owns a reference to each. Nothing
/// but `references` and `enabled` changes once the snapshot can be seen.
pub struct Snapshot {
    references: AtomicU64,
    epoch: u32,
    /// The slots of the hooks that are enabled. Changes with the world stopped.
    enabled: AtomicU32,
    count: usize,
    hooks: [*mut Hook; MOST_HOOKS],
}

/// A snapshot that nobody has seen yet; empty at first.
struct NewSnapshot(NonNull<Snapshot>);

impl NewSnapshot {
    fn into_raw(self) -> *mut Snapshot {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// The one reference to it, for who publishes it.
    fn into_ref(self) -> SnapshotRef {
        let snapshot = self.0;
        core::mem::forget(self);
        SnapshotRef(snapshot)
    }

    fn get_mut(&mut self) -> &mut Snapshot {
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
    fn allocate() -> Option<NewSnapshot> {
        // SAFETY: the raw allocator takes any size at any time; zeros are valid for every field.
        let snapshot = unsafe { c::PyMem_RawCalloc(1, size_of::<Snapshot>()) }.cast::<Snapshot>();
        let snapshot = NewSnapshot(NonNull::new(snapshot)?);
        // SAFETY: ours.
        unsafe { (*snapshot.0.as_ptr()).references = AtomicU64::new(1) };
        Some(snapshot)
    }

    /// The snapshot of now, which the interpreter's state keeps alive. `None` before the first hook.
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
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        let hooks = self.hooks.get(..self.count).unwrap_or_default();
        // SAFETY: live by the type's invariant.
        hooks.iter().map(|hook| unsafe { &**hook })
    }

    /// The slots of the hooks that were there in `epoch`.
    #[inline] // or its symbol would be exported
    pub fn slots_added_until(&self, epoch: u32) -> u32 {
        self.iter().filter(|hook| hook.epoch <= epoch).fold(0, |slots, hook| slots | hook.bit())
    }

    /// The hook with this handle.
    #[inline] // or its symbol would be exported
    pub fn find(&self, id: c_longlong) -> Option<&Hook> {
        self.iter().find(|hook| hook.id == id)
    }

    /// The hook that calls this, with this data where it is an extended one.
    #[inline] // or its symbol would be exported
    pub fn find_callee(&self, callee: Callee, user_data: *mut c_void) -> Option<&Hook> {
        self.iter().find(|hook| hook.is(callee, user_data))
    }

    /// The hook that blocks of this owner have installed.
    ///
    /// The last one: whoever had the same address before may have begun a block that never ends.
    #[inline] // or its symbol would be exported
    fn last_of_blocks(&self, owner: *mut c_void) -> Option<&Hook> {
        self.iter()
            .filter(|hook| hook.owner == owner && hook.blocks.load(Ordering::Relaxed) != 0)
            .last()
    }

    /// Appends, with a new reference to the hook. There is room.
    fn push(&mut self, hook: &Hook, enabled: bool) {
        count_one(&hook.references);
        if let Some(place) = self.hooks.get_mut(self.count) {
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
        hook.silent.store(!on, Ordering::Relaxed);
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

/// Frees a snapshot that nobody refers to. Hooks may go with it, and then code of their owners runs.
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

/// Runs `work` while no other thread of the interpreter runs. It calls nothing that may run Python
/// code, free an object or wait.
pub fn locked<T>(thread: Thread, work: impl FnOnce() -> T) -> T {
    let interpreter = thread.interpreter();
    // SAFETY: the interpreter is this thread's own.
    unsafe { c::_PyEval_StopTheWorld(interpreter) };
    let result = work();
    // SAFETY: stopped above.
    unsafe { c::_PyEval_StartTheWorld(interpreter) };
    result
}

/// Why a change could not be made, told apart while the world is stopped and
/// raised when it runs again.
pub enum Refusal {
    NoMemory,
    TooMany,
    Duplicate,
    Unknown,
    Closed,
    Exhausted,
}

impl Refusal {
    #[cold]
    pub fn raise(self, thread: Thread) -> Raised {
        match self {
            Refusal::NoMemory => Raised::no_memory(thread),
            Refusal::TooMany => Raised::runtime_error(
                thread,
                c"32 frame hooks are installed, and no more can be: remove one first",
            ),
            Refusal::Duplicate => {
                Raised::value_error(thread, c"this frame hook is installed already")
            }
            Refusal::Unknown => Raised::value_error(thread, c"this frame hook is not installed"),
            Refusal::Closed => Raised::runtime_error(
                thread,
                c"frame hooks cannot be added while the interpreter ends",
            ),
            Refusal::Exhausted => Raised::runtime_error(
                thread,
                c"this interpreter has seen four billion frame hooks, and no more can be added",
            ),
        }
    }
}

/// Puts `new` in the place of the interpreter's snapshot, and hands out the old one. It is to be
/// dropped with the world running: that may run any code.
///
/// # Safety
/// The world is stopped.
unsafe fn publish(thread: Thread, new: NewSnapshot) -> Option<SnapshotRef> {
    let state = thread.state();
    let new = new.into_ref();
    // SAFETY: the state is live, and nobody else runs. It owns the reference to the new one now.
    unsafe {
        (*state).active = new.get().enabled() != 0;
        let old = core::mem::replace(&mut (*state).snapshot, new.0.as_ptr().cast());
        core::mem::forget(new);
        NonNull::new(old.cast()).map(SnapshotRef)
    }
}

/// Adds a hook behind the others; its handle. Where a block of the same owner has it installed, this is
/// one block more, and the user data is freed: the hook has such data already.
pub fn add(thread: Thread, description: &Description) -> Outcome<c_longlong> {
    if is_closed(thread) {
        return Err(Refusal::Closed.raise(thread));
    }
    verdict::reserve(thread).map_err(|error| Raised::by_code_extra(thread, error))?;
    let (mut hook, mut new) = (NewHook::create(description), Snapshot::allocate());
    if hook.is_none() || new.is_none() {
        return Err(Refusal::NoMemory.raise(thread));
    }
    // SAFETY: the world is stopped.
    let installed = locked(thread, || unsafe { install(thread, &mut hook, &mut new) });
    // What was not used is dropped here, and the old snapshot, with the world running.
    match installed {
        Ok((id, _old)) => {
            if let Some(unused) = &hook {
                // SAFETY: nobody else knows of it.
                unsafe { unused.0.as_ref().free_user_data() };
            }
            Ok(id)
        }
        Err(refusal) => Err(refusal.raise(thread)),
    }
}

/// Puts a new hook into a new snapshot, and that into its place: the handle, and the old snapshot.
///
/// # Safety
/// The world is stopped. There are a hook and a snapshot; each is taken if it is used.
unsafe fn install(
    thread: Thread,
    hook: &mut Option<NewHook>,
    new: &mut Option<NewSnapshot>,
) -> Result<(c_longlong, Option<SnapshotRef>), Refusal> {
    let state = thread.state();
    // SAFETY: the state is live, and nobody else runs.
    let (closed, last_id, last_epoch) =
        unsafe { ((*state).closed, (*state).last_id, (*state).epoch) };
    if closed {
        return Err(Refusal::Closed);
    }
    // SAFETY: nothing below may wait, or run Python code.
    let before = unsafe { Snapshot::borrowed(thread) };
    // SAFETY: alive while it is ours.
    let wanted = hook.as_ref().map(|hook| unsafe { hook.0.as_ref() }).ok_or(Refusal::NoMemory)?;
    let same = before.and_then(|hooks| hooks.find_callee(wanted.callee, wanted.user_data));
    if let Some(same) = same {
        let blocks = same.blocks.load(Ordering::Relaxed);
        if blocks == 0 || same.owner != wanted.owner {
            return Err(Refusal::Duplicate);
        }
        same.blocks.store(blocks + 1, Ordering::Relaxed);
        return Ok((same.id, None));
    }
    let used = before.map_or(0, |hooks| hooks.iter().fold(0, |slots, hook| slots | hook.bit()));
    if used == u32::MAX {
        return Err(Refusal::TooMany);
    }
    if last_epoch >= SlotMask::EVERYBODY.epoch - 1 {
        return Err(Refusal::Exhausted);
    }
    let (Some(hook), Some(mut new)) = (hook.take(), new.take()) else {
        return Err(Refusal::NoMemory);
    };
    let after = new.get_mut();
    if let Some(before) = before {
        copy(before, after, |_| true);
    }
    let (id, epoch) = (last_id + 1, last_epoch + 1);
    let hook = hook.place(id, used.trailing_ones(), epoch);
    after.epoch = epoch;
    after.push(hook.get(), true);
    // SAFETY: the state is live, and nobody else runs. The hook's own reference is one of two now.
    unsafe {
        (*state).last_id = id;
        (*state).epoch = epoch;
        let old = publish(thread, new);
        unsettle(thread);
        Ok((id, old))
    }
}

/// Appends those hooks of `before` that are to stay, as they are.
fn copy(before: &Snapshot, after: &mut Snapshot, stays: impl Fn(&Hook) -> bool) {
    after.epoch = before.epoch;
    for hook in before.iter().filter(|hook| stays(hook)) {
        after.push(hook, before.enabled() & hook.bit() != 0);
    }
}

/// Removes the hooks that `goes` says, and hands out the snapshot with them; `None`: there is none.
/// Needs no memory.
///
/// # Safety
/// The world is stopped.
unsafe fn take_out(thread: Thread, goes: impl Fn(&Hook) -> bool) -> Option<SnapshotRef> {
    // SAFETY: nothing below may wait, or run Python code, and the world is stopped.
    unsafe {
        let before = Snapshot::borrowed(thread)?;
        let first = before.iter().find(|hook| goes(hook))?;
        // Each hook's removal has one; the first that goes may serve for others that go with it.
        let reserve = first.reserve.swap(null_mut(), Ordering::Relaxed);
        let mut new = NewSnapshot(NonNull::new(reserve)?);
        for hook in before.iter().filter(|hook| goes(hook)) {
            hook.silent.store(true, Ordering::Relaxed);
        }
        copy(before, new.get_mut(), |hook| !goes(hook));
        publish(thread, new)
    }
}

/// [`take_out`] with the world stopped for it; whether there was one.
fn remove_those(thread: Thread, goes: impl Fn(&Hook) -> bool) -> bool {
    // SAFETY: the world is stopped.
    let old = locked(thread, || unsafe { take_out(thread, goes) });
    // Dropped here, with the world running: that may free hooks, and call whatever their owners
    // want to have called.
    old.is_some()
}

/// Removes the hook with this handle.
pub fn remove(thread: Thread, id: c_longlong) -> Outcome<()> {
    if remove_those(thread, |hook| hook.id == id) {
        Ok(())
    } else {
        Err(Refusal::Unknown.raise(thread))
    }
}

/// Removes every hook.
pub fn clear(thread: Thread) {
    remove_those(thread, |_| true);
}

/// The end of a block of this owner: the handle of its hook, which the last such end removes. `None`:
/// somebody else has removed it already. Needs no memory.
pub fn leave(thread: Thread, owner: *mut c_void) -> Option<c_longlong> {
    let (id, _old) = locked(thread, || {
        // SAFETY: nothing below may wait, or run Python code.
        let hook = unsafe { Snapshot::borrowed(thread) }?.last_of_blocks(owner)?;
        let blocks = hook.blocks.load(Ordering::Relaxed) - 1;
        hook.blocks.store(blocks, Ordering::Relaxed);
        let id = hook.id;
        if blocks != 0 {
            return Some((id, None));
        }
        // SAFETY: the world is stopped.
        Some((id, unsafe { take_out(thread, |hook| hook.id == id) }))
    })?;
    // The old snapshot is dropped here, with the world running.
    Some(id)
}

/// The handle of the hook that blocks of this owner have installed.
pub fn id_in_blocks(thread: Thread, owner: *mut c_void) -> Option<c_longlong> {
    // SAFETY: nothing below may wait, or run Python code.
    unsafe { Snapshot::borrowed(thread) }?.last_of_blocks(owner).map(|hook| hook.id)
}

/// Makes every code object be asked about once more.
///
/// # Safety
/// The world is stopped.
pub unsafe fn unsettle(thread: Thread) {
    // SAFETY: this thread's own state, with the world stopped. The exception that is set, if any, stays.
    unsafe {
        let pending = c::PyErr_GetRaisedException();
        if c::_PyRust_UnsettleAllCode(thread.tstate()) != 0 {
            // No memory to instrument what executes now. That is done when it is called next.
            c::PyErr_Clear();
        }
        c::PyErr_SetRaisedException(pending);
    }
}

/// Whether the interpreter ends, and takes no more hooks.
pub fn is_closed(thread: Thread) -> bool {
    // SAFETY: the state is live; the field changes with the world stopped.
    unsafe { (*thread.state()).closed }
}

/// The interpreter ends: removes every hook. No hook can be added any more.
pub fn close(thread: Thread) {
    // SAFETY: the state is live, and nobody else runs meanwhile.
    locked(thread, || unsafe { (*thread.state()).closed = true });
    clear(thread);
    let last = locked(thread, || {
        // SAFETY: as above. Rounds that are under way have references of their own.
        let last = unsafe { core::mem::replace(&mut (*thread.state()).snapshot, null_mut()) };
        NonNull::new(last.cast()).map(SnapshotRef)
    });
    drop(last);
}
