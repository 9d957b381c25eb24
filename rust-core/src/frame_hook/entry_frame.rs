//! A frame that is being dispatched, and how it is recognized.
//!
//! [`Frame`] is any frame. [`NewFrame`] is one that may be dispatched, and [`EntryFrame`] one whose entry callbacks
//! run: only its arguments can be read. Its [`Stage`] says what it is.

#[cfg(not(any(test, fuzzing)))]
use super::return_offset::ResumeOffset;
use super::return_offset::Stage;
use crate::check::check;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::{Frame, Owner};
use crate::object::Owned;
use crate::reference_count::new_reference;
use core::marker::PhantomData;
use core::ops::Deref;

/// Whether a frame below this one is being dispatched, or is the shim of a running event callback: this frame starts
/// within a callback.
pub fn starts_within_a_callback(frame: Frame) -> bool {
    frame.callers().any(|caller| Stage::of(caller).is_being_dispatched())
}

/// A loop callback is about to run for a frame. Frames above it start within a callback. Returns the offset that
/// [`ResumeOffset::write_to`] restores when it has returned.
#[cfg(not(any(test, fuzzing)))]
pub fn begin_loop_callback(frame: Frame) -> ResumeOffset {
    let before = ResumeOffset::of(frame);
    Stage::AfterPrologue.write_to(frame);
    before
}

/// The frame is not dispatched from now on.
#[inline(always)]
pub fn never_dispatch(frame: Frame) {
    Stage::Dispatched.write_to(frame);
}

/// A frame that starts now and was not dispatched. [`hide`](NewFrame::hide) consumes it: a frame is dispatched once.
///
/// # Invariants
/// The topmost frame of the calling thread's data stack, at rest: its stack pointer is saved. It
/// has made no call.
#[repr(transparent)]
pub struct NewFrame(Frame);

impl NewFrame {
    /// # Safety
    /// As the type's invariant says.
    #[inline(always)]
    pub unsafe fn new(frame: Frame) -> Self {
        check!(Stage::of(frame) == Stage::New, "a frame that has started is to be dispatched");
        NewFrame(frame)
    }

    /// `None`: the frame lies elsewhere, or does not start now. The stage excludes one that was dispatched
    /// or has made a call, the frame object one that a debugger has sent back to its first line.
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

    /// Moves the instruction pointer before the first instruction. So the frame counts as incomplete: frame walkers
    /// skip it.
    #[inline(always)]
    pub fn make_incomplete(&self) {
        // SAFETY: before the instructions lie other fields of the code object, so the pointer stays
        // in one allocation. Nothing reads through it.
        self.set_instruction(unsafe { self.code().first_instruction().sub(1) });
    }

    /// Begins the dispatch: frame walkers skip the frame until that ends.
    #[inline(always)]
    pub fn hide(self, stage: Stage) -> EntryFrame {
        self.make_incomplete();
        stage.write_to(*self);
        // INVARIANT: the stage was written, and the rest holds for a frame that starts.
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

/// The right to show a frame that is being dispatched, or to replace it. There is one of it for each frame,
/// and both consume it or change it: so nothing that was read of the frame before is used afterwards.
///
/// # Invariants
/// As those of [`NewFrame`]; the frame's stage is that of one that is being dispatched.
pub struct EntryFrame(Frame);

impl EntryFrame {
    /// What can be read of it.
    #[inline(always)]
    pub fn look(&self) -> Look<'_> {
        Look(self.0, PhantomData)
    }

    /// Ends the dispatch. The frame continues, or starts, with the instruction `next`, and is not
    /// dispatched again.
    #[inline(always)]
    pub fn show(self, next: *mut c::_Py_CODEUNIT) -> Frame {
        self.set_instruction(next);
        self.keep_hidden()
    }

    /// Ends the dispatch of a frame that does not run: it stays hidden.
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

/// What can be read of a frame that is being dispatched.
///
/// # Invariants
/// The frame is being dispatched, and is not shown or replaced as long as the [`EntryFrame`] is borrowed.
#[derive(Clone, Copy)]
pub struct Look<'a>(Frame, PhantomData<&'a EntryFrame>);

impl Look<'_> {
    /// `None`: the frame is not being dispatched.
    ///
    /// # Safety
    /// - *dispatched*: an entry callback of the calling thread was called with the frame, which has
    ///   not been left since.
    /// - *returns*: the result is not used any more once the callback returns.
    pub unsafe fn if_dispatched(frame: Frame) -> Option<Self> {
        // INVARIANT: its stage says so, and the dispatch continues when the hook *returns*.
        Stage::of(frame).is_being_dispatched().then_some(Look(frame, PhantomData))
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

    /// The value of parameter `index`. `None`: its cell was emptied by code that has found it, or a debugger has sent
    /// the frame back after it had deleted the variable.
    pub fn argument(self, index: usize) -> Option<Owned> {
        check!(
            index < self.0.code().parameters().count(),
            "a parameter that the code does not have"
        );
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
