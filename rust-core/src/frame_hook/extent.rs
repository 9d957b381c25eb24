//! Extents: while a frame lasts, a hook is asked about nothing below it, or about nothing else.
//!
//! An extent begins when its frame begins, or goes on, and ends when that is left, or suspended. It
//! is in force on one stack: a thread's, or a greenlet's, which has a data stack of its own. So an
//! extent is known by the root chunk of the data stack that it began on. A stack on which no frame has
//! begun has no chunk yet: it gets its root then.

use super::hook::Hook;
use super::snapshot::Snapshot;
use super::verdict::{FRAMEHOOK_NOT_BELOW, FRAMEHOOK_ONLY_BELOW};
use crate::cpython::_PyStackChunk;
use crate::data_stack::{DataStack, Slots};
use crate::in_cpython::SlotMask;
use crate::thread::Thread;
use core::ffi::c_uint;
use core::ptr::null_mut;

/// An extent. It lies in its watch.
///
/// # Invariants
/// While it is in the list of a thread, which `FrameHookThread.extents` begins, it stays where it
/// is, and that thread alone works on it.
pub struct Extent {
    next: *mut Extent,
    previous: *mut Extent,
    root: *mut _PyStackChunk,
    /// The hooks that are not asked, with those of the extents around this one.
    not_below: SlotMask,
    /// The hooks that want to be asked here and nowhere else, likewise.
    only_below: SlotMask,
}

/// The root chunk of the data stack of now, which is made if there is none; NULL: there is no memory.
fn root_or_made(thread: Thread) -> *mut _PyStackChunk {
    let root_now = root(thread);
    if !root_now.is_null() {
        return root_now;
    }
    // SAFETY: the calling thread's own. The frame is the topmost one, and nobody has used it.
    unsafe {
        let mut stack = DataStack::of(thread.tstate());
        if let Some(frame) = stack.push(Slots::new(1)) {
            stack.pop(frame.as_ptr()); // which leaves the root
        }
    }
    root(thread)
}

/// The root chunk of the data stack of now; NULL: there is none.
fn root(thread: Thread) -> *mut _PyStackChunk {
    // SAFETY: the calling thread's own chunks, each of which leads to the one below.
    unsafe {
        let mut chunk = (*thread.tstate()).datastack_chunk;
        while !chunk.is_null() && !(*chunk).previous.is_null() {
            chunk = (*chunk).previous;
        }
        chunk
    }
}

/// The innermost extent on this stack.
fn innermost<'a>(thread: Thread) -> Option<&'a Extent> {
    innermost_on(thread, root(thread))
}

/// The innermost extent on the stack with that root.
#[inline(never)]
fn innermost_on<'a>(thread: Thread, root: *mut _PyStackChunk) -> Option<&'a Extent> {
    // SAFETY: those in the list are live, and this thread's.
    unsafe {
        let mut extent = (*thread.own()).extents.cast::<Extent>();
        // One that began where there was no memory for a stack is on each.
        while !extent.is_null() && (*extent).root != root && !(*extent).root.is_null() {
            extent = (*extent).next;
        }
        extent.as_ref()
    }
}

impl Extent {
    pub const NONE: Self = Extent {
        next: null_mut(),
        previous: null_mut(),
        root: null_mut(),
        not_below: SlotMask { epoch: 0, slots: 0 },
        only_below: SlotMask { epoch: 0, slots: 0 },
    };

    /// Remembers the stack of now, where no extent begins.
    ///
    /// # Safety
    /// `this` is in no list.
    pub unsafe fn lies_here(this: *mut Extent, thread: Thread) {
        // SAFETY: ours, by contract.
        unsafe { *this = Extent { root: root_or_made(thread), ..Extent::NONE } };
    }

    /// Whether it lies on the stack of now.
    ///
    /// # Safety
    /// The calling thread's, and it knows its stack.
    pub unsafe fn is_here(this: *mut Extent, thread: Thread) -> bool {
        // SAFETY: live, by contract.
        unsafe { (*this).root == root(thread) }
    }

    /// Begins for `hook`; for all hooks, if that is `None`.
    ///
    /// # Safety
    /// `this` is in no list, and stays where it is until [`Extent::end`].
    pub unsafe fn begin(this: *mut Extent, thread: Thread, hook: Option<&Hook>, kind: c_uint) {
        // SAFETY: nothing below may wait, or run Python code.
        let hooks = unsafe { Snapshot::borrowed(thread) };
        let root = root_or_made(thread);
        let (mut not_below, mut only_below) = innermost_on(thread, root)
            .map_or((Extent::NONE.not_below, Extent::NONE.only_below), |outer| {
                (outer.not_below, outer.only_below)
            });
        match (hook, hooks) {
            (None, _) => not_below = SlotMask::EVERYBODY,
            // One that was removed asks for nothing, and another may have its slot: where a hook is
            // removed as it is asked, or while its generator is suspended.
            (Some(hook), _) if hook.is_removed() => {}
            (Some(hook), Some(hooks)) if kind == FRAMEHOOK_NOT_BELOW => {
                not_below = not_below.with(hooks, hook.slot, true);
            }
            (Some(hook), Some(hooks)) if kind == FRAMEHOOK_ONLY_BELOW => {
                only_below = only_below.with(hooks, hook.slot, true);
                // What is inside of the other kind comes from further out.
                not_below = not_below.with(hooks, hook.slot, false);
            }
            _ => {}
        }
        if let (Some(hook), true) = (hook, kind == FRAMEHOOK_ONLY_BELOW) {
            hook.count_only_below(true);
        }
        // SAFETY: by contract ours, and the list is the thread's own.
        unsafe {
            let first = (*thread.own()).extents.cast::<Extent>();
            *this = Extent { next: first, previous: null_mut(), root, not_below, only_below };
            if let Some(first) = first.as_mut() {
                first.previous = this;
            }
            (*thread.own()).extents = this.cast();
        }
    }

    /// Ends.
    ///
    /// # Safety
    /// `this` has begun in `thread` with the same arguments, and nobody else uses that thread's
    /// list.
    pub unsafe fn end(this: *mut Extent, thread: Thread, hook: Option<&Hook>, kind: c_uint) {
        // SAFETY: in the list, so those beside it are live.
        unsafe {
            let Extent { next, previous, .. } = *this;
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => (*thread.own()).extents = next.cast(),
            }
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
        }
        if let (Some(hook), true) = (hook, kind == FRAMEHOOK_ONLY_BELOW) {
            hook.count_only_below(false);
        }
    }
}

/// The slots of the hooks that are asked about nothing at this place.
pub fn silenced(thread: Thread, hooks: &Snapshot) -> u32 {
    innermost(thread).map_or(0, |extent| extent.not_below.valid(hooks))
}

/// Whether this is a place of those where `hook` wants to be asked.
pub fn is_below(thread: Thread, hooks: &Snapshot, hook: &Hook) -> bool {
    innermost(thread).is_some_and(|extent| extent.only_below.valid(hooks) & hook.bit() != 0)
}
