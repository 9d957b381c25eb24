//! References to a hook: to its block, and to one that may be called.

use super::Hook;
use crate::cpython as c;
use crate::frame_hook::counted::References;
use crate::frame_hook::description::Description;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use core::ffi::{c_char, c_longlong};
use core::mem::forget;
use core::ptr::{null_mut, NonNull};

impl Hook {
    /// One that is not installed, without a name.
    fn described(description: &Description) -> Self {
        let apart = description.timed || description.visible;
        Hook {
            references: References::one(),
            users: References::one(),
            next: AtomicPtr::new(null_mut()),
            id: 0,
            slot: 0,
            epoch: 0,
            on_entry: description.on_entry,
            user_data: description.user_data,
            free_user_data: description.free_user_data,
            name: null_mut(),
            timed: description.timed,
            visible: description.visible,
            on_event: description.on_event,
            on_loop: description.on_loop,
            free_data: description.free_data,
            traverse_data: description.traverse_data,
            only_in: description.only_in,
            special: AtomicU32::new(if apart { Hook::APART } else { 0 }),
            removed: AtomicBool::new(false),
            on: AtomicBool::new(true),
            suspensions: AtomicU32::new(0),
            blocks: AtomicU32::new(u32::from(description.owner != 0)),
            owner: description.owner,
            calls: AtomicU64::new(0),
            replacements: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// A further reference to the block.
    #[inline(always)]
    pub fn share(&self) -> HookRef {
        self.references.share();
        HookRef(NonNull::from(self))
    }

    /// Begins to use it. `None`: it was removed.
    #[inline(always)]
    pub fn enter(&self) -> Option<HookInUse> {
        (!self.is_removed()).then(|| self.enter_installed())
    }

    /// Begins to use it, if it is ordinary: such a hook is installed.
    #[inline(always)]
    pub fn enter_ordinary(&self) -> Option<HookInUse> {
        self.is_ordinary().then(|| self.enter_installed())
    }

    /// Begins to use an installed hook: the list uses it too, and it is not removed before this thread is stopped.
    #[inline(always)]
    pub(super) fn enter_installed(&self) -> HookInUse {
        self.users.share();
        HookInUse(NonNull::from(self))
    }
}

/// A hook that is not installed yet. Its user data is still the caller's.
///
/// # Invariants
/// Nothing else leads to it.
pub struct NewHook(NonNull<Hook>);

impl NewHook {
    /// `None` without memory.
    pub fn create(description: &Description) -> Option<Self> {
        // SAFETY: the raw allocator takes any size at any time, and aligns for every type here.
        let block = unsafe { c::PyMem_RawMalloc(size_of::<Hook>()).cast::<Hook>() };
        let block = NonNull::new(block)?;
        // SAFETY: ours, and large enough.
        unsafe { block.write(Hook::described(description)) };
        // INVARIANT: nothing else leads to it yet.
        let new = NewHook(block);
        let bytes = description.name.to_bytes_with_nul();
        // SAFETY: the raw allocator takes any size at any time. The block is ours, and large enough for the bytes.
        unsafe {
            let name = NonNull::new(c::PyMem_RawMalloc(bytes.len()).cast::<c_char>())?;
            name.as_ptr().copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            (*block.as_ptr()).name = name.as_ptr();
        }
        Some(new)
    }

    pub fn get(&self) -> &Hook {
        // SAFETY: alive while it is ours.
        unsafe { self.0.as_ref() }
    }

    /// Gives the hook its handle and its slot. The user data is its own from now on.
    pub fn identify(self, id: c_longlong, slot: u32, epoch: u32) -> HookInUse {
        let hook = self.0;
        forget(self);
        // SAFETY: nothing else leads to it, by the invariant.
        unsafe {
            (*hook.as_ptr()).id = id;
            (*hook.as_ptr()).slot = slot;
            (*hook.as_ptr()).epoch = epoch;
        }
        // INVARIANT: the one use is the caller's.
        HookInUse(hook)
    }

    /// Frees the user data of a hook that is not installed after all.
    ///
    /// # Safety
    /// The data is the hook's; the thread is attached, and holds no lock.
    pub unsafe fn free_user_data(self) {
        // SAFETY: the caller says that the data is the hook's, and that the thread is attached,
        // without a lock. Nothing else leads to the hook, so the data is freed this once.
        unsafe { self.get().free_user_data() };
    }
}

impl Drop for NewHook {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: nothing else leads to it, by the invariant.
        unsafe { free_block(self.0) };
    }
}

/// # Safety
/// Nothing refers to the hook any more.
#[inline] // or its symbol would be exported
unsafe fn free_block(hook: NonNull<Hook>) {
    // SAFETY: the caller says that nothing refers to the hook any more. Both blocks came from the
    // raw allocator, or are NULL.
    unsafe {
        c::PyMem_RawFree(hook.as_ref().name.cast());
        c::PyMem_RawFree(hook.as_ptr().cast());
    }
}

/// A reference to a hook's block. The hook may have been removed, and then its user data is gone.
pub struct HookRef(NonNull<Hook>);

impl HookRef {
    pub fn get(&self) -> &Hook {
        // SAFETY: alive while referred to.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for HookRef {
    #[inline]
    fn drop(&mut self) {
        if self.get().references.give_up() {
            // SAFETY: the last reference is gone.
            unsafe { free_chain(self.0) };
        }
    }
}

/// Frees a hook, and those after it that nothing else refers to. Runs no foreign code.
///
/// # Safety
/// The last reference to the hook is gone, so it was removed.
#[cold]
#[inline] // or its symbol would be exported
unsafe fn free_chain(hook: NonNull<Hook>) {
    let mut at = Some(hook);
    while let Some(hook) = at {
        // SAFETY: the last reference is gone. A removed hook owns one to the next, which is given up here.
        unsafe {
            at = hook.as_ref().next().filter(|next| next.as_ref().references.give_up());
            free_block(hook);
        }
    }
}

/// A hook that may be called: its user data is there.
pub struct HookInUse(pub(super) NonNull<Hook>);

impl HookInUse {
    pub fn get(&self) -> &Hook {
        // SAFETY: the users together own a reference.
        unsafe { self.0.as_ref() }
    }

    /// A reference to the hook that something has without saying so.
    ///
    /// # Safety
    /// *once*: it is given up by the result alone.
    pub(super) unsafe fn reference(&self) -> HookRef {
        HookRef(self.0)
    }

    pub(super) fn into_raw(self) -> NonNull<Hook> {
        let hook = self.0;
        forget(self);
        hook
    }
}

impl Drop for HookInUse {
    #[inline]
    fn drop(&mut self) {
        if self.get().users.give_up() {
            // SAFETY: nothing uses it any more, so it was removed. A thread that drops it is attached and holds
            // no lock. The reference was that of all users.
            unsafe { retire(self.0) };
        }
    }
}

/// Frees the user data of a hook, and gives up the users' reference.
///
/// # Safety
/// Nothing uses the hook any more; attached, and no lock is held.
#[cold]
#[inline] // or its symbol would be exported
unsafe fn retire(hook: NonNull<Hook>) {
    let last = HookRef(hook);
    // SAFETY: the caller says that nothing uses the hook any more, so its data is freed this once;
    // the thread is attached, and holds no lock. `last` keeps the block.
    unsafe { last.get().free_user_data() };
}
