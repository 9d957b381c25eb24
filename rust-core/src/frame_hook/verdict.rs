//! What a hook says of a frame, and what it is told of one.

use crate::cpython::PyObject;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

/// The verdicts of a hook, `PyUnstable_FRAMEHOOK_*` in the header.
pub const FRAMEHOOK_ERROR: c_int = -1;
pub const FRAMEHOOK_PASS: c_int = 0;
pub const FRAMEHOOK_REPLACE: c_int = 1;
pub const FRAMEHOOK_SETTLED: c_int = 2;
pub const FRAMEHOOK_RESULT: c_int = 3;

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
    /// Nothing is to run. The value of the call comes with the verdict.
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
            FRAMEHOOK_SETTLED => Some(Verdict::Settled),
            FRAMEHOOK_RESULT => Some(Verdict::Result),
            _ => None,
        }
    }
}

/// What a hook wants to be told of a frame, as bits: `PyUnstable_FRAMEHOOK_TELL_*` in the header.
pub const FRAMEHOOK_TELL_LEAVE: c_uint = 1;
pub const FRAMEHOOK_TELL_YIELD: c_uint = 2;
pub const FRAMEHOOK_TELL_RESUME: c_uint = 4;

/// The scope of a frame: `PyUnstable_FRAMEHOOK_*_BELOW*` in the header.
pub const FRAMEHOOK_NOT_BELOW: c_uint = 1;
pub const FRAMEHOOK_ONLY_BELOW: c_uint = 2;
pub const FRAMEHOOK_ONLY_BELOW_EVERYWHERE: c_uint = 3;

/// What a hook says beside its verdict; `PyUnstable_FrameHookAnswer` in the header.
#[repr(C)]
pub struct HookAnswer {
    pub object: *mut PyObject,
    pub word: *mut c_void,
    pub tell: c_uint,
    pub extent: c_uint,
}

impl HookAnswer {
    /// What a hook finds when it is asked.
    ///
    /// cbindgen:ignore
    pub const EMPTY: Self = HookAnswer { object: null_mut(), word: null_mut(), tell: 0, extent: 0 };
}

/// What a hook wants of a frame that it lets run: the part of its answer that is neither verdict
/// nor object.
#[derive(Clone, Copy)]
pub struct Request {
    pub word: *mut c_void,
    pub tell: c_uint,
    pub extent: c_uint,
}

impl Request {
    /// cbindgen:ignore
    pub const NOTHING: Self = Request { word: null_mut(), tell: 0, extent: 0 };

    #[inline(always)]
    pub fn is_nothing(self) -> bool {
        self.tell | self.extent == 0
    }

    /// Whether the header has all that is asked for.
    pub fn makes_sense(self) -> bool {
        self.tell < 2 * FRAMEHOOK_TELL_RESUME && self.extent <= FRAMEHOOK_ONLY_BELOW_EVERYWHERE
    }
}

/// What has happened to a frame, `PyUnstable_FRAMEHOOK_*` in the header.
pub const FRAMEHOOK_RETURNED: c_int = 0;
pub const FRAMEHOOK_RAISED: c_int = 1;
pub const FRAMEHOOK_YIELDED: c_int = 2;
pub const FRAMEHOOK_RESUMED: c_int = 3;
pub const FRAMEHOOK_DROPPED: c_int = 4;

/// What has happened to a frame; as a number, what C calls it.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(any(test, fuzzing), derive(Debug))]
pub enum Happened {
    Returned = FRAMEHOOK_RETURNED,
    Raised = FRAMEHOOK_RAISED,
    Yielded = FRAMEHOOK_YIELDED,
    Resumed = FRAMEHOOK_RESUMED,
    Dropped = FRAMEHOOK_DROPPED,
}

/// What a hook is told; `PyUnstable_FrameHookEvent` in the header.
#[repr(C)]
pub struct HookEvent {
    pub kind: c_int,
    pub value: *mut PyObject,
    pub code: *mut PyObject,
    pub word: *mut c_void,
}
