//! What a hook says of a frame.

use core::ffi::c_int;

/// The verdicts of a hook, `PyUnstable_FRAMEHOOK_*` in the header.
pub const FRAMEHOOK_ERROR: c_int = -1;
pub const FRAMEHOOK_PASS: c_int = 0;
pub const FRAMEHOOK_REPLACE: c_int = 1;
pub const FRAMEHOOK_SETTLED: c_int = 2;

/// What a hook says of a frame; as a number, what C calls it.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It has failed, and has set an exception.
    Error = FRAMEHOOK_ERROR,
    /// The frame is to run as it is. The hook wants to be asked about the next one.
    Pass = FRAMEHOOK_PASS,
    /// Other code is to run, which comes with the verdict.
    Replace = FRAMEHOOK_REPLACE,
    /// The frame is to run as it is. The hook need not be asked about its code again.
    Settled = FRAMEHOOK_SETTLED,
}

impl Verdict {
    /// `None` for a number that the header does not have.
    #[inline(always)]
    pub fn from_c(number: c_int) -> Option<Self> {
        match number {
            FRAMEHOOK_ERROR => Some(Verdict::Error),
            FRAMEHOOK_PASS => Some(Verdict::Pass),
            FRAMEHOOK_REPLACE => Some(Verdict::Replace),
            FRAMEHOOK_SETTLED => Some(Verdict::Settled),
            _ => None,
        }
    }
}
