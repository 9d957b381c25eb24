//! Calls a hook's event callback for a frame that it watches.
//!
//! The return shim is the thread's current frame during the callback, so that frames above it are recognized as
//! starting within a callback.

use super::c_types::{FrameHookEvent, FRAMEHOOK_ON_RESUME, FRAMEHOOK_ON_YIELD};
use super::counted::count_one;
use super::description::EventFunction;
use super::entry_frame::begin_to_tell;
use super::error::{Outcome, Raised};
use super::hook::Hook;
use super::state::{visible_if, Round};
use super::verdict::Kind;
use super::watch::{OwnedWatch, Watch};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::exception::{drop_aside, give_context, handling};
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::{Thread, ThreadState};
use core::ptr::null_mut;

impl OwnedWatch {
    /// A frame has returned `value` to the shim of a plain watch: calls the exit callback and ends the watch. The frame
    /// below is current afterwards. `Err`: the watch is of another kind, and nothing was done.
    ///
    /// # Safety
    /// *current*: the shim is the thread's current frame.
    #[inline(always)]
    pub unsafe fn end_plainly(
        self,
        thread: Thread,
        value: *mut PyObject,
    ) -> Result<Outcome<()>, Self> {
        if !self.is_plain() {
            return Err(self);
        }
        // SAFETY: *quiet*: a counter is written.
        let quiet = unsafe { thread.not_stopped() };
        let Some(in_use) = self.hook(&quiet).and_then(Hook::enter_ordinary) else {
            return Err(self);
        };
        drop(quiet);
        // SAFETY: who watches without a scope is told, says the invariant of `Watch`.
        let tell = unsafe { in_use.get().on_event.unwrap_unchecked() };
        self.enter_plainly();
        let went_well = self.tell_here(thread, in_use.get(), tell, value);
        let as_before = self.leave_plainly();
        let outcome = if went_well { Ok(()) } else { Err(failed(thread, in_use.get())) };
        // SAFETY: *current*, and the callback leaves the thread's current frame as it was. *plain*,
        // as it is still. *out*: the shim is unlinked, the list has been left, and no generator is
        // watched.
        unsafe {
            if as_before {
                self.step_down_plainly(thread);
            } else {
                self.step_down(thread);
            }
            self.end_unheld(thread);
        }
        // Last: the user data of a hook that was removed meanwhile is freed, and any code runs.
        drop(in_use);
        Ok(outcome)
    }
}

impl Watch {
    /// Calls the event callback at the shim, which is the thread's current frame, for a frame that has returned
    /// `value`. Returns whether it succeeded.
    #[inline(always)]
    fn tell_here(
        &self,
        thread: Thread,
        hook: &Hook,
        tell: EventFunction,
        value: *mut PyObject,
    ) -> bool {
        let event = FrameHookEvent {
            kind: Kind::Returned as i32,
            value,
            code: self.code(),
            data: self.request().data,
        };
        begin_to_tell(self.mark());
        let round = Round::begin(thread);
        // SAFETY: the hook's owner says that `on_event` takes such an event. The user data is
        // there, as the hook is in use.
        let status = unsafe { tell(&raw const event, hook.user_data) };
        drop(round);
        status == 0 && !thread.has_exception()
    }

    fn wants(&self, what: Kind) -> bool {
        let request = self.request().events;
        match what {
            Kind::Yielded => request & FRAMEHOOK_ON_YIELD != 0,
            Kind::Resumed => request & FRAMEHOOK_ON_RESUME != 0,
            _ => request != 0,
        }
    }

    /// Calls the event callback, if the hook requested the event. No exception is set. The shim is the thread's current
    /// frame meanwhile, so that frames above start within a callback.
    #[inline(always)]
    pub fn tell(&self, thread: Thread, what: Kind, value: *mut PyObject) -> Outcome<()> {
        // SAFETY: *quiet*: a counter is written.
        let quiet = unsafe { thread.not_stopped() };
        // One that was removed is told nothing any more.
        let in_use = self.hook(&quiet).filter(|_| self.wants(what)).and_then(Hook::enter);
        drop(quiet);
        let Some(in_use) = in_use else { return Ok(()) };
        let hook = in_use.get();
        let Some(tell) = hook.on_event else { return Ok(()) };
        let in_callback = self.enter();
        let event = FrameHookEvent {
            kind: what as i32,
            value,
            code: self.code(),
            data: self.request().data,
        };
        // SAFETY: the thread's own state. Who is told leaves the thread's current frame as it was.
        let status = unsafe {
            let before = (*thread.tstate()).current_frame;
            let mark = self.mark();
            let below = mark.previous();
            if !self.is_linked() {
                mark.set_previous(before);
                self.wait_again();
            }
            thread.set_current_frame(mark.as_ptr());
            begin_to_tell(mark);
            let round = Round::begin(thread);
            let status =
                visible_if(hook.visible, thread, || tell(&raw const event, hook.user_data));
            drop(round);
            thread.set_current_frame(before);
            self.expect_return();
            mark.set_previous(below.map_or(null_mut(), Frame::as_ptr));
            status
        };
        let failed = (status != 0 || thread.has_exception()).then(|| failed(thread, hook));
        drop(in_use);
        self.leave(in_callback);
        let Some(raised) = failed else { return Ok(()) };
        // A generator's end is told by such an exception: nobody else may raise it there.
        Err(if self.watched().is_some() { raised.but_no_end(thread) } else { raised })
    }

    /// Calls the event callback while `raised` propagates, and sets that again, or the callback's own exception. To the
    /// callback it is as within `except`: `raised` becomes the context of its exception, or the end of that one's
    /// contexts.
    pub fn tell_aside(&self, thread: Thread, what: Kind, raised: Owned) {
        let value = if what == Kind::Raised { raised.as_ptr() } else { null_mut() };
        let told = handling(thread, &raised, || {
            let told = self.tell(thread, what, value);
            if told.is_err() {
                // SAFETY: attached; `tell` has failed, with an exception that is set.
                unsafe { give_context() };
            }
            told
        });
        // SAFETY: the exceptions are live, and no reference is used twice.
        unsafe {
            if told.is_err() {
                let new = c::PyErr_GetRaisedException();
                if new != raised.as_ptr() {
                    c::PyErr_SetRaisedException(new);
                    drop_aside(raised);
                    return;
                }
                c::Py_DecRef(new);
            }
            c::PyErr_SetRaisedException(raised.into_raw());
        }
    }

    /// Calls the drop callback. A failure is reported as unraisable.
    pub fn tell_dropped(&self, thread: Thread) {
        let _ = self.tell(thread, Kind::Dropped, null_mut()).map_err(|Raised { .. }| {
            // The report runs code of others, and the name is the hook's.
            // SAFETY: *quiet*: a counter is written.
            let hook = self.hook(&unsafe { thread.not_stopped() }).map(Hook::share);
            let name = hook.as_ref().map_or(c"".as_ptr(), |hook| hook.get().name().cast());
            // SAFETY: a format that takes a string, which lives; an exception is set.
            unsafe {
                let text = c"Exception ignored in frame hook %s, told that a frame was dropped";
                c::PyErr_FormatUnraisable(text.as_ptr(), name);
            }
        });
    }
}

/// An event callback has failed: makes sure that an exception is set.
#[cold]
#[inline(never)]
fn failed(thread: Thread, hook: &Hook) -> Raised {
    count_one(&hook.errors);
    if !thread.has_exception() {
        // SAFETY: a class, and a format that takes a string.
        unsafe {
            c::PyErr_Format(
                c::PyExc_SystemError,
                c"frame hook %s failed and set no exception when it was told of a frame".as_ptr(),
                hook.name(),
            );
        }
    }
    Raised::by_cpython(thread)
}

/// The unfinished frames of `ending` never run again: drop callbacks are called in the calling `thread`. Shims stay,
/// since frames lead to them.
///
/// # Safety
/// *alone*: `ending` is the calling thread, or does not run any more: nobody else works on what is that thread's.
pub unsafe fn forget_those_of(thread: Thread, ending: ThreadState) {
    loop {
        // SAFETY: *quiet*: what the watch has is moved, and runs nothing.
        let quiet = unsafe { thread.not_stopped() };
        // SAFETY: *alone*. *listed*: it is the first of the list.
        let forgotten = unsafe {
            let Some(watch) = Watch::first_of(ending, &quiet) else { return };
            watch.forget()
        };
        drop(quiet);
        // Code that runs here may begin watches of frames of its own, and has ended them when it is over.
        if let Some(forgotten) = forgotten {
            forgotten.tell_dropped(thread);
        }
    }
}

/// At the interpreter's end, when no other thread of it runs.
pub fn forget_all(thread: Thread) {
    // SAFETY: no thread state comes or goes any more.
    unsafe { ThreadState::all(thread).for_each(|ending| forget_those_of(thread, ending)) };
}
