//! One round: a frame is offered to each hook in turn.
//!
//! A hook that passes on every call pays for this path with each of them. So [`offer`] has all that
//! such hooks need, and a watch that begins. Where a hook says something else, or is not asked as
//! others are, [`go_on_with`] has the rest of the round, out of line.

use super::error::{Outcome, Raised};
use super::extent;
use super::offered::{never_offer, starts_within_a_hook, Offered, Stage, Starting};
use super::original::is_spared;
use super::snapshot::{count_one, Callee, Hook, Snapshot, SnapshotRef};
use super::state::{hidden_if, Round};
use super::switch::silent_here;
use super::verdict::{
    Happened, HookAnswer, Request, Verdict, FRAMEHOOK_PASS, FRAMEHOOK_REPLACE, FRAMEHOOK_RESULT,
};
use super::watch::{hand_on, Watch, YIELDS_TO};
use super::{replace, settled, watched};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyInterpreterState, PyObject, PyThreadState,
};
use crate::exception::drop_aside;
use crate::frame::Frame;
use crate::in_cpython::FrameHookState;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, CStr};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// How the eval loop goes on after a frame was offered to the hooks.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub enum Answer {
    /// In the same frame, and nobody wants to see this code object again.
    Settled = 0,
    /// In the same frame. The next frame of this code object is to be offered too.
    AskAgain = 1,
    /// In the thread's current frame, where that stands; or with the exception that is set, in the
    /// frame that has called the one that was offered.
    Elsewhere = 2,
}

/// What a hook has answered, as C has it. Which of its parts go together is for [`heed`] to see.
struct Given {
    verdict: c_int,
    /// What is to run, and may be no code; or the value of the call. A reference, or NULL.
    object: *mut PyObject,
    request: Request,
}

impl Given {
    /// Whether the hook lets the frame run and says nothing of its code: most do so nearly always.
    #[inline(always)]
    fn passes(&self, thread: Thread) -> bool {
        self.verdict == FRAMEHOOK_PASS && self.object.is_null() && !thread.has_exception()
    }
}

/// Calls one hook.
///
/// # Safety
/// `frame` is being offered in this thread.
#[inline(always)]
unsafe fn call(hook: &Hook, frame: Offered) -> Given {
    count_one(&hook.calls);
    // SAFETY: the contract of whoever added the hook; a frame that is offered.
    unsafe {
        match hook.callee {
            Callee::Asked(function) => {
                let mut answer = HookAnswer::EMPTY;
                let verdict = function(frame.as_ptr(), hook.user_data, &raw mut answer);
                // Each field by itself, as the hook has written it: a wide read would have to wait
                // until several writes have come to the memory.
                let request = Request {
                    word: (&raw const answer.word).read_volatile(),
                    tell: (&raw const answer.tell).read_volatile(),
                    extent: (&raw const answer.extent).read_volatile(),
                };
                let object = (&raw const answer.object).read_volatile();
                Given { verdict, object, request }
            }
            Callee::Extended(function) => {
                let mut code: *mut PyCodeObject = null_mut();
                let verdict = function(frame.as_ptr(), hook.user_data, &raw mut code);
                // The first edition has no results.
                let verdict = if verdict == FRAMEHOOK_RESULT { c_int::MAX } else { verdict };
                Given { verdict, object: code.cast(), request: Request::NOTHING }
            }
            Callee::Simple(function) => {
                let object: *mut PyObject = function(frame.as_ptr()).cast();
                let verdict = if object.is_null() { FRAMEHOOK_PASS } else { FRAMEHOOK_REPLACE };
                Given { verdict, object, request: Request::NOTHING }
            }
        }
    }
}

/// Calls one hook that is hidden, or whose time is measured.
///
/// # Safety
/// As for [`call`].
#[cold]
#[inline(never)]
unsafe fn call_apart(thread: Thread, hook: &Hook, frame: Offered) -> Given {
    // SAFETY: the caller's contract.
    hidden_if(hook.hidden, thread, || unsafe {
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
unsafe fn call_timed(hook: &Hook, frame: Offered) -> Given {
    let (mut before, mut after) = (0, 0);
    // SAFETY: reads a clock; a failure leaves 0. Then the caller's contract.
    let given = unsafe {
        c::PyTime_PerfCounterRaw(&raw mut before);
        let given = call(hook, frame);
        c::PyTime_PerfCounterRaw(&raw mut after);
        given
    };
    hook.nanoseconds.fetch_add(after.wrapping_sub(before) as u64, Ordering::Relaxed);
    given
}

/// What one hook's answer means for the round.
enum Heeded {
    /// It wants to be asked again.
    Passed,
    /// It has settled the code.
    Settled,
    /// This frame is to run.
    Replaced(Offered),
    /// This is the value of the call.
    Answered(Owned),
    /// An exception is set.
    Failed,
}

/// Asks one hook, and does what it has answered.
///
/// # Safety
/// `frame` is being offered in this thread.
#[inline(always)]
unsafe fn ask(thread: Thread, hook: &Hook, frame: Offered) -> Heeded {
    // SAFETY: the caller's contract.
    unsafe {
        let apart = hook.timed | hook.hidden;
        let given = if apart { call_apart(thread, hook, frame) } else { call(hook, frame) };
        if !given.passes(thread) {
            return heed(thread, hook, frame, given);
        }
        if given.request.is_nothing() {
            return Heeded::Passed;
        }
        match begin_watch(thread, hook, frame, given.request) {
            Ok(()) => Heeded::Passed,
            Err(Raised { .. }) => {
                count_one(&hook.errors);
                Heeded::Failed
            }
        }
    }
}

/// Begins to watch a frame for a hook.
#[inline(always)]
fn begin_watch(thread: Thread, hook: &Hook, frame: Offered, request: Request) -> Outcome<()> {
    let watch = if request.makes_sense() && (request.tell == 0 || hook.tell.is_some()) {
        Watch::new(thread, Some(hook), request, frame.code().as_object())
    } else {
        Err(complain(
            thread,
            hook,
            c"frame hook %s wants to be told what it cannot be told, or has an unknown extent",
        ))
    };
    match watch {
        Ok(watch) => {
            watch.link_first(thread, *frame, request);
            Ok(())
        }
        Err(raised) => {
            // SAFETY: it came with this answer, and nobody else has it.
            unsafe { hook.free_word(request.word) };
            Err(raised)
        }
    }
}

/// Does what a hook has answered, if that is more than that it passes.
///
/// # Safety
/// `frame` is being offered in this thread, and `hook` has answered just now.
#[cold]
#[inline(never)]
unsafe fn heed(thread: Thread, hook: &Hook, frame: Offered, given: Given) -> Heeded {
    let (verdict, request) = (Verdict::from_c(given.verdict), given.request);
    // SAFETY: NULL, or a reference that is ours.
    let object = unsafe { Owned::new(given.object) };
    let watched = if thread.has_exception() {
        Err(Raised::by_cpython(thread))
    } else if verdict == Some(Verdict::Error) {
        Err(complain(thread, hook, c"frame hook %s answered with an error and set no exception"))
    } else if request.is_nothing() {
        Ok(())
    } else {
        begin_watch(thread, hook, frame, request)
    };
    let done = watched.and_then(|()| match (verdict, object) {
        (Some(Verdict::Pass), None) => Ok(Heeded::Passed),
        // What another interpreter owns, and what there is no memory for, is not remembered: the
        // hook will be asked again.
        (Some(Verdict::Settled), None) => {
            Ok(match settled::settle(thread, frame.code(), hook.id, true) {
                Ok(()) => Heeded::Settled,
                Err(_) => Heeded::Passed,
            })
        }
        // SAFETY: the caller's contract.
        (Some(Verdict::Replace), Some(object)) => unsafe { run(thread, hook, frame, &object) },
        (Some(Verdict::Result), Some(value)) => Ok(Heeded::Answered(value)),
        _ => Err(complain(thread, hook, c"frame hook %s answered with no known verdict")),
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
            c"frame hook %s returned neither None nor framehook.SETTLED nor a code object, but an \
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
/// `frame` is being offered in this thread.
unsafe fn run(thread: Thread, hook: &Hook, frame: Offered, chosen: &Owned) -> Outcome<Heeded> {
    // SAFETY: a live object, which the caller holds, and a frame that is being offered.
    unsafe {
        let Some(code) = Code::from_object(chosen.as_ptr()) else {
            return Err(refuse_answer(thread, hook, chosen));
        };
        if code == frame.code() {
            return Ok(Heeded::Passed);
        }
        let other = replace::replace(thread, frame, code, hook.name())?;
        count_one(&hook.replacements);
        Ok(Heeded::Replaced(other))
    }
}

/// Whether nobody is to be asked about a frame: a callback of a tracer has started it, or a hook
/// has, or the call is spared. A greenlet has frames of its own, so a hook that waits in another one
/// does not count.
#[inline(always)]
fn is_off_limits(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let (tracing, rounds) = unsafe { ((*thread.tstate()).tracing, (*thread.own()).rounds) };
    (tracing != 0 || rounds != 0) && is_not_to_be_offered(thread, frame)
}

/// [`is_off_limits`], where a look is worth while.
#[cold]
#[inline(never)]
fn is_not_to_be_offered(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    let (tracing, hidden) = unsafe { ((*thread.tstate()).tracing, (*thread.own()).hidden) };
    // Levels of a hook that is hidden are no tracer's; it may wait in another greenlet.
    tracing > hidden || is_spared(thread, frame) || starts_within_a_hook(frame)
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
        // SAFETY: the frame is being offered.
        let heeded = match given.take() {
            Some(given) => unsafe { heed(thread, hook, course.frame, given) },
            None if hook.bit() & course.here & !course.settled == 0 => continue,
            None if !hook.is_ordinary() && is_beyond_limits(thread, hooks, hook) => {
                course.passed |= !hook.is_silent();
                continue;
            }
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

/// How a frame goes on after a round.
enum Way {
    /// It runs.
    Runs(Frame, Answer),
    /// It runs, and is another one.
    Replaced(Frame),
    /// It does not run: the call has this value.
    Answered(Frame, Owned),
    /// It does not run: an exception is set.
    Failed(Frame),
}

/// A round that is under way. Ends when it is dropped: the hooks go first, within the round.
struct UnderWay {
    snapshot: SnapshotRef,
    #[allow(dead_code)] // kept until then
    round: Round,
    /// Where the frame that was called goes on.
    next: *mut c::_Py_CODEUNIT,
}

/// How far the hooks that let a frame run were asked.
enum Asked {
    All {
        /// Whether one of them watches the frame.
        watched: bool,
    },
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
            return Asked::UpTo(number, Some(given));
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

/// Offers a frame that has its arguments and has run nothing but its prologue.
///
/// # Safety
/// `frame` is this thread's, and linked.
#[inline(always)]
unsafe fn offer(thread: Thread, frame: Starting, stage: Stage) -> Way {
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
    let next = frame.instruction();
    let round = Round::begin(thread);
    let frame = frame.hide(stage);
    // SAFETY: hidden just now.
    let asked = unsafe { ask_ordinary(thread, hooks, here & !settled, frame) };
    match asked {
        Asked::All { watched } => {
            if watched {
                introduce(*frame, false, true);
            }
            // Hooks that were removed meanwhile may go now, and their owners' code runs: within the
            // round, with the frame still hidden.
            drop(snapshot);
            drop(round);
            Way::Runs(frame.show(next), Answer::AskAgain)
        }
        Asked::UpTo(number, given) => {
            let under_way = UnderWay { snapshot, round, next };
            let course = Course { frame, here, settled, passed: false, replaced: false };
            // SAFETY: hidden, and the hook of that number is the one that has answered, or is next.
            unsafe { go_on_with(thread, under_way, number, given, course) }
        }
        Asked::Failed => {
            let under_way = UnderWay { snapshot, round, next };
            let course = Course { frame, here, settled, passed: false, replaced: false };
            end_round(thread, under_way, course, End::Failed)
        }
    }
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

/// Ends a round in which a hook has done more than to let the frame run.
#[cold]
#[inline(never)]
fn end_round(thread: Thread, under_way: UnderWay, course: Course, end: End) -> Way {
    let next = under_way.next;
    let Course { frame, passed, replaced, .. } = course;
    // What is not run makes no generator.
    introduce(*frame, replaced, matches!(end, End::Runs));
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
        End::Answered(value) => Way::Answered(frame.show(next), value),
        End::Failed => {
            never_offer(*frame);
            Way::Failed(*frame)
        }
    }
}

/// Says to the watches that have begun in this round what runs, if that is not what they know.
#[inline(always)]
fn introduce(frame: Frame, replaced: bool, runs: bool) {
    let makes_generator = runs
        && frame.code().flags() & (c::CO_GENERATOR | c::CO_COROUTINE | c::CO_ASYNC_GENERATOR) != 0;
    if replaced || makes_generator {
        introduce_each(frame, makes_generator);
    }
}

/// [`introduce`], where there is something to say. The marks that lie directly below a frame that
/// starts are those of this round.
#[cold]
#[inline(never)]
fn introduce_each(frame: Frame, makes_generator: bool) {
    let mut at = frame.previous();
    while let Some((mark, watch)) = at.and_then(|mark| Some((mark, Watch::at(mark)?))) {
        watch.set_code(frame.code(), makes_generator);
        at = mark.previous();
    }
}

/// A call ends before its frame has run: the frame goes, and the thread is back in what is below.
///
/// # Safety
/// `frame` is the thread's current one, the topmost of the data stack.
unsafe fn give_up(thread: Thread, frame: Frame) {
    let tstate = thread.tstate();
    // SAFETY: what the eval loop does where a call ends.
    unsafe {
        (*tstate).py_recursion_remaining += 1;
        (*tstate).current_frame = (*frame.as_ptr()).previous;
        c::_PyEval_FrameClearAndPop(tstate, frame.as_ptr());
    }
}

/// Whether all hooks have settled `code`.
#[inline(never)]
fn standing(thread: Thread, code: Code) -> Answer {
    // SAFETY: what follows does not wait, nor run Python code.
    let open = unsafe { Snapshot::borrowed(thread) }
        .map_or(0, |now| now.enabled() & !settled::slots(thread, now, code));
    if open == 0 {
        Answer::Settled
    } else {
        Answer::AskAgain
    }
}

/// Offers the thread's current frame, at its `RESUME` or `RETURN_GENERATOR`, to
/// the hooks. A few loads when all have settled its code; else what they take.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state; `frame` is its
/// current frame, with its stack pointer saved.
#[no_mangle]
#[inline(never)] // the eval loop is large enough
pub unsafe extern "C" fn _PyRust_OfferFrame(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> Answer {
    // SAFETY: the caller's contract.
    let (thread, frame) = unsafe { (Thread::new(tstate), Frame::new(frame)) };
    // SAFETY: a current frame on the data stack is the topmost one there.
    let Some(starting) = (unsafe { Starting::if_it_starts(frame) }) else {
        return go_on(thread, frame);
    };
    // SAFETY: the current frame is linked.
    match unsafe { offer(thread, starting, Stage::AfterPrologue) } {
        Way::Runs(_, answer) => answer,
        way => {
            // SAFETY: as above.
            unsafe { go_elsewhere(thread, way) };
            Answer::Elsewhere
        }
    }
}

/// Does what follows from a round after which the frame does not simply run.
///
/// # Safety
/// The frame is the thread's current one.
#[cold]
#[inline(never)]
unsafe fn go_elsewhere(thread: Thread, way: Way) {
    // SAFETY: the caller's contract. The frame below has called.
    unsafe {
        match way {
            Way::Runs(..) | Way::Replaced(_) => {}
            Way::Failed(frame) => give_up(thread, frame),
            Way::Answered(frame, value) => {
                give_up(thread, frame);
                hand_on(thread, value, None);
            }
        }
    }
}

/// A frame comes to a `RESUME` that is not to be offered. A generator that goes on: it was offered
/// when it was made, and may be watched. Or a frame that was offered before, or that a debugger has
/// sent back.
#[inline(never)]
fn go_on(thread: Thread, frame: Frame) -> Answer {
    if !watched::are_there_any(thread) {
        // The argument of `RESUME` is 0 where a frame begins. That one goes on, whatever hooks say of
        // its code, is nothing that they are asked about.
        // SAFETY: the frame stands at an instruction of its code.
        let goes_on = unsafe { (*frame.instruction()).op.arg } & 3 != 0;
        return if goes_on { Answer::Settled } else { standing(thread, frame.code()) };
    }
    // SAFETY: the current frame, which has come to an instruction that nothing of it runs before.
    match unsafe { watched::go_on(thread, frame) } {
        Ok(()) => Answer::AskAgain,
        Err(Raised { .. }) => Answer::Elsewhere,
    }
}

/// A frame has come back to the mark below it: with a value, which is in the mark's slot, or with
/// the exception that is set. The hook that watches the frame is told. The thread's current frame is
/// the one to go on in afterwards.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state; its current frame is a mark of this
/// crate.
#[no_mangle]
#[inline(never)] // the eval loop is large enough
pub unsafe extern "C" fn _PyRust_FrameCameBack(tstate: *mut PyThreadState) {
    // SAFETY: the caller's contract.
    unsafe {
        let (thread, watch) = (Thread::new(tstate), Watch::of_mark((*tstate).current_frame));
        watch.mark().forget_slots();
        if thread.has_exception() {
            return came_back_raised(thread, watch);
        }
        let value = watch.take_value();
        if watch.was_yielded_to() {
            yielded(thread, watch, value);
        } else if let Ok(value) = came_back(thread, watch, value) {
            hand_on(thread, value, None);
        }
    }
}

/// A generator has yielded `value` to a mark. The hook is told, and the value handed on.
///
/// # Safety
/// The mark is the thread's current frame.
#[inline(never)]
unsafe fn yielded(thread: Thread, watch: Watch, value: Owned) {
    // SAFETY: the caller's contract.
    unsafe {
        if let Ok(value) = watched::yielded(thread, watch, value) {
            hand_on(thread, value, Some(YIELDS_TO));
        }
    }
}

/// A frame has returned `value` to a mark. The hook is told, and the frame below is the thread's
/// current one afterwards; the value to hand on to it, or an exception.
///
/// # Safety
/// The mark is the thread's current frame.
#[inline(always)]
unsafe fn came_back(thread: Thread, watch: Watch, value: Owned) -> Outcome<Owned> {
    // SAFETY: the caller's contract.
    let told = match unsafe { watch.end_plainly(thread, value.as_ptr()) } {
        Some(told) => told,
        // SAFETY: as above.
        None => return unsafe { came_back_otherwise(thread, watch, value) },
    };
    hand_back(value, told)
}

/// The value of a call, if all went well that was done about it.
#[inline(always)]
fn hand_back(value: Owned, told: Outcome<()>) -> Outcome<Owned> {
    match told {
        Ok(()) => Ok(value),
        Err(raised) => {
            // SAFETY: attached, and without a lock.
            unsafe { drop_aside(value) };
            Err(raised)
        }
    }
}

/// As [`came_back`], for any watch.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn came_back_otherwise(thread: Thread, watch: Watch, value: Owned) -> Outcome<Owned> {
    if watch.makes_generator() {
        // SAFETY: the caller's contract.
        return unsafe { made_generator(thread, watch, value) };
    }
    let told = watch.tell(thread, Happened::Returned, value.as_ptr());
    // SAFETY: the caller's contract.
    unsafe { watch.step_down(thread) };
    watched::detach(watch);
    watch.end(thread);
    hand_back(value, told)
}

/// An exception, which is set, has come to a mark. The hook is told, and the frame below is the
/// thread's current one afterwards.
///
/// # Safety
/// The mark is the thread's current frame.
#[cold]
#[inline(never)]
unsafe fn came_back_raised(thread: Thread, watch: Watch) {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(raised) = Owned::new(c::PyErr_GetRaisedException()) {
            watch.tell_aside(thread, Happened::Raised, raised);
        }
        watch.step_down(thread);
    }
    watched::detach(watch);
    watch.end(thread);
}

/// As [`came_back`], where the frame has made a generator, which is watched from now on.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn made_generator(thread: Thread, watch: Watch, generator: Owned) -> Outcome<Owned> {
    // SAFETY: the caller's contract.
    unsafe {
        match watched::attach(thread, watch, &generator) {
            Ok(true) => {
                watch.step_down(thread);
                Ok(generator)
            }
            // What is told of such a frame is that it has returned.
            Ok(false) => came_back_otherwise(thread, watch, generator),
            Err(raised) => {
                drop_aside(generator);
                came_back_raised(thread, watch);
                Err(raised)
            }
        }
    }
}

/// `_Py_Instrument` for the code of a frame that stands at a `RESUME`: 0, or -1 with an exception
/// set. A frame that is still to be offered is hidden meanwhile. On the free-threaded build the
/// thread may wait there, and another one may walk its frames.
///
/// # Safety
/// `frame` is the calling thread's current frame, `code` is its code, and `interpreter` is the
/// thread's own.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_Instrument(
    frame: *mut _PyInterpreterFrame,
    code: *mut PyCodeObject,
    interpreter: *mut PyInterpreterState,
) -> c_int {
    // SAFETY: the caller's contract. Nobody reads slots of the frame here.
    unsafe {
        let frame = Frame::new(frame);
        let next = frame.instruction();
        if let Some(starting) = Starting::if_it_starts(frame) {
            starting.step_back();
        }
        let status = c::_Py_Instrument(code, interpreter);
        frame.set_instruction(next);
        if !(*FrameHookState::of(interpreter)).watched.is_null() {
            go_on_thrown(frame);
        }
        status
    }
}

/// A generator goes on with an exception, which is thrown into it: no `RESUME` will say so.
///
/// # Safety
/// `frame` is the calling thread's current frame.
#[cold]
#[inline(never)]
unsafe fn go_on_thrown(frame: Frame) {
    // SAFETY: the caller's contract.
    unsafe {
        let thread = Thread::current();
        if thread.has_exception() {
            // A hook that fails raises about the exception that is set.
            let _ = watched::go_on(thread, frame);
        }
    }
}

/// What becomes of a frame that an evaluator is about to get.
pub enum Before {
    /// It is evaluated.
    Evaluate(*mut _PyInterpreterFrame),
    /// It is evaluated, and the marks from this one on lie below it.
    Watched(*mut _PyInterpreterFrame, Frame),
    /// It is gone, and this is what the call comes to: a new reference, or NULL with an exception.
    Over(*mut PyObject),
}

/// Offers a frame that an evaluator is about to get, before anything of it has run.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state, and `frame` ready
/// to be evaluated; the caller hands it over.
#[inline(always)]
pub unsafe fn offer_before_evaluator(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> Before {
    // SAFETY: the caller's contract; the state is live.
    unsafe {
        let thread = Thread::new(tstate);
        if (*thread.state()).active {
            offer_fresh(thread, Frame::new(frame))
        } else {
            Before::Evaluate(frame)
        }
    }
}

/// [`offer_before_evaluator`] where there may be somebody to ask. Out of line: what calls
/// it is inlined into the eval loop.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn offer_fresh(thread: Thread, frame: Frame) -> Before {
    // SAFETY: a frame that is about to start is the topmost of the data stack.
    let Some(starting) = (unsafe { Starting::if_it_starts(frame) }) else {
        return Before::Evaluate(frame.as_ptr());
    };
    if starting.instruction() != starting.code().first_instruction() {
        return Before::Evaluate(frame.as_ptr());
    }
    // SAFETY: the calling thread's own.
    let current = unsafe { &raw mut (*thread.tstate()).current_frame };
    // Linked meanwhile, so that what runs within a hook can be told by its frames.
    // SAFETY: the thread's own state and frame. Who is asked leaves the thread's current frame as
    // it was.
    let (way, caller) = unsafe {
        let caller = *current;
        (*frame.as_ptr()).previous = caller;
        *current = frame.as_ptr();
        let way = offer(thread, starting, Stage::Fresh);
        *current = caller;
        (way, caller)
    };
    let (Way::Runs(frame, _) | Way::Replaced(frame) | Way::Answered(frame, _) | Way::Failed(frame)) =
        way;
    let mark = frame.previous().filter(|below| below.as_ptr() != caller);
    // SAFETY: the frame was handed over; where it has not run, it is not linked any more.
    unsafe {
        let came = match way {
            Way::Runs(..) | Way::Replaced(_) => {
                // `RESUME` does not offer it again, even if no hook was asked here.
                never_offer(frame);
                return match mark {
                    Some(mark) => Before::Watched(frame.as_ptr(), mark),
                    None => Before::Evaluate(frame.as_ptr()),
                };
            }
            Way::Answered(_, value) => value.into_raw(),
            Way::Failed(_) => null_mut(),
        };
        c::_PyEval_FrameClearAndPop(thread.tstate(), frame.as_ptr());
        Before::Over(mark.map_or(came, |mark| pass_marks(thread.tstate(), mark, came)))
    }
}

/// A call that an evaluator has run, or that was over before, comes to the marks below it: a new
/// reference or NULL with an exception, and the same for who has called.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state. `mark` is the first of the marks
/// upon its current frame, and the call is over.
#[cold]
#[inline(never)]
pub unsafe fn pass_marks(
    tstate: *mut PyThreadState,
    mark: Frame,
    came: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe {
        let (thread, caller) = (Thread::new(tstate), (*tstate).current_frame);
        let mut came = Owned::new(came);
        let mut at = mark.as_ptr();
        while at != caller {
            let watch = Watch::of_mark(at);
            (*tstate).current_frame = at;
            at = (*at).previous;
            came = match came {
                Some(value) => came_back(thread, watch, value).ok(),
                None => {
                    came_back_raised(thread, watch);
                    None
                }
            };
        }
        (*tstate).current_frame = caller;
        came.map_or(null_mut(), Owned::into_raw)
    }
}
