//! The list of code objects for which `with` blocks disable hooks.
//!
//! It changes with the world stopped; memory is allocated while the world runs.

use super::error::{Outcome, Raised};
use super::hook::Installed;
use super::set::HookSet;
use super::world::{despecialize_all, locked};
use crate::code::Code;
use crate::cpython as c;
use crate::in_cpython::SuspendedCode;
use crate::reference_count::{decref, new_reference};
use crate::thread::Thread;
use core::ffi::{c_longlong, c_void};
use core::ptr::null_mut;

/// Begins a block in which a hook is not called for a code object.
pub fn begin(thread: Thread, id: c_longlong, code: Code) -> Outcome<()> {
    loop {
        // SAFETY: the world is stopped.
        let wanted = locked(thread, || unsafe { try_to_begin(thread, id, code) });
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
            code: new_reference(code.as_object()).cast(),
            blocks: 1,
        });
        (*state).suspended_count += 1;
    }
    None
}

/// Such a block ends; also where the hook was removed meanwhile. Needs no memory.
pub fn end(thread: Thread, id: c_longlong, code: Code) {
    // SAFETY: the world is stopped.
    let gone = locked(thread, || unsafe { count_end(thread, id, code) });
    if let Some(gone) = gone {
        // SAFETY: the entry's own reference.
        unsafe { decref(gone.code.cast()) };
    }
}

/// Counts the end of a block. If it was the last one, takes the entry off the list and returns it.
///
/// # Safety
/// The world is stopped.
unsafe fn count_end(thread: Thread, id: c_longlong, code: Code) -> Option<SuspendedCode> {
    let state = thread.state();
    // SAFETY: the state is live, and nobody else runs. The last entry takes the place of the one
    // that goes.
    unsafe {
        let entry = find(thread, id, code)?;
        (*entry).blocks -= 1;
        if (*entry).blocks != 0 {
            return None;
        }
        let gone = entry.read();
        (*state).suspended_count -= 1;
        entry.write((*state).suspended_codes.add((*state).suspended_count).read());
        despecialize_all(thread);
        Some(gone)
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
