//! Telling a hook what has become of the frame that it watches.
//!
//! A mark is the thread's current frame while the hook is told, so that what the hook starts is known to
//! start within one.

use super::description::TellFunction;
use super::error::{Outcome, Raised};
use super::hook::{count_one, Hook};
use super::offered::begin_to_tell;
use super::state::{hidden_if, Round};
use super::verdict::{Happened, HookEvent, FRAMEHOOK_TELL_RESUME, FRAMEHOOK_TELL_YIELD};
use super::watch::Watch;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::exception::{drop_aside, give_context, handling};
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;
use core::ptr::null_mut;

impl Watch {
    /// A frame has returned `value` to the mark of a watch of the plain kind: the hook is told, and
    /// the watch ends. The frame below is the thread's current one afterwards. `None`: it is of
    /// another kind, or is to be told in another way, and nothing was done.
    ///
    /// # Safety
    /// The mark is the thread's current frame.
    #[inline(always)]
    pub unsafe fn end_plainly(self, thread: Thread, value: *mut PyObject) -> Option<Outcome<()>> {
        if !self.is_plain() {
            return None;
        }
        let hook = self.hook()?;
        if !hook.is_ordinary() {
            return None;
        }
        // SAFETY: who watches without an extent is told, says the invariant of `Body`.
        let tell = unsafe { hook.tell.unwrap_unchecked() };
        if !self.tell_here(thread, hook, tell, value) {
            return Some(Err(self.end_failed(thread)));
        }
        // SAFETY: the caller's contract. The callback leaves the thread's current frame as it was. It
        // may have had the watch forgotten, and then that is in no list.
        unsafe {
            if self.is_plain() {
                self.leave_list();
                // Nobody reads the mark any more, which is unused memory now.
                thread.set_current_frame((*self.mark().as_ptr()).previous);
            } else {
                self.step_down(thread);
            }
        }
        self.end_unheld(thread);
        Some(Ok(()))
    }

    /// The end of a plain watch whose hook has failed.
    #[cold]
    #[inline(never)]
    fn end_failed(self, thread: Thread) -> Raised {
        // A hook that was removed meanwhile is still there, but not where the watch was forgotten.
        let raised = match self.hook() {
            Some(hook) => failed(thread, hook),
            None if thread.has_exception() => Raised::by_cpython(thread),
            None => Raised::runtime_error(thread, c"a frame hook has failed that is gone"),
        };
        // SAFETY: the mark is still the thread's current frame.
        unsafe { self.step_down(thread) };
        self.end(thread);
        raised
    }

    /// Tells the hook at the mark, which is the thread's current frame, that the frame has returned
    /// `value`. Whether all went well.
    #[inline(always)]
    fn tell_here(
        self,
        thread: Thread,
        hook: &Hook,
        tell: TellFunction,
        value: *mut PyObject,
    ) -> bool {
        let event = HookEvent {
            kind: Happened::Returned as i32,
            value,
            code: self.code(),
            word: self.request().word,
        };
        begin_to_tell(self.mark());
        let round = Round::begin(thread);
        // SAFETY: the contract of whoever added the hook.
        let status = unsafe { tell(&raw const event, hook.user_data) };
        drop(round);
        status == 0 && !thread.has_exception()
    }

    fn wants(self, what: Happened) -> bool {
        let request = self.request().tell;
        match what {
            Happened::Yielded => request & FRAMEHOOK_TELL_YIELD != 0,
            Happened::Resumed => request & FRAMEHOOK_TELL_RESUME != 0,
            _ => request != 0,
        }
    }

    /// Tells the hook, if it wants to be told. No exception is set. The mark is the thread's
    /// current frame meanwhile, so that what starts here is known to start within a hook.
    #[inline(always)]
    pub fn tell(self, thread: Thread, what: Happened, value: *mut PyObject) -> Outcome<()> {
        let Some(hook) = self.hook() else { return Ok(()) };
        let (false, true, Some(tell)) = (hook.is_removed(), self.wants(what), hook.tell) else {
            return Ok(());
        };
        let event =
            HookEvent { kind: what as i32, value, code: self.code(), word: self.request().word };
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
            let status = hidden_if(hook.hidden, thread, || tell(&raw const event, hook.user_data));
            drop(round);
            thread.set_current_frame(before);
            self.expect_return();
            mark.set_previous(below.map_or(null_mut(), Frame::as_ptr));
            status
        };
        if status == 0 && !thread.has_exception() {
            return Ok(());
        }
        let raised = failed(thread, hook);
        // A generator's end is told by such an exception: nobody else may raise it there.
        Err(if self.watched().is_some() { raised.but_no_end(thread) } else { raised })
    }

    /// Tells the hook while the exception `raised` is on its way, and sets that again, or the one
    /// that the hook has raised about it. To the hook it is as within `except`: `raised` is the
    /// context of what it raises, or the end of that one's contexts.
    pub fn tell_aside(self, thread: Thread, what: Happened, raised: Owned) {
        let value = if what == Happened::Raised { raised.as_ptr() } else { null_mut() };
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

    /// Tells the hook that the frame was dropped. Where it fails, that is reported.
    pub fn tell_dropped(self, thread: Thread) {
        let _ = self.tell(thread, Happened::Dropped, null_mut()).map_err(|Raised { .. }| {
            let name = self.hook().map_or(c"".as_ptr(), |hook| hook.name().cast());
            // SAFETY: a format that takes a string; an exception is set.
            unsafe {
                let text = c"Exception ignored in frame hook %s, told that a frame was dropped";
                c::PyErr_FormatUnraisable(text.as_ptr(), name);
            }
        });
    }
}

/// A hook that was told of a frame has failed: there is an exception, of its own or about that.
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

/// The frames that `ending` has begun and not left never run again: who watches them is told, in the
/// calling `thread`. Watches stay where they are, since frames lead to their marks.
///
/// # Safety
/// Nobody else works on what is that thread's.
pub unsafe fn forget_those_of(thread: Thread, ending: Thread) {
    // SAFETY: the caller's contract. Code that runs here may begin watches of frames of its own, and
    // has ended them when it is over.
    unsafe {
        while let Some(watch) = Watch::first_of(ending) {
            watch.forget(thread, ending, Watch::tell_dropped);
        }
    }
}

/// The interpreter ends, and no other thread of it runs any more.
pub fn forget_all(thread: Thread) {
    // SAFETY: the list of threads does not change any more.
    unsafe {
        let mut tstate = (*thread.interpreter()).threads.head;
        while !tstate.is_null() {
            let ending = Thread::new(tstate);
            tstate = (*tstate).next;
            forget_those_of(thread, ending);
        }
    }
}
