//! The list of installed hooks: walking it, and changing it with the world stopped.

use super::references::HookInUse;
use super::Hook;
use crate::sync::Ordering;
use crate::thread::NotStopped;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::forget;
use core::ops::Deref;
use core::ptr::{null_mut, NonNull};

impl HookInUse {
    /// Ends the use of an ordinary hook in one step, and returns the hooks after it. `Err`: it is not ordinary, or was
    /// removed.
    #[inline(always)]
    pub fn leave_ordinary<'a>(self, quiet: &'a NotStopped) -> Result<Hooks<'a>, Self> {
        let hook = self.0;
        self.leave_if_ordinary(quiet)?;
        // SAFETY: ordinary, so it is installed, and the list changes when `quiet` is over.
        let at = unsafe { hook.as_ref() }.next();
        Ok(Hooks { at, list: PhantomData })
    }

    /// Ends the use of an ordinary hook. `Err`: it is not ordinary, or was removed.
    #[inline(always)]
    pub fn leave_if_ordinary(self, _quiet: &NotStopped) -> Result<(), Self> {
        if !self.get().is_ordinary() {
            return Err(self);
        }
        // Ordinary, so it is installed: this use is not the last one, as the list uses it too.
        let _ = self.get().users.give_up();
        forget(self);
        Ok(())
    }

    /// Ends the use, and gives up a reference to the same hook. `free_user_data` may run.
    ///
    /// # Safety
    /// *once*: the reference is the caller's, and is given up by this alone.
    #[inline(always)]
    pub unsafe fn leave_with_reference(self, _quiet: &NotStopped) {
        if !self.get().is_ordinary() {
            // SAFETY: *once*.
            return unsafe { self.leave_removed() };
        }
        // Ordinary, so it is installed: neither is the last one, as the list uses it too.
        let _ = self.get().references.give_up();
        let _ = self.get().users.give_up();
        forget(self);
    }

    /// [`leave_with_reference`](Self::leave_with_reference) of a hook that may have been removed.
    ///
    /// # Safety
    /// *once*, as there.
    #[cold]
    #[inline(never)]
    unsafe fn leave_removed(self) {
        // SAFETY: *once*.
        drop(unsafe { self.reference() });
    }

    /// Ends the use, and begins that of the next hook that was added until `epoch`. If the hook was removed,
    /// `free_user_data` may run.
    pub fn into_next(self, epoch: u32) -> Option<HookInUse> {
        // SAFETY: this one is referred to until the next is entered.
        unsafe { first_in_use(self.get().next(), epoch) }
    }
}

/// The first hook from `at` on that is installed and was added until `epoch`.
///
/// # Safety
/// `at` is in the list, or was and is referred to.
pub unsafe fn first_in_use(mut at: Option<NonNull<Hook>>, epoch: u32) -> Option<HookInUse> {
    while let Some(hook) = at {
        // SAFETY: the caller says that the first is in the list, or was and is referred to. Nothing here waits or runs
        // Python code, so an installed hook stays; a removed one owns a reference to the next.
        let hook = unsafe { hook.as_ref() };
        if hook.epoch <= epoch {
            if let Some(in_use) = hook.enter() {
                return Some(in_use);
            }
        }
        at = hook.next();
    }
    None
}

/// A hook that is in the list, and stays there while it is borrowed.
#[derive(Clone, Copy)]
pub struct Installed<'a>(&'a Hook);

impl Installed<'_> {
    /// Begins to use it.
    #[inline(always)]
    pub fn enter(self) -> HookInUse {
        self.enter_installed()
    }
}

impl Deref for Installed<'_> {
    type Target = Hook;

    #[inline(always)]
    fn deref(&self) -> &Hook {
        self.0
    }
}

/// The installed hooks in order.
///
/// # Invariants
/// `at` is NULL or in the list, which does not change as long as the [`NotStopped`] from which this is borrowed is
/// there.
#[derive(Clone, Copy)]
pub struct Hooks<'a> {
    at: Option<NonNull<Hook>>,
    list: PhantomData<&'a NotStopped>,
}

impl<'a> Hooks<'a> {
    /// # Safety
    /// *first*: it begins the list of the calling thread's interpreter, or is NULL.
    #[inline(always)]
    pub unsafe fn from(first: *mut c_void, _quiet: &'a NotStopped) -> Self {
        // INVARIANT: *first*, and the list changes with the world stopped.
        Hooks { at: NonNull::new(first.cast()), list: PhantomData }
    }
}

impl Hooks<'_> {
    /// Begins to use the hook, if there is one alone and it is ordinary.
    #[inline(always)]
    pub fn only_ordinary(mut self) -> Option<HookInUse> {
        self.next().filter(|_| self.at.is_none()).and_then(|hook| hook.enter_ordinary())
    }
}

impl<'a> Iterator for Hooks<'a> {
    type Item = Installed<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Installed<'a>> {
        // SAFETY: in the list, by the invariant, so it is live and stays as long as it is borrowed.
        let hook = unsafe { self.at?.as_ref() };
        self.at = hook.next();
        Some(Installed(hook))
    }
}

/// What leads to a hook in the list: the list's beginning, or the hook before it.
#[derive(Clone, Copy)]
pub enum Link<'a> {
    First(*mut *mut c_void),
    Behind(&'a Hook),
}

impl<'a> Link<'a> {
    /// # Safety
    /// The world is stopped, and the list is live.
    unsafe fn lead_to(self, hook: *mut Hook) {
        match self {
            // SAFETY: the interpreter's own field.
            Link::First(place) => unsafe { place.write(hook.cast()) },
            Link::Behind(before) => before.next.store(hook, Ordering::Relaxed),
        }
    }

    /// # Safety
    /// The world is stopped, and the list is live.
    pub unsafe fn hook(self) -> Option<&'a Hook> {
        // SAFETY: the world is stopped, says the caller, so no other thread changes or frees the
        // list.
        unsafe {
            match self {
                Link::First(place) => place.read().cast::<Hook>().as_ref(),
                Link::Behind(before) => before.next().map(|next| next.as_ref()),
            }
        }
    }

    /// Links a hook here, before the one to which this leads.
    ///
    /// # Safety
    /// The world is stopped, and the list is live.
    pub unsafe fn put(self, new: HookInUse) {
        // SAFETY: the world is stopped, says the caller, so no other thread walks the list. It uses
        // the hook from now on.
        unsafe {
            let behind = self.hook().map_or(null_mut(), |hook| (&raw const *hook).cast_mut());
            let new = new.into_raw();
            new.as_ref().next.store(behind, Ordering::Relaxed);
            self.lead_to(new.as_ptr());
        }
    }

    /// Takes out the hook to which this leads, and returns the list's use of it.
    ///
    /// # Safety
    /// The world is stopped, and the list is live.
    pub unsafe fn take(self) -> Option<HookInUse> {
        // SAFETY: the world is stopped, says the caller, so no other thread walks the list.
        let hook = unsafe { self.hook() }?;
        let next = hook.next();
        // SAFETY: the world is stopped and the list live, says the caller. The removed hook keeps `next`, with a
        // reference.
        unsafe {
            if let Some(next) = next {
                next.as_ref().references.share();
            }
            self.lead_to(next.map_or(null_mut(), NonNull::as_ptr));
            hook.set_enabled(false);
        }
        hook.removed.store(true, Ordering::Relaxed);
        Some(HookInUse(NonNull::from(hook)))
    }
}
