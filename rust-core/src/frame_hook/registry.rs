//! The hooks of an interpreter, in order.
//!
//! What a round of hooks reads is a [`Snapshot`], which never changes; adding,
//! removing, enabling and disabling put another one in its place, with the world
//! stopped. A round holds a reference to the snapshot that it began with, so hooks
//! may come and go meanwhile. A hook lives as long as a snapshot that has it.
//!
//! Reading the current snapshot takes no lock: between reading the pointer and
//! counting the reference there is no point at which a thread can be stopped.

use super::error::{Outcome, Raised};
use super::verdict;
use super::{FrameHookState, Thread};
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject};
use core::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many hooks an interpreter can have: as many as a `SlotMask` has slots.
pub const MOST_HOOKS: usize = 32;

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
    pub name: &'a CStr,
    /// Whether to measure the time that it takes.
    pub timed: bool,
}

/// An installed hook.
///
/// # Invariants
/// `name` is ours. `references` counts the snapshots that have the hook, and
/// whoever is about to put it into one.
pub struct Hook {
    references: AtomicU64,
    pub id: c_longlong,
    pub slot: u32,
    /// The number of hooks ever added when this one was, itself included.
    epoch: u32,
    pub callee: Callee,
    pub user_data: *mut c_void,
    free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Adding it has failed, so `user_data` is still the caller's.
    disowned: AtomicBool,
    name: *mut c_char,
    pub timed: bool,
    /// Not to be asked any more, in a round that is under way neither.
    silent: AtomicBool,
    pub calls: AtomicU64,
    pub replacements: AtomicU64,
    pub errors: AtomicU64,
    pub nanoseconds: AtomicU64,
}

impl Hook {
    fn create(description: &Description, id: c_longlong, slot: u32, epoch: u32) -> Option<HookRef> {
        let bytes = description.name.to_bytes_with_nul();
        // SAFETY: the raw allocator takes any size at any time.
        let name = NonNull::new(unsafe { c::PyMem_RawMalloc(bytes.len()) })?.cast::<c_char>();
        // SAFETY: as above.
        let hook = unsafe { c::PyMem_RawMalloc(size_of::<Hook>()) }.cast::<Hook>();
        let Some(hook) = NonNull::new(hook) else {
            // SAFETY: allocated above.
            unsafe { c::PyMem_RawFree(name.as_ptr().cast()) };
            return None;
        };
        // SAFETY: both blocks are ours and large enough; malloc aligns for both.
        unsafe {
            name.as_ptr().copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            hook.write(Hook {
                references: AtomicU64::new(1),
                id,
                slot,
                epoch,
                callee: description.callee,
                user_data: description.user_data,
                free_user_data: description.free_user_data,
                disowned: AtomicBool::new(false),
                name: name.as_ptr(),
                timed: description.timed,
                silent: AtomicBool::new(false),
                calls: AtomicU64::new(0),
                replacements: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                nanoseconds: AtomicU64::new(0),
            });
        }
        // INVARIANT: the one reference is the caller's.
        Some(HookRef(hook))
    }

    /// The name, for messages.
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
        if add_to(&self.get().references, u64::MAX) != 1 {
            return;
        }
        let user_data = self.get().user_data;
        let free =
            self.get().free_user_data.filter(|_| !self.get().disowned.load(Ordering::Relaxed));
        // SAFETY: nobody refers to the hook any more; both blocks came from the
        // raw allocator.
        unsafe {
            c::PyMem_RawFree(self.get().name.cast());
            c::PyMem_RawFree(self.0.as_ptr().cast());
        }
        if let Some(free) = free {
            // SAFETY: the contract of whoever added the hook.
            unsafe { free(user_data) };
        }
    }
}

/// The hooks at one moment.
///
/// # Invariants
/// `hooks[..count]` are live, and the snapshot owns a reference to each. Nothing
/// but `references` changes once the snapshot can be seen.
pub struct Snapshot {
    references: AtomicU64,
    epoch: u32,
    /// The slots of the hooks that are enabled.
    enabled: u32,
    count: usize,
    hooks: [*mut Hook; MOST_HOOKS],
}

impl Snapshot {
    /// An empty one, with one reference.
    fn allocate(epoch: u32) -> Option<NonNull<Snapshot>> {
        // SAFETY: the raw allocator takes any size at any time.
        let snapshot = unsafe { c::PyMem_RawCalloc(1, size_of::<Snapshot>()) }.cast::<Snapshot>();
        let snapshot = NonNull::new(snapshot)?;
        // SAFETY: ours, and zeros are valid for every field.
        unsafe {
            (*snapshot.as_ptr()).references = AtomicU64::new(1);
            (*snapshot.as_ptr()).epoch = epoch;
        }
        Some(snapshot)
    }

    #[inline(always)]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The slots of the enabled hooks.
    #[inline(always)]
    pub fn enabled(&self) -> u32 {
        self.enabled
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

    /// The simple hook that is this function.
    #[inline] // or its symbol would be exported
    pub fn find_simple(&self, function: SimpleHook) -> Option<&Hook> {
        self.iter().find(|hook| match hook.callee {
            Callee::Simple(other) => core::ptr::fn_addr_eq(other, function),
            Callee::Extended(_) => false,
        })
    }

    /// The extended hook with this function and data.
    #[inline] // or its symbol would be exported
    pub fn find_extended(&self, function: ExtendedHook, data: *mut c_void) -> Option<&Hook> {
        self.iter().find(|hook| match hook.callee {
            Callee::Extended(other) => {
                core::ptr::fn_addr_eq(other, function) && hook.user_data == data
            }
            Callee::Simple(_) => false,
        })
    }

    /// Appends, with a new reference to the hook. There is room.
    fn push(&mut self, hook: &Hook, enabled: bool) {
        count_one(&hook.references);
        if let Some(place) = self.hooks.get_mut(self.count) {
            *place = core::ptr::from_ref(hook).cast_mut();
            self.count += 1;
        }
        if enabled {
            self.enabled |= hook.bit();
        }
    }
}

/// A counted reference to a snapshot.
pub struct SnapshotRef(NonNull<Snapshot>);

impl SnapshotRef {
    /// The hooks now. `None` before the first was added.
    #[inline(always)]
    pub fn current(thread: Thread) -> Option<Self> {
        // SAFETY: the state is live. It owns a reference while the pointer is
        // there, and cannot drop it before this thread can be stopped again.
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

/// Frees a snapshot that nobody refers to.
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
        c::PyMem_RawFree(snapshot.as_ptr().cast());
    }
}

/// Runs `work` while no other thread of the interpreter runs.
fn locked<T>(thread: Thread, work: impl FnOnce() -> T) -> T {
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
enum Refusal {
    NoMemory,
    TooMany,
    Duplicate,
    Unknown,
    Closed,
    Raised(Raised),
}

impl Refusal {
    #[cold]
    fn raise(self, thread: Thread) -> Raised {
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
            Refusal::Raised(raised) => raised,
        }
    }
}

/// Puts another snapshot in place, made from the old one by `edit`, and drops the
/// old one once the world runs again. `unsettle`: every code object is to be asked
/// about again.
fn change<T>(
    thread: Thread,
    unsettle: bool,
    edit: impl FnOnce(*mut FrameHookState, Option<&Snapshot>, &mut Snapshot) -> Result<T, Refusal>,
) -> Outcome<T> {
    let state = thread.state();
    let changed = locked(thread, || {
        // SAFETY: the state is live, and nobody else runs.
        let (old, epoch) = unsafe { ((*state).snapshot.cast::<Snapshot>(), (*state).epoch) };
        let new = Snapshot::allocate(epoch).ok_or(Refusal::NoMemory)?;
        let new = SnapshotRef(new);
        // SAFETY: live while the state owns a reference.
        let before = unsafe { old.as_ref() };
        // SAFETY: nobody else can see the new one yet.
        let result = edit(state, before, unsafe { &mut *new.0.as_ptr() })?;
        let active = new.get().enabled != 0;
        // SAFETY: the state is live, and nobody else runs.
        let was_active = unsafe {
            let was_active = (*state).active;
            (*state).snapshot = new.0.as_ptr().cast();
            (*state).active = active;
            was_active
        };
        // SAFETY: this thread's own state, and the world is stopped.
        if unsettle && unsafe { c::_PyRust_UnsettleAllCode(thread.tstate()) } != 0 {
            for hook in new.get().iter() {
                if before.is_none_or(|before| before.find(hook.id).is_none()) {
                    hook.disowned.store(true, Ordering::Relaxed);
                }
            }
            // SAFETY: as above. The new snapshot is dropped, the old one stays.
            unsafe {
                (*state).snapshot = old.cast();
                (*state).active = was_active;
            }
            return Err(Refusal::Raised(Raised::by_cpython(thread)));
        }
        // The state owns the reference now.
        core::mem::forget(new);
        Ok((result, NonNull::new(old).map(SnapshotRef)))
    });
    match changed {
        // The old snapshot is dropped here, with the world running: that may free
        // hooks, and call whatever their owners want to have called.
        Ok((result, _old)) => Ok(result),
        Err(refusal) => Err(refusal.raise(thread)),
    }
}

/// Adds a hook behind the others; its handle.
pub fn add(thread: Thread, description: &Description) -> Outcome<c_longlong> {
    verdict::reserve(thread)?;
    change(thread, true, |state, before, after| {
        // SAFETY: the state is live, and nobody else runs.
        let state = unsafe { &mut *state };
        if state.closed {
            return Err(Refusal::Closed);
        }
        let mut used = 0;
        if let Some(before) = before {
            let same = match description.callee {
                Callee::Simple(function) => before.find_simple(function),
                Callee::Extended(function) => before.find_extended(function, description.user_data),
            };
            if same.is_some() {
                return Err(Refusal::Duplicate);
            }
            for hook in before.iter() {
                used |= hook.bit();
                after.push(hook, before.enabled & hook.bit() != 0);
            }
        }
        if used == u32::MAX {
            return Err(Refusal::TooMany);
        }
        let slot = used.trailing_ones();
        let (id, epoch) = (state.last_id + 1, state.epoch.wrapping_add(1));
        let hook = Hook::create(description, id, slot, epoch).ok_or(Refusal::NoMemory)?;
        after.epoch = epoch;
        after.push(hook.get(), true);
        state.last_id = id;
        state.epoch = epoch;
        Ok(id)
    })
}

/// Removes the hook with this handle.
pub fn remove(thread: Thread, id: c_longlong) -> Outcome<()> {
    change(thread, false, |_, before, after| {
        let before = before.ok_or(Refusal::Unknown)?;
        let gone = before.find(id).ok_or(Refusal::Unknown)?;
        for hook in before.iter().filter(|hook| hook.id != id) {
            after.push(hook, before.enabled & hook.bit() != 0);
        }
        gone.silent.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// Removes every hook.
pub fn clear(thread: Thread) -> Outcome<()> {
    // SAFETY: the state is live.
    if unsafe { (*thread.state()).snapshot.is_null() } {
        return Ok(());
    }
    change(thread, false, |_, before, _| {
        for hook in before.into_iter().flat_map(Snapshot::iter) {
            hook.silent.store(true, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Enables or disables a hook everywhere.
pub fn enable(thread: Thread, id: c_longlong, on: bool) -> Outcome<()> {
    change(thread, on, |_, before, after| {
        let before = before.ok_or(Refusal::Unknown)?;
        let wanted = before.find(id).ok_or(Refusal::Unknown)?;
        for hook in before.iter() {
            let enabled = if hook.id == id { on } else { before.enabled & hook.bit() != 0 };
            after.push(hook, enabled);
        }
        wanted.silent.store(!on, Ordering::Relaxed);
        Ok(())
    })
}

/// The hooks now, and among them the one with this handle.
pub fn with_hook<T>(
    thread: Thread,
    id: c_longlong,
    work: impl FnOnce(&Snapshot, &Hook) -> Outcome<T>,
) -> Outcome<T> {
    if let Some(snapshot) = SnapshotRef::current(thread) {
        if let Some(hook) = snapshot.get().find(id) {
            return work(snapshot.get(), hook);
        }
    }
    Err(Refusal::Unknown.raise(thread))
}

/// Enables or disables a hook in the calling thread.
pub fn enable_in_thread(thread: Thread, id: c_longlong, on: bool) -> Outcome<()> {
    with_hook(thread, id, |snapshot, hook| {
        let own = thread.own();
        // SAFETY: the calling thread's own; nobody else reads or writes it.
        unsafe { (*own).disabled = (*own).disabled.with(snapshot, hook.slot, !on) };
        Ok(())
    })
}

/// Makes every code object be asked about once more.
pub fn unsettle_all(thread: Thread) -> Outcome<()> {
    // SAFETY: this thread's own state, with the world stopped.
    let status = locked(thread, || unsafe { c::_PyRust_UnsettleAllCode(thread.tstate()) });
    if status == 0 {
        Ok(())
    } else {
        Err(Raised::by_cpython(thread))
    }
}

/// Drops the last, empty snapshot. No hook can be added any more.
pub fn forget(thread: Thread) {
    // SAFETY: the state is live. Rounds that are under way have references.
    let last = unsafe {
        (*thread.state()).active = false;
        core::mem::replace(&mut (*thread.state()).snapshot, null_mut())
    };
    drop(NonNull::new(last.cast()).map(SnapshotRef));
}
