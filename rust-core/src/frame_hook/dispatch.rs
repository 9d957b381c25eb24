//! One dispatch: the entry callback of each hook is called in turn.
//!
//! A hook that passes pays for this path on every call. So [`dispatch`] contains what such hooks need: calling them,
//! beginning a watch, and a result. Any other answer, and hooks that are not called in the ordinary way, are left to
//! [`dispatch_rest`], which is out of line.

use super::dispatch_state::{
    next_step_for, update_watches, DispatchOutcome, DispatchState, NextStep,
};
use super::entry_callback::{begin_watch, call, call_any, execute, RawAnswer};
use super::entry_frame::{starts_within_a_callback, EntryFrame, NewFrame};
use super::error::{Outcome, Raised};
use super::hook::references::HookInUse;
use super::hook::Hook;
use super::listening::{enabled_in_first_group, open_in_first_group};
use super::return_offset::Stage;
use super::set::HookSet;
use super::state::{levels, DispatchGuard};
use super::unhooked::is_unhooked;
use super::verdict::Request;
use super::{opt_out, registry, scope};
use crate::cpython as c;
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::c_int;
use core::ops::ControlFlow;

/// True if dispatch is suppressed: a tracer's callback or a hook has started the frame, or the call is unhooked. A
/// greenlet has frames of its own, so a callback that waits in another one does not count.
#[inline(always)]
fn is_suppressed(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let (tracing, unhooked) = unsafe { ((*thread.tstate()).tracing, (*thread.own()).unhooked) };
    // A visible hook is no tracer's, and is counted in the levels alone.
    (tracing != 0 || levels(thread).0 | unhooked != 0) && is_suppressed_here(thread, frame)
}

/// [`is_suppressed`], if it is possible.
#[cold]
#[inline(never)]
fn is_suppressed_here(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let tracing = unsafe { (*thread.tstate()).tracing };
    let (dispatches, hidden) = levels(thread);
    // Levels of a hook are no tracer's; its callback may wait in another greenlet. If no callback runs, frames far
    // below are not looked at: an unhooked call whose frame is not dispatched stays counted.
    tracing > hidden as c_int
        || is_unhooked(thread, frame)
        || (dispatches != 0 && starts_within_a_callback(frame))
}

/// Dispatches the hooks for a frame that has its arguments and has executed nothing but its prologue. `finish` makes the
/// result. It is called once, where a dispatch ends: if all ways met first, each would write the outcome to memory.
///
/// # Safety
/// `frame` is this thread's, and linked.
#[inline(always)]
pub(super) unsafe fn dispatch<T>(
    thread: Thread,
    frame: NewFrame,
    stage: Stage,
    finish: impl FnOnce(Frame, DispatchOutcome) -> T,
) -> T {
    if is_suppressed(thread, *frame) {
        return finish(*frame, DispatchOutcome::Runs(NextStep::KeepUnspecialized));
    }
    // SAFETY: the state is live, and the thread's own fields change while this thread is stopped.
    let (epoch, groups, scopes) = unsafe {
        let state = thread.state();
        ((*state).epoch, (*state).groups, !(*thread.own()).scopes.is_null())
    };
    if groups > 1 || scopes {
        // SAFETY: the caller says that `frame` is this thread's, and linked. Nothing has run since.
        let (frame, outcome) = unsafe { dispatch_some(thread, frame, stage) };
        return finish(frame, outcome);
    }
    let disabled = opt_out::slots_of_first_group(thread, frame.code());
    if open_in_first_group(thread) & !disabled == 0 {
        // What `next_step_for` finds: there is no other group, and `disabled` is of this moment. A generator's start is
        // never specialized, so that it comes here each time.
        let all_disabled = enabled_in_first_group(thread).1 & !disabled == 0;
        let next = if all_disabled { NextStep::Specialize } else { NextStep::KeepUnspecialized };
        return finish(*frame, DispatchOutcome::Runs(next));
    }
    let Some(guard) = DispatchGuard::begin_if_nothing_pends(thread) else {
        // SAFETY: the caller says that `frame` is this thread's, and linked. Nothing has run since.
        let (frame, outcome) = unsafe { dispatch_some(thread, frame, stage) };
        return finish(frame, outcome);
    };
    let (next, caller) = (frame.instruction(), frame.previous());
    let frame = frame.hide(stage);
    // SAFETY: *quiet*: fields are read, and a counter is written.
    let only = unsafe { thread.not_stopped() }.hooks().only_ordinary();
    // Made in each branch, or it would lie in memory in both.
    if let Some(in_use) = only {
        let ordinary = Ordinary { frame, epoch, disabled, next, caller, guard };
        return ordinary.call_one(thread, in_use, finish);
    }
    Ordinary { frame, epoch, disabled, next, caller, guard }.call_all(thread, finish)
}

/// The dispatch of hooks of the first group, as long as they are ordinary and pass. Fields are as in [`DispatchState`].
struct Ordinary {
    frame: EntryFrame,
    epoch: u32,
    disabled: u32,
    next: *mut c::_Py_CODEUNIT,
    caller: Option<Frame>,
    guard: DispatchGuard,
}

/// What an ordinary hook has answered: it passes, and perhaps watches the frame; it gives a value; or anything else.
enum Step {
    Passed(HookInUse, bool),
    Value(HookInUse, Owned),
    Other(HookInUse, RawAnswer),
}

impl Ordinary {
    /// Calls the only hook there is, which is open and not disabled for the code. Hooks that are added meanwhile are not
    /// called.
    #[inline(always)]
    fn call_one<T>(
        self,
        thread: Thread,
        in_use: HookInUse,
        finish: impl FnOnce(Frame, DispatchOutcome) -> T,
    ) -> T {
        let (frame, outcome) = match call_ordinary(thread, &self.frame, in_use) {
            Step::Passed(in_use, watched) => {
                // SAFETY: *quiet*: the use of the hook ends.
                match in_use.leave_if_ordinary(&unsafe { thread.not_stopped() }) {
                    Ok(()) => return self.pass(thread, watched, finish),
                    Err(in_use) => self.continue_with(thread, in_use, Some(RawAnswer::PASS)),
                }
            }
            Step::Value(in_use, value) => return self.end(in_use, value, finish),
            Step::Other(in_use, answer) => self.continue_with(thread, in_use, Some(answer)),
        };
        finish(frame, outcome)
    }

    /// Calls those hooks that are open and not disabled for the code, in order. Out of line: one hook alone needs none of its
    /// registers.
    #[inline(never)]
    fn call_all<T>(self, thread: Thread, finish: impl FnOnce(Frame, DispatchOutcome) -> T) -> T {
        let mut watched = false;
        // SAFETY: *quiet*: fields are read until this is dropped, before a hook is called.
        let mut quiet = unsafe { thread.not_stopped() };
        let mut hooks = quiet.hooks();
        // The hook at which the rest begins, with its answer, unless it was not called yet.
        let (at, answer) = loop {
            let Some(hook) = hooks.next() else { return self.pass(thread, watched, finish) };
            // What a hook enables or disables counts at once.
            let open = open_in_first_group(thread) & !self.disabled;
            if hook.bit() & open == 0 || hook.epoch > self.epoch {
                continue;
            }
            let in_use = hook.enter();
            if !hook.is_ordinary() {
                break (in_use, None);
            }
            drop(quiet);
            let in_use = match call_ordinary(thread, &self.frame, in_use) {
                Step::Passed(in_use, watches) => {
                    watched |= watches;
                    in_use
                }
                Step::Value(in_use, value) => return self.end(in_use, value, finish),
                Step::Other(in_use, answer) => break (in_use, Some(answer)),
            };
            // SAFETY: *quiet*: the use of the hook ends and the next one is looked up, before a hook is
            // called.
            quiet = unsafe { thread.not_stopped() };
            hooks = match in_use.leave_ordinary(&quiet) {
                Ok(behind) => behind,
                // It has passed, and was removed or changed as it was called.
                Err(in_use) => break (in_use, Some(RawAnswer::PASS)),
            };
        };
        let (frame, outcome) = self.continue_with(thread, at, answer);
        finish(frame, outcome)
    }

    /// All hooks have passed.
    #[inline(always)]
    fn pass<T>(
        self,
        thread: Thread,
        watched: bool,
        finish: impl FnOnce(Frame, DispatchOutcome) -> T,
    ) -> T {
        if watched {
            update_watches(thread, *self.frame, self.caller, false, true);
        }
        drop(self.guard);
        let frame = self.frame.show(self.next);
        finish(frame, DispatchOutcome::Runs(NextStep::KeepUnspecialized))
    }

    /// A hook has given the call a value. If it was removed meanwhile, its user data may be freed now, and any code runs:
    /// within the dispatch, with the frame still hidden. A frame that does not run makes no generator.
    #[inline(always)]
    fn end<T>(
        self,
        in_use: HookInUse,
        value: Owned,
        finish: impl FnOnce(Frame, DispatchOutcome) -> T,
    ) -> T {
        drop(in_use);
        drop(self.guard);
        finish(self.frame.show(self.next), DispatchOutcome::Ends(Ok(value)))
    }

    /// Continues with the hook `at`, which has returned `answer`, or was not called yet.
    #[inline(always)]
    fn continue_with(
        self,
        thread: Thread,
        at: HookInUse,
        answer: Option<RawAnswer>,
    ) -> (Frame, DispatchOutcome) {
        let Ordinary { frame, epoch, disabled, next, caller, guard } = self;
        let (excluded, disabled) = (&HookSet::NONE, HookSet::of_first_group(disabled));
        let (passed, replaced) = (false, false);
        let state = DispatchState {
            frame,
            epoch,
            excluded,
            disabled,
            passed,
            replaced,
            next,
            caller,
            guard,
        };
        // SAFETY: hidden, and the hook is the one that has answered, or is next.
        unsafe { dispatch_rest(thread, state, Some(at), answer) }
    }
}

/// Calls an ordinary hook, and begins a watch that it requests.
#[inline(always)]
fn call_ordinary(thread: Thread, frame: &EntryFrame, in_use: HookInUse) -> Step {
    // SAFETY: *dispatched* (`entry_callback`), says the type.
    let answer = unsafe { call(in_use.get(), frame.look()) };
    if !answer.passes(thread) {
        return match answer.into_value(thread) {
            Ok(value) => Step::Value(in_use, value),
            Err(answer) => Step::Other(in_use, answer),
        };
    }
    // Field by field, or all three would be stored for hooks that request nothing, too.
    let Request { data, events, scope } = answer.request;
    if scope == 0 && events == 0 {
        return Step::Passed(in_use, false);
    }
    match begin_watch(thread, in_use.get(), frame.look(), Request { data, events, scope }) {
        Ok(()) => Step::Passed(in_use, true),
        Err(Raised { .. }) => Step::Other(in_use, RawAnswer::ERROR),
    }
}

/// As [`dispatch`], with many hooks, with scopes in this thread, or while work is pending.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn dispatch_some(thread: Thread, frame: NewFrame, stage: Stage) -> (Frame, DispatchOutcome) {
    let disabled = opt_out::set(thread, frame.code());
    let open = HookSet::open(thread).without(&disabled);
    if open.is_empty() {
        return (*frame, DispatchOutcome::Runs(next_step_for(thread, frame.code())));
    }
    let excluded = &scope::excluded(thread);
    if open.without(excluded).is_empty() {
        return (*frame, DispatchOutcome::Runs(NextStep::KeepUnspecialized));
    }
    let (next, caller) = (frame.instruction(), frame.previous());
    let guard = DispatchGuard::begin(thread);
    let frame = frame.hide(stage);
    let (first, epoch) = registry::first(thread);
    let (passed, replaced) = (false, false);
    let state =
        DispatchState { frame, epoch, excluded, disabled, passed, replaced, next, caller, guard };
    // SAFETY: hidden just now.
    unsafe { dispatch_rest(thread, state, first, None) }
}

/// The rest of a dispatch, from the hook `at` on, which has returned `answer`, or was not called
/// yet.
///
/// # Safety
/// The frame of `state` is being dispatched in this thread.
#[cold]
#[inline(never)]
unsafe fn dispatch_rest(
    thread: Thread,
    mut state: DispatchState<'_>,
    mut at: Option<HookInUse>,
    mut answer: Option<RawAnswer>,
) -> (Frame, DispatchOutcome) {
    // Those before it have passed.
    // SAFETY: *quiet*: fields are read.
    state.passed = unsafe { thread.not_stopped() }
        .hooks()
        .take_while(|hook| {
            at.as_ref().is_some_and(|at| !core::ptr::eq(&raw const **hook, at.get()))
        })
        .any(|hook| state.calls(thread, &hook));
    while let Some(hook) = at {
        // SAFETY: the caller says that the frame of `state` is being dispatched in this thread.
        // Callbacks cannot show or replace it: that takes its `EntryFrame`.
        let step = unsafe { call_one(thread, hook.get(), answer.take(), &mut state) };
        if let ControlFlow::Break(end) = step {
            return state.finish(thread, Some(hook), Some(end));
        }
        at = hook.into_next(state.epoch);
    }
    state.finish(thread, None, None)
}

/// Calls a hook, if it is called here and for this code, and executes its answer. `answer` is the answer of a hook that
/// was called already.
///
/// # Safety
/// The frame of `state` is being dispatched in this thread.
unsafe fn call_one(
    thread: Thread,
    hook: &Hook,
    answer: Option<RawAnswer>,
    state: &mut DispatchState<'_>,
) -> ControlFlow<Outcome<Owned>> {
    let answer = match answer {
        Some(answer) => answer,
        None if !state.calls(thread, hook) => return ControlFlow::Continue(()),
        None if !hook.is_ordinary() && is_excluded(thread, hook) => {
            state.passed |= hook.is_enabled();
            return ControlFlow::Continue(());
        }
        // SAFETY: *dispatched*, says the caller.
        None => unsafe { call_any(thread, hook, state.frame.look()) },
    };
    // SAFETY: *dispatched*, says the caller, and this hook has answered just now.
    unsafe { execute(thread, hook, state, answer) }
}

/// Whether an open hook is not called here: it is disabled, or is called for callees of other frames only.
#[cold]
#[inline(never)]
fn is_excluded(thread: Thread, hook: &Hook) -> bool {
    !hook.is_enabled() || (hook.is_for_callees_alone() && !scope::has_scope_here(thread, hook))
}
