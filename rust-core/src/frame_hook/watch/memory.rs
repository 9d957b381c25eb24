//! The memory of watches: each thread caches some blocks.

use super::{Watch, HAS_SCOPE};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::{Frame, Owner};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::hook::Hook;
use crate::frame_hook::verdict::Request;
use crate::reference_count::new_reference;
use crate::thread::{Thread, ThreadState};
use core::ptr::{null_mut, NonNull};

/// So many unused blocks a thread keeps.
const CACHED: u32 = 64;

/// The state of a watch that is not linked yet.
#[inline(always)]
pub(super) fn state_of_new(request: Request) -> u32 {
    if request.scope == 0 {
        0
    } else {
        HAS_SCOPE
    }
}

/// A new watch of a frame that runs `code`. `MemoryError` without memory.
#[inline(always)]
pub(super) fn create(
    thread: Thread,
    hook: Option<&Hook>,
    request: Request,
    code: *mut PyObject,
) -> Outcome<NonNull<Watch>> {
    let own = thread.own();
    // SAFETY: the calling thread's own list, which no other thread reads.
    let cached = unsafe { NonNull::new((*own).unused_watches.cast::<Watch>()) };
    let block = match cached {
        // SAFETY: the calling thread's own list; each block leads to the next.
        Some(cached) => unsafe {
            (*own).unused_watches = next_block(cached).cast();
            (*own).unused_count -= 1;
            cached
        },
        None => allocate(thread)?,
    };
    let Request { data, events, scope } = request;
    // SAFETY: ours, and unused, so nothing has borrowed from its cells; a live object.
    unsafe {
        let (watch, its) = (block.as_ref(), block.as_ref().request.as_ptr());
        (*watch.shim.get()).f_executable = new_reference(code);
        watch.hook.get().write(hook.map(Hook::share));
        (*its).data = data;
        ((*its).events, (*its).scope) = (events, scope);
        watch.state.set(state_of_new(request));
    }
    Ok(block)
}

/// Caches the memory of a watch that has ended, or frees it.
///
/// # Safety
/// *ended*: `create` has returned it, its references are moved out, and nothing leads to it.
#[inline(always)]
pub(super) unsafe fn give_back(thread: Thread, watch: NonNull<Watch>) {
    let own = thread.own();
    // SAFETY: the calling thread's own list, which no other thread reads. *ended*, says the caller.
    unsafe {
        if (*own).unused_count < CACHED {
            watch.as_ref().next_watch.set(NonNull::new((*own).unused_watches.cast()));
            (*own).unused_watches = watch.as_ptr().cast();
            (*own).unused_count += 1;
        } else {
            c::PyMem_RawFree(watch.as_ptr().cast());
        }
    }
}

/// The unused block behind one.
///
/// # Safety
/// `block` is in a thread's list of unused blocks, on which no other thread works.
unsafe fn next_block(block: NonNull<Watch>) -> *mut Watch {
    // SAFETY: live, as it is in the list.
    unsafe { block.as_ref() }.next_watch().map_or(null_mut(), NonNull::as_ptr)
}

/// Memory for a watch, with the fields set that are the same in each.
#[cold]
#[inline(never)]
fn allocate(thread: Thread) -> Outcome<NonNull<Watch>> {
    // SAFETY: the raw allocator takes any size at any time. Zeros are valid for all fields but the owner, which is set.
    unsafe {
        let block = NonNull::new(c::PyMem_RawCalloc(1, size_of::<Watch>()).cast::<Watch>())
            .ok_or_else(|| Raised::no_memory(thread))?;
        Frame::new(block.as_ptr().cast()).set_owner(Owner::C_STACK);
        Ok(block)
    }
}

/// Frees the unused blocks of a thread that ends, and caches no more: destructors that run later may watch frames.
///
/// # Safety
/// *alone*: that is the calling thread, or does not run: no other one works on its watches.
pub unsafe fn free_unused(thread: ThreadState) {
    let own = thread.own();
    // SAFETY: *alone*. Each unused block leads to the next.
    unsafe {
        ((*own).watches, (*own).scopes) = (null_mut(), null_mut());
        (*own).unhooked_at_roots = null_mut();
        while let Some(block) = NonNull::new((*own).unused_watches.cast::<Watch>()) {
            (*own).unused_watches = next_block(block).cast();
            c::PyMem_RawFree(block.as_ptr().cast());
        }
        (*own).unused_count = CACHED;
    }
}
