//! Calls a hook's event callback for a frame that it watches.
//!
//! The return shim is the thread's current frame during the callback, so that frames above it are recognized as
//! starting within a callback.

use super::c_types::*;
use super::counted::count_one;
use super::error::{Outcome, Raised};
use super::hook::references::HookInUse;
use super::hook::Hook;
use super::return_offset::Stage;
use super::state::{visible_if, DispatchGuard};
use super::verdict::Kind;
use super::watch::owned::OwnedWatch;
use super::watch::Watch;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::exception::{drop_aside, give_context, handling};
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::{Thread, ThreadState};
use core::ffi::c_int;
use core::ptr::null_mut;

impl OwnedWatch {
    /// A frame has returned `value` to the shim of a plain watch: calls the exit callback and ends the watch. The frame
    /// below is current afterwards. `Err`: the watch is not plain, and nothing was done.
    ///
    /// # Safety
    /// *current*: the shim is the thread's current frame.
    #[inline(always)]
    pub unsafe fn end_plain(
        self,
        thread: Thread,
        value: *mut PyObject,
    ) -> Result<Outcome<()>, Self> {
        if !self.is_plain() {
            return Err(self);
        }
        // SAFETY: *quiet*: a counter is written. A plain watch has a hook: it would have left the list with it.
        let in_use =
            unsafe { self.hook(&thread.not_stopped()).unwrap_unchecked() }.enter_ordinary();
        let Some(in_use) = in_use else { return Err(self) };
        let Some(guard) = DispatchGuard::begin_if_nothing_pends(thread) else { return Err(self) };
        // SAFETY: a watch without a scope has an event callback, says the invariant of `Watch`.
        let on_event = unsafe { in_use.get().on_event.unwrap_unchecked() };
        self.begin_plain_callback();
        begin_callback_at(self.shim());
        let event = self.event(Kind::Returned, value);
        // SAFETY: the hook's owner says that `on_event` takes such an event. The user data is
        // there, as the hook is in use.
        let status = unsafe { on_event(&raw const event, in_use.get().user_data) };
        drop(guard);
        if status != 0 || thread.has_exception() || !self.is_in_plain_callback() {
            // SAFETY: *current*: the callback leaves the thread's current frame as it was.
            return Ok(unsafe { self.end_after_callback(thread, in_use, status) });
        }
        // SAFETY: *current*, as above. *plain*, as it is still. *out*: the shim is unlinked, the list has been left, and
        // no generator is watched. The hook was not taken out, as the watch is in the list.
        unsafe {
            self.unlink_plain(thread);
            self.end_with_use(thread, in_use);
        }
        Ok(Ok(()))
    }

    /// Ends a plain watch whose exit callback has returned `status`: it has failed, or the thread has ended meanwhile.
    ///
    /// # Safety
    /// *current*, as for [`end_plain`](Self::end_plain).
    #[cold]
    #[inline(never)]
    unsafe fn end_after_callback(
        self,
        thread: Thread,
        in_use: HookInUse,
        status: c_int,
    ) -> Outcome<()> {
        self.end_callback(false);
        let has_failed = status != 0 || thread.has_exception();
        let outcome = if has_failed { Err(failed(thread, in_use.get())) } else { Ok(()) };
        // SAFETY: *current*, says the caller. *out*: the shim is unlinked, the list has been left, and no generator is
        // watched.
        unsafe {
            self.unlink(thread);
            self.end_unheld(thread);
        }
        // Last: if the hook was removed meanwhile, its user data is freed, and any code runs.
        drop(in_use);
        outcome
    }
}

impl Watch {
    #[inline(always)]
    fn event(&self, kind: Kind, value: *mut PyObject) -> FrameHookEvent {
        FrameHookEvent { kind: kind as i32, value, code: self.code(), data: self.request().data }
    }

    #[inline(always)]
    pub fn requests(&self, kind: Kind) -> bool {
        let events = self.request().events;
        match kind {
            Kind::Yielded => events & FRAMEHOOK_ON_YIELD != 0,
            Kind::Resumed => events & FRAMEHOOK_ON_RESUME != 0,
            _ => events != 0,
        }
    }

    /// Calls the event callback, if the hook requested the event. No exception is set.
    #[inline(always)]
    pub fn notify(&self, thread: Thread, kind: Kind, value: *mut PyObject) -> Outcome<()> {
        // SAFETY: *quiet*: a counter is written.
        let quiet = unsafe { thread.not_stopped() };
        // A removed hook is not called any more.
        let in_use = self.hook(&quiet).filter(|_| self.requests(kind)).and_then(Hook::enter);
        drop(quiet);
        let Some(in_use) = in_use else { return Ok(()) };
        let Some(on_event) = in_use.get().on_event else { return Ok(()) };
        let in_callback = self.begin_callback();
        let event = self.event(kind, value);
        let status = self.call_at_shim(thread, &in_use, &event, on_event);
        let failed = (status != 0 || thread.has_exception()).then(|| failed(thread, in_use.get()));
        drop(in_use);
        self.end_callback(in_callback);
        let Some(raised) = failed else { return Ok(()) };
        // StopIteration would end a generator's iteration, so it becomes RuntimeError.
        Err(if self.watched().is_some() { raised.but_no_stop_iteration(thread) } else { raised })
    }

    /// Calls the event callback with the shim as the thread's current frame, so that frames above start within a
    /// callback. Returns its status.
    #[inline(always)]
    fn call_at_shim(
        &self,
        thread: Thread,
        in_use: &HookInUse,
        event: &FrameHookEvent,
        on_event: FrameHookEventFunction,
    ) -> c_int {
        let hook = in_use.get();
        let shim = self.shim();
        let below = shim.previous();
        // SAFETY: the thread's own state. A shim that is not linked leads to the current frame meanwhile, which stays.
        let before = unsafe {
            let before = (*thread.tstate()).current_frame;
            if !self.is_linked() {
                shim.set_previous(before);
                self.rewind();
            }
            thread.set_current_frame(shim.as_ptr());
            before
        };
        begin_callback_at(shim);
        let guard = DispatchGuard::begin(thread);
        // SAFETY: the hook's owner says that `on_event` takes such an event. The user data is there, as the hook is in
        // use.
        let status = visible_if(hook.visible, thread, || unsafe {
            on_event(&raw const *event, hook.user_data)
        });
        drop(guard);
        // SAFETY: the frame that was current is live: callbacks leave the thread's frames as they were.
        unsafe { thread.set_current_frame(before) };
        self.expect_return();
        shim.set_previous(below.map_or(null_mut(), Frame::as_ptr));
        status
    }

    /// Calls the event callback while `raised` propagates, and sets that again, or the callback's own exception. To the
    /// callback it is as within `except`: `raised` becomes the context of its exception, or the end of that one's
    /// contexts.
    pub fn notify_during_exception(&self, thread: Thread, kind: Kind, raised: Owned) {
        let value = if kind == Kind::Raised { raised.as_ptr() } else { null_mut() };
        let outcome = handling(thread, &raised, || {
            let outcome = self.notify(thread, kind, value);
            if outcome.is_err() {
                // SAFETY: attached; `notify` has failed, with an exception that is set.
                unsafe { give_context() };
            }
            outcome
        });
        if outcome.is_err() {
            // SAFETY: attached, with an exception that is set; the reference is used once.
            let new = unsafe { c::PyErr_GetRaisedException() };
            if new != raised.as_ptr() {
                // SAFETY: a live exception, whose reference is passed on. No lock is held, as Python code has just run.
                unsafe {
                    c::PyErr_SetRaisedException(new);
                    drop_aside(raised);
                }
                return;
            }
            // SAFETY: `raised` has another reference.
            unsafe { c::Py_DecRef(new) };
        }
        // SAFETY: a live exception, whose reference is passed on.
        unsafe { c::PyErr_SetRaisedException(raised.into_raw()) };
    }

    /// Calls the drop callback. A failure is reported as unraisable.
    pub fn notify_dropped(&self, thread: Thread) {
        let _ = self.notify(thread, Kind::Dropped, null_mut()).map_err(|Raised { .. }| {
            // The report runs foreign code, and the name is the hook's.
            // SAFETY: *quiet*: a counter is written.
            let hook = self.hook(&unsafe { thread.not_stopped() }).map(Hook::share);
            let name = hook.as_ref().map_or(c"".as_ptr(), |hook| hook.get().name().cast());
            // SAFETY: a format that takes a string, which lives; an exception is set.
            unsafe {
                let text = c"Exception ignored in the drop callback of frame hook %s";
                c::PyErr_FormatUnraisable(text.as_ptr(), name);
            }
        });
    }
}

/// An event callback is about to run at a shim: frames above it start within a callback.
#[inline(always)]
fn begin_callback_at(shim: Frame) {
    Stage::AfterPrologue.write_to(shim);
}

/// An event callback has failed: makes sure that an exception is set.
#[cold]
#[inline(never)]
fn failed(thread: Thread, hook: &Hook) -> Raised {
    count_one(&hook.errors);
    if !thread.has_exception() {
        let text = c"the event callback of frame hook %s failed and set no exception";
        // SAFETY: a class, and a format that takes a string.
        unsafe { c::PyErr_Format(c::PyExc_SystemError, text.as_ptr(), hook.name()) };
    }
    Raised::by_cpython(thread)
}

/// The unfinished frames of `ending` never run again: drop callbacks are called in the calling `thread`. Shims stay,
/// since frames lead to them.
///
/// # Safety
/// *alone*: `ending` is the calling thread, or does not run any more: no other one works on what is that thread's.
pub unsafe fn drop_watches_of(thread: Thread, ending: ThreadState) {
    loop {
        // SAFETY: *quiet*: the hook and data of the watch are moved, and nothing runs.
        let quiet = unsafe { thread.not_stopped() };
        // SAFETY: *alone*. *listed*: it is the first of the list.
        let dropped = unsafe {
            let Some(watch) = Watch::first_of(ending, &quiet) else { return };
            watch.take_for_drop()
        };
        drop(quiet);
        // Code that runs here may begin watches of frames of its own, and has ended them when it is over.
        if let Some(dropped) = dropped {
            dropped.notify_dropped(thread);
        }
    }
}

/// At the interpreter's end, when no other thread of it runs.
pub fn drop_all_watches(thread: Thread) {
    // SAFETY: no thread state is created or deleted any more.
    unsafe { ThreadState::all(thread).for_each(|ending| drop_watches_of(thread, ending)) };
}
