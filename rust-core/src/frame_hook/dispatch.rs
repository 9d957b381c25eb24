//! One dispatch: the entry callback of each hook is called in turn.
//!
//! A hook that passes pays for this path on every call. So [`dispatch`] contains what such hooks need: calling them,
//! beginning a watch, and a result. Any other answer, and hooks that are not called in the ordinary way, are left to
//! [`dispatch_rest`], which is out of line.

use super::dispatch_state::{
    next_step_for, update_watches, DispatchOutcome, DispatchState, NextStep,
};
use super::entry_callback::{begin_watch, call, call_any, execute, RawAnswer};
use super::entry_frame::{starts_within_a_callback, NewFrame};
use super::error::{Outcome, Raised};
use super::hook::references::HookInUse;
use super::hook::Hook;
use super::listening::open_in_first_group;
use super::return_offset::Stage;
use super::set::HookSet;
use super::state::{levels, DispatchGuard};
use super::unhooked::is_unhooked;
use super::verdict::Request;
use super::{opt_out, registry, scope};
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

/// Dispatches the hooks for a frame that has its arguments and has executed nothing but its prologue.
///
/// # Safety
/// `frame` is this thread's, and linked.
#[inline(always)]
pub(super) unsafe fn dispatch(
    thread: Thread,
    frame: NewFrame,
    stage: Stage,
) -> (Frame, DispatchOutcome) {
    if is_suppressed(thread, *frame) {
        return (*frame, DispatchOutcome::Runs(NextStep::KeepUnspecialized));
    }
    // SAFETY: the state is live, and the thread's own fields change while this thread is stopped.
    let (epoch, groups, scopes) = unsafe {
        let state = thread.state();
        ((*state).epoch, (*state).groups, !(*thread.own()).scopes.is_null())
    };
    if groups > 1 || scopes {
        // SAFETY: the caller says that `frame` is this thread's, and linked. Nothing has run since.
        return unsafe { dispatch_some(thread, frame, stage) };
    }
    let disabled = opt_out::slots_of_first_group(thread, frame.code());
    if open_in_first_group(thread) & !disabled == 0 {
        return (*frame, DispatchOutcome::Runs(next_step_for(thread, frame.code())));
    }
    dispatch_ordinary(thread, frame, stage, epoch, disabled)
}

/// Calls those hooks of the first group that are open and not in `disabled`, in order, as long as they are ordinary and
/// pass. All that were added until `epoch` are in that group.
#[inline(always)]
fn dispatch_ordinary(
    thread: Thread,
    frame: NewFrame,
    stage: Stage,
    epoch: u32,
    disabled: u32,
) -> (Frame, DispatchOutcome) {
    let (next, caller) = (frame.instruction(), frame.previous());
    let guard = DispatchGuard::begin(thread);
    let frame = frame.hide(stage);
    let mut watched = false;
    // SAFETY: *quiet*: fields are read until this is dropped, before a hook is called.
    let mut quiet = unsafe { thread.not_stopped() };
    let mut hooks = quiet.hooks();
    // The hook at which the rest begins, with its answer, unless it was not called yet.
    let (at, answer) = loop {
        let Some(hook) = hooks.next() else {
            if watched {
                update_watches(thread, *frame, caller, false, true);
            }
            drop(guard);
            return (frame.show(next), DispatchOutcome::Runs(NextStep::KeepUnspecialized));
        };
        // What a hook enables or disables counts at once.
        let open = open_in_first_group(thread) & !disabled;
        if hook.bit() & open == 0 || hook.epoch > epoch {
            continue;
        }
        let in_use = hook.enter();
        if !hook.is_ordinary() {
            break (in_use, None);
        }
        drop(quiet);
        // SAFETY: *dispatched* (`entry_callback`), says the type.
        let answer = unsafe { call(in_use.get(), frame.look()) };
        if !answer.passes(thread) {
            let value = match answer.into_value(thread) {
                Ok(value) => value,
                Err(answer) => break (in_use, Some(answer)),
            };
            // If the hook was removed meanwhile, its user data may be freed now, and any code runs: within the dispatch,
            // with the frame still hidden. A frame that does not run makes no generator.
            drop(in_use);
            drop(guard);
            return (frame.show(next), DispatchOutcome::Ends(Ok(value)));
        }
        // Field by field, or all three would be stored for hooks that request nothing, too.
        let Request { data, events, scope } = answer.request;
        if events | scope != 0 {
            let request = Request { data, events, scope };
            if let Err(Raised { .. }) = begin_watch(thread, in_use.get(), frame.look(), request) {
                break (in_use, Some(RawAnswer::ERROR));
            }
            watched = true;
        }
        // SAFETY: *quiet*: the use of the hook ends and the next one is looked up, before a hook is
        // called.
        quiet = unsafe { thread.not_stopped() };
        hooks = match in_use.leave_ordinary(&quiet) {
            Ok(behind) => behind,
            // It has passed, and was removed or changed as it was called.
            Err(in_use) => break (in_use, Some(RawAnswer::PASS)),
        };
    };
    let (excluded, disabled) = (&HookSet::NONE, HookSet::of_first_group(disabled));
    let (passed, replaced) = (false, false);
    let state =
        DispatchState { frame, epoch, excluded, disabled, passed, replaced, next, caller, guard };
    // SAFETY: hidden, and the hook is the one that has answered, or is next.
    unsafe { dispatch_rest(thread, state, Some(at), answer) }
}

/// As [`dispatch`], with many hooks, or scopes in this thread.
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
