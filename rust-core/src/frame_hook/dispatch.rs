//! One round: a frame is offered to each hook in turn.
//!
//! A hook that passes on every call pays for this path with each of them. So what is on
//! it is in one function, and what is not (another verdict, a clock) is kept out of line.

use super::error::{Outcome, Raised};
use super::offered::{never_offer, starts_within_a_hook, Offered, Stage, Starting};
use super::snapshot::{count_one, Callee, Hook, Snapshot, SnapshotRef};
use super::switch::silent_here;
use super::verdict::Verdict;
use super::{replace, settled};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyInterpreterState, PyThreadState};
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, CStr};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// How a frame goes on after it was offered to the hooks.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub enum Answer {
    /// An exception is set; the thread's current frame is to be unwound.
    Failed = -1,
    /// Go on, and nobody wants to see this code object again.
    Settled = 0,
    /// Go on, and offer the next frame of this code object too.
    AskAgain = 1,
    /// The thread's current frame is another one now; start it.
    Replaced = 2,
}

/// What a hook has answered, as C has it: a verdict, and what it gives a reference to. Which of
/// the two go together is for [`heed`] to see.
struct Given {
    /// `None`: a number that the header does not have.
    verdict: Option<Verdict>,
    /// What is to run, and may be no code.
    object: Option<Owned>,
}

/// Calls one hook.
///
/// # Safety
/// `frame` is being offered in this thread.
#[inline(always)]
unsafe fn call(hook: &Hook, frame: Offered) -> Given {
    count_one(&hook.calls);
    let mut object: *mut PyCodeObject = null_mut();
    // SAFETY: the contract of whoever added the hook; a frame that is offered. The reference that a
    // hook gives is ours.
    unsafe {
        let verdict = match hook.callee {
            Callee::Simple(function) => {
                object = function(frame.as_ptr());
                Some(if object.is_null() { Verdict::Pass } else { Verdict::Replace })
            }
            Callee::Extended(function) => {
                Verdict::from_c(function(frame.as_ptr(), hook.user_data, &raw mut object))
            }
        };
        Given { verdict, object: Owned::new(object.cast()) }
    }
}

/// Calls one hook, and measures how long that takes.
///
/// # Safety
/// As for [`call`].
#[cold]
#[inline(never)]
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
        let given = if hook.timed { call_timed(hook, frame) } else { call(hook, frame) };
        match given {
            Given { verdict: Some(Verdict::Pass), object: None } if !thread.has_exception() => {
                Heeded::Passed
            }
            Given { verdict, object } => heed(thread, hook, frame, verdict, object),
        }
    }
}

/// Does what a hook has answered, if that is more than that it passes.
///
/// # Safety
/// `frame` is being offered in this thread, and `hook` has answered just now.
#[cold]
#[inline(never)]
unsafe fn heed(
    thread: Thread,
    hook: &Hook,
    frame: Offered,
    verdict: Option<Verdict>,
    object: Option<Owned>,
) -> Heeded {
    let done = match (verdict, &object) {
        _ if thread.has_exception() => Err(Raised::by_cpython(thread)),
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
        (Some(Verdict::Replace), Some(object)) => unsafe { run(thread, hook, frame, object) },
        (Some(Verdict::Error), _) => Err(complain(
            thread,
            hook,
            c"frame hook %s answered with an error and set no exception",
        )),
        _ => Err(complain(thread, hook, c"frame hook %s answered with no known verdict")),
    };
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

/// A round that is under way. It is counted for the thread, so that a thread without one need not
/// look for it; which frames start within a hook is told by the frames below them.
struct Round(Thread);

impl Round {
    fn begin(thread: Thread) -> Self {
        // SAFETY: the calling thread's own.
        unsafe { (*thread.own()).rounds = (*thread.own()).rounds.wrapping_add(1) };
        Round(thread)
    }
}

impl Drop for Round {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the calling thread's own.
        unsafe { (*self.0.own()).rounds = (*self.0.own()).rounds.wrapping_sub(1) };
    }
}

/// Whether nobody is to be asked about a frame: a callback of a tracer has started it, or a hook
/// has. A greenlet has frames of its own, so a hook that waits in another one does not count.
#[inline(always)]
fn is_off_limits(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    thread.is_tracing() || (unsafe { (*thread.own()).rounds } != 0 && starts_within_a_hook(frame))
}

/// What a round has come to. Of what several hooks have said, the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CameTo {
    /// Whoever was asked has settled the code.
    Settled,
    /// Somebody wants to be asked again.
    Passed,
    /// Another frame is to run.
    Replaced,
    /// An exception is set.
    Failed,
}

/// A round, as far as it has come.
struct Course {
    /// The frame that the next hook is asked about.
    frame: Offered,
    /// The slots of the hooks that have settled its code.
    settled: u32,
    came_to: CameTo,
}

/// Asks those of `hooks` that are in `here` and have not settled the frame's code, in order. The
/// last frame, and what the round has come to.
///
/// # Safety
/// `frame` is being offered in this thread, and `settled` says who has settled its code.
#[inline(always)]
unsafe fn ask_all(
    thread: Thread,
    hooks: &Snapshot,
    here: u32,
    frame: Offered,
    settled: u32,
) -> (Offered, CameTo) {
    let mut course = Course { frame, settled, came_to: CameTo::Settled };
    // The loop is a fold. As `try_fold` it would be a call of its own in each round.
    for hook in hooks.iter() {
        if hook.bit() & here & !course.settled == 0 || hook.is_silent() {
            continue;
        }
        // SAFETY: the frame is being offered.
        course = match unsafe { ask(thread, hook, course.frame) } {
            Heeded::Settled => course,
            Heeded::Passed => Course { came_to: course.came_to.max(CameTo::Passed), ..course },
            Heeded::Replaced(frame) => Course {
                frame, // perhaps at the same address
                settled: settled::slots(thread, hooks, frame.code()),
                came_to: CameTo::Replaced,
            },
            Heeded::Failed => return (course.frame, CameTo::Failed),
        };
    }
    (course.frame, course.came_to)
}

/// Offers a frame that has its arguments and has run nothing but its prologue.
///
/// Returns the frame that is to run, and how it goes on. On failure that is the frame to unwind.
///
/// # Safety
/// `frame` is this thread's, and linked.
#[inline(always)]
unsafe fn offer(thread: Thread, frame: Starting, stage: Stage) -> (Frame, Answer) {
    if is_off_limits(thread, *frame) {
        return (*frame, Answer::AskAgain);
    }
    let Some(snapshot) = SnapshotRef::current(thread) else { return (*frame, Answer::Settled) };
    let hooks = snapshot.get();
    let settled = settled::slots(thread, hooks, frame.code());
    let open = hooks.enabled() & !settled;
    if open == 0 {
        return (*frame, Answer::Settled);
    }
    let here = !silent_here(thread, hooks);
    if open & here == 0 {
        return (*frame, Answer::AskAgain);
    }
    let next = frame.instruction();
    let round = Round::begin(thread);
    // SAFETY: hidden just now.
    let (frame, came_to) = unsafe { ask_all(thread, hooks, here, frame.hide(stage), settled) };
    // Hooks that were removed meanwhile may go now, and their owners' code runs: within the round,
    // with the frame still hidden.
    drop(snapshot);
    drop(round);
    // From here on nothing runs any more that could change what is found.
    match came_to {
        CameTo::Failed => {
            never_offer(*frame);
            (*frame, Answer::Failed)
        }
        CameTo::Replaced => (frame.show(frame.code().first_instruction()), Answer::Replaced),
        CameTo::Passed => (frame.show(next), Answer::AskAgain),
        CameTo::Settled => {
            let frame = frame.show(next);
            // Hooks may have come and gone meanwhile.
            (frame, standing(thread, frame.code()))
        }
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
    match unsafe { Starting::if_it_starts(frame) } {
        // SAFETY: the current frame is linked.
        Some(frame) => unsafe { offer(thread, frame, Stage::AfterPrologue) }.1,
        // A generator that begins: it was offered when it was made. Or a frame that was offered
        // before, or that a debugger has sent back.
        None => standing(thread, frame.code()),
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
        status
    }
}

/// Offers a frame that an evaluator is about to get, before anything of it has
/// run. The frame to evaluate; `None` with an exception set if the call fails,
/// and then the frame is gone.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state, and `frame` ready
/// to be evaluated; the caller hands it over.
#[inline(always)]
pub unsafe fn offer_before_evaluator(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> Option<*mut _PyInterpreterFrame> {
    // SAFETY: the caller's contract; the state is live.
    unsafe {
        let thread = Thread::new(tstate);
        if (*thread.state()).active {
            offer_fresh(thread, Frame::new(frame))
        } else {
            Some(frame)
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
unsafe fn offer_fresh(thread: Thread, frame: Frame) -> Option<*mut _PyInterpreterFrame> {
    // SAFETY: a frame that is about to start is the topmost of the data stack.
    let Some(starting) = (unsafe { Starting::if_it_starts(frame) }) else {
        return Some(frame.as_ptr());
    };
    if starting.instruction() != starting.code().first_instruction() {
        return Some(frame.as_ptr());
    }
    // Linked meanwhile, so that what runs within a hook can be told by its frames.
    // SAFETY: the thread's own state and frame. Who is asked leaves the thread's current frame as
    // it was.
    let (frame, answer) = unsafe {
        let current = &raw mut (*thread.tstate()).current_frame;
        let caller = *current;
        (*frame.as_ptr()).previous = caller;
        *current = frame.as_ptr();
        let offered = offer(thread, starting, Stage::Fresh);
        *current = caller;
        offered
    };
    if answer == Answer::Failed {
        // SAFETY: the frame was handed over, has not run, and is not linked any more.
        unsafe { c::_PyEval_FrameClearAndPop(thread.tstate(), frame.as_ptr()) };
        return None;
    }
    // `RESUME` does not offer it again, even if no hook was asked here.
    never_offer(frame);
    Some(frame.as_ptr())
}
