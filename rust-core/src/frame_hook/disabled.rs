//! The hooks that are disabled in one thread: a short list per thread.

use super::error::{Outcome, Raised};
use super::hook::Hook;
use super::listening::refresh;
use super::world::with_world_stopped;
use crate::cpython as c;
use crate::in_cpython::{DisabledHook, FrameHookThread};
use crate::thread::{Thread, ThreadState};
use core::ffi::c_longlong;
use core::ptr::{null_mut, NonNull};

/// The entry of a hook.
///
/// # Safety
/// The thread of `own` does not use the list meanwhile, or is the calling one.
unsafe fn find(own: *mut FrameHookThread, id: c_longlong) -> Option<*mut DisabledHook> {
    // SAFETY: the caller says that the list is the calling thread's, or that its thread does not
    // use it meanwhile. So many entries are there.
    unsafe {
        (0..(*own).disabled_count as usize)
            .map(|at| (*own).disabled.add(at))
            .find(|entry| (**entry).id == id)
    }
}

/// Changes a hook's entry in a thread, if there is one, and removes it if it does not disable the hook any more. Needs no
/// memory.
///
/// # Safety
/// The world is stopped.
pub unsafe fn change(
    thread: Thread,
    one: ThreadState,
    hook: &Hook,
    edit: impl FnOnce(&mut DisabledHook),
) {
    let own = one.own();
    // SAFETY: the world is stopped, says the caller, so no other thread uses the list; nothing here
    // waits, or runs Python code. The last entry is moved to where the removed one was.
    unsafe {
        let Some(entry) = find(own, hook.id) else { return };
        edit(&mut *entry);
        if !(*entry).off && (*entry).blocks == 0 {
            (*own).disabled_count -= 1;
            let last = (*own).disabled.add((*own).disabled_count as usize);
            entry.write(last.read());
        }
        refresh(thread, one, hook);
    }
}

/// Changes a hook's entry in the calling thread, which is added if there is none.
pub fn add(thread: Thread, hook: &Hook, edit: impl FnOnce(&mut DisabledHook)) -> Outcome<()> {
    let own = thread.own();
    // SAFETY: the calling thread's own list. Other threads use it with this one stopped, and nothing here waits or
    // runs Python code.
    let has_entry = unsafe {
        if (*own).ends {
            return Ok(()); // no hook is called any more, and the list was freed
        }
        find(own, hook.id).is_some()
    };
    if !has_entry {
        make_room(thread)?;
        // SAFETY: as above. There is room for one more.
        unsafe {
            let new = DisabledHook { id: hook.id, blocks: 0, off: false };
            (*own).disabled.add((*own).disabled_count as usize).write(new);
            (*own).disabled_count += 1;
        }
    }
    // SAFETY: the world is stopped. *quiet*: fields are written.
    unsafe { with_world_stopped(thread, |_| change(thread, thread.its_state(), hook, edit)) };
    Ok(())
}

/// Makes room for one more entry in the calling thread's list.
fn make_room(thread: Thread) -> Outcome<()> {
    let own = thread.own();
    // SAFETY: the calling thread's own list.
    let (block, count, room) = unsafe {
        if (*own).disabled_count == (*own).disabled_room {
            drop_removed(thread, own);
        }
        ((*own).disabled, (*own).disabled_count, (*own).disabled_room)
    };
    if count < room {
        return Ok(());
    }
    let new_room = room * 2 + 4;
    // SAFETY: the raw allocator takes any size at any time.
    let new = unsafe { c::PyMem_RawMalloc(new_room as usize * size_of::<DisabledHook>()) };
    let Some(new) = NonNull::new(new.cast::<DisabledHook>()) else {
        return Err(Raised::no_memory(thread));
    };
    // SAFETY: the calling thread's own list: other threads use it with this one stopped, and nothing here waits. The new
    // block has room for the entries of the old one, which is NULL without any.
    unsafe {
        if !block.is_null() {
            new.as_ptr().copy_from_nonoverlapping(block, count as usize);
        }
        c::PyMem_RawFree(block.cast());
        ((*own).disabled, (*own).disabled_room) = (new.as_ptr(), new_room);
    }
    Ok(())
}

/// Takes out the entries of hooks that are not installed any more.
///
/// # Safety
/// `own` is the calling thread's.
unsafe fn drop_removed(thread: Thread, own: *mut FrameHookThread) {
    let mut kept = 0;
    // SAFETY: the caller says that the list is the calling thread's. Other threads use it with this
    // one stopped, and nothing here waits, or runs Python code. Entries that stay are moved down.
    unsafe {
        for at in 0..(*own).disabled_count as usize {
            let entry = (*own).disabled.add(at).read();
            if thread.not_stopped().hooks().any(|hook| hook.id == entry.id) {
                (*own).disabled.add(kept).write(entry);
                kept += 1;
            }
        }
        (*own).disabled_count = kept as u32;
    }
}

/// Frees the list of a thread that ends.
///
/// # Safety
/// No other thread works on what is that thread's.
pub unsafe fn free(one: ThreadState) {
    let own = one.own();
    // SAFETY: the caller says that nothing else works on what is that thread's. Other threads read
    // the list with the world stopped, and nothing here waits for that.
    unsafe {
        c::PyMem_RawFree((*own).disabled.cast());
        (*own).disabled = null_mut();
        ((*own).disabled_count, (*own).disabled_room) = (0, 0);
    }
}
