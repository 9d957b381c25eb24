//! Which hooks are called in which thread.
//!
//! Each thread has the set of its open hooks, and a [`Listening`] that follows from it. By that the eval loop calls Rust
//! only where there is something to do. So a hook of one thread, or one that is disabled in a thread, costs the others,
//! or that thread, a few instructions of C, and only in code for which it is not disabled.
//!
//! ```text
//!   installed ── not removed, not disabled ──► enabled ── of all threads ──► everywhere
//!       enabled ── not of another thread, not disabled in this one ──► open, in each thread
//! ```

use super::hook::Hook;
use super::set::{is_empty, put};
use super::state::any_watched;
use super::world::with_world_stopped;
use crate::cpython::PyThreadState;
use crate::in_cpython::{FrameHookState, FrameHookThread, Listening, HOOK_GROUPS};
use crate::thread::{Thread, ThreadState};
use core::ffi::c_longlong;

/// Where Rust has something to do, for a thread with these open hooks. Any thread may resume a watched generator.
///
/// # Safety
/// The world is stopped, or the state does not change meanwhile.
unsafe fn listening(state: *mut FrameHookState, open: &[u32; HOOK_GROUPS]) -> Listening {
    // SAFETY: the caller says that the world is stopped, or that the state does not change
    // meanwhile.
    let (active, watched) = unsafe { ((*state).active, any_watched(state)) };
    if watched || !is_empty(open) {
        Listening::Here
    } else if active {
        Listening::Elsewhere
    } else {
        Listening::Nowhere
    }
}

/// Whether any hook is called in this thread, or any generator is watched.
#[inline(always)]
pub fn calls_some(thread: Thread) -> bool {
    // SAFETY: the calling thread's own.
    unsafe { (*thread.own()).listening == Listening::Here }
}

/// The slots of the first group's hooks that are called in this thread now.
#[inline(always)]
pub fn open_in_first_group(thread: Thread) -> u32 {
    // SAFETY: the calling thread's own.
    unsafe { (&raw const (*thread.own()).open).cast::<u32>().read() }
}

/// How many groups are in use, and the slots of the first group's hooks that are enabled, in whatever thread.
#[inline(always)]
pub fn enabled_in_first_group(thread: Thread) -> (u32, u32) {
    let state = thread.state();
    // SAFETY: the state is live; the fields change with the world stopped.
    unsafe { ((*state).groups, (&raw const (*state).enabled).cast::<u32>().read()) }
}

/// Whether a hook is called in this thread now.
pub fn is_open(thread: Thread, hook: &Hook) -> bool {
    // SAFETY: the calling thread's own. A slot's group is one of those that there are.
    let group = unsafe { (&raw const (*thread.own()).open).cast::<u32>().add(hook.group()).read() };
    group & hook.bit() != 0
}

/// Whether a hook is disabled in that thread.
///
/// # Safety
/// The world is stopped.
unsafe fn is_disabled_in(state: ThreadState, id: c_longlong) -> bool {
    // SAFETY: the world is stopped, says the caller, so the thread does not change its list; so
    // many entries are there.
    unsafe {
        let own = state.own();
        (0..(*own).disabled_count as usize).any(|at| (*(*own).disabled.add(at)).id == id)
    }
}

/// Writes to all threads whether a hook is enabled.
///
/// # Safety
/// The world is stopped. The hook is installed, or was until now.
pub unsafe fn announce(thread: Thread, hook: &Hook, enabled: bool) {
    let state = thread.state();
    // SAFETY: the state is live, and no other thread runs. References last as long as a statement.
    unsafe {
        put(&mut (*state).enabled, hook, enabled);
        put(&mut (*state).everywhere, hook, enabled && hook.only_in.is_none());
        for one in ThreadState::all(thread) {
            announce_to(one, hook, enabled);
        }
        set_active(thread);
    }
}

/// # Safety
/// The world is stopped.
unsafe fn announce_to(one: ThreadState, hook: &Hook, enabled: bool) {
    // SAFETY: the world is stopped, says the caller, so no other thread reads or writes these
    // fields.
    unsafe {
        let open =
            enabled && hook.is_for(one) && !(*one.own()).ends && !is_disabled_in(one, hook.id);
        put(&mut (*one.own()).open, hook, open);
    }
}

/// A thread ends, and no hook is called in it, whatever is added or enabled. Or it does not end after all. Without a
/// hook, no thread is stopped for that.
///
/// # Safety
/// No other thread works on what is that thread's.
pub unsafe fn set_ends(thread: Thread, one: ThreadState, ends: bool) {
    // SAFETY: the caller says that nothing else works on what is the thread's. *quiet*: fields are
    // read and written.
    unsafe {
        (*one.own()).ends = ends;
        if thread.not_stopped().hooks().next().is_some() {
            with_world_stopped(thread, |quiet| {
                quiet.hooks().for_each(|hook| refresh(thread, one, &hook));
            });
        }
    }
}

/// Works out anew whether a hook is called in that thread.
///
/// # Safety
/// The world is stopped: the interpreter's state is written, and must not change between what is read of it and the
/// thread's flag.
pub unsafe fn refresh(thread: Thread, one: ThreadState, hook: &Hook) {
    // SAFETY: the world is stopped, says the caller, so no other thread reads a flag or changes
    // what it is computed from.
    unsafe {
        announce_to(one, hook, hook.is_enabled());
        (*one.own()).listening = listening(thread.state(), &(*one.own()).open);
        (*thread.state()).some_listen_not |= is_empty(&(*one.own()).open);
    }
}

/// Works out anew whether there is anything to do about hooks, in the interpreter and in each thread.
///
/// # Safety
/// No other thread of the interpreter runs.
pub unsafe fn set_active(thread: Thread) {
    let state = thread.state();
    // SAFETY: the caller says that no other thread of the interpreter runs, so none changes its
    // fields; the state is live.
    unsafe {
        let enabled = !is_empty(&(*state).enabled);
        (*state).active = enabled || any_watched(state);
        (*state).some_listen_not = is_empty(&(*state).everywhere);
        for one in ThreadState::all(thread) {
            (*one.own()).listening = listening(state, &(*one.own()).open);
            (*state).some_listen_not |= is_empty(&(*one.own()).open);
        }
    }
}

/// As [`set_active`], if nothing has changed but whether any generator is watched: there is nothing to do if all threads
/// listen anyway.
///
/// # Safety
/// As there.
pub unsafe fn watched_changed(thread: Thread) {
    let state = thread.state();
    // SAFETY: the caller says that no other thread of the interpreter runs; the state is live.
    unsafe {
        if (*state).some_listen_not || !(*state).active {
            set_active(thread);
        }
    }
}

/// A thread state is created: it gets the hooks that are called in all threads.
///
/// # Safety
/// Called by CPython, which has set the interpreter and holds the lock on the list of threads. So a thread that walks
/// the list finds this one, and with its hooks.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_StartFrameHooksOfThread(tstate: *mut PyThreadState) {
    // SAFETY: CPython has set the interpreter, says the caller, and nothing else leads to the thread state. The
    // interpreter's fields change with the world stopped, before its list is walked; `any_watched` reads an atomic.
    unsafe {
        let state = FrameHookState::of((*tstate).interp);
        if (*state).active {
            let own = FrameHookThread::of(tstate.cast());
            (*own).open = (*state).everywhere;
            (*own).listening = listening(state, &(*own).open);
        }
    }
}
