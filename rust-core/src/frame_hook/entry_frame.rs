//! A frame that is being dispatched, and how it is recognized.
//!
//! [`Frame`] is any frame. [`NewFrame`] is one that may be dispatched, and [`EntryFrame`] one whose entry callbacks
//! run: only its arguments can be read. `return_offset` holds the stage ([`Stage`]).

use crate::check::check;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::{Frame, Owner};
use crate::object::Owned;
use crate::reference_count::new_reference;
use core::marker::PhantomData;
use core::ops::Deref;

/// The stage of a frame, in `_PyInterpreterFrame.return_offset`, which has no meaning before the frame makes its first
/// call. A frame is created with 0 there; a call writes neither 0 nor one of the numbers below.
#[repr(u16)]
#[derive(Clone, Copy, PartialEq)]
pub enum Stage {
    /// Not dispatched yet, and no call made.
    New = 0,
    /// As the two below, during a re-entrant call.
    OutsideAfterPrologue = 0xfffb,
    OutsideFresh = 0xfffc,
    /// Being dispatched after its prologue: cells and free variables are in place.
    AfterPrologue = 0xfffd,
    /// Being dispatched with nothing but its arguments set.
    Fresh = 0xfffe,
    /// Was dispatched, and never is again.
    EntryFrame = 0xffff,
    /// Has made a call.
    Running = 1,
}

impl Stage {
    #[inline(always)]
    fn of(frame: Frame) -> Self {
        // SAFETY: live by the type's invariant.
        match unsafe { (*frame.as_ptr()).return_offset } {
            0 => Stage::New,
            0xfffb => Stage::OutsideAfterPrologue,
            0xfffc => Stage::OutsideFresh,
            0xfffd => Stage::AfterPrologue,
            0xfffe => Stage::Fresh,
            0xffff => Stage::EntryFrame,
            _ => Stage::Running,
        }
    }

    #[inline(always)]
    fn write_to(self, frame: Frame) {
        // SAFETY: live by the type's invariant.
        unsafe { (*frame.as_ptr()).return_offset = self as u16 };
    }

    /// Whether the frame is being dispatched.
    #[inline(always)]
    fn is_being_offered(self) -> bool {
        matches!(self, Stage::Fresh | Stage::AfterPrologue)
    }
}

/// Whether a frame below this one is being dispatched, or is the shim of a running event callback: this frame starts
/// within a callback.
pub fn starts_within_a_hook(frame: Frame) -> bool {
    frame.callers().any(|caller| Stage::of(caller).is_being_offered())
}

/// An event callback is about to run at a shim. Frames above it start within a callback.
#[inline(always)]
pub fn begin_to_tell(mark: Frame) {
    Stage::AfterPrologue.write_to(mark);
}

/// A loop callback is about to run for a frame. Frames above it start within a callback. Returns what
/// [`end_loop_callback`] restores.
#[cfg(not(any(test, fuzzing)))]
pub fn begin_loop_callback(frame: Frame) -> u16 {
    // SAFETY: live by the type's invariant.
    let before = unsafe { (*frame.as_ptr()).return_offset };
    Stage::AfterPrologue.write_to(frame);
    before
}

/// The callback has returned.
#[cfg(not(any(test, fuzzing)))]
pub fn end_loop_callback(frame: Frame, before: u16) {
    // SAFETY: live by the type's invariant.
    unsafe { (*frame.as_ptr()).return_offset = before };
}

/// The frame is not dispatched from now on.
#[inline(always)]
pub fn never_dispatch(frame: Frame) {
    Stage::EntryFrame.write_to(frame);
}

/// A frame whose callback may make a re-entrant call: it is being dispatched, or is the shim of an event callback.
///
/// # Invariants
/// The frame is live as long as the hook runs, and says of itself that it is being dispatched.
pub struct StepsOut(Frame, Stage);

/// A frame whose hook makes such a call. What starts meanwhile does not start within that hook.
///
/// # Invariants
/// As above. The hook has called, and so it runs, and the frame is live.
pub struct SteppedOut(Frame, Stage);

impl StepsOut {
    pub fn if_it_is_offered(frame: Frame) -> Option<Self> {
        let stage = Stage::of(frame);
        // INVARIANT: it says so.
        stage.is_being_offered().then_some(StepsOut(frame, stage))
    }

    pub fn step_out(self) -> SteppedOut {
        let outside = match self.1 {
            Stage::Fresh => Stage::OutsideFresh,
            _ => Stage::OutsideAfterPrologue,
        };
        outside.write_to(self.0);
        // INVARIANT: that of `StepsOut`.
        SteppedOut(self.0, self.1)
    }
}

impl SteppedOut {
    pub fn come_back(&self) {
        self.1.write_to(self.0);
    }
}

/// A frame that starts now and was not dispatched. [`hide`](NewFrame::hide) consumes it: a frame is dispatched once.
///
/// # Invariants
/// The topmost frame of the calling thread's data stack, at rest: its stack pointer is saved. It
/// has made no call.
pub struct NewFrame(Frame);

impl NewFrame {
    /// # Safety
    /// As the type's invariant says.
    #[inline(always)]
    pub unsafe fn new(frame: Frame) -> Self {
        check!(Stage::of(frame) == Stage::New, "a frame that has started is to be offered");
        NewFrame(frame)
    }

    /// `None`: the frame lies elsewhere, or does not start now. One that was dispatched, or has made
    /// a call, says so itself. One that a debugger has sent back to its first line has a frame
    /// object.
    ///
    /// # Safety
    /// The calling thread's, and at rest. If it lies on the data stack, it is the topmost there.
    #[inline(always)]
    pub unsafe fn if_it_starts(frame: Frame) -> Option<Self> {
        let starts = frame.owner() == Owner::THREAD
            && Stage::of(frame) == Stage::New
            && frame.object().is_null();
        // SAFETY: stage and owner were read just now, and no other thread changes them. The caller
        // says that the frame is its own, at rest, and the topmost one if it lies on the data
        // stack.
        starts.then(|| unsafe { NewFrame::new(frame) })
    }

    /// The frame stands before its first instruction. So it counts as incomplete, for any code
    /// and for whoever walks the frames.
    #[inline(always)]
    pub fn step_back(&self) {
        // SAFETY: before the instructions lie other fields of the code object, so the pointer stays
        // in one allocation. Nobody reads through it.
        self.set_instruction(unsafe { self.code().first_instruction().sub(1) });
    }

    /// Begins the dispatch: frame walkers skip the frame until that ends.
    #[inline(always)]
    pub fn hide(self, stage: Stage) -> EntryFrame {
        self.step_back();
        stage.write_to(*self);
        // INVARIANT: the stage says so, and the rest holds for a frame that starts.
        EntryFrame(self.0)
    }
}

impl Deref for NewFrame {
    type Target = Frame;

    #[inline(always)]
    fn deref(&self) -> &Frame {
        &self.0
    }
}

/// The right to show a frame that hooks look at, or to put another one in its place. There is one of it for each frame,
/// and both consume it or change it: so nothing that was seen of the frame before is used afterwards.
///
/// # Invariants
/// As those of [`NewFrame`]; the frame says of itself that it is being dispatched.
pub struct EntryFrame(Frame);

impl EntryFrame {
    /// What can be read of it.
    #[inline(always)]
    pub fn look(&self) -> Look<'_> {
        Look(self.0, PhantomData)
    }

    /// The hooks have looked. The frame goes on, or starts, with the instruction `next`, and is not
    /// offered again.
    #[inline(always)]
    pub fn show(self, next: *mut c::_Py_CODEUNIT) -> Frame {
        self.set_instruction(next);
        self.keep_hidden()
    }

    /// The hooks have looked, and nothing of the frame is run: it stays hidden.
    #[inline(always)]
    pub fn keep_hidden(self) -> Frame {
        never_dispatch(*self);
        *self
    }
}

impl Deref for EntryFrame {
    type Target = Frame;

    #[inline(always)]
    fn deref(&self) -> &Frame {
        &self.0
    }
}

/// What can be read of a frame that hooks look at.
///
/// # Invariants
/// The frame is being dispatched, and is not shown or replaced as long as the [`EntryFrame`] is borrowed.
#[derive(Clone, Copy)]
pub struct Look<'a>(Frame, PhantomData<&'a EntryFrame>);

impl Look<'_> {
    /// `None`: no hook looks at the frame any more.
    ///
    /// # Safety
    /// - *dispatched*: an entry callback of the calling thread was called with the frame, which has
    ///   not been left since.
    /// - *returns*: the result is not used any more once the hook returns.
    pub unsafe fn if_it_is_offered(frame: Frame) -> Option<Self> {
        // INVARIANT: it says so, and the dispatch goes on when the hook *returns*.
        Stage::of(frame).is_being_offered().then_some(Look(frame, PhantomData))
    }

    /// The frame.
    #[inline(always)]
    pub fn frame(&self) -> Frame {
        self.0
    }

    /// Whether the slot of parameter `index` holds the cell that the prologue has made for
    /// the argument, and not the argument.
    #[inline(always)]
    pub fn has_cell_at(self, index: usize) -> bool {
        if Stage::of(self.0) != Stage::AfterPrologue
            || self.0.code().slot_kind(index) & c::CO_FAST_CELL == 0
        {
            return false;
        }
        // SAFETY: a parameter's slot is one of the frame's; what it holds is live.
        let is_cell = unsafe {
            self.0
                .held(index)
                .is_some_and(|it| (*it.object().as_ptr()).ob_type == &raw mut c::PyCell_Type)
        };
        is_cell && self.0.code().prologue_makes_cell(index)
    }

    /// As [`argument`](Self::argument), borrowed. The frame holds it, or its cell.
    pub fn borrowed_argument(self, index: usize) -> Option<*mut PyObject> {
        // SAFETY: as in `argument`.
        unsafe {
            let value = self.0.held(index)?.object().as_ptr();
            if !self.has_cell_at(index) {
                return Some(value);
            }
            let content = (*value.cast::<c::PyCellObject>()).ob_ref;
            (!content.is_null()).then_some(content)
        }
    }

    /// The value of parameter `index`. `None`: its cell was emptied, by whoever has found it, or
    /// somebody has sent the frame back after it had deleted the variable.
    pub fn argument(self, index: usize) -> Option<Owned> {
        check!(index < self.0.code().parameters().count(), "a parameter that the code has not");
        // SAFETY: a parameter's slot is one of the frame's; what it holds is live, and a cell where
        // it is said to be one.
        unsafe {
            let value: *mut PyObject = self.0.held(index)?.object().as_ptr();
            Owned::new(if self.has_cell_at(index) {
                c::PyCell_Get(value)
            } else {
                new_reference(value)
            })
        }
    }
}
