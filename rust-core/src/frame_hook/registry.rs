//! Adding hooks, and removing them.
//!
//! The hooks are a linked list, which changes with the world stopped. A dispatch in progress continues in it, and
//! skips hooks that were removed, or added since it began. Removing a hook needs no memory.

use super::c_types::FrameHookEntryFunction;
use super::description::{Description, Position};
use super::error::{Outcome, Raised};
use super::hook::list::{first_in_use, Installed, Link};
use super::hook::references::{HookInUse, NewHook};
use super::hook::Hook;
use super::listening::announce;
use super::opt_out;
use super::set::put;
use super::state::is_closed;
use super::world::{despecialize_all, observers_changed, with_world_stopped};
use crate::cpython as c;
use crate::in_cpython::{SlotMask, GROUP_SIZE, HOOK_GROUPS};
use crate::sync::Ordering;
use crate::thread::{NotStopped, Thread, ThreadState};
use core::ffi::{c_longlong, c_void, CStr};
use core::ptr::NonNull;

/// Why a change was refused: determined while the world is stopped, raised when it runs again.
pub enum Refusal {
    NoMemory,
    TooMany,
    Duplicate,
    Unknown,
    UnknownNeighbour,
    Closed,
    Exhausted,
    ThreadEnds,
    /// Code objects have no extra slot yet for hooks of this group.
    NeedsGroup(usize),
}

impl Refusal {
    #[cold]
    pub fn raise(self, thread: Thread) -> Raised {
        match self {
            Refusal::NoMemory | Refusal::NeedsGroup(_) => Raised::no_memory(thread),
            Refusal::TooMany => Raised::runtime_error(
                thread,
                c"1024 frame hooks are installed, and no more can be: remove one first",
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
            Refusal::ThreadEnds => Raised::runtime_error(
                thread,
                c"this thread is at its end, and takes no frame hooks of its own any more",
            ),
            Refusal::Exhausted => Raised::runtime_error(
                thread,
                c"this interpreter has seen four billion frame hooks, and no more can be added",
            ),
        }
    }
}

/// The installed hook with this handle, in use. `None`: there is none.
pub fn find(thread: Thread, id: c_longlong) -> Option<HookInUse> {
    // SAFETY: *quiet*: fields are read and written.
    unsafe { thread.not_stopped() }.hooks().find(|hook| hook.id == id).map(Installed::enter)
}

/// The first installed hook in use, and the current epoch, as [`HookInUse::into_next`] takes it.
#[inline(always)]
pub fn first(thread: Thread) -> (Option<HookInUse>, u32) {
    // SAFETY: the state is live. Its list begins with an installed hook.
    unsafe {
        let epoch = (*thread.state()).epoch;
        (first_in_use(NonNull::new((*thread.state()).hooks.cast()), epoch), epoch)
    }
}

/// Audits the addition of a hook. Audit hooks run Python code, and may refuse it with an exception.
fn audit(thread: Thread, name: &CStr) -> Outcome<()> {
    // SAFETY: attached; a format that takes a string, which is UTF-8.
    let status = unsafe { c::PySys_Audit(c"framehook.add".as_ptr(), c"s".as_ptr(), name.as_ptr()) };
    if status == 0 {
        Ok(())
    } else {
        Err(Raised::by_cpython(thread))
    }
}

/// Adds a hook, and returns its handle.
///
/// If a block of the same owner has installed the hook already, this is one block more. The hook
/// has its user data then, and that of `description` is freed.
pub fn add(thread: Thread, description: &Description) -> Outcome<c_longlong> {
    if is_closed(thread) {
        return Err(Refusal::Closed.raise(thread));
    }
    // SAFETY: the calling thread's own.
    if description.only_in.is_some() && unsafe { (*thread.own()).ends } {
        return Err(Refusal::ThreadEnds.raise(thread));
    }
    audit(thread, description.name)?;
    let mut hook = NewHook::create(description);
    if hook.is_none() {
        return Err(Refusal::NoMemory.raise(thread));
    }
    let mut group = 0;
    let id = loop {
        opt_out::reserve(thread, group).map_err(|error| Raised::by_code_extra(thread, error))?;
        // SAFETY: the world is stopped. *quiet*: `install` neither waits nor runs Python code.
        let installed = unsafe {
            with_world_stopped(thread, |quiet| install(quiet, &mut hook, description.position))
        };
        match installed {
            Ok(id) => break id,
            Err(Refusal::NeedsGroup(another)) => group = another,
            // The new hook is dropped here; the user data stays the caller's.
            Err(refusal) => return Err(refusal.raise(thread)),
        }
    };
    if let Some(unused) = hook {
        // SAFETY: nothing else leads to it, and the world runs.
        unsafe { unused.free_user_data() };
    }
    Ok(id)
}

/// The first slot that is free; `None`: there is none.
///
/// # Safety
/// The world is stopped.
unsafe fn free_slot(thread: Thread) -> Option<u32> {
    // SAFETY: the state is live, and no other thread runs.
    let used = unsafe { (*thread.state()).used };
    let group = used.iter().position(|slots| *slots != u32::MAX)?;
    let slots = used.get(group)?;
    Some((group * GROUP_SIZE) as u32 + slots.trailing_ones())
}

/// The id of the hook with this entry callback and user data.
pub fn id_of(
    thread: Thread,
    on_entry: FrameHookEntryFunction,
    user_data: *mut c_void,
) -> Option<c_longlong> {
    // SAFETY: *quiet*: fields are read.
    let quiet = unsafe { thread.not_stopped() };
    let found = quiet.hooks().find(|hook| hook.is(on_entry, user_data));
    found.map(|hook| hook.id)
}

/// The link to a new hook at `position`; `None`: its neighbour is not installed.
///
/// # Safety
/// The world is stopped, and stays so while the result is used.
unsafe fn link_at<'a>(thread: Thread, position: Position) -> Option<Link<'a>> {
    // SAFETY: the state is live. No reference is made.
    let mut link = Link::First(unsafe { &raw mut (*thread.state()).hooks });
    if position == Position::First {
        return Some(link);
    }
    // SAFETY: the world is stopped, says the caller, and stays so while the result is used: no
    // other thread adds or removes a hook.
    while let Some(hook) = unsafe { link.hook() } {
        if position == Position::Before(hook.id) {
            return Some(link);
        }
        link = Link::Behind(hook);
        if position == Position::After(hook.id) {
            return Some(link);
        }
    }
    (position == Position::Last).then_some(link)
}

/// Installs a new hook, which is taken then, and returns its handle. Neither waits nor runs Python code.
///
/// # Safety
/// The world is stopped.
unsafe fn install(
    quiet: &NotStopped,
    hook: &mut Option<NewHook>,
    position: Position,
) -> Result<c_longlong, Refusal> {
    let thread = quiet.thread();
    let state = thread.state();
    let wanted = hook.as_ref().map(NewHook::get).ok_or(Refusal::NoMemory)?;
    if is_closed(thread) {
        return Err(Refusal::Closed);
    }
    let same = quiet.hooks().find(|hook| hook.is(wanted.on_entry, wanted.user_data));
    if let Some(same) = same {
        let blocks = same.blocks.load(Ordering::Relaxed);
        if blocks == 0 || same.owner != wanted.owner {
            return Err(Refusal::Duplicate);
        }
        same.blocks.store(blocks + 1, Ordering::Relaxed);
        return Ok(same.id);
    }
    // SAFETY: the world is stopped, says the caller.
    let slot = unsafe { free_slot(thread) }.ok_or(Refusal::TooMany)?;
    let group = slot as usize / GROUP_SIZE;
    // SAFETY: the state is live, and no other thread runs. A free slot is in one of the groups.
    let (index, epoch) = unsafe {
        let index = (&raw const (*state).extra_indices).cast::<isize>().add(group).read();
        (index, (*state).epoch)
    };
    if index == 0 {
        return Err(Refusal::NeedsGroup(group));
    }
    if epoch >= SlotMask::EVERYBODY.epoch - 1 {
        return Err(Refusal::Exhausted);
    }
    // SAFETY: the world is stopped, says the caller.
    let link = unsafe { link_at(thread, position) }.ok_or(Refusal::UnknownNeighbour)?;
    let new = hook.take().ok_or(Refusal::NoMemory)?;
    // SAFETY: the state is live, and no other thread runs.
    let new = unsafe {
        (*state).last_id += 1;
        (*state).epoch += 1;
        new.identify((*state).last_id, slot, (*state).epoch)
    };
    let installed: *const Hook = new.get();
    // SAFETY: the world is stopped, says the caller. The list uses the hook, which stays.
    unsafe {
        link.put(new);
        take_slot(thread, &*installed, true);
        announce(thread, &*installed, true);
        despecialize_all(thread);
        Ok((*installed).id)
    }
}

/// Takes the slot of a hook, or frees it.
///
/// # Safety
/// The world is stopped.
unsafe fn take_slot(thread: Thread, hook: &Hook, taken: bool) {
    let state = thread.state();
    // SAFETY: the state is live, and no other thread runs.
    unsafe {
        let mut used = (*state).used;
        put(&mut used, hook, taken);
        (*state).used = used;
        let last = (0..HOOK_GROUPS).rev().find(|at| used.get(*at).is_some_and(|it| *it != 0));
        (*state).groups = last.map_or(0, |last| last as u32 + 1);
    }
}

/// Removes the first hook for which `is_meant` is true, and returns the list's use of it. Needs no memory.
///
/// # Safety
/// The world is stopped.
unsafe fn take_out(thread: Thread, is_meant: impl Fn(&Hook) -> bool) -> Option<HookInUse> {
    // SAFETY: the world is stopped, says the caller, and nothing here waits, or runs Python code:
    // no other thread adds, removes or walks hooks.
    unsafe {
        let mut link = Link::First(&raw mut (*thread.state()).hooks);
        while !is_meant(link.hook()?) {
            link = Link::Behind(link.hook()?);
        }
        let removed = link.take()?;
        forget_removed(thread, removed.get());
        Some(removed)
    }
}

/// What follows from the removal of a hook.
///
/// # Safety
/// The world is stopped.
unsafe fn forget_removed(thread: Thread, hook: &Hook) {
    // SAFETY: the world is stopped, says the caller.
    unsafe {
        take_slot(thread, hook, false);
        announce(thread, hook, false);
        observers_changed(thread);
    }
}

/// [`take_out`] with the world stopped for it; whether there was one.
fn remove_one(thread: Thread, is_meant: impl Fn(&Hook) -> bool) -> bool {
    // SAFETY: the world is stopped. *quiet*: hooks are compared, and fields written.
    let removed = unsafe { with_world_stopped(thread, |_| take_out(thread, is_meant)) };
    // Dropped here, with the world running: that may call `free_user_data`.
    removed.is_some()
}

/// Removes the hook with this handle.
pub fn remove(thread: Thread, id: c_longlong) -> Outcome<()> {
    if remove_one(thread, |hook| hook.id == id) {
        Ok(())
    } else {
        Err(Refusal::Unknown.raise(thread))
    }
}

/// Removes every hook that is installed now.
pub fn clear(thread: Thread) {
    // Disabled first: code that runs when one of them is freed is not for the others.
    // SAFETY: the world is stopped. *quiet*: fields are written.
    let now = unsafe {
        with_world_stopped(thread, |quiet| {
            for hook in quiet.hooks() {
                hook.set_enabled(false);
                announce(thread, &hook, false);
            }
            (*thread.state()).epoch
        })
    };
    while remove_one(thread, |hook| hook.epoch <= now) {}
}

/// A thread ends, and with it the hooks that are called in no other. It adds no more of them.
pub fn remove_those_of(thread: Thread, ending: ThreadState) {
    let is_its = |hook: &Hook| hook.only_in == Some(ending.number());
    // SAFETY: *quiet*: fields are read.
    while unsafe { thread.not_stopped() }.hooks().any(|hook| is_its(&hook)) {
        remove_one(thread, is_its);
    }
}

/// A block of this owner ends. The end of its last block removes the hook. Returns the hook, in use;
/// `None` if another thread has removed it already. Needs no memory.
pub fn leave(thread: Thread, owner: u64) -> Option<HookInUse> {
    let is_its = |hook: &Hook| hook.owner == owner && hook.blocks.load(Ordering::Relaxed) != 0;
    let end_block = |quiet: &NotStopped| {
        let hook = quiet.hooks().find(|hook| is_its(hook))?;
        let blocks = hook.blocks.load(Ordering::Relaxed) - 1;
        if blocks != 0 {
            hook.blocks.store(blocks, Ordering::Relaxed);
            return Some(hook.enter());
        }
        // SAFETY: the world is stopped.
        let removed = unsafe { take_out(thread, is_its) }?;
        removed.get().blocks.store(0, Ordering::Relaxed);
        Some(removed)
    };
    // SAFETY: *quiet*: fields are written.
    unsafe { with_world_stopped(thread, end_block) }
}

/// The handle of the hook that blocks of this owner have installed.
pub fn id_in_blocks(thread: Thread, owner: u64) -> Option<c_longlong> {
    // SAFETY: nothing here waits, or runs Python code.
    unsafe { thread.not_stopped() }
        .hooks()
        .find(|hook| hook.owner == owner && hook.blocks.load(Ordering::Relaxed) != 0)
        .map(|hook| hook.id)
}

/// The interpreter ends: removes every hook. No hook can be added any more.
pub fn close(thread: Thread) {
    // SAFETY: the state is live, and no other thread runs meanwhile. *quiet*: a field is written.
    unsafe { with_world_stopped(thread, |_| (*thread.state()).closed = true) };
    clear(thread);
}
