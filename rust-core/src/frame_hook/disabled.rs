//! The hooks that are disabled in one thread: a short list per thread.

use super::error::{Outcome, Raised};
use super::hook::Hook;
use super::listening::refresh;
use super::world::locked;
use crate::cpython as c;
use crate::in_cpython::{DisabledHook, FrameHookThread};
use crate::thread::{Thread, ThreadState};
use core::ffi::c_longlong;
use core::ptr::null_mut;

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

/// Changes a hook's entry in a thread, if there is one. It goes where nothing disables the hook any more. Needs no
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
    // waits, or runs Python code. The last entry takes the place of the one that goes.
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

/// Changes a hook's entry in the calling thread, which is made if there is none.
pub fn add(thread: Thread, hook: &Hook, edit: impl FnOnce(&mut DisabledHook)) -> Outcome<()> {
    let own = thread.own();
    // SAFETY: the calling thread's own list. Other threads use it with this one stopped, and nothing here waits or
    // runs Python code. The raw allocator takes any size at any time.
    unsafe {
        if (*own).ends {
            return Ok(()); // no hook is called any more, and the list was freed
        }
        if find(own, hook.id).is_none() {
            if (*own).disabled_count == (*own).disabled_room {
                drop_removed(thread, own);
            }
            if (*own).disabled_count == (*own).disabled_room {
                let room = (*own).disabled_room * 2 + 4;
                let bytes = room as usize * size_of::<DisabledHook>();
                let block = c::PyMem_RawMalloc(bytes).cast::<DisabledHook>();
                if block.is_null() {
                    return Err(Raised::no_memory(thread));
                }
                if !(*own).disabled.is_null() {
                    let count = (*own).disabled_count as usize;
                    block.copy_from_nonoverlapping((*own).disabled, count);
                }
                c::PyMem_RawFree((*own).disabled.cast());
                ((*own).disabled, (*own).disabled_room) = (block, room);
            }
            let new = DisabledHook { id: hook.id, blocks: 0, off: false };
            (*own).disabled.add((*own).disabled_count as usize).write(new);
            (*own).disabled_count += 1;
        }
    }
    // SAFETY: the world is stopped.
    locked(thread, || unsafe { change(thread, thread.its_state(), hook, edit) });
    Ok(())
}

/// Takes out the entries of hooks that are not installed any more.
///
/// # Safety
/// `own` is the calling thread's.
unsafe fn drop_removed(thread: Thread, own: *mut FrameHookThread) {
    let mut kept = 0;
    // SAFETY: the caller says that the list is the calling thread's. Other threads use it with this
    // one stopped, and nothing here waits, or runs Python code. What is kept moves down.
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
/// Nobody else works on what is that thread's.
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
