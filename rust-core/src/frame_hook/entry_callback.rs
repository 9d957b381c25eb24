//! Calls one hook's entry callback, and executes its answer.
//!
//! A clause that safety comments cite: *dispatched*: the frame is being dispatched in this thread.
//! Only its [`EntryFrame`] can show or replace it, which no callback has. Frame walkers, in this
//! thread and in others, skip it: it counts as incomplete.

use super::c_types::{FrameHookAnswer, FRAMEHOOK_ERROR, FRAMEHOOK_PASS, FRAMEHOOK_RESULT};
use super::counted::count_one;
use super::dispatch_state::DispatchState;
use super::entry_frame::{EntryFrame, Look};
use super::error::{Outcome, Raised};
use super::hook::Hook;
use super::state::visible_if;
use super::verdict::{Request, Verdict};
use super::watch::owned::OwnedWatch;
use super::{opt_out, replace};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, c_uint, c_void, CStr};
use core::ops::ControlFlow;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// A hook's answer in C's form. Unvalidated; [`execute`] validates.
pub(super) struct RawAnswer {
    verdict: c_int,
    /// The code to run, unless it is another object, or the value of the call. A reference, or NULL.
    object: *mut PyObject,
    pub(super) request: Request,
}

impl RawAnswer {
    pub(super) const PASS: Self = RawAnswer::empty(FRAMEHOOK_PASS);
    /// An exception is set.
    pub(super) const ERROR: Self = RawAnswer::empty(FRAMEHOOK_ERROR);

    const fn empty(verdict: c_int) -> Self {
        let request = Request { data: null_mut(), events: 0, scope: 0 };
        RawAnswer { verdict, object: null_mut(), request }
    }

    /// Whether the hook passes and raises nothing, as most do nearly always.
    #[inline(always)]
    pub(super) fn passes(&self, thread: Thread) -> bool {
        // In one test, as the verdict is 0.
        self.verdict as usize | self.object as usize == FRAMEHOOK_PASS as usize
            && !thread.has_exception()
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
pub(super) unsafe fn call(hook: &Hook, frame: Look<'_>) -> RawAnswer {
    count_one(&hook.calls);
    let mut answer = FrameHookAnswer::EMPTY;
    // SAFETY: the definition's owner says that `on_entry` takes such arguments. *dispatched*, says
    // the caller. The callback writes to `answer` until it returns, and from no other greenlet.
    let verdict =
        unsafe { (hook.on_entry)(frame.frame().as_ptr(), hook.user_data, &raw mut answer) };
    // Each field by itself, as the hook has written it: a wide read would have to wait until
    // several writes have come to the memory.
    // SAFETY: a local variable, which nothing writes any more.
    let (object, request) = unsafe {
        let request = Request {
            data: (&raw const answer.data).read_volatile(),
            events: (&raw const answer.events).read_volatile(),
            scope: (&raw const answer.scope).read_volatile(),
        };
        ((&raw const answer.object).read_volatile(), request)
    };
    RawAnswer { verdict, object, request }
}

/// Calls one hook, of whatever kind.
///
/// # Safety
/// *dispatched*.
pub(super) unsafe fn call_any(thread: Thread, hook: &Hook, frame: Look<'_>) -> RawAnswer {
    if !(hook.timed | hook.visible) {
        // SAFETY: *dispatched*, says the caller.
        return unsafe { call(hook, frame) };
    }
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
unsafe fn call_timed(hook: &Hook, frame: Look<'_>) -> RawAnswer {
    let (mut before, mut after) = (0, 0);
    // SAFETY: the clock writes to a local variable; a failure leaves 0. *dispatched*, says the
    // caller.
    let answer = unsafe {
        c::PyTime_PerfCounterRaw(&raw mut before);
        let answer = call(hook, frame);
        c::PyTime_PerfCounterRaw(&raw mut after);
        answer
    };
    hook.nanoseconds.fetch_add(after.wrapping_sub(before) as u64, Ordering::Relaxed);
    answer
}

/// Begins to watch a frame for a hook. On failure the user data is freed.
#[inline(always)]
pub(super) fn begin_watch(
    thread: Thread,
    hook: &Hook,
    frame: Look<'_>,
    request: Request,
) -> Outcome<()> {
    // By its numbers: as a whole it would be written to memory and read again.
    let Request { data, events, scope } = request;
    if scope != 0 {
        return begin_checked_watch(thread, hook, frame, data, events, scope);
    }
    if !request.has_known_events() || hook.on_event.is_none() {
        return begin_checked_watch(thread, hook, frame, data, events, scope);
    }
    begin_valid_watch(thread, hook, frame, Request { data, events, scope: 0 })
}

/// As [`begin_watch`], of any request.
#[cold]
#[inline(never)]
fn begin_checked_watch(
    thread: Thread,
    hook: &Hook,
    frame: Look<'_>,
    data: *mut c_void,
    events: c_uint,
    scope: c_uint,
) -> Outcome<()> {
    let request = Request { data, events, scope };
    if request.is_known() && (request.events == 0 || hook.on_event.is_some()) {
        return begin_valid_watch(thread, hook, frame, request);
    }
    let raised = complain(
        thread,
        hook,
        c"frame hook %s requested events without an event callback, unknown events, or an unknown scope",
    );
    // SAFETY: it came with this answer, and nothing else has it.
    unsafe { hook.free_data(request.data) };
    Err(raised)
}

/// As [`begin_watch`], of a valid request.
#[inline(always)]
fn begin_valid_watch(
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
            // SAFETY: it came with this answer, and nothing else has it.
            unsafe { hook.free_data(request.data) };
            Err(raised)
        }
    }
}

/// Executes what a hook has answered. The dispatch ends if the call has a result or an exception.
///
/// # Safety
/// *dispatched*: the frame of `state`, and `hook` has answered just now.
#[cold]
#[inline(never)]
pub(super) unsafe fn execute(
    thread: Thread,
    hook: &Hook,
    state: &mut DispatchState<'_>,
    answer: RawAnswer,
) -> ControlFlow<Outcome<Owned>> {
    // SAFETY: *dispatched*, says the caller.
    match unsafe { execute_verdict(thread, hook, state, answer) } {
        Ok(None) => ControlFlow::Continue(()),
        Ok(Some(value)) => ControlFlow::Break(Ok(value)),
        Err(raised) => {
            count_one(&hook.errors);
            ControlFlow::Break(Err(raised))
        }
    }
}

/// As [`execute`], and returns the result of the call, if there is one.
///
/// # Safety
/// As there.
unsafe fn execute_verdict(
    thread: Thread,
    hook: &Hook,
    state: &mut DispatchState<'_>,
    answer: RawAnswer,
) -> Outcome<Option<Owned>> {
    let (verdict, request) = (Verdict::from_c(answer.verdict), answer.request);
    // SAFETY: NULL, or a reference that is ours.
    let object = unsafe { Owned::new(answer.object) };
    if thread.has_exception() {
        // An answer that is an error counts for nothing.
        if verdict != Some(Verdict::Error) && !request.is_nothing() {
            // SAFETY: it came with this answer, and nothing else has it.
            unsafe { hook.free_data(request.data) };
        }
        return Err(Raised::by_cpython(thread));
    }
    if verdict == Some(Verdict::Error) {
        let text = c"frame hook %s answered with an error and set no exception";
        return Err(complain(thread, hook, text));
    }
    if !request.is_nothing() {
        begin_watch(thread, hook, state.frame.look(), request)?;
    }
    match (verdict, object) {
        (Some(Verdict::Pass), None) => state.passed = true,
        // Code of another interpreter is not disabled, nor any without memory: the hook will be called again.
        (Some(Verdict::Disable), None) => {
            let disabled = opt_out::set_disabled(thread, state.frame.code(), hook.id, true);
            state.passed |= disabled.is_err();
        }
        (Some(Verdict::Replace), Some(object)) => {
            // SAFETY: *dispatched*, says the caller; the answer's reference keeps `object` alive.
            if unsafe { replace_code(thread, hook, &mut state.frame, &object) }? {
                state.has_replaced(thread);
            } else {
                state.passed = true;
            }
        }
        (Some(Verdict::Result), Some(value)) => return Ok(Some(value)),
        _ => return Err(complain(
            thread,
            hook,
            c"frame hook %s answered with a verdict that is unknown, or does not go with its object",
        )),
    }
    Ok(None)
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
    let text = c"frame hook %s returned neither None nor framehook.DISABLE nor a function or code object, but an \
                 object of type %T";
    // SAFETY: a class, and a format that takes a string and an object.
    unsafe {
        c::PyErr_Format(c::PyExc_TypeError, text.as_ptr(), hook.name(), answer.as_ptr());
    }
    Raised::by_cpython(thread)
}

/// Replaces the frame by one that runs the code that a hook has returned. `false`: that is its own code.
///
/// # Safety
/// *dispatched*.
unsafe fn replace_code(
    thread: Thread,
    hook: &Hook,
    frame: &mut EntryFrame,
    chosen: &Owned,
) -> Outcome<bool> {
    // SAFETY: a live object, which the caller holds.
    let Some(code) = (unsafe { Code::from_object(chosen.as_ptr()) }) else {
        return Err(refuse_answer(thread, hook, chosen));
    };
    if code == frame.code() {
        return Ok(false);
    }
    // SAFETY: *dispatched*, says the caller, which holds a reference to the code.
    unsafe { replace::replace(thread, frame, code, hook.name()) }?;
    count_one(&hook.replacements);
    Ok(true)
}
