//! Disabling hooks: in all threads, in one, or for a code object.
//!
//! Each of the three can be switched off and on, and by blocks. Blocks nest, in one thread and across threads: the
//! last one to end restores the state that the first one found. The end of a block needs no memory, in
//! whatever thread it runs.

use super::error::{Outcome, Raised};
use super::hook::Hook;
use super::listening::announce;
use super::registry::{self, Refusal};
use super::resume::despecialize_first_resume;
use super::world::{despecialize_all, observers_changed, with_world_stopped};
use super::{code_record, disabled, opt_out, suspended};
use crate::code::Code;
use crate::sync::Ordering;
use crate::thread::{NotStopped, Thread, ThreadState};
use core::ffi::c_longlong;

/// Does something to an installed hook while the world is stopped. `None`: it is not installed.
///
/// # Safety
/// *quiet* (`world`): `work` neither waits nor runs Python code.
unsafe fn with_hook(thread: Thread, id: c_longlong, work: impl FnOnce(&Hook)) -> Option<()> {
    // SAFETY: *quiet*: hooks are looked up, and of `work` the caller says so.
    unsafe {
        with_world_stopped(thread, |quiet| {
            quiet.hooks().find(|hook| hook.id == id).map(|it| work(&it))
        })
    }
}

/// `ValueError` if a hook is not installed.
fn installed<T>(thread: Thread, found: Option<T>) -> Outcome<T> {
    found.ok_or_else(|| Refusal::Unknown.raise(thread))
}

/// Enables or disables a hook according to its own switch and the blocks that disable it.
///
/// # Safety
/// The world is stopped, and the hook is installed.
unsafe fn apply_switch(thread: Thread, hook: &Hook) {
    let on = hook.on.load(Ordering::Relaxed) && hook.suspensions.load(Ordering::Relaxed) == 0;
    if on == hook.is_enabled() {
        return;
    }
    // SAFETY: the world is stopped, says the caller, and the hook is installed.
    unsafe {
        hook.set_enabled(on);
        announce(thread, hook, on);
        if on {
            despecialize_all(thread);
        } else {
            observers_changed(thread);
        }
    }
}

/// Enables or disables a hook in all threads.
pub fn enable(thread: Thread, id: c_longlong, on: bool) -> Outcome<()> {
    // SAFETY: the world is stopped. *quiet*: fields are written.
    let found = unsafe {
        with_hook(thread, id, |hook| {
            hook.on.store(on, Ordering::Relaxed);
            apply_switch(thread, hook);
        })
    };
    installed(thread, found)
}

/// A block begins (`true`) or ends in which a hook is disabled in all threads. `None`: it is not
/// installed.
pub fn count_block(thread: Thread, id: c_longlong, begins: bool) -> Option<()> {
    // SAFETY: the world is stopped. *quiet*: fields are written.
    unsafe {
        with_hook(thread, id, |hook| {
            let before = hook.suspensions.load(Ordering::Relaxed);
            let now = if begins { before.saturating_add(1) } else { before.saturating_sub(1) };
            hook.suspensions.store(now, Ordering::Relaxed);
            apply_switch(thread, hook);
        })
    }
}

/// A block begins in which a hook is disabled in all threads.
pub fn suspend(thread: Thread, id: c_longlong) -> Outcome<()> {
    installed(thread, count_block(thread, id, true))
}

/// Such a block ends, also if the hook was removed meanwhile.
pub fn resume(thread: Thread, id: c_longlong) {
    count_block(thread, id, false);
}

/// Enables or disables a hook in the calling thread.
pub fn enable_in_thread(thread: Thread, id: c_longlong, on: bool) -> Outcome<()> {
    let hook = installed(thread, registry::find(thread, id))?;
    if on {
        // SAFETY: the world is stopped. *quiet*: an entry is changed.
        unsafe {
            with_world_stopped(thread, |_| {
                disabled::change(thread, thread.its_state(), hook.get(), |entry| entry.off = false);
            });
        }
        return Ok(());
    }
    disabled::add(thread, hook.get(), |entry| entry.off = true)
}

/// A block begins in which a hook is disabled in the calling thread.
pub fn suspend_in_thread(thread: Thread, id: c_longlong) -> Outcome<()> {
    let hook = installed(thread, registry::find(thread, id))?;
    disabled::add(thread, hook.get(), |entry| entry.blocks = entry.blocks.saturating_add(1))
}

/// Such a block ends that began in the thread with that number; also if the hook was removed meanwhile,
/// or that thread has ended.
pub fn resume_in_thread(thread: Thread, id: c_longlong, number: u64) {
    let resume = |quiet: &NotStopped| {
        let hook = quiet.hooks().find(|hook| hook.id == id)?;
        // SAFETY: the world is stopped.
        unsafe {
            let one = ThreadState::all(thread).find(|one| one.number() == number)?;
            disabled::change(thread, one, &hook, |entry| {
                entry.blocks = entry.blocks.saturating_sub(1);
            });
        }
        Some(())
    };
    // SAFETY: *quiet*: an entry is changed.
    unsafe { with_world_stopped(thread, resume) };
}

/// Enables or disables a hook for a code object.
pub fn enable_for_code(thread: Thread, id: c_longlong, code: Code, on: bool) -> Outcome<()> {
    installed(thread, registry::find(thread, id))?;
    opt_out::set_disabled(thread, code, id, !on)
        .map_err(|error| Raised::by_code_extra(thread, error))?;
    if on {
        despecialize_first_resume(thread, code);
        // SAFETY: the thread is attached, and the caller has the code.
        if let Some(record) = unsafe { code_record::find(thread.interpreter(), code) } {
            record.forget();
        }
    }
    Ok(())
}

/// A block begins in which a hook is disabled for a code object.
pub fn suspend_for_code(thread: Thread, id: c_longlong, code: Code) -> Outcome<()> {
    installed(thread, registry::find(thread, id))?;
    suspended::begin(thread, id, code)
}

/// Such a block ends; also if the hook was removed meanwhile.
pub fn resume_for_code(thread: Thread, id: c_longlong, code: Code) {
    suspended::end(thread, id, code);
}
