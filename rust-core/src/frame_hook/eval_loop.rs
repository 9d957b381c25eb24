//! Where the eval loop, an evaluator and instrumentation enter Rust with a frame.
//!
//! The callers are `ferrule_eval_loop.h` (`RESUME`, `RETURN_GENERATOR`, `_Py_Instrument`) and `eval_frame`.

use super::dispatch::{offer, standing, NextStep, Way};
use super::entry_frame::{never_dispatch, NewFrame, Stage};
use super::error::Raised;
use super::generator_watch;
use super::listening::calls_some;
use super::resume::goes_on_at;
use super::return_shim::{hand_on, pass_marks, Ahead, HERE};
use crate::cpython as c;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyInterpreterState, PyObject, PyThreadState,
};
use crate::frame::Frame;
use crate::in_cpython::FrameHookState;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::c_int;
use core::ptr::null_mut;

/// How the eval loop continues after a dispatch; `ahead` is for [`NextStep::CurrentFrame`].
#[repr(C)]
pub struct DispatchResult {
    pub next: NextStep,
    pub ahead: Ahead,
}

impl From<NextStep> for DispatchResult {
    #[inline] // or its symbol would be exported
    fn from(next: NextStep) -> Self {
        DispatchResult { next, ahead: HERE }
    }
}

/// Dispatches the hooks for the thread's current frame, at its `RESUME` or `RETURN_GENERATOR`. Takes a few loads if all
/// are disabled for the code, else the time of the callbacks.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state; `frame` is its
/// current frame, with its stack pointer saved.
#[no_mangle]
#[inline(never)] // the eval loop is large enough
pub unsafe extern "C" fn _PyRust_DispatchFrameHooks(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> DispatchResult {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and that
    // `frame` is its current frame. So no other thread links or clears it. Others only read it:
    // Python's frame walkers while this one is stopped; faulthandler and samplers at any time, as
    // CPython's own frames.
    let (thread, frame) = unsafe { (Thread::new(tstate), Frame::new(frame)) };
    // SAFETY: a current frame on the data stack is the topmost one there.
    let Some(starting) = (unsafe { NewFrame::if_it_starts(frame) }) else {
        return go_on(thread, frame).into();
    };
    // SAFETY: the current frame is linked.
    let (frame, value) = match unsafe { offer(thread, starting, Stage::AfterPrologue) } {
        Way::Runs(_, next) => return next.into(),
        Way::Replaced(_) => return NextStep::CurrentFrame.into(),
        Way::Answered(frame, value) => (frame, Some(value)),
        Way::Failed(frame) => (frame, None),
    };
    // SAFETY: the frame that the dispatch returns is the thread's current one, and the topmost of
    // the data stack, also if it was replaced. Callbacks pop the frames that they push.
    let ahead = unsafe { give_up(thread, frame, value) };
    DispatchResult { next: NextStep::CurrentFrame, ahead }
}

/// Ends a call before its frame has run: clears the frame, and makes the caller current, with the value of the call or
/// with the exception that is set. Out of line: frames that run need none of its registers.
///
/// # Safety
/// `frame` is the thread's current one, the topmost of the data stack.
#[inline(never)]
pub(super) unsafe fn give_up(thread: Thread, frame: Frame, value: Option<Owned>) -> Ahead {
    let tstate = thread.tstate();
    // SAFETY: what the eval loop does where a call ends. The frame below has called.
    unsafe {
        (*tstate).py_recursion_remaining += 1;
        thread.set_current_frame((*frame.as_ptr()).previous);
        c::_PyEval_FrameClearAndPop(tstate, frame.as_ptr());
        value.map_or(HERE, |value| hand_on(thread, value, None))
    }
}

/// A frame executes a `RESUME` at which it is not dispatched: a generator is resumed, which may be watched; or the
/// frame was dispatched before, or a debugger has sent it back.
#[inline(never)]
fn go_on(thread: Thread, frame: Frame) -> NextStep {
    if !generator_watch::are_there_any(thread) {
        // That one goes on, whatever hooks say of its code, is nothing that they are asked about.
        // SAFETY: the frame stands at an instruction of its code.
        let goes_on = unsafe { goes_on_at(frame.instruction()) };
        return if goes_on { NextStep::Specialize } else { standing(thread, frame.code()) };
    }
    let resumes_at = frame.instruction();
    // SAFETY: the current frame, which has come to an instruction that nothing of it runs before.
    match unsafe { generator_watch::go_on(thread, frame) } {
        // A debugger has sent it to another line.
        Ok(()) if frame.instruction() != resumes_at => NextStep::CurrentFrame,
        Ok(()) => NextStep::KeepUnspecialized,
        Err(Raised { .. }) => NextStep::CurrentFrame,
    }
}

/// `_Py_Instrument` for the code of a frame at a `RESUME`: 0, or -1 with an exception set. A frame that is still to be
/// dispatched is hidden meanwhile: on the free-threaded build the thread may wait here while another one walks its
/// frames.
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
    // SAFETY: the caller says that `frame` is the thread's current one, `code` its code, and
    // `interpreter` the thread's own. So frame and code stay, even if `_Py_Instrument` waits for
    // other threads. Nothing here reads slots of the frame, whose stack pointer may not be saved.
    let (thread, frame, watches) = unsafe {
        let state = FrameHookState::of(interpreter);
        (Thread::current(), Frame::new(frame), !(*state).watched.is_null())
    };
    // One that is set before is thrown in. One that is set after it means that there was no memory.
    let is_thrown_in = watches && thread.has_exception();
    // SAFETY: the current frame and its code, as the caller says.
    let status = unsafe {
        let next = frame.instruction();
        if let Some(starting) = NewFrame::if_it_starts(frame) {
            starting.step_back();
        }
        let status = c::_Py_Instrument(code, interpreter);
        frame.set_instruction(next);
        status
    };
    if is_thrown_in {
        // SAFETY: an exception is set only when the eval loop is entered to throw it in. It has not
        // loaded the frame's stack pointer then, which is saved.
        unsafe { go_on_thrown(thread, frame) };
    } else if watches && status != 0 {
        // SAFETY: the current frame, as the caller says.
        unsafe { generator_watch::go_on_untold(thread, frame) };
    }
    status
}

/// A generator is resumed by an exception that is thrown in, which executes no `RESUME`.
///
/// # Safety
/// `frame` is the calling thread's current frame, and its stack pointer is saved.
#[cold]
#[inline(never)]
unsafe fn go_on_thrown(thread: Thread, frame: Frame) {
    // SAFETY: the caller says that it is the current frame, with its stack pointer saved. It executes
    // nothing before it handles the exception. A hook that fails raises about that exception.
    let _ = unsafe { generator_watch::go_on(thread, frame) };
}

/// What becomes of a frame that an evaluator is about to get.
pub enum Before {
    /// It is evaluated.
    Evaluate(*mut _PyInterpreterFrame),
    /// It is evaluated, and the return shims from this one on lie below it.
    Watched(*mut _PyInterpreterFrame, Frame),
    /// It is gone, and this is what the call comes to: a new reference, or NULL with an exception.
    Over(*mut PyObject),
}

/// Dispatches the hooks for a frame that an evaluator is about to get, before anything of it has run.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state, and `frame` ready
/// to be evaluated; the caller hands it over.
#[inline(always)]
pub unsafe fn offer_before_evaluator(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> Before {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and hands
    // the frame over, so that nothing else clears it. The state is live.
    unsafe {
        let thread = Thread::new(tstate);
        if calls_some(thread) {
            offer_fresh(thread, Frame::new(frame))
        } else {
            Before::Evaluate(frame)
        }
    }
}

/// [`offer_before_evaluator`] in a thread in which hooks are called. Out of line: its caller is inlined into the eval
/// loop.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn offer_fresh(thread: Thread, frame: Frame) -> Before {
    // SAFETY: a frame that is about to start is the topmost of the data stack.
    let Some(starting) = (unsafe { NewFrame::if_it_starts(frame) }) else {
        return Before::Evaluate(frame.as_ptr());
    };
    if starting.instruction() != starting.code().first_instruction() {
        return Before::Evaluate(frame.as_ptr());
    }
    // Linked meanwhile, so that what runs within a hook can be told by its frames.
    // SAFETY: the thread's own state and frame. Entry callbacks leave the thread's current frame as
    // it was.
    let (way, caller) = unsafe {
        let caller = (*thread.tstate()).current_frame;
        frame.set_previous(caller);
        thread.set_current_frame(frame.as_ptr());
        let way = offer(thread, starting, Stage::Fresh);
        thread.set_current_frame(caller);
        (way, caller)
    };
    let (Way::Runs(frame, _) | Way::Replaced(frame) | Way::Answered(frame, _) | Way::Failed(frame)) =
        way;
    let mark = frame.previous().filter(|below| below.as_ptr() != caller);
    // SAFETY: the frame was handed over; where it has not run, it is not linked any more.
    unsafe {
        let came = match way {
            Way::Runs(..) | Way::Replaced(_) => {
                // `RESUME` does not dispatch it again, even if no hook was called here.
                never_dispatch(frame);
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
