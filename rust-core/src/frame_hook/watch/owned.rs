//! The right to end a watch: creating, linking, unlinking and ending one.

use super::memory::{create, give_back, state_of_new};
use super::{release_hook, Watch, HAS_SCOPE, HELD, LINKED, LISTED};
#[cfg(ferrule_checks)]
use crate::check::check;
use crate::cpython::PyObject;
use crate::frame::Frame;
use crate::frame_hook::error::Outcome;
use crate::frame_hook::hook::references::HookInUse;
use crate::frame_hook::hook::Hook;
use crate::frame_hook::list::{enter, leave};
use crate::frame_hook::verdict::Request;
use crate::object::Owned;
use crate::reference_count::decref;
use crate::stack_ref::StackSlot;
use crate::thread::Thread;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{null_mut, NonNull};

/// The right to end a watch. There is one of it for each watch. After [`link`](Self::link) the chain of frames that
/// leads to the shim has it, after [`into_raw`](Self::into_raw) a generator: it is taken back by
/// [`from_raw`](Self::from_raw) when a frame is left to the shim, or the generator is over.
///
/// There is no `Drop` in release builds: to end a watch takes the thread and the knowledge that nothing leads to it
/// ([`end`](Self::end)). One that is dropped leaks, and is a fatal error in builds with assertions.
///
/// # Invariants
/// The watch is live, and this is the only one of it.
#[must_use = "a watch that is not ended leaks"]
#[repr(transparent)]
pub struct OwnedWatch(NonNull<Watch>);

impl Deref for OwnedWatch {
    type Target = Watch;

    #[inline(always)]
    fn deref(&self) -> &Watch {
        // SAFETY: live by the type's invariant: it is ended by methods that consume this. All is in cells.
        unsafe { self.0.as_ref() }
    }
}

#[cfg(ferrule_checks)]
impl Drop for OwnedWatch {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        check!(false, "a watch was neither linked nor ended");
    }
}

impl OwnedWatch {
    /// A watch of a frame that runs `code`. `MemoryError` without memory.
    #[inline(always)]
    pub fn new(
        thread: Thread,
        hook: Option<&Hook>,
        request: Request,
        code: *mut PyObject,
    ) -> Outcome<Self> {
        // INVARIANT: nothing else leads to it yet.
        create(thread, hook, request, code).map(OwnedWatch)
    }

    /// Moves the right to end it to what leads to the watch.
    #[inline(always)]
    pub fn into_raw(self) -> NonNull<Watch> {
        ManuallyDrop::new(self).0
    }

    /// Takes the right to end a watch from what leads to it.
    ///
    /// # Safety
    /// - *live*: `watch` was returned by [`into_raw`](Self::into_raw), or linked, and not ended since.
    /// - *only*: nothing else takes it from there: a frame was left to the shim, or the generator, which does not run,
    ///   gives it up.
    #[inline(always)]
    pub unsafe fn from_raw(watch: NonNull<Watch>) -> Self {
        // INVARIANT: *live* and *only*.
        OwnedWatch(watch)
    }

    /// Links the shim between `frame` and its caller. The scope begins.
    ///
    /// The chain of frames leads to the watch from now on, and ends it.
    #[inline(always)]
    pub fn link(self, thread: Thread, frame: Frame) {
        let state = self.state.get();
        self.link_with(thread, frame, state);
    }

    /// As [`link`](Self::link), for a new watch.
    #[inline(always)]
    pub fn link_first(self, thread: Thread, frame: Frame, request: Request) {
        self.link_with(thread, frame, state_of_new(request));
    }

    /// As [`link`](Self::link), of a watch with a known state.
    #[inline(always)]
    fn link_with(self, thread: Thread, frame: Frame, state: u32) {
        let watch = self.into_raw();
        // SAFETY: live, says the invariant, and nothing ends it before the frame that was linked ends.
        let this = unsafe { watch.as_ref() };
        this.state.set(state | LINKED | LISTED);
        this.insert_below(frame);
        // SAFETY: *alone*: the calling thread's own list. *stays*: it leaves in `unlist`, before it ends.
        unsafe { enter((&raw mut (*thread.own()).watches).cast(), watch) };
        if state & HAS_SCOPE != 0 {
            // SAFETY: *quiet*: the beginning of a scope runs no foreign code, and does not wait.
            let quiet = unsafe { thread.not_stopped() };
            this.begin_scope(thread, this.hook(&quiet));
        }
    }

    /// Makes the frame below the shim the thread's current one. No frame is left to the shim any more, unless it is
    /// linked again.
    ///
    /// # Safety
    /// *current*: the shim is the thread's current frame.
    #[inline(always)]
    pub unsafe fn unlink(&self, thread: Thread) {
        if self.has_state(LISTED) {
            // SAFETY: *listed*, it says; *alone*: of a shim that is *current* the thread is the
            // calling one.
            unsafe { self.unlist() };
        }
        self.set_state(LINKED, false);
        // SAFETY: *current*; the one below is a frame that continues.
        unsafe { thread.set_current_frame((*self.shim().as_ptr()).previous) };
        self.shim().unlink();
    }

    /// [`link`](Self::link) of a watch that [is suspended](Watch::is_suspended).
    #[inline(always)]
    pub fn link_suspended(self, thread: Thread, frame: Frame) {
        self.link_with(thread, frame, HELD);
    }

    /// [`unlink`](Self::unlink) of a watch that [is resumed](Watch::is_resumed).
    ///
    /// # Safety
    /// *current*, as there; *resumed*: it is so, hence listed.
    #[inline(always)]
    pub unsafe fn unlink_resumed(&self, thread: Thread) {
        // SAFETY: *plain*, but for its state, which is set next; *current*.
        unsafe { self.unlink_plain(thread) };
        self.state.set(HELD);
        self.shim().unlink();
    }

    /// [`unlink`](Self::unlink) of a plain watch that ends then: its shim is not read any more.
    ///
    /// # Safety
    /// *current*, as there; *plain*: it is of that kind, so it is listed.
    #[inline(always)]
    pub unsafe fn unlink_plain(&self, thread: Thread) {
        // SAFETY: *member* is *plain*, *alone*: of a shim that is *current* the thread is the
        // calling one. The one below is a frame that continues.
        unsafe {
            leave(&**self);
            thread.set_current_frame((*self.shim().as_ptr()).previous);
        }
    }

    /// The value that the frame has left in the shim's slot.
    ///
    /// # Safety
    /// *set*: a frame was left to it with a value, which was not taken yet.
    #[inline(always)]
    pub unsafe fn take_value(&self) -> Owned {
        // SAFETY: *set*, and its reference is returned.
        unsafe {
            let value = StackSlot::leave(self.shim().first_slot()).unwrap_unchecked();
            Owned::from_new_reference(value.into_object().as_ptr())
        }
    }

    /// Ends the watch. Destructors may run.
    ///
    /// # Safety
    /// *out*: it is in no list, no generator's either, and its shim lies below no frame.
    #[inline] // or its symbol would be exported
    pub unsafe fn end(self, thread: Thread) {
        self.watched.set(null_mut());
        // SAFETY: *out*; no object holds it.
        unsafe { self.end_unheld(thread) };
    }

    /// As [`end`](Self::end), of a watch that no object holds.
    ///
    /// # Safety
    /// *out*, as there.
    #[inline(always)]
    pub unsafe fn end_unheld(self, thread: Thread) {
        let (code, data) = (self.code(), self.request().data);
        // SAFETY: read before destructors run, and not read again: *out*, so nothing leads here but `self`. The
        // references and the user data, which were the watch's, are released last.
        unsafe {
            let hook = self.hook.get().read();
            give_back(thread, self.into_raw());
            decref(code);
            release_hook(hook, data);
        }
    }

    /// As [`end_unheld`](Self::end_unheld), of a watch whose hook is `in_use`. That use ends too, last: if the hook was
    /// removed meanwhile, its user data is freed, and any code runs.
    ///
    /// # Safety
    /// *out*, as for [`end`](Self::end); `in_use` is of the watch's hook.
    #[inline(always)]
    pub unsafe fn end_with_use(self, thread: Thread, in_use: HookInUse) {
        let (code, data) = (self.code(), self.request().data);
        // SAFETY: as in `end_unheld`. The hook's reference is the watch's, which says so no more.
        unsafe {
            give_back(thread, self.into_raw());
            decref(code);
            in_use.get().free_data(data);
            in_use.leave_with_reference(&thread.not_stopped());
        }
    }
}

impl Watch {
    /// Links the shim between `frame` and its caller, ready to be returned to.
    #[inline(always)]
    pub fn insert_below(&self, frame: Frame) {
        let shim = self.shim();
        shim.lead_where(frame);
        self.rewind();
        self.expect_return();
        frame.set_previous(shim.as_ptr());
    }
}
