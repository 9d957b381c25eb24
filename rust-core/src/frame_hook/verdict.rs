//! The numbers of the C interface as types: verdicts, requests and kinds of events.

use super::c_types::*;
use core::ffi::{c_int, c_uint, c_void};

/// What an entry callback has returned.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq)]
pub enum Verdict {
    Error = FRAMEHOOK_ERROR,
    Pass = FRAMEHOOK_PASS,
    Replace = FRAMEHOOK_REPLACE,
    Disable = FRAMEHOOK_DISABLE,
    Result = FRAMEHOOK_RESULT,
}

impl Verdict {
    /// `None` for a number that the header does not have.
    #[inline(always)]
    pub fn from_c(number: c_int) -> Option<Self> {
        match number {
            FRAMEHOOK_ERROR => Some(Verdict::Error),
            FRAMEHOOK_PASS => Some(Verdict::Pass),
            FRAMEHOOK_REPLACE => Some(Verdict::Replace),
            FRAMEHOOK_DISABLE => Some(Verdict::Disable),
            FRAMEHOOK_RESULT => Some(Verdict::Result),
            _ => None,
        }
    }
}

/// What an answer requests for a frame: all of it but verdict and object.
#[derive(Clone, Copy)]
pub struct Request {
    pub data: *mut c_void,
    pub events: c_uint,
    pub scope: c_uint,
}

impl Request {
    #[inline(always)]
    pub fn is_nothing(self) -> bool {
        self.events | self.scope == 0
    }

    /// Whether the header has these events and this scope.
    pub fn is_known(self) -> bool {
        self.has_known_events() && self.scope <= FRAMEHOOK_ONLY_CALLEES_EVERYWHERE
    }

    /// Whether the header has these events.
    #[inline(always)]
    pub fn has_known_events(self) -> bool {
        self.events < 2 * FRAMEHOOK_ON_RESUME
    }
}

/// The kind of an event.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(any(test, fuzzing), derive(Debug))]
pub enum Kind {
    Returned = FRAMEHOOK_RETURNED,
    Raised = FRAMEHOOK_RAISED,
    Yielded = FRAMEHOOK_YIELDED,
    Resumed = FRAMEHOOK_RESUMED,
    Dropped = FRAMEHOOK_DROPPED,
}
