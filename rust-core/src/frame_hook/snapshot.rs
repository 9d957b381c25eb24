//! The hooks of an interpreter at one moment.
//!
//! What a round of hooks reads is a [`Snapshot`], whose list never changes. Adding and
//! removing put another one in its place, with the world stopped. A round holds a
//! reference to the snapshot that it began with, so hooks may come and go meanwhile. A
//! hook lives as long as a snapshot that has it.
//!
//! Reading the current snapshot takes no lock: between reading the pointer and
//! counting the reference there is no point at which a thread can be stopped.
//!
//! Removing a hook needs no memory: the current snapshot has an empty one in spare for each of its
//! hooks.

use super::description::{Callee, Place};
use super::hook::{add_to, count_one, free, Hook, HookRef};
use crate::cpython as c;
use crate::in_cpython::MOST_HOOKS;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::thread::Thread;
use core::ffi::{c_longlong, c_void};
use core::marker::PhantomData;
use core::ptr::{null_mut, NonNull};

/// The hooks at one moment.
///
/// # Invariants
/// `hooks[..count]` are live, and the snapshot owns a reference to each; NULL follows. Nothing
/// but `references`, `enabled` and `spare` changes once the snapshot can be seen.
///
/// `spare` and its own `spare`, and so on, are empty and known to nobody else. The current snapshot
/// has `count` of them; one that was replaced has none.
pub struct Snapshot {
    references: AtomicU64,
    epoch: u32,
    /// The slots of the hooks that are enabled. Changes with the world stopped.
    enabled: AtomicU32,
    /// An empty one, for the removal of a hook; NULL behind the last. Changes with the world
    /// stopped.
    spare: AtomicPtr<Snapshot>,
    count: usize,
    hooks: [*mut Hook; MOST_HOOKS + 1],
}

/// A snapshot that nobody has seen yet; empty at first.
///
/// # Invariants
/// Nobody else knows of it.
pub struct NewSnapshot(NonNull<Snapshot>);

impl NewSnapshot {
    /// The one reference to it, which is the caller's from now on.
    pub fn into_raw(self) -> *mut Snapshot {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    pub fn get_mut(&mut self) -> &mut Snapshot {
        // SAFETY: nobody else knows of it, by the invariant.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for NewSnapshot {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: nobody else knows of it, by the invariant, nor of what it has in spare; what is
        // taken out has none itself. All are empty: one is filled and published in one go.
        unsafe {
            while let Some(spare) = self.get_mut().pop_spare() {
                free(spare.into_raw());
            }
            free(self.0.as_ptr());
        }
    }
}

impl Snapshot {
    /// One for the addition of a hook, with another in spare for the removal. `None` without memory.
    pub fn with_spare() -> Option<NewSnapshot> {
        let (mut new, spare) = (Self::allocate()?, Self::allocate()?);
        new.get_mut().spare = AtomicPtr::new(spare.into_raw());
        Some(new)
    }

    fn allocate() -> Option<NewSnapshot> {
        // SAFETY: the raw allocator takes any size at any time; zeros are valid for every field.
        let snapshot = unsafe { c::PyMem_RawCalloc(1, size_of::<Snapshot>()) }.cast::<Snapshot>();
        let mut snapshot = NewSnapshot(NonNull::new(snapshot)?);
        snapshot.get_mut().references = AtomicU64::new(1);
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

    /// An empty one, for the removal of a hook of this one, which is current.
    ///
    /// # Safety
    /// The world is stopped, or nobody else knows of this one.
    #[inline] // or its symbol would be exported
    pub unsafe fn pop_spare(&self) -> Option<NewSnapshot> {
        let first = NonNull::new(self.spare.load(Ordering::Relaxed))?;
        // SAFETY: live, and known to nobody else, by the invariant; nobody else takes it meanwhile, by
        // contract.
        let rest = unsafe { first.as_ref() }.spare.swap(null_mut(), Ordering::Relaxed);
        self.spare.store(rest, Ordering::Relaxed);
        // INVARIANT: this one does not know of it any more, either.
        Some(NewSnapshot(first))
    }

    /// Takes over what `before` has in spare, behind its own one if it has one.
    ///
    /// # Safety
    /// The world is stopped.
    unsafe fn take_spares_of(&mut self, before: &Snapshot) {
        let spares = before.spare.swap(null_mut(), Ordering::Relaxed);
        // SAFETY: NULL or live, and known to nobody else, by the invariant.
        let own = unsafe { self.spare.load(Ordering::Relaxed).as_ref() };
        own.map_or(&self.spare, |own| &own.spare).store(spares, Ordering::Relaxed);
    }

    /// Takes over the hooks of `before`, and puts a new one, which was added in a new epoch, where
    /// `place` says. A neighbour that `place` names is there.
    ///
    /// # Safety
    /// The world is stopped.
    pub unsafe fn copy_with(&mut self, before: Option<&Snapshot>, new: &HookRef, place: Place) {
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
        if let Some(before) = before {
            // SAFETY: the caller's contract.
            unsafe { self.take_spares_of(before) };
        }
    }

    /// Takes over those hooks of `before` that are to stay, as they are. This one was a spare of it.
    ///
    /// # Safety
    /// The world is stopped.
    pub unsafe fn copy(&mut self, before: &Snapshot, stays: impl Fn(&Hook) -> bool) {
        self.epoch = before.epoch;
        for hook in before.iter().filter(|hook| stays(hook)) {
            self.push(hook, before.enabled() & hook.bit() != 0);
        }
        // SAFETY: the caller's contract.
        unsafe {
            self.take_spares_of(before);
            // Where several hooks go, their other spares do.
            for _ in self.count + 1..before.count {
                drop(self.pop_spare());
            }
        }
    }

    /// Appends, with a new reference to the hook. There is room.
    fn push(&mut self, hook: &Hook, enabled: bool) {
        if let Some(place) = self.hooks[..MOST_HOOKS].get_mut(self.count) {
            *place = hook.share().into_raw();
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
                drop(HookRef::from_raw(hook));
            }
        }
        free(snapshot.as_ptr());
    }
}
