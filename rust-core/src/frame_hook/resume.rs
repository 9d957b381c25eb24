//! The two forms of `RESUME`: only the unspecialized one dispatches hooks.

use super::world::{locked, unsettle};
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
pub unsafe fn make_slow(at: *mut c::_Py_CODEUNIT) -> bool {
    // SAFETY: the caller says that `at` is one of the instructions of live code.
    let is_quick = unsafe { is_at(at, c::RESUME_CHECK) };
    if is_quick {
        // SAFETY: live, says the caller. RESUME and RESUME_CHECK mean the same to a thread that
        // executes the instruction meanwhile.
        unsafe { opcode(at).store(c::RESUME as u8, Ordering::Relaxed) };
    }
    is_quick
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
/// `frame` is the calling thread's current one, and stands at an instruction of its code that is not
/// the last one.
#[inline(always)]
pub unsafe fn goes_on_as_if_quick(thread: Thread, frame: Frame) {
    // SAFETY: the caller says that the frame stands at an instruction of its code that is not the
    // last one. The frame executes, so its code stays.
    if unsafe { tells_of_a_line_next(frame) } && !is_anything_pending(thread) {
        // SAFETY: the frame stands where it stood, at an instruction that is not the last one:
        // nothing has run since.
        unsafe { comes_from_the_same_line(frame) };
    }
}

/// Whether the next instruction reports a line.
///
/// # Safety
/// The frame stands at an instruction of its code that is not the last one.
#[inline(always)]
unsafe fn tells_of_a_line_next(frame: Frame) -> bool {
    // SAFETY: the caller says that there is one more instruction.
    cfg!(not(ferrule_free_threaded))
        && unsafe { is_at(frame.instruction().add(1), c::INSTRUMENTED_LINE) }
}

/// Whether the eval loop is to look for something else to do. Where a `RESUME` does not look, behind
/// a `yield from`, no line begins.
#[cold]
fn is_anything_pending(thread: Thread) -> bool {
    thread.eval_breaker() & ((1 << c::_PY_EVAL_EVENTS_BITS) - 1) != 0
}

/// `_Py_HandlePending` for the thread's current frame: 0, or -1 with an exception set. Signal handlers, the collector
/// and other threads run, and may change hooks and events. Then does what [`goes_on_as_if_quick`] describes.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state; `frame` is its current frame, and
/// stands at an instruction of its code.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_HandlePending(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) -> c_int {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and that
    // `frame` is its current frame. No `RESUME` is the last instruction of its code. The frame
    // executes, so it and its code stay, and it does not go on meanwhile.
    unsafe {
        let frame = Frame::new(frame);
        let at = frame.instruction();
        // One that is instrumented tells of the line in any case, even if it is not any more then.
        let resumes = is_at(at, c::RESUME) || is_at(at, c::RESUME_CHECK);
        let status = c::_Py_HandlePending(tstate);
        if status == 0 && resumes && tells_of_a_line_next(frame) {
            comes_from_the_same_line(frame);
        }
        status
    }
}

/// [`goes_on_as_if_quick`] if the next instruction reports a line.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn comes_from_the_same_line(frame: Frame) {
    let (code, at) = (frame.code(), frame.instruction());
    let line = |offset: isize| {
        // SAFETY: a live code object, and an offset in bytes within it.
        unsafe { c::PyCode_Addr2Line(code.as_ptr(), offset as c_int) }
    };
    let offset = frame.instruction_offset();
    // SAFETY: the caller says that the frame stands at an instruction of its code that is not the
    // last one. One that is instrumented tells of the line in any case.
    unsafe {
        let width = size_of::<c::_Py_CODEUNIT>() as isize;
        if is_at(at, c::RESUME) && line(offset) == line(offset + width) {
            frame.set_instruction(at.add(1));
        }
    }
}

/// De-specializes the first RESUME of `code`, so that its frames are dispatched. An exception that is set stays.
pub fn make_first_resume_slow(thread: Thread, code: Code) {
    // SAFETY: it has such an instruction.
    let was_quick = code.prologue().is_some() && unsafe { make_slow(code.first_resume()) };
    if was_quick && c::HAS_TIER2 {
        // A trace keeps the quick form that it had, and may be running: this may be called by a
        // destructor within it. No trace goes on in a generator, so those matter here alone.
        // SAFETY: the world is stopped.
        locked(thread, || unsafe { unsettle(thread) });
    }
}

/// Whether this is the `RESUME` behind a yield: its argument is 0 where a frame begins.
///
/// # Safety
/// A frame that goes on or begins stands there.
pub unsafe fn goes_on_at(instruction: *mut c::_Py_CODEUNIT) -> bool {
    // SAFETY: the caller says that a frame stands at this instruction, so its code is live;
    // arguments do not change.
    unsafe { (*instruction).op.arg & 3 != 0 }
}
