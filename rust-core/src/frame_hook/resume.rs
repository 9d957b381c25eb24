//! The two forms of `RESUME`: only the unspecialized one dispatches hooks.

use super::world::{despecialize_all, with_world_stopped};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::_PyInterpreterFrame;
use crate::frame::Frame;
use crate::sync::AtomicUsize;
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
pub(super) unsafe fn is_at(at: *mut c::_Py_CODEUNIT, kind: u32) -> bool {
    // SAFETY: the caller says that `at` is one of the instructions of live code.
    u32::from(unsafe { opcode(at) }.load(Ordering::Relaxed)) == kind
}

/// Works around gh-155992: LINE is reported as if RESUME were specialized.
///
/// CPython does not report a line that begins after RESUME_CHECK on its own line, and without a hook each RESUME is
/// specialized once it has run. So a frame that continues after a RESUME is reported as coming from the next
/// instruction. C calls this with the GIL only, as there is no RESUME_CHECK without it.
///
/// # Safety
/// `frame` is the calling thread's current one, at a `RESUME`.
#[no_mangle]
#[cold]
pub unsafe extern "C" fn _PyRust_ImitateResumeCheck(frame: *mut _PyInterpreterFrame) {
    // SAFETY: the caller says that it is the calling thread's current frame, so no other thread
    // links, clears or executes it, and its code stays.
    let frame = unsafe { Frame::new(frame) };
    let (code, offset) = (frame.code(), frame.instruction_offset());
    let line = |offset: isize| {
        // SAFETY: a live code object, and an offset in bytes within it.
        unsafe { c::PyCode_Addr2Line(code.as_ptr(), offset as c_int) }
    };
    if line(offset) == line(offset + size_of::<c::_Py_CODEUNIT>() as isize) {
        // SAFETY: no `RESUME` is the last instruction of its code.
        frame.set_instruction(unsafe { frame.instruction().add(1) });
    }
}

/// The version for which the code was instrumented.
#[inline(always)]
pub fn version(code: Code) -> usize {
    // SAFETY: live by the type's invariant; written as an atomic.
    unsafe { AtomicUsize::from_ptr(&raw mut (*code.as_ptr())._co_instrumentation_version) }
        .load(Ordering::Acquire)
}

/// Whether the first RESUME of `code` is specialized, and executes so in this thread: all hooks are disabled for the code, in all threads,
/// no hook was added since, and nothing is pending. A generator's start asks it, since RETURN_GENERATOR has no specialized form.
#[inline(always)]
pub fn starts_specialized(thread: Thread, code: Code) -> bool {
    // SAFETY: it has such an instruction.
    let is_specialized =
        code.prologue().is_some() && unsafe { is_at(code.first_resume(), c::RESUME_CHECK) };
    is_specialized && version(code) == thread.eval_breaker()
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
