//! Adding hooks, and removing them.
//!
//! Each change puts another [`Snapshot`] in the place of the interpreter's, with the world stopped.
//! Removing a hook needs no memory: each brings one in spare.

use super::description::{Description, Place};
use super::error::{Outcome, Raised};
use super::hook::{Hook, NewHook};
use super::settled;
use super::snapshot::{NewSnapshot, Snapshot, SnapshotRef};
use super::state::{is_closed, set_active};
use super::world::{locked, unsettle};
use crate::cpython as c;
use crate::in_cpython::SlotMask;
use crate::sync::Ordering;
use crate::thread::Thread;
use core::ffi::{c_longlong, c_void, CStr};
use core::ptr::null_mut;

/// Why a change could not be made, told apart while the world is stopped and
/// raised when it runs again.
pub enum Refusal {
    NoMemory,
    TooMany,
    Duplicate,
    Unknown,
    UnknownNeighbour,
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
            Refusal::UnknownNeighbour => Raised::value_error(
                thread,
                c"the hook that this one is to be placed beside is not installed",
            ),
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
unsafe fn publish(thread: Thread, mut new: NewSnapshot) -> Option<SnapshotRef> {
    let state = thread.state();
    // SAFETY: the state is live, and nobody else runs. It owns the reference to the new one now,
    // and gives up that to the old one.
    unsafe {
        set_active(thread, new.get_mut().enabled() != 0);
        let old = core::mem::replace(&mut (*state).snapshot, new.into_raw().cast());
        SnapshotRef::from_raw(old.cast())
    }
}

/// Tells who audits the process that a hook is about to be added. They run Python code, and may
/// refuse it with an exception.
fn audit(thread: Thread, name: &CStr) -> Outcome<()> {
    // SAFETY: attached; a format that takes a string, which is UTF-8.
    let status =
        unsafe { c::PySys_Audit(c"sys.add_frame_hook".as_ptr(), c"s".as_ptr(), name.as_ptr()) };
    if status == 0 {
        Ok(())
    } else {
        Err(Raised::by_cpython(thread))
    }
}

/// Adds a hook behind the others, and returns its handle.
///
/// Where a block of the same owner has installed the hook already, this is one block more. The hook
/// has its user data then, and what `description` brings is freed.
pub fn add(thread: Thread, description: &Description) -> Outcome<c_longlong> {
    if is_closed(thread) {
        return Err(Refusal::Closed.raise(thread));
    }
    audit(thread, description.name)?;
    settled::reserve(thread).map_err(|error| Raised::by_code_extra(thread, error))?;
    let (mut hook, mut new) = (NewHook::create(description), Snapshot::with_spare());
    if hook.is_none() || new.is_none() {
        return Err(Refusal::NoMemory.raise(thread));
    }
    // SAFETY: the world is stopped.
    let installed =
        locked(thread, || unsafe { install(thread, &mut hook, &mut new, description.place) });
    // What was not used is dropped here, and the old snapshot, with the world running.
    match installed {
        Ok((id, _old)) => {
            if let Some(unused) = &hook {
                // SAFETY: nobody else knows of it.
                unsafe { unused.get().free_user_data() };
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
    place: Place,
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
    let wanted = hook.as_ref().map(NewHook::get).ok_or(Refusal::NoMemory)?;
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
    if let Place::Before(other) | Place::Behind(other) = place {
        if before.and_then(|hooks| hooks.find(other)).is_none() {
            return Err(Refusal::UnknownNeighbour);
        }
    }
    let (Some(hook), Some(mut new)) = (hook.take(), new.take()) else {
        return Err(Refusal::NoMemory);
    };
    let (id, epoch) = (last_id + 1, last_epoch + 1);
    let hook = hook.place(id, used.trailing_ones(), epoch);
    // SAFETY: the state is live, and nobody else runs. The hook's own reference is one of two.
    unsafe {
        new.get_mut().copy_with(before, &hook, place);
        (*state).last_id = id;
        (*state).epoch = epoch;
        let old = publish(thread, new);
        unsettle(thread);
        Ok((id, old))
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
        if !before.iter().any(&goes) {
            return None;
        }
        let mut new = before.pop_spare()?;
        before.iter().filter(|hook| goes(hook)).for_each(Hook::silence);
        new.get_mut().copy(before, |hook| !goes(hook));
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

/// A block of this owner ends. The end of its last block removes the hook. Returns the hook's
/// handle; `None` where somebody else has removed it already. Needs no memory.
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

/// The interpreter ends: removes every hook. No hook can be added any more.
pub fn close(thread: Thread) {
    // SAFETY: the state is live, and nobody else runs meanwhile.
    locked(thread, || unsafe { (*thread.state()).closed = true });
    clear(thread);
    let last = locked(thread, || {
        // SAFETY: as above. Rounds that are under way have references of their own.
        unsafe {
            let last = core::mem::replace(&mut (*thread.state()).snapshot, null_mut());
            SnapshotRef::from_raw(last.cast())
        }
    });
    drop(last);
}
