//! The two forms of `RESUME`: the quick one asks nobody.

use super::world::{locked, unsettle};
use crate::code::Code;
use crate::cpython as c;
use crate::thread::Thread;
use core::sync::atomic::{AtomicU8, Ordering};

/// Lets the eval loop ask Rust when it comes to this `RESUME`. Returns whether it was quick.
///
/// # Safety
/// `at` is one of the instructions of live code.
pub unsafe fn make_slow(at: *mut c::_Py_CODEUNIT) -> bool {
    // SAFETY: by contract.
    let is_quick = unsafe { is_at(at, c::RESUME_CHECK) };
    if is_quick {
        // SAFETY: as above. Both numbers mean the same to who executes it meanwhile.
        unsafe { opcode(at).store(c::RESUME as u8, Ordering::Relaxed) };
    }
    is_quick
}

/// The byte that says what an instruction does. Other threads may execute and write it.
///
/// # Safety
/// `at` is one of the instructions of code that lives as long as `'a`.
#[inline(always)]
unsafe fn opcode<'a>(at: *mut c::_Py_CODEUNIT) -> &'a AtomicU8 {
    // SAFETY: by contract.
    unsafe { AtomicU8::from_ptr((&raw mut (*at).op.code).cast()) }
}

/// Whether an instruction is such a one.
///
/// # Safety
/// `at` is one of the instructions of live code.
#[inline(always)]
unsafe fn is_at(at: *mut c::_Py_CODEUNIT, kind: u32) -> bool {
    // SAFETY: by contract.
    u32::from(unsafe { opcode(at) }.load(Ordering::Relaxed)) == kind
}

/// Lets frames of `code` that begin come to the hooks. An exception that is set stays.
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
    // SAFETY: an instruction of live code, by contract; arguments do not change.
    unsafe { (*instruction).op.arg & 3 != 0 }
}
