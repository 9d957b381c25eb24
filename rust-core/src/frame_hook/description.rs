//! A hook's definition, as its owner passes it.

use super::c_types::{FrameHookEntryFunction, FrameHookEventFunction, FrameLoopFunction};
use super::c_types::{FRAMEHOOK_AFTER, FRAMEHOOK_BEFORE, FRAMEHOOK_FIRST, FRAMEHOOK_LAST};
use crate::frame::VisitFunction;
use core::ffi::{c_int, c_longlong, c_void, CStr};

/// `traverse_data`, as the header has it.
pub type TraverseFunction = unsafe extern "C" fn(*mut c_void, VisitFunction, *mut c_void) -> c_int;

/// The position of a new hook among the others.
#[derive(Clone, Copy, PartialEq)]
pub enum Position {
    Last,
    First,
    /// Right before or after the hook with this id.
    Before(c_longlong),
    After(c_longlong),
}

impl Position {
    /// `None` for a number that the header does not have.
    pub fn from_c(number: c_int, other: c_longlong) -> Option<Self> {
        match number {
            FRAMEHOOK_LAST => Some(Position::Last),
            FRAMEHOOK_FIRST => Some(Position::First),
            FRAMEHOOK_BEFORE => Some(Position::Before(other)),
            FRAMEHOOK_AFTER => Some(Position::After(other)),
            _ => None,
        }
    }
}

/// A hook's definition.
pub struct Description<'a> {
    pub on_entry: FrameHookEntryFunction,
    pub user_data: *mut c_void,
    pub free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    /// UTF-8.
    pub name: &'a CStr,
    /// Whether the time of its callbacks is measured.
    pub timed: bool,
    /// The `with` blocks that install it: a number that no other owner has. 0: it is installed without
    /// a block.
    pub owner: u64,
    pub on_event: Option<FrameHookEventFunction>,
    pub free_data: Option<unsafe extern "C" fn(*mut c_void)>,
    pub traverse_data: Option<TraverseFunction>,
    /// Whether trace, profile and monitoring functions see the Python code that it runs.
    pub visible: bool,
    /// The `Thread::number` of the only thread in which it is called.
    pub only_in: Option<u64>,
    pub position: Position,
    pub on_loop: Option<FrameLoopFunction>,
}

impl<'a> Description<'a> {
    /// A hook that is called in all threads, after all others, and watches no frame.
    pub fn new(on_entry: FrameHookEntryFunction, user_data: *mut c_void, name: &'a CStr) -> Self {
        Description {
            on_entry,
            user_data,
            free_user_data: None,
            name,
            timed: false,
            owner: 0,
            on_event: None,
            free_data: None,
            traverse_data: None,
            visible: false,
            only_in: None,
            position: Position::Last,
            on_loop: None,
        }
    }
}
