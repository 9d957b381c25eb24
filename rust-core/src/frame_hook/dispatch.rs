//! One dispatch: the entry callback of each hook is called in turn.
//!
//! A hook that passes pays for this path on every call. So [`offer`] contains what such hooks need: calling them,
//! beginning a watch, and a result. Any other answer, and hooks that are not called in the ordinary way, are left to
//! [`go_on_with`], which is out of line.

use super::counted::count_one;
use super::entry_callback::{ask, begin_watch, call, heed, Given, Heeded};
use super::entry_frame::{starts_within_a_hook, EntryFrame, NewFrame, Stage};
use super::error::Raised;
use super::hook::{Hook, HookInUse};
use super::listening::{enabled_in_first_group, is_open, open_in_first_group};
use super::set::HookSet;
use super::shim_code::is_mark;
use super::state::{levels, Round};
use super::unhooked::is_spared;
use super::verdict::Request;
use super::watch::Watch;
use super::{opt_out, registry, scope};
use crate::code::Code;
use crate::cpython as c;
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::c_int;

/// How the eval loop continues after a dispatch.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(any(test, fuzzing), derive(Debug))]
pub enum NextStep {
    /// In the same frame. All hooks are disabled for the code object: `RESUME` may be specialized.
    Specialize = 0,
    /// In the same frame. `RESUME` stays as it is, so that the next frame of this code object is dispatched too.
    KeepUnspecialized = 1,
    /// In the thread's current frame, so many instructions ahead of its `instr_ptr`; or with the exception that is
    /// set, in the caller of the dispatched frame.
    CurrentFrame = 2,
}

/// The outcome of a dispatch for its frame.
pub(super) enum Way {
    /// It runs.
    Runs(Frame, NextStep),
    /// It runs, and is another one.
    Replaced(Frame),
    /// It does not run: the call has this value.
    Answered(Frame, Owned),
    /// It does not run: an exception is set.
    Failed(Frame),
}

/// True if dispatch is suppressed: a tracer's callback or a hook has started the frame, or the call is unhooked. A
/// greenlet has frames of its own, so a callback that waits in another one does not count.
#[inline(always)]
fn is_off_limits(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let (tracing, spared) = unsafe { ((*thread.tstate()).tracing, (*thread.own()).spared) };
    // A visible hook is no tracer's, and is counted in the levels alone.
    (tracing != 0 || levels(thread).0 | spared != 0) && is_not_to_be_offered(thread, frame)
}

/// [`is_off_limits`], where a look is worth while.
#[cold]
#[inline(never)]
fn is_not_to_be_offered(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let tracing = unsafe { (*thread.tstate()).tracing };
    let (rounds, hidden) = levels(thread);
    // Levels of a hook are no tracer's; it may wait in another greenlet. Where no hook
    // runs, frames far below are not looked at: a spared call whose frame is not offered stays counted.
    tracing > hidden as c_int
        || is_spared(thread, frame)
        || (rounds != 0 && starts_within_a_hook(frame))
}

/// How far the hooks that let a frame run were called.
enum Asked {
    All {
        /// Whether one of them watches the frame.
        watched: bool,
    },
    /// Up to one that has given a value for the call.
    Answered(Owned, HookInUse),
    /// Up to this hook, with what that one has answered. `None`: it was not called.
    UpTo(HookInUse, Option<Given>),
    /// Up to this one, which was removed or changed as it was called. It has let the frame run.
    Behind(HookInUse),
    /// An exception is set: there was no watch to be had.
    Failed(HookInUse),
}

/// Calls those hooks of the first group that are open and not in `settled`, in order, as long as they are ordinary and
/// let the frame run. All that were added until `epoch` are in that group.
#[inline(always)]
fn ask_ordinary(
    thread: Thread,
    epoch: u32,
    settled: u32,
    frame: EntryFrame,
) -> (EntryFrame, Asked) {
    let mut watched = false;
    // SAFETY: *quiet*: fields are read until this is dropped, before a hook is called.
    let mut quiet = unsafe { thread.not_stopped() };
    let mut hooks = quiet.hooks();
    while let Some(hook) = hooks.next() {
        // What a hook enables or disables counts at once.
        let open = open_in_first_group(thread) & !settled;
        if hook.bit() & open == 0 || hook.epoch > epoch {
            continue;
        }
        let in_use = hook.enter();
        if !hook.is_ordinary() {
            return (frame, Asked::UpTo(in_use, None));
        }
        drop(quiet);
        // SAFETY: *dispatched* (`entry_callback`), says the type.
        let given = unsafe { call(in_use.get(), frame.look()) };
        if !given.passes(thread) {
            let asked = match given.into_value(thread) {
                Ok(value) => Asked::Answered(value, in_use),
                Err(given) => Asked::UpTo(in_use, Some(given)),
            };
            return (frame, asked);
        }
        // Field by field, or all three would be stored for hooks that ask for nothing, too.
        let Request { data, events, scope } = given.request;
        if events | scope != 0 {
            let request = Request { data, events, scope };
            if let Err(Raised { .. }) = begin_watch(thread, in_use.get(), frame.look(), request) {
                count_one(&in_use.get().errors);
                return (frame, Asked::Failed(in_use));
            }
            watched = true;
        }
        // SAFETY: *quiet*: the use of the hook ends and the next one is looked up, before a hook is
        // called.
        quiet = unsafe { thread.not_stopped() };
        hooks = match in_use.leave_ordinary(&quiet) {
            Ok(behind) => behind,
            Err(in_use) => return (frame, Asked::Behind(in_use)),
        };
    }
    (frame, Asked::All { watched })
}

/// A dispatch in progress. It ends when this is dropped; the hook at which it stands is released first.
struct UnderWay {
    /// What was added later is not called.
    epoch: u32,
    #[allow(dead_code)] // kept until then
    round: Round,
    /// The instruction at which the called frame continues.
    next: *mut c::_Py_CODEUNIT,
    /// What lay below it before the dispatch.
    caller: Option<Frame>,
}

/// Dispatches the hooks for a frame that has its arguments and has executed nothing but its prologue.
///
/// # Safety
/// `frame` is this thread's, and linked.
#[inline(always)]
pub(super) unsafe fn offer(thread: Thread, frame: NewFrame, stage: Stage) -> Way {
    if is_off_limits(thread, *frame) {
        return Way::Runs(*frame, NextStep::KeepUnspecialized);
    }
    // SAFETY: the state is live, and the thread's own fields change while this thread is stopped.
    let (epoch, groups, scopes) = unsafe {
        let state = thread.state();
        ((*state).epoch, (*state).groups, !(*thread.own()).scopes.is_null())
    };
    if groups > 1 || scopes {
        // SAFETY: the caller says that `frame` is this thread's, and linked. Nothing has run since.
        return unsafe { offer_to_some(thread, frame, stage) };
    }
    let settled = opt_out::slots_of_first_group(thread, frame.code());
    if open_in_first_group(thread) & !settled == 0 {
        return Way::Runs(*frame, standing(thread, frame.code()));
    }
    let (next, caller) = (frame.instruction(), frame.previous());
    let round = Round::begin(thread);
    let frame = frame.hide(stage);
    let (frame, asked) = ask_ordinary(thread, epoch, settled, frame);
    let under_way = |round| UnderWay { epoch, round, next, caller };
    let course = |frame| {
        let settled = HookSet::of_first_group(settled);
        Course { frame, excluded: &HookSet::NONE, settled, passed: false, replaced: false }
    };
    match asked {
        Asked::All { watched } => {
            if watched {
                introduce(thread, *frame, caller, false, true);
            }
            drop(round);
            Way::Runs(frame.show(next), NextStep::KeepUnspecialized)
        }
        Asked::Answered(value, in_use) => {
            // A hook that was removed meanwhile may go now, and its owner's code runs: within the
            // dispatch, with the frame still hidden. What does not run makes no generator, so no watch is told of one.
            drop(in_use);
            drop(round);
            Way::Answered(frame.show(next), value)
        }
        Asked::UpTo(at, given) => {
            // SAFETY: hidden, and the hook is the one that has answered, or is next.
            unsafe { go_on_with(thread, under_way(round), at, given, course(frame)) }
        }
        Asked::Behind(at) => {
            let course = Course { passed: true, ..course(frame) };
            // SAFETY: hidden just now.
            unsafe { go_on_behind(thread, under_way(round), at, course) }
        }
        Asked::Failed(at) => {
            end_round(thread, under_way(round), Some(at), course(frame), End::Failed)
        }
    }
}

/// As [`offer`], where there are many hooks, or scopes in this thread.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn offer_to_some(thread: Thread, frame: NewFrame, stage: Stage) -> Way {
    let settled = opt_out::set(thread, frame.code());
    let open = HookSet::open(thread).without(&settled);
    if open.is_empty() {
        return Way::Runs(*frame, standing(thread, frame.code()));
    }
    let excluded = scope::excluded(thread);
    if open.without(&excluded).is_empty() {
        return Way::Runs(*frame, NextStep::KeepUnspecialized);
    }
    let (next, caller) = (frame.instruction(), frame.previous());
    let round = Round::begin(thread);
    let frame = frame.hide(stage);
    let course = Course { frame, excluded: &excluded, settled, passed: false, replaced: false };
    let (first, epoch) = registry::first(thread);
    let under_way = UnderWay { epoch, round, next, caller };
    match first {
        // SAFETY: hidden just now.
        Some(at) => unsafe { go_on_with(thread, under_way, at, None, course) },
        None => end_round(thread, under_way, None, course, End::Runs),
    }
}

/// A dispatch, as far as it has come.
struct Course<'a> {
    /// The frame for which the next hook is called.
    frame: EntryFrame,
    /// The hooks that scopes exclude at this place.
    excluded: &'a HookSet,
    /// Those that are disabled for the frame's code.
    settled: HookSet,
    /// Whether some hook wants to be called again.
    passed: bool,
    /// Whether the frame is another one than the one that was called.
    replaced: bool,
}

impl Course<'_> {
    fn is_called(&self, thread: Thread, hook: &Hook) -> bool {
        is_open(thread, hook) && !self.excluded.has(hook) && !self.settled.has(hook)
    }
}

/// How a dispatch has ended.
enum End {
    Runs,
    /// With the value of the call.
    Answered(Owned),
    /// An exception is set.
    Failed,
}

/// The rest of a dispatch, from the hook `at` on, which has `given` its answer, or was not called
/// yet.
///
/// # Safety
/// The frame of `course` is being dispatched in this thread.
#[cold]
#[inline(never)]
unsafe fn go_on_with(
    thread: Thread,
    under_way: UnderWay,
    at: HookInUse,
    given: Option<Given>,
    mut course: Course<'_>,
) -> Way {
    // Those before it have let the frame run.
    // SAFETY: *quiet*: fields are read.
    course.passed = unsafe { thread.not_stopped() }
        .hooks()
        .take_while(|hook| !core::ptr::eq(&raw const **hook, at.get()))
        .any(|hook| course.is_called(thread, &hook));
    // SAFETY: the caller says that the frame of `course` is being dispatched in this thread.
    // Callbacks cannot show or replace it: that takes its `EntryFrame`.
    unsafe {
        match ask_one(thread, at.get(), given, &mut course) {
            None => go_on_behind(thread, under_way, at, course),
            Some(end) => end_round(thread, under_way, Some(at), course, end),
        }
    }
}

/// The rest of a dispatch, from the hook on that comes behind `at`.
///
/// # Safety
/// As for [`go_on_with`].
#[cold]
#[inline(never)]
unsafe fn go_on_behind(
    thread: Thread,
    under_way: UnderWay,
    at: HookInUse,
    mut course: Course<'_>,
) -> Way {
    let mut next = at.into_next(under_way.epoch);
    while let Some(at) = next {
        // SAFETY: the caller says that the frame of `course` is being dispatched in this thread.
        // The callbacks before this one could not show it: that takes its `EntryFrame`.
        if let Some(end) = unsafe { ask_one(thread, at.get(), None, &mut course) } {
            return end_round(thread, under_way, Some(at), course, end);
        }
        next = at.into_next(under_way.epoch);
    }
    end_round(thread, under_way, None, course, End::Runs)
}

/// Calls a hook, if it is to be called here and for the code that is to run. `given` is what it has answered, if
/// it was called already. The dispatch ends where there is a result.
///
/// # Safety
/// The frame of `course` is being dispatched in this thread.
unsafe fn ask_one(
    thread: Thread,
    hook: &Hook,
    given: Option<Given>,
    course: &mut Course<'_>,
) -> Option<End> {
    let heeded = match given {
        // SAFETY: *dispatched*, says the caller, and this hook has answered just now.
        Some(given) => unsafe { heed(thread, hook, &mut course.frame, given) },
        None if !course.is_called(thread, hook) => return None,
        None if !hook.is_ordinary() && is_beyond_limits(thread, hook) => {
            course.passed |= hook.is_enabled();
            return None;
        }
        // SAFETY: *dispatched*, says the caller.
        None => unsafe { ask(thread, hook, &mut course.frame) },
    };
    match heeded {
        Heeded::Settled => {}
        Heeded::Passed => course.passed = true,
        Heeded::Replaced => {
            course.settled = opt_out::set(thread, course.frame.code());
            course.replaced = true;
        }
        Heeded::Answered(value) => return Some(End::Answered(value)),
        Heeded::Failed => return Some(End::Failed),
    }
    None
}

/// Whether a hook is not called here, though it is open.
#[cold]
#[inline(never)]
fn is_beyond_limits(thread: Thread, hook: &Hook) -> bool {
    !hook.is_enabled() || (hook.is_for_callees_alone() && !scope::has_scope_here(thread, hook))
}

/// Ends a dispatch in which a hook has done more than to let the frame run.
#[cold]
#[inline(never)]
fn end_round(
    thread: Thread,
    under_way: UnderWay,
    at: Option<HookInUse>,
    course: Course<'_>,
    end: End,
) -> Way {
    let next = under_way.next;
    let Course { frame, passed, replaced, .. } = course;
    // What is not run makes no generator.
    introduce(thread, *frame, under_way.caller, replaced, matches!(end, End::Runs));
    // Hooks that were removed meanwhile may go now, and their owners' code runs: within the dispatch, with the frame
    // still hidden.
    drop(at);
    drop(under_way);
    // From here on nothing runs any more that could change what is found.
    match end {
        End::Runs if replaced => {
            let first = frame.code().first_instruction();
            Way::Replaced(frame.show(first))
        }
        End::Runs if passed => Way::Runs(frame.show(next), NextStep::KeepUnspecialized),
        End::Runs => {
            let frame = frame.show(next);
            // Hooks may have come and gone meanwhile.
            Way::Runs(frame, standing(thread, frame.code()))
        }
        // What does not run stays hidden: `next` may be of code that was replaced.
        End::Answered(value) => Way::Answered(frame.keep_hidden(), value),
        End::Failed => Way::Failed(frame.keep_hidden()),
    }
}

/// Whether `code` is of no interest to any hook, in whatever thread.
#[inline(never)]
pub(super) fn standing(thread: Thread, code: Code) -> NextStep {
    let (groups, enabled) = enabled_in_first_group(thread);
    let is_settled = match groups {
        0 => true,
        1 => enabled & !opt_out::slots_of_first_group(thread, code) == 0,
        _ => HookSet::enabled(thread).without(&opt_out::set(thread, code)).is_empty(),
    };
    if is_settled {
        NextStep::Specialize
    } else {
        NextStep::KeepUnspecialized
    }
}

/// Sets the code of the watches that began in this dispatch to the code that runs, if that is another. `caller` was
/// below the frame before it.
#[inline(always)]
fn introduce(thread: Thread, frame: Frame, caller: Option<Frame>, replaced: bool, runs: bool) {
    let makes_generator = runs
        && frame.code().flags() & (c::CO_GENERATOR | c::CO_COROUTINE | c::CO_ASYNC_GENERATOR) != 0;
    if replaced || makes_generator {
        introduce_each(thread, frame, caller, makes_generator);
    }
}

/// [`introduce`], if the code is another. The shims above the caller are those of this dispatch. The caller may be a
/// shim itself: of a frame that is being destroyed and runs a destructor, or one at which an event callback in C runs.
#[cold]
#[inline(never)]
fn introduce_each(thread: Thread, frame: Frame, caller: Option<Frame>, makes_generator: bool) {
    let mut at = frame.previous();
    while let Some(mark) = at.filter(|it| at != caller && is_mark(*it)) {
        // A return shim of this dispatch: no frame was left to it, nor is one that a destructor
        // runs now.
        at = mark.previous();
        // SAFETY: *quiet*: the code that the return shim had is given up as the last thing.
        let before = Watch::at(mark, &unsafe { thread.not_stopped() })
            .map(|watch| watch.set_code(frame.code(), makes_generator));
        drop(before);
    }
}
