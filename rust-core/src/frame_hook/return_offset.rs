//! `_PyInterpreterFrame.return_offset`, and the two things that it holds.
//!
//! - Of a frame that has called, the offset from the call at which it continues: a [`ResumeOffset`].
//! - Of a frame that has not called yet, its [`Stage`]. The field has no meaning for CPython then.

use super::shim_code::RETURNS_TO;
use crate::frame::Frame;

/// The stage of a frame. A frame is created with 0, and a call writes neither 0 nor another number of these.
#[repr(u16)]
#[derive(Clone, Copy, PartialEq)]
pub enum Stage {
    /// Not dispatched yet, and no call made.
    New = 0,
    /// As the two below, during a re-entrant call.
    ReentrantAfterPrologue = 0xfffb,
    ReentrantFresh = 0xfffc,
    /// Being dispatched after its prologue: cells and free variables are in place.
    AfterPrologue = 0xfffd,
    /// Being dispatched with nothing but its arguments set.
    Fresh = 0xfffe,
    /// Was dispatched, and never is again.
    Dispatched = 0xffff,
    /// Has made a call.
    Running = 1,
}

impl Stage {
    #[inline(always)]
    pub fn of(frame: Frame) -> Self {
        match ResumeOffset::of(frame).0 {
            0 => Stage::New,
            0xfffb => Stage::ReentrantAfterPrologue,
            0xfffc => Stage::ReentrantFresh,
            0xfffd => Stage::AfterPrologue,
            0xfffe => Stage::Fresh,
            0xffff => Stage::Dispatched,
            _ => Stage::Running,
        }
    }

    #[inline(always)]
    pub fn write_to(self, frame: Frame) {
        ResumeOffset(self as u16).write_to(frame);
    }

    /// Whether the frame is being dispatched, or is the shim of an event callback that runs.
    #[inline(always)]
    pub fn is_being_dispatched(self) -> bool {
        matches!(self, Stage::Fresh | Stage::AfterPrologue)
    }

    /// The same stage during a re-entrant call.
    pub fn reentrant(self) -> Self {
        match self {
            Stage::Fresh => Stage::ReentrantFresh,
            _ => Stage::ReentrantAfterPrologue,
        }
    }
}

/// The offset from its call at which a frame continues, in code units.
#[derive(Clone, Copy, PartialEq)]
pub struct ResumeOffset(u16);

impl ResumeOffset {
    /// That of a return shim.
    pub(super) const RETURN_SHIM: Self = ResumeOffset(RETURNS_TO);

    #[inline(always)]
    pub fn of(frame: Frame) -> Self {
        // SAFETY: live by the type's invariant.
        ResumeOffset(unsafe { (*frame.as_ptr()).return_offset })
    }

    #[inline(always)]
    pub fn write_to(self, frame: Frame) {
        // SAFETY: live by the type's invariant.
        unsafe { (*frame.as_ptr()).return_offset = self.0 };
    }

    #[inline(always)]
    pub fn units(self) -> u16 {
        self.0
    }
}
