//! Hooks that are not asked for a time: everywhere, in a thread, or about a code object.
//!
//! Each of the three can be switched off and on, and can be suspended by blocks. Blocks nest, in one
//! thread and across threads: the last one that ends puts back what the first one found. What a
//! block has begun, its end takes back without memory.

use super::error::{Outcome, Raised};
use super::frame::Code;
use super::registry::{locked, unsettle, Hook, Refusal, Snapshot};
use super::state::{SlotMask, SuspendedCode};
use super::{verdict, Thread};
use crate::cpython as c;
use crate::reference_count::{decref, new_reference};
use core::ffi::{c_longlong, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// Does something to an installed hook while the world is stopped; `ValueError` where it is not
/// installed.
fn with_hook(thread: Thread, id: c_longlong, work: impl FnOnce(&Snapshot, &Hook)) -> Outcome<()> {
    with_hook_at(true, thread, id, work)
}

/// As [`with_hook`] where a block begins; where it ends, a hook that is not installed is no error.
fn with_hook_at(
    begins: bool,
    thread: Thread,
    id: c_longlong,
    work: impl FnOnce(&Snapshot, &Hook),
) -> Outcome<()> {
    let found = locked(thread, || {
        // SAFETY: what is done below does not wait, nor run Python code.
        let hooks = unsafe { Snapshot::borrowed(thread) }?;
        let hook = hooks.find(id)?;
        work(hooks, hook);
        Some(())
    });
    if found.is_none() && begins {
        return Err(Refusal::Unknown.raise(thread));
    }
    Ok(())
}

/// One block more, or less.
fn count_block(before: u32, begins: bool) -> u32 {
    if begins {
        before.saturating_add(1)
    } else {
        before.saturating_sub(1)
    }
}

/// Does what follows from a hook's own switch and its suspensions.
fn settle_switch(thread: Thread, hooks: &Snapshot, hook: &Hook) {
    let on = hook.on.load(Ordering::Relaxed) && hook.suspensions.load(Ordering::Relaxed) == 0;
    if on == (hooks.enabled() & hook.bit() != 0) {
        return;
    }
    // SAFETY: called by `with_hook`, so the world is stopped.
    unsafe {
        hooks.set_enabled(hook, on);
        (*thread.state()).active = hooks.enabled() != 0;
        if on {
            unsettle(thread);
        }
    }
}

/// Asks a hook, or does not, everywhere.
pub fn enable(thread: Thread, id: c_longlong, on: bool) -> Outcome<()> {
    with_hook(thread, id, |hooks, hook| {
        hook.on.store(on, Ordering::Relaxed);
        settle_switch(thread, hooks, hook);
    })
}

/// A block begins (`true`) or ends in which a hook is asked nowhere. Where the hook was removed
/// meanwhile there is nothing to end.
pub fn suspend(thread: Thread, id: c_longlong, begins: bool) -> Outcome<()> {
    with_hook_at(begins, thread, id, |hooks, hook| {
        let before = hook.suspensions.load(Ordering::Relaxed);
        hook.suspensions.store(count_block(before, begins), Ordering::Relaxed);
        settle_switch(thread, hooks, hook);
    })
}

/// Asks a hook, or does not, about frames of the calling thread.
pub fn enable_in_thread(thread: Thread, id: c_longlong, on: bool) -> Outcome<()> {
    with_hook(thread, id, |hooks, hook| {
        let own = thread.own();
        // SAFETY: the calling thread's own; nobody else reads or writes it.
        unsafe { (*own).disabled = (*own).disabled.with(hooks, hook.slot, !on) };
    })
}

/// A block begins (`true`) or ends in which a hook is not asked about frames of the calling thread.
pub fn suspend_in_thread(thread: Thread, id: c_longlong, begins: bool) -> Outcome<()> {
    with_hook_at(begins, thread, id, |hooks, hook| {
        // SAFETY: the calling thread's own; nobody else reads or writes it.
        let own = unsafe { &mut *thread.own() };
        let Some(blocks) = own.suspensions.get_mut(hook.slot as usize) else { return };
        let before = if own.suspended.valid(hooks) & hook.bit() != 0 { *blocks } else { 0 };
        *blocks = count_block(before, begins);
        own.suspended = own.suspended.with(hooks, hook.slot, *blocks != 0);
    })
}

/// Asks a hook, or does not, about a code object.
pub fn enable_for_code(thread: Thread, id: c_longlong, code: Code, on: bool) -> Outcome<()> {
    with_hook(thread, id, |_, _| {})?;
    let settled = verdict::settle(thread, code, id, !on);
    settled.map_err(|error| Raised::by_code_extra(thread, error))?;
    if on {
        // SAFETY: the world is stopped.
        locked(thread, || unsafe { unsettle(thread) });
    }
    Ok(())
}

/// A block begins in which a hook is not asked about a code object.
pub fn suspend_for_code(thread: Thread, id: c_longlong, code: Code) -> Outcome<()> {
    with_hook(thread, id, |_, _| {})?;
    loop {
        // SAFETY: the world is stopped.
        let wanted = locked(thread, || unsafe { begin_for_code(thread, id, code) });
        match wanted {
            None => return Ok(()),
            Some(room) => grow(thread, room)?,
        }
    }
}

/// How much room is needed; `None`: it is done.
///
/// # Safety
/// The world is stopped.
unsafe fn begin_for_code(thread: Thread, id: c_longlong, code: Code) -> Option<usize> {
    let state = thread.state();
    // SAFETY: the state is live, and nobody else runs. There is room for so many entries.
    unsafe {
        if let Some(entry) = find(thread, id, code) {
            (*entry).blocks += 1;
            return None;
        }
        if (*state).suspended_count == (*state).suspended_room {
            return Some((*state).suspended_room * 2 + 4);
        }
        (*state).suspended_codes.add((*state).suspended_count).write(SuspendedCode {
            id,
            code: new_reference(code.object()).cast(),
            blocks: 1,
        });
        (*state).suspended_count += 1;
    }
    None
}

/// Such a block ends; also where the hook was removed meanwhile.
pub fn resume_for_code(thread: Thread, id: c_longlong, code: Code) {
    // SAFETY: the world is stopped.
    let gone = locked(thread, || unsafe { end_for_code(thread, id, code) });
    if let Some(gone) = gone {
        // SAFETY: the entry's own reference.
        unsafe { decref(gone.code.cast()) };
    }
}

/// The entry, if that was the last block.
///
/// # Safety
/// The world is stopped.
unsafe fn end_for_code(thread: Thread, id: c_longlong, code: Code) -> Option<SuspendedCode> {
    let state = thread.state();
    // SAFETY: the state is live, and nobody else runs. The last entry takes the place of the one that goes.
    unsafe {
        let entry = find(thread, id, code)?;
        (*entry).blocks -= 1;
        if (*entry).blocks != 0 {
            return None;
        }
        let gone = entry.read();
        (*state).suspended_count -= 1;
        entry.write((*state).suspended_codes.add((*state).suspended_count).read());
        unsettle(thread);
        Some(gone)
    }
}

/// The slots of the hooks that blocks keep from being asked about `code`. There are such blocks.
#[cold]
#[inline(never)]
pub fn suspended_slots(thread: Thread, hooks: &Snapshot, code: Code) -> u32 {
    let state = thread.state();
    // SAFETY: entries change with the world stopped only, and this does not wait.
    let entries = unsafe {
        (0..(*state).suspended_count).map(|i| &*(*state).suspended_codes.add(i).cast_const())
    };
    entries
        .filter(|entry| entry.code == code.as_ptr())
        .filter_map(|entry| hooks.find(entry.id))
        .fold(0, |slots, hook| slots | hook.bit())
}

/// The entry of a hook and a code object.
///
/// # Safety
/// The world is stopped, and stays so while the result is used.
unsafe fn find(thread: Thread, id: c_longlong, code: Code) -> Option<*mut SuspendedCode> {
    let state = thread.state();
    // SAFETY: the state is live, and nobody else runs. So many entries are there.
    unsafe {
        (0..(*state).suspended_count)
            .map(|i| (*state).suspended_codes.add(i))
            .find(|entry| (**entry).id == id && (**entry).code == code.as_ptr())
    }
}

/// Makes room for so many entries, or more.
fn grow(thread: Thread, room: usize) -> Outcome<()> {
    // SAFETY: the raw allocator takes any size at any time.
    let fresh = unsafe { c::PyMem_RawMalloc(room * size_of::<SuspendedCode>()) };
    if fresh.is_null() {
        return Err(Raised::no_memory(thread));
    }
    let unused = locked(thread, || {
        let state = thread.state();
        // SAFETY: the world is stopped. The new block has room for the entries of the old one.
        unsafe {
            if (*state).suspended_room >= room {
                return fresh; // another thread was faster
            }
            let old = core::mem::replace(&mut (*state).suspended_codes, fresh.cast());
            if !old.is_null() {
                (*state).suspended_codes.copy_from_nonoverlapping(old, (*state).suspended_count);
            }
            (*state).suspended_room = room;
            old.cast::<c_void>()
        }
    });
    // SAFETY: NULL, or a block that nobody uses.
    unsafe { c::PyMem_RawFree(unused) };
    Ok(())
}

/// The interpreter ends: blocks that have not ended end now.
pub fn forget(thread: Thread) {
    let (entries, count) = locked(thread, || {
        let state = thread.state();
        // SAFETY: the world is stopped.
        unsafe {
            (*state).suspended_room = 0;
            (
                core::mem::replace(&mut (*state).suspended_codes, null_mut()),
                core::mem::replace(&mut (*state).suspended_count, 0),
            )
        }
    });
    // SAFETY: so many entries are there, each with a reference of its own; the block is ours.
    unsafe {
        for i in 0..count {
            decref((*entries.add(i)).code.cast());
        }
        c::PyMem_RawFree(entries.cast());
    }
}

/// Whether a thread may ask a hook, by slot: those that it does not.
#[inline(always)]
pub fn silent_here(thread: Thread, hooks: &Snapshot) -> u32 {
    // SAFETY: the calling thread's own.
    let (disabled, suspended): (SlotMask, SlotMask) =
        unsafe { ((*thread.own()).disabled, (*thread.own()).suspended) };
    disabled.valid(hooks) | suspended.valid(hooks)
}
