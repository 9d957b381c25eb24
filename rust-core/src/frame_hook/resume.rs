//! The two forms of `RESUME`: only the unspecialized one dispatches hooks.

use super::world::{despecialize_all, with_world_stopped};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyThreadState};
use crate::frame::Frame;
use crate::thread::Thread;
use core::ffi::c_int;
use core::mem::size_of;
use core::sync::atomic::{AtomicU8, Ordering};

/// De-specializes RESUME_CHECK to RESUME. Returns whether it was specialized.
///
/// # Safety
/// `at` is one of the instructions of live code.
pub unsafe fn despecialize(at: *mut c::_Py_CODEUNIT) -> bool {
    // SAFETY: the caller says that `at` is one of the instructions of live code.
    let was_specialized = unsafe { is_at(at, c::RESUME_CHECK) };
    if was_specialized {
        // SAFETY: live, says the caller. RESUME and RESUME_CHECK mean the same to a thread that
        // executes the instruction meanwhile.
        unsafe { opcode(at).store(c::RESUME as u8, Ordering::Relaxed) };
    }
    was_specialized
}

/// The opcode of an instruction. Other threads may execute and write it.
///
/// # Safety
/// `at` is one of the instructions of code that lives as long as `'a`.
#[inline(always)]
unsafe fn opcode<'a>(at: *mut c::_Py_CODEUNIT) -> &'a AtomicU8 {
    // SAFETY: the caller says that the code lives as long as `'a`. Other threads may read and write
    // the opcode meanwhile, hence the atomic.
    unsafe { AtomicU8::from_ptr((&raw mut (*at).op.code).cast()) }
}

/// Whether an instruction is such a one.
///
/// # Safety
/// `at` is one of the instructions of live code.
#[inline(always)]
unsafe fn is_at(at: *mut c::_Py_CODEUNIT, kind: u32) -> bool {
    // SAFETY: the caller says that `at` is one of the instructions of live code.
    u32::from(unsafe { opcode(at) }.load(Ordering::Relaxed)) == kind
}

/// Works around gh-155992: LINE is reported as if RESUME were specialized.
///
/// CPython does not report a line that begins after RESUME_CHECK on its own line, and without a hook each RESUME is
/// specialized once it has run. So a frame that continues after a RESUME is reported as coming from the next
/// instruction. There is no RESUME_CHECK without the GIL. If anything is pending, handlers run at the RESUME first and
/// must see the frame there; [`_PyRust_HandlePending`] does this after them.
///
/// # Safety
/// *not last*: `frame` is the calling thread's current one, at an instruction of its code that is not the last one.
#[inline(always)]
pub unsafe fn report_line_as_if_specialized(thread: Thread, frame: Frame) {
    // SAFETY: *not last*, says the caller. The frame executes, so its code stays.
    if unsafe { reports_line_next(frame) } && !is_anything_pending(thread) {
        // SAFETY: *not last* still: nothing has run since.
        unsafe { skip_line_of_resume(frame) };
    }
}

/// Whether the next instruction reports a line.
///
/// # Safety
/// *not last*, as for [`report_line_as_if_specialized`].
#[inline(always)]
unsafe fn reports_line_next(frame: Frame) -> bool {
    // SAFETY: the caller says that there is one more instruction.
    cfg!(not(ferrule_free_threaded))
        && unsafe { is_at(frame.instruction().add(1), c::INSTRUMENTED_LINE) }
}

/// Whether pending work would be handled now. A `RESUME` after a `yield from` does not check for it, and no line begins
/// there.
#[cold]
fn is_anything_pending(thread: Thread) -> bool {
    thread.eval_breaker() & ((1 << c::_PY_EVAL_EVENTS_BITS) - 1) != 0
}

/// `_Py_HandlePending` for the thread's current frame: 0, or -1 with an exception set. Signal handlers, the collector
/// and other threads run, and may change hooks and events. Then does what [`report_line_as_if_specialized`] describes.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state; `frame` is its current frame, at an instruction of its
/// code.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_HandlePending(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> c_int {
    // SAFETY: the caller says that `frame` is the current frame of the calling thread. The frame executes, so it and its
    // code stay.
    let frame = unsafe { Frame::new(frame) };
    let at = frame.instruction();
    // SAFETY: an instruction of live code. If it is instrumented, LINE is reported in any case, even if it is not any more
    // afterwards.
    let is_resume = unsafe { is_at(at, c::RESUME) || is_at(at, c::RESUME_CHECK) };
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one. No lock is held.
    let status = unsafe { c::_Py_HandlePending(tstate) };
    // SAFETY: no `RESUME` is the last instruction of its code, and the frame does not continue meanwhile.
    unsafe {
        if status == 0 && is_resume && reports_line_next(frame) {
            skip_line_of_resume(frame);
        }
    }
    status
}

/// [`report_line_as_if_specialized`] if the next instruction reports a line.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn skip_line_of_resume(frame: Frame) {
    let (code, at) = (frame.code(), frame.instruction());
    let line = |offset: isize| {
        // SAFETY: a live code object, and an offset in bytes within it.
        unsafe { c::PyCode_Addr2Line(code.as_ptr(), offset as c_int) }
    };
    let offset = frame.instruction_offset();
    // SAFETY: *not last*, says the caller. An instrumented one reports the line in any case.
    unsafe {
        let width = size_of::<c::_Py_CODEUNIT>() as isize;
        if is_at(at, c::RESUME) && line(offset) == line(offset + width) {
            frame.set_instruction(at.add(1));
        }
    }
}

/// De-specializes the first RESUME of `code`, so that its frames are dispatched. An exception that is set stays.
pub fn despecialize_first_resume(thread: Thread, code: Code) {
    // SAFETY: it has such an instruction.
    let was_specialized = code.prologue().is_some() && unsafe { despecialize(code.first_resume()) };
    if was_specialized && c::HAS_TIER2 {
        // A trace keeps the specialized form that it has, and may be running: this may be called by a
        // destructor within it. No trace continues in a generator, so only here do traces matter.
        // SAFETY: the world is stopped. *quiet*: it runs no Python code.
        unsafe { with_world_stopped(thread, |_| despecialize_all(thread)) };
    }
}

/// Whether this is the `RESUME` after a yield or await: its argument is 0 where a frame starts.
///
/// # Safety
/// It is the instruction of a live frame that starts or is resumed.
pub unsafe fn is_after_yield(instruction: *mut c::_Py_CODEUNIT) -> bool {
    // SAFETY: the caller says that it is a live frame's, so its code is live; arguments do not change.
    unsafe { (*instruction).op.arg & 3 != 0 }
}
