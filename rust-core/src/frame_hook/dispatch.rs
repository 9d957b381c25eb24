//! One round: a frame is offered to each hook in turn.
//!
//! A hook that passes on every call pays for this path with each of them. So what is on
//! it is in one function, and what is not (another verdict, a clock) is kept out of line.

use super::error::Raised;
use super::frame::{Code, Frame, Stage};
use super::registry::{count_one, Callee, Hook, SnapshotRef};
use super::{replace, verdict, Answer, Thread};
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyThreadState};
use core::ffi::c_int;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::Ordering;

/// The verdict of the header that a hook passes.
const PASS: c_int = 0;

/// Calls one hook. What it answered: a verdict of the header, and a code object, which
/// is then ours.
///
/// # Safety
/// `frame` is being offered in this thread.
#[inline(always)]
unsafe fn call(hook: &Hook, frame: Frame) -> (c_int, *mut PyCodeObject) {
    count_one(&hook.calls);
    let mut replacement: *mut PyCodeObject = null_mut();
    // SAFETY: the contract of whoever added the hook; a frame that is offered.
    let verdict = unsafe {
        match hook.callee {
            Callee::Simple(function) => {
                replacement = function(frame.as_ptr());
                c_int::from(!replacement.is_null())
            }
            Callee::Extended(function) => {
                function(frame.as_ptr(), hook.user_data, &raw mut replacement)
            }
        }
    };
    (verdict, replacement)
}

/// Calls one hook, and measures how long that takes.
///
/// # Safety
/// As for [`call`].
#[cold]
#[inline(never)]
unsafe fn call_timed(hook: &Hook, frame: Frame) -> (c_int, *mut PyCodeObject) {
    let (mut before, mut after) = (0, 0);
    // SAFETY: reads a clock; a failure leaves 0. Then the caller's contract.
    let answer = unsafe {
        c::PyTime_PerfCounterRaw(&raw mut before);
        let answer = call(hook, frame);
        c::PyTime_PerfCounterRaw(&raw mut after);
        answer
    };
    hook.nanoseconds.fetch_add(after.wrapping_sub(before) as u64, Ordering::Relaxed);
    answer
}

/// What one hook's answer means for the round.
enum Heeded {
    /// It wants to be asked again.
    Passed,
    /// It has settled the code.
    Settled,
    /// This frame is to run.
    Replaced(Frame),
    /// An exception is set.
    Failed,
}

/// Does what a hook has answered, if that is more than that it passes.
///
/// # Safety
/// `frame` is being offered in this thread, `hook` has answered just now, and the
/// caller gives up the reference to `replacement`.
#[cold]
#[inline(never)]
unsafe fn heed(
    thread: Thread,
    hook: &Hook,
    frame: Frame,
    verdict: c_int,
    replacement: *mut PyCodeObject,
) -> Heeded {
    let replacement = NonNull::new(replacement);
    let done = match (verdict, replacement) {
        _ if thread.has_exception() => Err(Raised::by_cpython(thread)),
        (PASS, None) => Ok(Heeded::Passed),
        (2, None) => verdict::settle(thread, frame.code(), hook.id, true).map(|()| Heeded::Settled),
        // SAFETY: a live object, which the hook has given us.
        (1, Some(object)) => match unsafe { Code::from_object(object.as_ptr().cast()) } {
            // SAFETY: the frame is being offered, and the reference is ours.
            Some(code) if code != frame.code() => return unsafe { run(thread, hook, frame, code) },
            Some(_) => Ok(Heeded::Passed),
            None => Err(Raised::type_error(
                thread,
                c"a frame hook returned something that is not a code object",
            )),
        },
        (-1, _) => Err(Raised::system_error(
            thread,
            c"a frame hook answered with an error and set no exception",
        )),
        _ => Err(Raised::system_error(thread, c"a frame hook answered with no known verdict")),
    };
    if let Some(object) = replacement {
        // SAFETY: the hook has given us the reference, and it is not used; the frame
        // has its own.
        unsafe { crate::reference_count::decref(object.as_ptr().cast()) };
    }
    done.unwrap_or_else(|Raised { .. }| fail(hook))
}

/// Has `code` run in the place of the frame's own.
///
/// # Safety
/// `frame` is being offered in this thread, and the caller gives up the reference to
/// `code`.
unsafe fn run(thread: Thread, hook: &Hook, frame: Frame, code: Code) -> Heeded {
    // SAFETY: the caller's contract.
    match unsafe { replace::replace(thread, frame, code, hook.name()) } {
        Ok(other) => {
            count_one(&hook.replacements);
            Heeded::Replaced(other)
        }
        Err(Raised { .. }) => fail(hook),
    }
}

fn fail(hook: &Hook) -> Heeded {
    count_one(&hook.errors);
    Heeded::Failed
}

/// A round that is under way: while it lives, the thread offers no other frame.
struct Round(Thread);

impl Round {
    fn begin(thread: Thread) -> Self {
        // SAFETY: the calling thread's own.
        unsafe { (*thread.own()).rounds += 1 };
        Round(thread)
    }
}

impl Drop for Round {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the calling thread's own.
        unsafe { (*self.0.own()).rounds -= 1 };
    }
}

/// Offers a frame that has its arguments and has run nothing but its prologue.
/// The frame that is to run, and whether it is another one, and whether some hook
/// wants to see its code again. On failure, the frame to unwind.
///
/// # Safety
/// `frame` is the topmost of this thread's data stack.
#[inline(always)]
unsafe fn offer(thread: Thread, frame: Frame, stage: Stage) -> (Frame, Answer) {
    // SAFETY: the calling thread's own.
    if unsafe { (*thread.own()).rounds } != 0 || thread.is_tracing() {
        return (frame, Answer::AskAgain);
    }
    let Some(snapshot) = SnapshotRef::current(thread) else { return (frame, Answer::Settled) };
    let hooks = snapshot.get();
    let mut settled = verdict::settled(thread, frame.code()).valid(hooks);
    let open = hooks.enabled() & !settled;
    if open == 0 {
        return (frame, Answer::Settled);
    }
    // SAFETY: the calling thread's own.
    let here = !unsafe { (*thread.own()).disabled }.valid(hooks);
    if open & here == 0 {
        return (frame, Answer::AskAgain);
    }
    let next = frame.next_instruction();
    // Incomplete while hooks look at it: tracebacks and `sys._getframe` pass it by.
    frame.set_next_instruction(frame.code().first_instruction());
    frame.set_stage(stage);
    let round = Round::begin(thread);
    let mut current = frame;
    let (mut replaced, mut failed, mut passed) = (false, false, false);
    for hook in hooks.iter() {
        if hook.bit() & here & !settled == 0 || hook.is_silent() {
            continue;
        }
        // SAFETY: the frame is being offered.
        let (verdict, replacement) = unsafe {
            if hook.timed {
                call_timed(hook, current)
            } else {
                call(hook, current)
            }
        };
        if verdict == PASS && replacement.is_null() && !thread.has_exception() {
            passed = true;
            continue;
        }
        // SAFETY: the frame is being offered, and the reference is ours to give up.
        match unsafe { heed(thread, hook, current, verdict, replacement) } {
            Heeded::Passed => passed = true,
            Heeded::Settled => {}
            Heeded::Replaced(other) => {
                current = other; // perhaps at the same address
                replaced = true;
                settled = verdict::settled(thread, other.code()).valid(hooks);
            }
            Heeded::Failed => {
                failed = true;
                break;
            }
        }
    }
    drop(round);
    if failed {
        current.set_stage(Stage::Idle);
        return (current, Answer::Failed);
    }
    if replaced {
        // Where all have settled its code, `RESUME` may become quick, and need not be
        // told that this frame has had its round.
        let settled = standing(thread, current.code()) == Answer::Settled;
        current.set_stage(if settled { Stage::Idle } else { Stage::Offered });
        return (current, Answer::Replaced);
    }
    frame.set_stage(Stage::Idle);
    frame.set_next_instruction(next);
    // Hooks may have come and gone meanwhile.
    (frame, if passed { Answer::AskAgain } else { standing(thread, frame.code()) })
}

/// Whether all hooks have settled `code`.
#[inline(never)]
fn standing(thread: Thread, code: Code) -> Answer {
    let open = SnapshotRef::current(thread)
        .map_or(0, |now| now.get().enabled() & !verdict::settled(thread, code).valid(now.get()));
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
    if !frame.is_on_data_stack() {
        // A generator that begins: it was offered when it was made.
        return standing(thread, frame.code());
    }
    if frame.stage() == Stage::Offered {
        frame.set_stage(Stage::Idle);
        return Answer::AskAgain;
    }
    // SAFETY: a current frame on the data stack is the topmost one there.
    unsafe { offer(thread, frame, Stage::AfterPrologue) }.1
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
    let starts = frame.is_on_data_stack()
        && frame.stage() == Stage::Idle
        && frame.next_instruction() == frame.code().first_instruction();
    if !starts {
        return Some(frame.as_ptr());
    }
    // SAFETY: a frame that is about to start is the topmost of the data stack.
    let (frame, answer) = unsafe { offer(thread, frame, Stage::Fresh) };
    match answer {
        Answer::Failed => {
            // SAFETY: the frame was handed over, has not run, and is not linked.
            unsafe { c::_PyEval_FrameClearAndPop(thread.tstate(), frame.as_ptr()) };
            return None;
        }
        // Else `RESUME` would offer it once more.
        Answer::AskAgain => frame.set_stage(Stage::Offered),
        Answer::Settled | Answer::Replaced => {}
    }
    Some(frame.as_ptr())
}
