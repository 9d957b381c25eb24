//! The two forms of `RESUME`: the quick one asks nobody.

use crate::code::Code;
use crate::cpython as c;
use core::sync::atomic::{AtomicU8, Ordering};

/// Lets the eval loop ask Rust when it comes to this `RESUME`.
///
/// # Safety
/// `at` is one of the instructions of live code.
pub unsafe fn make_slow(at: *mut c::_Py_CODEUNIT) {
    // SAFETY: by contract. Other threads may execute and write the byte; both numbers mean the same
    // to them.
    let code = unsafe { AtomicU8::from_ptr((&raw mut (*at).op.code).cast()) };
    if u32::from(code.load(Ordering::Relaxed)) == c::RESUME_CHECK {
        code.store(c::RESUME as u8, Ordering::Relaxed);
    }
}

/// Lets frames of `code` that begin come to the hooks.
pub fn make_first_resume_slow(code: Code) {
    if code.prologue().is_some() {
        // SAFETY: it has such an instruction.
        unsafe { make_slow(code.first_resume()) };
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
