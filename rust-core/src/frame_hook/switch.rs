//! Hooks that are not asked for a time: everywhere, in a thread, or about a code object.
//!
//! Each of the three can be switched off and on, and can be suspended by blocks. Blocks nest, in
//! one thread and across threads: the last one that ends puts back what the first one found. What a
//! block has begun, its end takes back without memory.

use super::error::{Outcome, Raised};
use super::extent::silenced;
use super::hook::Hook;
use super::registry::Refusal;
use super::resume::make_first_resume_slow;
use super::snapshot::{Snapshot, SnapshotRef};
use super::state::set_active;
use super::world::{locked, unsettle};
use super::{settled, suspended};
use crate::code::Code;
use crate::in_cpython::SlotMask;
use crate::sync::Ordering;
use crate::thread::Thread;
use core::ffi::c_longlong;

/// Does something to an installed hook while the world is stopped; `ValueError` where it is not
/// installed.
fn with_hook(thread: Thread, id: c_longlong, work: impl FnOnce(&Snapshot, &Hook)) -> Outcome<()> {
    with_hook_at(true, thread, id, work)
}

/// As [`with_hook`] where a block begins. Where a block ends, it is no error if the hook is not
/// installed: it was removed meanwhile.
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
    found.map_or_else(|| not_installed(begins, thread), Ok)
}

/// What comes of a hook that is not installed, where a block begins or ends.
fn not_installed(begins: bool, thread: Thread) -> Outcome<()> {
    if begins {
        return Err(Refusal::Unknown.raise(thread));
    }
    Ok(())
}

/// Does something about an installed hook to what the calling thread alone reads and writes: no
/// other thread has to wait for it. Else as [`with_hook_at`].
fn with_hook_here(
    begins: bool,
    thread: Thread,
    id: c_longlong,
    work: impl FnOnce(&Snapshot, &Hook),
) -> Outcome<()> {
    // Others may change the hooks meanwhile. Then this is written down of those that were there
    // before, and of none that came into a slot since.
    let snapshot = SnapshotRef::current(thread);
    let hook = snapshot.as_ref().and_then(|hooks| Some((hooks.get(), hooks.get().find(id)?)));
    let Some((hooks, hook)) = hook else { return not_installed(begins, thread) };
    work(hooks, hook);
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
        set_active(thread, hooks.enabled() != 0);
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
    with_hook_here(true, thread, id, |hooks, hook| {
        let own = thread.own();
        // SAFETY: the calling thread's own; nobody else reads or writes it.
        unsafe { (*own).disabled = (*own).disabled.with(hooks, hook.slot, !on) };
    })
}

/// A block begins (`true`) or ends in which a hook is not asked about frames of the calling thread.
pub fn suspend_in_thread(thread: Thread, id: c_longlong, begins: bool) -> Outcome<()> {
    with_hook_here(begins, thread, id, |hooks, hook| {
        // SAFETY: the calling thread's own; nobody else reads or writes it.
        let own = unsafe { &mut *thread.own() };
        let Some(blocks) = own.suspensions.get_mut(hook.slot as usize) else { return };
        let before = if own.suspended.valid(hooks) & hook.bit() != 0 { *blocks } else { 0 };
        *blocks = count_block(before, begins);
        own.suspended = own.suspended.with(hooks, hook.slot, *blocks != 0);
    })
}

/// Runs `work`, and meanwhile no hook is asked about frames of the thread `ending`, whatever is added or
/// enabled.
///
/// # Safety
/// Nobody else works on what is that thread's.
pub unsafe fn ask_nobody<T>(ending: Thread, work: impl FnOnce() -> T) -> T {
    let own = ending.own();
    // SAFETY: the caller's contract.
    let before = unsafe { core::mem::replace(&mut (*own).disabled, SlotMask::EVERYBODY) };
    let result = work();
    // SAFETY: as above.
    unsafe { (*own).disabled = before };
    result
}

/// Asks a hook, or does not, about a code object.
pub fn enable_for_code(thread: Thread, id: c_longlong, code: Code, on: bool) -> Outcome<()> {
    with_hook(thread, id, |_, _| {})?;
    let settled = settled::settle(thread, code, id, !on);
    settled.map_err(|error| Raised::by_code_extra(thread, error))?;
    if on {
        make_first_resume_slow(thread, code);
    }
    Ok(())
}

/// A block begins in which a hook is not asked about a code object.
pub fn suspend_for_code(thread: Thread, id: c_longlong, code: Code) -> Outcome<()> {
    with_hook(thread, id, |_, _| {})?;
    suspended::begin(thread, id, code)
}

/// Such a block ends; also where the hook was removed meanwhile.
pub fn resume_for_code(thread: Thread, id: c_longlong, code: Code) {
    suspended::end(thread, id, code);
}

/// The slots of the hooks that the calling thread does not ask, or not at this place.
#[inline(always)]
pub fn silent_here(thread: Thread, hooks: &Snapshot) -> u32 {
    // SAFETY: the calling thread's own.
    let (slots, extents) = unsafe {
        let own = thread.own();
        ((*own).disabled.slots | (*own).suspended.slots, (*own).extents)
    };
    if slots == 0 && extents.is_null() {
        return 0;
    }
    silent_somehow(thread, hooks)
}

/// [`silent_here`], where there is something to be silent about.
#[cold]
#[inline(never)]
fn silent_somehow(thread: Thread, hooks: &Snapshot) -> u32 {
    // SAFETY: the calling thread's own.
    let (disabled, suspended) = unsafe { ((*thread.own()).disabled, (*thread.own()).suspended) };
    disabled.valid(hooks) | suspended.valid(hooks) | silenced(thread, hooks)
}
