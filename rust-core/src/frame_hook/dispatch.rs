//! One round: a frame is offered to each hook in turn.
//!
//! A hook that passes on every call pays for this path with each of them. So what is on
//! it is in one function, and what is not (another verdict, a clock) is kept out of line.

use super::error::Raised;
use super::frame::{Code, Frame, Stage};
use super::snapshot::{count_one, Callee, Hook, Snapshot, SnapshotRef};
use super::switch::silent_here;
use super::{replace, verdict};
use crate::cpython as c;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyInterpreterState, PyObject, PyThreadState,
};
use crate::thread::Thread;
use core::ffi::{c_int, CStr};
use core::ptr::{null_mut, NonNull};
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

/// The verdicts of a hook, `PyUnstable_FRAMEHOOK_*` in the header.
pub const FRAMEHOOK_ERROR: c_int = -1;
pub const FRAMEHOOK_PASS: c_int = 0;
pub const FRAMEHOOK_REPLACE: c_int = 1;
pub const FRAMEHOOK_SETTLED: c_int = 2;

/// Calls one hook, and returns its answer: a verdict of the header, and a code object or NULL. The
/// reference to that object is the caller's.
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
        (FRAMEHOOK_PASS, None) => Ok(Heeded::Passed),
        // What another interpreter owns, and what there is no memory for, is not remembered: the
        // hook will be asked again.
        (FRAMEHOOK_SETTLED, None) => {
            Ok(match verdict::settle(thread, frame.code(), hook.id, true) {
                Ok(()) => Heeded::Settled,
                Err(_) => Heeded::Passed,
            })
        }
        // SAFETY: a live object, which the hook has given us.
        (FRAMEHOOK_REPLACE, Some(object)) => match unsafe {
            Code::from_object(object.as_ptr().cast())
        } {
            // SAFETY: the frame is being offered, and the reference is ours.
            Some(code) if code != frame.code() => return unsafe { run(thread, hook, frame, code) },
            Some(_) => Ok(Heeded::Passed),
            // SAFETY: a live object.
            None => Err(unsafe { refuse_answer(thread, hook, object.as_ptr().cast()) }),
        },
        (FRAMEHOOK_ERROR, _) => Err(complain(
            thread,
            hook,
            c"frame hook %s answered with an error and set no exception",
        )),
        _ => Err(complain(thread, hook, c"frame hook %s answered with no known verdict")),
    };
    if let Some(object) = replacement {
        // SAFETY: the hook has given us the reference, and it is not used; the frame
        // has its own.
        unsafe { crate::reference_count::decref(object.as_ptr().cast()) };
    }
    done.unwrap_or_else(|Raised { .. }| fail(hook))
}

/// Raises `SystemError` about a hook; `format` takes its name.
#[cold]
fn complain(thread: Thread, hook: &Hook, format: &CStr) -> Raised {
    // SAFETY: a class, and a format that takes a string.
    unsafe { c::PyErr_Format(c::PyExc_SystemError, format.as_ptr(), hook.name()) };
    Raised::by_cpython(thread)
}

/// Raises `TypeError` about an answer of a hook that is no code.
///
/// # Safety
/// `answer` is live.
#[cold]
unsafe fn refuse_answer(thread: Thread, hook: &Hook, answer: *mut PyObject) -> Raised {
    // SAFETY: a class, and a format that takes a string and an object.
    unsafe {
        c::PyErr_Format(
            c::PyExc_TypeError,
            c"frame hook %s returned neither None nor framehook.SETTLED nor a code object, but an \
              object of type %T"
                .as_ptr(),
            hook.name(),
            answer,
        );
    }
    Raised::by_cpython(thread)
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
    thread.is_tracing() || (unsafe { (*thread.own()).rounds } != 0 && frame.starts_within_a_hook())
}

/// Offers a frame that has its arguments and has run nothing but its prologue.
///
/// Returns the frame that is to run, and how it goes on. On failure that is the frame to unwind.
///
/// # Safety
/// `frame` is the topmost of this thread's data stack, is new, and is linked.
#[inline(always)]
unsafe fn offer(thread: Thread, frame: Frame, stage: Stage) -> (Frame, Answer) {
    if is_off_limits(thread, frame) {
        return (frame, Answer::AskAgain);
    }
    let Some(snapshot) = SnapshotRef::current(thread) else { return (frame, Answer::Settled) };
    let hooks = snapshot.get();
    let mut settled = verdict::settled(thread, hooks, frame.code());
    let open = hooks.enabled() & !settled;
    if open == 0 {
        return (frame, Answer::Settled);
    }
    let here = !silent_here(thread, hooks);
    if open & here == 0 {
        return (frame, Answer::AskAgain);
    }
    let next = frame.next_instruction();
    frame.hide(stage);
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
        if verdict == FRAMEHOOK_PASS && replacement.is_null() && !thread.has_exception() {
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
                settled = verdict::settled(thread, hooks, other.code());
            }
            Heeded::Failed => {
                failed = true;
                break;
            }
        }
    }
    // Hooks that were removed meanwhile may go now, and their owners' code runs: within the round,
    // with the frame still hidden.
    drop(snapshot);
    drop(round);
    // From here on nothing runs any more that could change what is found.
    if failed {
        current.set_offered();
        return (current, Answer::Failed);
    }
    if replaced {
        current.show(current.code().first_instruction());
        return (current, Answer::Replaced);
    }
    current.show(next);
    // Hooks may have come and gone meanwhile.
    (current, if passed { Answer::AskAgain } else { standing(thread, current.code()) })
}

/// Whether all hooks have settled `code`.
#[inline(never)]
fn standing(thread: Thread, code: Code) -> Answer {
    // SAFETY: what follows does not wait, nor run Python code.
    let open = unsafe { Snapshot::borrowed(thread) }
        .map_or(0, |now| now.enabled() & !verdict::settled(thread, now, code));
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
    if !frame.is_on_data_stack() || !frame.is_new() {
        // A generator that begins: it was offered when it was made. Or a frame that was offered
        // before, or that a debugger has sent back.
        return standing(thread, frame.code());
    }
    // SAFETY: a current frame on the data stack is the topmost one there.
    unsafe { offer(thread, frame, Stage::AfterPrologue) }.1
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
        let next = frame.next_instruction();
        if frame.is_on_data_stack() && frame.is_new() {
            frame.step_back();
        }
        let status = c::_Py_Instrument(code, interpreter);
        frame.set_next_instruction(next);
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
    let starts = frame.is_on_data_stack()
        && frame.is_new()
        && frame.next_instruction() == frame.code().first_instruction();
    if !starts {
        return Some(frame.as_ptr());
    }
    // Linked meanwhile, so that what runs within a hook can be told by its frames.
    // SAFETY: the thread's own state and frame. A frame that is about to start is the topmost of
    // the data stack. Who is asked leaves the thread's current frame as it was.
    let (frame, answer) = unsafe {
        let current = &raw mut (*thread.tstate()).current_frame;
        let caller = *current;
        (*frame.as_ptr()).previous = caller;
        *current = frame.as_ptr();
        let offered = offer(thread, frame, Stage::Fresh);
        *current = caller;
        offered
    };
    if answer == Answer::Failed {
        // SAFETY: the frame was handed over, has not run, and is not linked any more.
        unsafe { c::_PyEval_FrameClearAndPop(thread.tstate(), frame.as_ptr()) };
        return None;
    }
    // `RESUME` does not offer it again, even if no hook was asked here.
    frame.set_offered();
    Some(frame.as_ptr())
}
