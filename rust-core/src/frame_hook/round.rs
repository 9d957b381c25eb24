//! One round: a frame is offered to each hook in turn.
//!
//! A hook that passes on every call pays for this path with each of them. So [`offer`] has all that
//! such hooks need, a watch that begins, and a value that is given for the call. Where a hook says
//! something else, or is not asked as others are, [`go_on_with`] has the rest of the round, out of
//! line.

use super::asking::{ask, begin_watch, call, heed, Given, Heeded};
use super::error::Raised;
use super::hook::{count_one, Hook};
use super::offered::{never_offer, starts_within_a_hook, Offered, Stage, Starting};
use super::original::is_spared;
use super::snapshot::{Snapshot, SnapshotRef};
use super::state::Round;
use super::switch::silent_here;
use super::watch::Watch;
use super::{extent, settled};
use crate::code::Code;
use crate::cpython as c;
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;

/// How the eval loop goes on after a frame was offered to the hooks.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(any(test, fuzzing), derive(Debug))]
pub enum Answer {
    /// In the same frame, and nobody wants to see this code object again.
    Settled = 0,
    /// In the same frame. The next frame of this code object is to be offered too.
    AskAgain = 1,
    /// In the thread's current frame, so many instructions ahead of where that stands; or with the
    /// exception that is set, in the frame that has called the one that was offered.
    Elsewhere = 2,
}

/// How a frame goes on after a round.
pub(super) enum Way {
    /// It runs.
    Runs(Frame, Answer),
    /// It runs, and is another one.
    Replaced(Frame),
    /// It does not run: the call has this value.
    Answered(Frame, Owned),
    /// It does not run: an exception is set.
    Failed(Frame),
}

/// Whether nobody is to be asked about a frame: a callback of a tracer has started it, or a hook
/// has, or the call is spared. A greenlet has frames of its own, so a hook that waits in another one
/// does not count.
#[inline(always)]
fn is_off_limits(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let (tracing, rounds, spared) =
        unsafe { ((*thread.tstate()).tracing, (*thread.own()).rounds, (*thread.own()).spared) };
    (tracing != 0 || rounds | spared != 0) && is_not_to_be_offered(thread, frame)
}

/// [`is_off_limits`], where a look is worth while.
#[cold]
#[inline(never)]
fn is_not_to_be_offered(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let (tracing, hidden, rounds) =
        unsafe { ((*thread.tstate()).tracing, (*thread.own()).hidden, (*thread.own()).rounds) };
    // Levels of a hook that is hidden are no tracer's; it may wait in another greenlet. Where no hook
    // runs, frames far below are not looked at: a spared call whose frame is not offered stays counted.
    tracing > hidden || is_spared(thread, frame) || (rounds != 0 && starts_within_a_hook(frame))
}

/// How far the hooks that let a frame run were asked.
enum Asked {
    All {
        /// Whether one of them watches the frame.
        watched: bool,
    },
    /// Up to one that has given a value for the call.
    Answered(Owned),
    /// Up to the hook of this number, with what that one has answered. `None`: it was not asked.
    UpTo(usize, Option<Given>),
    /// An exception is set: there was no watch to be had.
    Failed,
}

/// Asks those of `hooks` that are in `open`, in order, as long as they are ordinary and let the frame
/// run.
///
/// # Safety
/// `frame` is being offered in this thread.
#[inline(always)]
unsafe fn ask_ordinary(thread: Thread, hooks: &Snapshot, open: u32, frame: Offered) -> Asked {
    let mut watched = false;
    for (number, hook) in hooks.iter().enumerate() {
        if hook.bit() & open == 0 {
            continue;
        }
        if !hook.is_ordinary() {
            return Asked::UpTo(number, None);
        }
        // SAFETY: the caller's contract.
        let given = unsafe { call(hook, frame) };
        if !given.passes(thread) {
            return match given.into_value(thread) {
                Ok(value) => Asked::Answered(value),
                Err(given) => Asked::UpTo(number, Some(given)),
            };
        }
        if given.request.is_nothing() {
            continue;
        }
        if let Err(Raised { .. }) = begin_watch(thread, hook, frame, given.request) {
            count_one(&hook.errors);
            return Asked::Failed;
        }
        watched = true;
    }
    Asked::All { watched }
}

/// A round that is under way. Ends when it is dropped: the hooks go first, within the round.
struct UnderWay {
    snapshot: SnapshotRef,
    #[allow(dead_code)] // kept until then
    round: Round,
    /// Where the frame that was called goes on.
    next: *mut c::_Py_CODEUNIT,
    /// What lay below it before the round.
    caller: Option<Frame>,
}

/// Offers a frame that has its arguments and has run nothing but its prologue.
///
/// # Safety
/// `frame` is this thread's, and linked.
#[inline(always)]
pub(super) unsafe fn offer(thread: Thread, frame: Starting, stage: Stage) -> Way {
    if is_off_limits(thread, *frame) {
        return Way::Runs(*frame, Answer::AskAgain);
    }
    let Some(snapshot) = SnapshotRef::current(thread) else {
        return Way::Runs(*frame, Answer::Settled);
    };
    let hooks = snapshot.get();
    let settled = settled::slots(thread, hooks, frame.code());
    let open = hooks.enabled() & !settled;
    if open == 0 {
        return Way::Runs(*frame, Answer::Settled);
    }
    let here = !silent_here(thread, hooks);
    if open & here == 0 {
        return Way::Runs(*frame, Answer::AskAgain);
    }
    let (next, caller) = (frame.instruction(), frame.previous());
    let round = Round::begin(thread);
    let frame = frame.hide(stage);
    // SAFETY: hidden just now.
    let asked = unsafe { ask_ordinary(thread, hooks, here & !settled, frame) };
    match asked {
        Asked::All { watched } => {
            if watched {
                introduce(*frame, caller, false, true);
            }
            // Hooks that were removed meanwhile may go now, and their owners' code runs: within the
            // round, with the frame still hidden.
            drop(snapshot);
            drop(round);
            Way::Runs(frame.show(next), Answer::AskAgain)
        }
        Asked::Answered(value) => {
            // As above. What does not run makes no generator, so no watch is told of one.
            drop(snapshot);
            drop(round);
            Way::Answered(frame.show(next), value)
        }
        Asked::UpTo(number, given) => {
            let under_way = UnderWay { snapshot, round, next, caller };
            let course = Course { frame, here, settled, passed: false, replaced: false };
            // SAFETY: hidden, and the hook of that number is the one that has answered, or is next.
            unsafe { go_on_with(thread, under_way, number, given, course) }
        }
        Asked::Failed => {
            let under_way = UnderWay { snapshot, round, next, caller };
            let course = Course { frame, here, settled, passed: false, replaced: false };
            end_round(thread, under_way, course, End::Failed)
        }
    }
}

/// A round, as far as it has come.
struct Course {
    /// The frame that the next hook is asked about.
    frame: Offered,
    /// The slots of the hooks that are asked at this place, and of those that have settled its code.
    here: u32,
    settled: u32,
    /// Whether somebody wants to be asked again.
    passed: bool,
    /// Whether the frame is another one than the one that was called.
    replaced: bool,
}

/// How a round has ended.
enum End {
    Runs,
    /// With the value of the call.
    Answered(Owned),
    /// An exception is set.
    Failed,
}

/// The rest of a round, from the hook `number` on, which has `given` its answer, or was not asked
/// yet.
///
/// # Safety
/// The frame of `course` is being offered in this thread.
#[cold]
#[inline(never)]
unsafe fn go_on_with(
    thread: Thread,
    under_way: UnderWay,
    number: usize,
    given: Option<Given>,
    mut course: Course,
) -> Way {
    let hooks = under_way.snapshot.get();
    let asked = |hook: &Hook| hook.bit() & course.here & !course.settled != 0;
    course.passed = hooks.iter().take(number).any(asked);
    // SAFETY: the caller's contract.
    let end = unsafe { ask_from(thread, hooks, number, given, &mut course) };
    end_round(thread, under_way, course, end)
}

/// Asks those of `hooks`, from number `from` on, that are asked here and have not settled the frame's
/// code, in order. `given` is what the first of them has answered, if it was asked.
///
/// # Safety
/// The frame of `course` is being offered in this thread.
unsafe fn ask_from(
    thread: Thread,
    hooks: &Snapshot,
    from: usize,
    mut given: Option<Given>,
    course: &mut Course,
) -> End {
    for hook in hooks.iter().skip(from) {
        let heeded = match given.take() {
            // SAFETY: the frame is being offered, and this hook has answered just now.
            Some(given) => unsafe { heed(thread, hook, course.frame, given) },
            None if hook.bit() & course.here & !course.settled == 0 => continue,
            None if !hook.is_ordinary() && is_beyond_limits(thread, hooks, hook) => {
                course.passed |= !hook.is_silent();
                continue;
            }
            // SAFETY: the frame is being offered.
            None => unsafe { ask(thread, hook, course.frame) },
        };
        match heeded {
            Heeded::Settled => {}
            Heeded::Passed => course.passed = true,
            Heeded::Replaced(frame) => {
                course.frame = frame; // perhaps at the same address
                course.settled = settled::slots(thread, hooks, frame.code());
                course.replaced = true;
            }
            Heeded::Answered(value) => return End::Answered(value),
            Heeded::Failed => return End::Failed,
        }
    }
    End::Runs
}

/// Whether a hook is not asked here, though it is enabled.
#[cold]
#[inline(never)]
fn is_beyond_limits(thread: Thread, hooks: &Snapshot, hook: &Hook) -> bool {
    hook.is_silent()
        || hook.is_for_another_thread(thread)
        || (hook.is_only_below() && !extent::is_below(thread, hooks, hook))
}

/// Ends a round in which a hook has done more than to let the frame run.
#[cold]
#[inline(never)]
fn end_round(thread: Thread, under_way: UnderWay, course: Course, end: End) -> Way {
    let next = under_way.next;
    let Course { frame, passed, replaced, .. } = course;
    // What is not run makes no generator.
    introduce(*frame, under_way.caller, replaced, matches!(end, End::Runs));
    // As in `offer`.
    drop(under_way);
    // From here on nothing runs any more that could change what is found.
    match end {
        End::Runs if replaced => Way::Replaced(frame.show(frame.code().first_instruction())),
        End::Runs if passed => Way::Runs(frame.show(next), Answer::AskAgain),
        End::Runs => {
            let frame = frame.show(next);
            // Hooks may have come and gone meanwhile.
            Way::Runs(frame, standing(thread, frame.code()))
        }
        // What does not run stays hidden: `next` may be of code that was replaced.
        End::Answered(value) => {
            never_offer(*frame);
            Way::Answered(*frame, value)
        }
        End::Failed => {
            never_offer(*frame);
            Way::Failed(*frame)
        }
    }
}

/// Whether all hooks have settled `code`.
#[inline(never)]
pub(super) fn standing(thread: Thread, code: Code) -> Answer {
    // SAFETY: what follows does not wait, nor run Python code.
    let open = unsafe { Snapshot::borrowed(thread) }
        .map_or(0, |now| now.enabled() & !settled::slots(thread, now, code));
    if open == 0 {
        Answer::Settled
    } else {
        Answer::AskAgain
    }
}

/// Says to the watches that have begun in this round what runs, if that is not what they know.
/// `caller` lay below the frame before it.
#[inline(always)]
fn introduce(frame: Frame, caller: Option<Frame>, replaced: bool, runs: bool) {
    let makes_generator = runs
        && frame.code().flags() & (c::CO_GENERATOR | c::CO_COROUTINE | c::CO_ASYNC_GENERATOR) != 0;
    if replaced || makes_generator {
        introduce_each(frame, caller, makes_generator);
    }
}

/// [`introduce`], where there is something to say. The marks above the caller are those of this round.
/// The caller may be a mark itself: of a frame that dies just now and runs a destructor, or one at
/// which a hook in C is told.
#[cold]
#[inline(never)]
fn introduce_each(frame: Frame, caller: Option<Frame>, makes_generator: bool) {
    let mut at = frame.previous();
    while let Some(watch) = at.filter(|_| at != caller).and_then(Watch::at) {
        watch.set_code(frame.code(), makes_generator);
        at = watch.mark().previous();
    }
}
