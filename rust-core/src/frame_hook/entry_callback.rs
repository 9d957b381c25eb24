//! Calls one hook's entry callback, and executes its answer.
//!
//! A clause that safety comments cite: *dispatched*: `frame` is being dispatched in this thread.
//! Only its [`EntryFrame`] can show or replace it, which no callback has. Frame walkers, in this
//! thread and in others, skip it: it counts as incomplete.

use super::c_types::{FrameHookAnswer, FRAMEHOOK_PASS, FRAMEHOOK_RESULT};
use super::counted::count_one;
use super::entry_frame::{EntryFrame, Look};
use super::error::{Outcome, Raised};
use super::hook::Hook;
use super::state::visible_if;
use super::verdict::{Request, Verdict};
use super::watch::OwnedWatch;
use super::{opt_out, replace};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, CStr};
use core::sync::atomic::Ordering;

/// A hook's answer in C's form, unvalidated; [`heed`] validates.
pub(super) struct Given {
    verdict: c_int,
    /// What is to run, and may be no code; or the value of the call. A reference, or NULL.
    object: *mut PyObject,
    pub(super) request: Request,
}

impl Given {
    /// Whether the hook passes and changes nothing, as most do nearly always.
    #[inline(always)]
    pub(super) fn passes(&self, thread: Thread) -> bool {
        self.verdict == FRAMEHOOK_PASS && self.object.is_null() && !thread.has_exception()
    }

    /// The result of the call, if the hook gives one and requests nothing else; otherwise the answer.
    #[inline(always)]
    pub(super) fn into_value(self, thread: Thread) -> Result<Owned, Self> {
        if self.verdict != FRAMEHOOK_RESULT || !self.request.is_nothing() || thread.has_exception()
        {
            return Err(self);
        }
        // SAFETY: NULL, or a reference that is ours.
        unsafe { Owned::new(self.object) }.ok_or(self)
    }
}

/// Calls one hook.
///
/// # Safety
/// *dispatched*.
#[inline(always)]
pub(super) unsafe fn call(hook: &Hook, frame: Look<'_>) -> Given {
    count_one(&hook.calls);
    let mut answer = FrameHookAnswer::EMPTY;
    // SAFETY: the definition's owner says that `on_entry` takes such arguments. *dispatched*, says
    // the caller. The callback writes to `answer` until it returns, and from no other greenlet.
    unsafe {
        let verdict = (hook.on_entry)(frame.frame().as_ptr(), hook.user_data, &raw mut answer);
        // Each field by itself, as the hook has written it: a wide read would have to wait until
        // several writes have come to the memory.
        let request = Request {
            data: (&raw const answer.data).read_volatile(),
            events: (&raw const answer.events).read_volatile(),
            scope: (&raw const answer.scope).read_volatile(),
        };
        Given { verdict, object: (&raw const answer.object).read_volatile(), request }
    }
}

/// Calls one hook that is visible, or whose time is measured.
///
/// # Safety
/// As for [`call`].
#[cold]
#[inline(never)]
unsafe fn call_apart(thread: Thread, hook: &Hook, frame: Look<'_>) -> Given {
    // SAFETY: *dispatched*, says the caller. Tools that see the callback's code skip the frame,
    // which counts as incomplete.
    visible_if(hook.visible, thread, || unsafe {
        if hook.timed {
            call_timed(hook, frame)
        } else {
            call(hook, frame)
        }
    })
}

/// Calls one hook, and measures how long that takes.
///
/// # Safety
/// As for [`call`].
unsafe fn call_timed(hook: &Hook, frame: Look<'_>) -> Given {
    let (mut before, mut after) = (0, 0);
    // SAFETY: the clock writes to a local variable; a failure leaves 0. *dispatched*, says the
    // caller.
    let given = unsafe {
        c::PyTime_PerfCounterRaw(&raw mut before);
        let given = call(hook, frame);
        c::PyTime_PerfCounterRaw(&raw mut after);
        given
    };
    hook.nanoseconds.fetch_add(after.wrapping_sub(before) as u64, Ordering::Relaxed);
    given
}

/// What one hook's answer means for the dispatch.
pub(super) enum Heeded {
    /// It passes, and is called for the next frame too.
    Passed,
    /// It is disabled for the code object.
    Settled,
    /// Another frame runs in the place of the dispatched one.
    Replaced,
    /// This is the value of the call.
    Answered(Owned),
    /// An exception is set.
    Failed,
}

/// Asks one hook, of whatever kind, and does what it has answered.
///
/// # Safety
/// *dispatched*.
pub(super) unsafe fn ask(thread: Thread, hook: &Hook, frame: &mut EntryFrame) -> Heeded {
    // SAFETY: *dispatched*, says the caller, and still so after the callback, which cannot show or
    // replace the frame: that takes the `EntryFrame`. `given` is this hook's answer of just now.
    unsafe {
        let apart = hook.timed | hook.visible;
        let given =
            if apart { call_apart(thread, hook, frame.look()) } else { call(hook, frame.look()) };
        heed(thread, hook, frame, given)
    }
}

/// Begins to watch a frame for a hook.
#[inline(always)]
pub(super) fn begin_watch(
    thread: Thread,
    hook: &Hook,
    frame: Look<'_>,
    request: Request,
) -> Outcome<()> {
    if request.scope != 0 || !request.makes_sense() || hook.on_event.is_none() {
        return begin_other_watch(thread, hook, frame, request);
    }
    begin_sound_watch(thread, hook, frame, request)
}

/// As [`begin_watch`], of any request.
#[cold]
#[inline(never)]
fn begin_other_watch(
    thread: Thread,
    hook: &Hook,
    frame: Look<'_>,
    request: Request,
) -> Outcome<()> {
    if request.makes_sense() && (request.events == 0 || hook.on_event.is_some()) {
        return begin_sound_watch(thread, hook, frame, request);
    }
    let raised = complain(
        thread,
        hook,
        c"frame hook %s wants to be told what it cannot be told, or has an unknown extent",
    );
    // SAFETY: it came with this answer, and nobody else has it.
    unsafe { hook.free_data(request.data) };
    Err(raised)
}

/// As [`begin_watch`], of a valid request.
#[inline(always)]
fn begin_sound_watch(
    thread: Thread,
    hook: &Hook,
    frame: Look<'_>,
    request: Request,
) -> Outcome<()> {
    match OwnedWatch::new(thread, Some(hook), request, frame.frame().code().as_object()) {
        Ok(watch) => {
            watch.link_first(thread, frame.frame(), request);
            Ok(())
        }
        Err(raised) => {
            // SAFETY: it came with this answer, and nobody else has it.
            unsafe { hook.free_data(request.data) };
            Err(raised)
        }
    }
}

/// Does what a hook has answered.
///
/// # Safety
/// *dispatched*, and `hook` has answered just now.
#[cold]
#[inline(never)]
pub(super) unsafe fn heed(
    thread: Thread,
    hook: &Hook,
    frame: &mut EntryFrame,
    given: Given,
) -> Heeded {
    let (verdict, request) = (Verdict::from_c(given.verdict), given.request);
    // SAFETY: NULL, or a reference that is ours.
    let object = unsafe { Owned::new(given.object) };
    let watched = if thread.has_exception() {
        // Of an answer that is an error nothing counts.
        if verdict != Some(Verdict::Error) && !request.is_nothing() {
            // SAFETY: it came with this answer, and nobody else has it.
            unsafe { hook.free_data(request.data) };
        }
        Err(Raised::by_cpython(thread))
    } else if verdict == Some(Verdict::Error) {
        Err(complain(thread, hook, c"frame hook %s answered with an error and set no exception"))
    } else if request.is_nothing() {
        Ok(())
    } else {
        begin_watch(thread, hook, frame.look(), request)
    };
    let done = watched.and_then(|()| match (verdict, object) {
        (Some(Verdict::Pass), None) => Ok(Heeded::Passed),
        // What another interpreter owns, and what there is no memory for, is not remembered: the
        // hook will be asked again.
        (Some(Verdict::Disable), None) => {
            Ok(match opt_out::settle(thread, frame.code(), hook.id, true) {
                Ok(()) => Heeded::Settled,
                Err(_) => Heeded::Passed,
            })
        }
        // SAFETY: *dispatched*, says the caller; the answer's reference keeps `object` alive.
        (Some(Verdict::Replace), Some(object)) => unsafe { run(thread, hook, frame, &object) },
        (Some(Verdict::Result), Some(value)) => Ok(Heeded::Answered(value)),
        _ => Err(complain(
            thread,
            hook,
            c"frame hook %s answered with a verdict that is unknown, or does not go with its object",
        )),
    });
    done.unwrap_or_else(|Raised { .. }| {
        count_one(&hook.errors);
        Heeded::Failed
    })
}

/// Raises `SystemError` about a hook; `format` takes its name.
#[cold]
fn complain(thread: Thread, hook: &Hook, format: &CStr) -> Raised {
    // SAFETY: a class, and a format that takes a string.
    unsafe { c::PyErr_Format(c::PyExc_SystemError, format.as_ptr(), hook.name()) };
    Raised::by_cpython(thread)
}

/// Raises `TypeError` about an answer of a hook that is no code.
#[cold]
fn refuse_answer(thread: Thread, hook: &Hook, answer: &Owned) -> Raised {
    // SAFETY: a class, and a format that takes a string and an object.
    unsafe {
        c::PyErr_Format(
            c::PyExc_TypeError,
            c"frame hook %s returned neither None nor framehook.DISABLE nor a function or code object, but an \
              object of type %T"
                .as_ptr(),
            hook.name(),
            answer.as_ptr(),
        );
    }
    Raised::by_cpython(thread)
}

/// Has what a hook has chosen run in the place of the frame's own code.
///
/// # Safety
/// *dispatched*.
unsafe fn run(
    thread: Thread,
    hook: &Hook,
    frame: &mut EntryFrame,
    chosen: &Owned,
) -> Outcome<Heeded> {
    // SAFETY: a live object, which the caller holds. *dispatched*, says the caller.
    unsafe {
        let Some(code) = Code::from_object(chosen.as_ptr()) else {
            return Err(refuse_answer(thread, hook, chosen));
        };
        if code == frame.code() {
            return Ok(Heeded::Passed);
        }
        replace::replace(thread, frame, code, hook.name())?;
        count_one(&hook.replacements);
        Ok(Heeded::Replaced)
    }
}
