//! The list of code objects for which `with` blocks disable hooks.
//!
//! It changes with the world stopped; memory is allocated while the world runs.

use super::error::{Outcome, Raised};
use super::hook::list::Installed;
use super::set::HookSet;
use super::world::{despecialize_all, with_world_stopped};
use crate::code::Code;
use crate::cpython as c;
use crate::in_cpython::SuspendedCode;
use crate::reference_count::{decref, new_reference};
use crate::thread::{NotStopped, Thread};
use core::ffi::c_longlong;
use core::ptr::null_mut;

/// Begins a block in which a hook is not called for a code object.
pub fn begin(thread: Thread, id: c_longlong, code: Code) -> Outcome<()> {
    loop {
        // SAFETY: the world is stopped. *quiet*: an entry is written.
        let wanted = unsafe { with_world_stopped(thread, |_| try_to_begin(thread, id, code)) };
        match wanted {
            None => return Ok(()),
            Some(room) => grow(thread, room)?,
        }
    }
}

/// Begins a block if there is room for its entry. `None`: it has begun. Otherwise, for how many
/// entries there must be room.
///
/// # Safety
/// The world is stopped.
unsafe fn try_to_begin(thread: Thread, id: c_longlong, code: Code) -> Option<usize> {
    let state = thread.state();
    // SAFETY: the world is stopped, says the caller.
    if let Some(entry) = unsafe { find(thread, id, code) } {
        // SAFETY: the state is live, and no other thread runs.
        unsafe { (*entry).blocks += 1 };
        return None;
    }
    // SAFETY: the state is live, and no other thread runs. There is room for so many entries.
    unsafe {
        let (count, room) = ((*state).suspended_count, (*state).suspended_room);
        if count == room {
            return Some(room * 2 + 4);
        }
        let code = new_reference(code.as_object()).cast();
        (*state).suspended_codes.add(count).write(SuspendedCode { id, code, blocks: 1 });
        (*state).suspended_count = count + 1;
    }
    None
}

/// Such a block ends; also if the hook was removed meanwhile. Needs no memory.
pub fn end(thread: Thread, id: c_longlong, code: Code) {
    // SAFETY: the world is stopped. *quiet*: entries are written.
    let removed = unsafe { with_world_stopped(thread, |_| count_end(thread, id, code)) };
    if let Some(removed) = removed {
        // SAFETY: the entry's own reference.
        unsafe { decref(removed.code.cast()) };
    }
}

/// Counts the end of a block. If it was the last one, removes its entry from the list and returns it.
///
/// # Safety
/// The world is stopped.
unsafe fn count_end(thread: Thread, id: c_longlong, code: Code) -> Option<SuspendedCode> {
    let state = thread.state();
    // SAFETY: the world is stopped, says the caller, so no other thread uses the entry.
    let entry = unsafe { &mut *find(thread, id, code)? };
    entry.blocks -= 1;
    if entry.blocks != 0 {
        return None;
    }
    // SAFETY: the state is live, and no other thread runs. The last entry is moved to where the removed one was.
    unsafe {
        (*state).suspended_count -= 1;
        let last = (*state).suspended_codes.add((*state).suspended_count).read();
        despecialize_all(thread);
        Some(core::mem::replace(entry, last))
    }
}

/// The hooks that blocks disable for `code`.
#[cold]
#[inline(never)]
pub fn set_for(thread: Thread, code: Code) -> HookSet {
    let (state, mut set) = (thread.state(), HookSet::NONE);
    // SAFETY: *quiet*: fields are read.
    let quiet = unsafe { thread.not_stopped() };
    // SAFETY: the state is live; entries change with the world stopped.
    unsafe {
        for at in 0..(*state).suspended_count {
            let entry = (*state).suspended_codes.add(at);
            if (*entry).code == code.as_ptr() {
                let its = |hook: &Installed| hook.id == (*entry).id;
                quiet.hooks().filter(its).for_each(|hook| set.put(&hook, true));
            }
        }
    }
    set
}

/// The entry of a hook and a code object.
///
/// # Safety
/// The world is stopped, and stays so while the result is used.
unsafe fn find(thread: Thread, id: c_longlong, code: Code) -> Option<*mut SuspendedCode> {
    let state = thread.state();
    // SAFETY: the state is live, and no other thread runs. So many entries are there.
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
    let exchange = |_: &NotStopped| {
        let state = thread.state();
        // SAFETY: the state is live; the world is stopped.
        if unsafe { (*state).suspended_room } >= room {
            return fresh; // another thread was faster
        }
        // SAFETY: the world is stopped. The new block has room for the entries of the old one.
        unsafe {
            let old = core::mem::replace(&mut (*state).suspended_codes, fresh.cast());
            if !old.is_null() {
                (*state).suspended_codes.copy_from_nonoverlapping(old, (*state).suspended_count);
            }
            (*state).suspended_room = room;
            old.cast()
        }
    };
    // SAFETY: *quiet*: entries are moved. Then NULL, or an unused block.
    unsafe { c::PyMem_RawFree(with_world_stopped(thread, exchange)) };
    Ok(())
}

/// The interpreter ends: blocks that have not ended end now.
pub fn forget(thread: Thread) {
    let take = |_: &NotStopped| {
        let state = thread.state();
        // SAFETY: the world is stopped.
        unsafe {
            (*state).suspended_room = 0;
            (
                core::mem::replace(&mut (*state).suspended_codes, null_mut()),
                core::mem::replace(&mut (*state).suspended_count, 0),
            )
        }
    };
    // SAFETY: *quiet*: fields are written.
    let (entries, count) = unsafe { with_world_stopped(thread, take) };
    // SAFETY: so many entries are there, each with a reference of its own; the block is ours.
    unsafe {
        for i in 0..count {
            decref((*entries.add(i)).code.cast());
        }
        c::PyMem_RawFree(entries.cast());
    }
}
