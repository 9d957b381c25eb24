//! Where the eval loop, an evaluator and instrumentation enter Rust with a frame.
//!
//! The callers are `ferrule_eval_loop.h` (`RESUME`, `RETURN_GENERATOR`, `_Py_Instrument`) and `eval_frame`.

use super::dispatch::dispatch;
use super::dispatch_state::{next_step_for, DispatchOutcome, NextStep};
use super::entry_frame::{never_dispatch, NewFrame};
use super::error::{Outcome, Raised};
use super::generator_events::{deliver_resume, link_silently, link_without_callbacks};
use super::generator_watch::{is_any_watched, Watched};
use super::listening::calls_some;
use super::opt_out;
use super::resume::{is_after_yield, is_at, starts_specialized};
use super::return_offset::Stage;
use super::return_shim::{pass_through_shims, push_result, Ahead, HERE};
use super::state::any_watched;
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
    // Calls in tail position, so that this function has no stack frame.
    // SAFETY: a current frame on the data stack is the topmost one there.
    let Some(new) = (unsafe { NewFrame::if_it_starts(frame) }) else {
        // SAFETY: a current frame on the data stack is linked. This one continues.
        return unsafe { resume(thread, frame) };
    };
    // Once all hooks are disabled for the code, a RESUME is specialized and does not come here.
    // SAFETY: the instruction of a live frame.
    if unsafe { is_at(frame.instruction(), c::RESUME) } {
        // SAFETY: the frame is the current one.
        return unsafe { dispatch_current(thread, new) };
    }
    // SAFETY: the calling thread's own.
    let unhooked = unsafe { (*thread.own()).unhooked };
    // A generator, which starts without a RESUME: no specialized instruction spares this call. One that is unhooked is taken note of.
    if unhooked == 0 && starts_specialized(thread, new.code()) {
        return NextStep::Specialize.into();
    }
    // SAFETY: the frame is the current one.
    unsafe { start_unspecialized(thread, new) }
}

/// Dispatches the hooks for the current frame, which starts, unless all are disabled for its code: that of a generator, or code in
/// which a tool has events.
///
/// # Safety
/// `new` is the thread's current frame.
#[inline(never)]
unsafe extern "C" fn start_unspecialized(thread: Thread, new: NewFrame) -> DispatchResult {
    // SAFETY: the calling thread's own.
    let unhooked = unsafe { (*thread.own()).unhooked };
    if unhooked == 0 && opt_out::is_for_all_hooks(thread, new.code()) {
        return NextStep::Specialize.into();
    }
    // SAFETY: as the caller says.
    unsafe { dispatch_current(thread, new) }
}

/// Dispatches the hooks for the current frame, which starts.
///
/// # Safety
/// `new` is the thread's current frame.
#[inline(never)]
unsafe extern "C" fn dispatch_current(thread: Thread, new: NewFrame) -> DispatchResult {
    let finish = |frame, outcome| match outcome {
        DispatchOutcome::Runs(next) => next.into(),
        DispatchOutcome::Ends(end) => {
            // SAFETY: the frame that the dispatch returns is the thread's current one, and the topmost of
            // the data stack, also if it was replaced. Callbacks pop the frames that they push.
            let ahead = unsafe { end_call(thread, frame, end) };
            DispatchResult { next: NextStep::CurrentFrame, ahead }
        }
    };
    // SAFETY: the current frame is linked.
    unsafe { dispatch(thread, new, Stage::AfterPrologue, finish) }
}

/// Ends a call before its frame has run: clears the frame, and makes the caller current, with the value of the call or
/// with the exception that is set. Out of line: frames that run need none of its registers.
///
/// # Safety
/// `frame` is the thread's current one, the topmost of the data stack.
#[inline(never)]
pub(super) unsafe fn end_call(thread: Thread, frame: Frame, end: Outcome<Owned>) -> Ahead {
    let tstate = thread.tstate();
    // SAFETY: what the eval loop does where a call ends. The frame below has called.
    unsafe {
        (*tstate).py_recursion_remaining += 1;
        thread.set_current_frame((*frame.as_ptr()).previous);
        c::_PyEval_FrameClearAndPop(tstate, frame.as_ptr());
        end.map_or(HERE, |value| push_result(thread, value, None))
    }
}

/// A frame executes a `RESUME` at which it is not dispatched: a generator is resumed, which may be watched; or the
/// frame was dispatched before, or a debugger has sent it back.
///
/// # Safety
/// `frame` is the thread's current frame, at an instruction before which nothing of it runs.
#[inline(never)]
unsafe extern "C" fn resume(thread: Thread, frame: Frame) -> DispatchResult {
    if !is_any_watched(thread) {
        return resume_unwatched(thread, frame).into();
    }
    let Some(watched) = Watched::of(thread, frame) else {
        return NextStep::KeepUnspecialized.into();
    };
    // SAFETY: *resumed*, says the caller. The frame holds `watched`: it was just read.
    unsafe {
        if link_silently(thread, frame, watched) {
            NextStep::KeepUnspecialized.into()
        } else {
            resume_watched(thread, frame)
        }
    }
}

/// [`resume`] where no generator is watched.
#[inline(never)]
fn resume_unwatched(thread: Thread, frame: Frame) -> NextStep {
    // Resumption is never dispatched.
    // SAFETY: `instr_ptr` is an instruction of its code.
    let is_resumption = unsafe { is_after_yield(frame.instruction()) };
    if is_resumption {
        NextStep::Specialize
    } else {
        next_step_for(thread, frame.code())
    }
}

/// [`resume`] of a generator with several watches, or with one whose hook has a callback for that.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe extern "C" fn resume_watched(thread: Thread, frame: Frame) -> DispatchResult {
    let resumes_at = frame.instruction();
    // SAFETY: *resumed*, says the caller.
    let next = match unsafe { deliver_resume(thread, frame) } {
        // A debugger has sent it to another line.
        Ok(()) if frame.instruction() != resumes_at => NextStep::CurrentFrame,
        Ok(()) => NextStep::KeepUnspecialized,
        Err(Raised { .. }) => NextStep::CurrentFrame,
    };
    next.into()
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
        (Thread::current(), Frame::new(frame), any_watched(state))
    };
    // An exception that is set before is thrown in. One that is set after it means that there was no memory.
    let is_thrown_in = watches && thread.has_exception();
    // SAFETY: the current frame and its code, as the caller says.
    let status = unsafe {
        let next = frame.instruction();
        if let Some(new) = NewFrame::if_it_starts(frame) {
            new.make_incomplete();
        }
        let status = c::_Py_Instrument(code, interpreter);
        frame.set_instruction(next);
        status
    };
    if is_thrown_in {
        // SAFETY: an exception is set only when the eval loop is entered to throw it in. It has not
        // loaded the frame's stack pointer then, which is saved.
        unsafe { resume_with_exception(thread, frame) };
    } else if watches && status != 0 {
        // SAFETY: *current*: the current frame, as the caller says.
        unsafe { link_without_callbacks(thread, frame) };
    }
    status
}

/// A generator is resumed by an exception that is thrown in, which executes no `RESUME`.
///
/// # Safety
/// `frame` is the calling thread's current frame, and its stack pointer is saved.
#[cold]
#[inline(never)]
unsafe fn resume_with_exception(thread: Thread, frame: Frame) {
    // SAFETY: *resumed*: the caller says that it is the current frame, with its stack pointer saved. It executes
    // nothing before it handles the exception. A callback that fails replaces that exception.
    let _ = unsafe { deliver_resume(thread, frame) };
}

/// A frame to evaluate after its dispatch, and the first of the return shims below it. `Err`: the call has ended, with a
/// new reference, or NULL with an exception.
pub type BeforeEvaluator = Result<(*mut _PyInterpreterFrame, Option<Frame>), *mut PyObject>;

/// Dispatches the hooks for a frame that an evaluator is about to get, before anything of it has run.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state, and `frame` ready
/// to be evaluated; the caller hands it over.
#[inline(always)]
pub unsafe fn dispatch_before_evaluator(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> BeforeEvaluator {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and hands
    // the frame over, so that nothing else clears it. The state is live.
    unsafe {
        let thread = Thread::new(tstate);
        if calls_some(thread) {
            dispatch_fresh(thread, Frame::new(frame))
        } else {
            Ok((frame, None))
        }
    }
}

/// [`dispatch_before_evaluator`] in a thread in which hooks are called. Out of line: its caller is inlined into the eval
/// loop.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn dispatch_fresh(thread: Thread, frame: Frame) -> BeforeEvaluator {
    let is_at_start = |new: &NewFrame| new.instruction() == new.code().first_instruction();
    // SAFETY: a frame that is about to start is the topmost of the data stack.
    let Some(new) = (unsafe { NewFrame::if_it_starts(frame) }).filter(is_at_start) else {
        return Ok((frame.as_ptr(), None));
    };
    // Linked meanwhile: frames that start within a callback are recognized by the frames below them.
    // SAFETY: the thread's own state and frame. Entry callbacks leave the thread's current frame as
    // it was.
    let (caller, (frame, outcome)) = unsafe {
        let caller = (*thread.tstate()).current_frame;
        frame.set_previous(caller);
        thread.set_current_frame(frame.as_ptr());
        let outcome = dispatch(thread, new, Stage::Fresh, |frame, outcome| (frame, outcome));
        thread.set_current_frame(caller);
        (caller, outcome)
    };
    let shim = frame.previous().filter(|below| below.as_ptr() != caller);
    let DispatchOutcome::Ends(end) = outcome else {
        // `RESUME` does not dispatch it again, even if no hook was called here.
        never_dispatch(frame);
        return Ok((frame.as_ptr(), shim));
    };
    let result = end.map_or(null_mut(), Owned::into_raw);
    // SAFETY: the frame was handed over; it has not run, and is not linked any more. The shims lie upon the current frame.
    unsafe {
        c::_PyEval_FrameClearAndPop(thread.tstate(), frame.as_ptr());
        Err(shim.map_or(result, |shim| pass_through_shims(thread.tstate(), shim, result)))
    }
}
