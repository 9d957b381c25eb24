//! What the caller who adds a hook says of it.

use super::verdict::{HookAnswer, HookEvent};
use crate::cpython::{_PyInterpreterFrame, PyCodeObject};
use crate::frame::VisitFunction;
use core::ffi::{c_int, c_longlong, c_void, CStr};

/// A simple hook, as the header has it.
pub type SimpleHook = unsafe extern "C" fn(*mut _PyInterpreterFrame) -> *mut PyCodeObject;

/// An extended hook, as the header has it.
pub type ExtendedHook =
    unsafe extern "C" fn(*mut _PyInterpreterFrame, *mut c_void, *mut *mut PyCodeObject) -> c_int;

/// A hook of the second edition, as the header has it.
pub type AskFunction =
    unsafe extern "C" fn(*mut _PyInterpreterFrame, *mut c_void, *mut HookAnswer) -> c_int;

/// What tells a hook of the second edition what has happened to a frame.
pub type TellFunction = unsafe extern "C" fn(*const HookEvent, *mut c_void) -> c_int;

/// What shows the collector the objects that the word of a watch refers to.
pub type TraverseFunction = unsafe extern "C" fn(*mut c_void, VisitFunction, *mut c_void) -> c_int;

/// What is called.
#[derive(Clone, Copy)]
pub enum Callee {
    Asked(AskFunction),
    Extended(ExtendedHook),
    Simple(SimpleHook),
}

/// Where a hook comes among the others: `PyUnstable_FRAMEHOOK_*` in the header.
pub const FRAMEHOOK_LAST: c_int = 0;
pub const FRAMEHOOK_FIRST: c_int = 1;
pub const FRAMEHOOK_BEFORE: c_int = 2;
pub const FRAMEHOOK_BEHIND: c_int = 3;

/// Where a new hook comes among the others.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    Last,
    First,
    /// Before or behind the hook with this handle.
    Before(c_longlong),
    Behind(c_longlong),
}

impl Place {
    /// `None` for a number that the header does not have.
    pub fn from_c(number: c_int, other: c_longlong) -> Option<Self> {
        match number {
            FRAMEHOOK_LAST => Some(Place::Last),
            FRAMEHOOK_FIRST => Some(Place::First),
            FRAMEHOOK_BEFORE => Some(Place::Before(other)),
            FRAMEHOOK_BEHIND => Some(Place::Behind(other)),
            _ => None,
        }
    }
}

/// What the caller who adds a hook says of it.
pub struct Description<'a> {
    pub callee: Callee,
    pub user_data: *mut c_void,
    pub free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    /// UTF-8.
    pub name: &'a CStr,
    /// Whether to measure the time that it takes.
    pub timed: bool,
    /// Whose `with` blocks install it: a number that no other owner has. 0: it is installed without a
    /// block.
    pub owner: u64,
    /// Who is told what happens to a frame.
    pub tell: Option<TellFunction>,
    /// What frees the word of a watch.
    pub free_word: Option<unsafe extern "C" fn(*mut c_void)>,
    /// What shows the collector the objects that a word refers to.
    pub traverse_word: Option<TraverseFunction>,
    /// Whether the Python code that it runs is shown to trace, profile and monitoring functions.
    pub visible: bool,
    /// The `Thread::number` of the only thread in which it is asked.
    pub only_in: Option<u64>,
    pub place: Place,
}

impl<'a> Description<'a> {
    /// A hook that is asked in all threads, behind all others, and told nothing.
    pub fn new(callee: Callee, user_data: *mut c_void, name: &'a CStr) -> Self {
        Description {
            callee,
            user_data,
            free_user_data: None,
            name,
            timed: false,
            owner: 0,
            tell: None,
            free_word: None,
            traverse_word: None,
            visible: false,
            only_in: None,
            place: Place::Last,
        }
    }
}
