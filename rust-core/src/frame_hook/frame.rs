//! A frame that is being offered, and the code it is to run.

use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject, FRAME_OWNED_BY_THREAD};
use crate::reference_count::new_reference;
use crate::stack_ref::StackSlot;
use core::ptr::NonNull;

/// `_PyInterpreterFrame.return_offset` means nothing before the frame makes its
/// first call, and a frame is made with 0 in it. A call writes another number than
/// 0 there, and none of the numbers below. Until then it tells where a frame stands.
#[repr(u16)]
#[derive(Clone, Copy, PartialEq)]
pub enum Stage {
    /// Not offered yet, and no call made.
    New = 0,
    /// Being offered, with the prologue behind it: cells and free variables are
    /// in place.
    AfterPrologue = 0xfffd,
    /// Being offered, with nothing but its arguments set.
    Fresh = 0xfffe,
    /// Was offered, and is not offered again.
    Offered = 0xffff,
    /// Has made a call.
    Running = 1,
}

/// Parameters of a code object, by group, in the order of their slots.
#[derive(Clone, Copy)]
pub struct Parameters {
    pub positional: usize,
    pub keyword_only: usize,
    pub star: bool,
    pub double_star: bool,
}

impl Parameters {
    pub fn count(self) -> usize {
        self.positional + self.keyword_only + usize::from(self.star) + usize::from(self.double_star)
    }
}

/// A code object.
///
/// No reference is made to the structure: other threads write some of its fields.
/// Those that are read here never change.
///
/// # Invariants
/// Live for as long as the `Code` is used: a frame, a function or the caller
/// holds a reference.
#[derive(Clone, Copy, PartialEq)]
pub struct Code(NonNull<PyCodeObject>);

impl Code {
    /// # Safety
    /// `object` is a code object that stays alive while the result is used.
    #[inline(always)]
    pub unsafe fn new(object: *mut PyCodeObject) -> Self {
        // SAFETY: not NULL, by contract.
        Code(unsafe { NonNull::new_unchecked(object) })
    }

    /// `object` as code; `None` if it is something else.
    ///
    /// # Safety
    /// `object` is live, and stays so while the result is used.
    pub unsafe fn from_object(object: *mut PyObject) -> Option<Self> {
        // SAFETY: live by contract. The type of code cannot be subclassed.
        let is_code = unsafe { (*object).ob_type == &raw mut c::PyCode_Type };
        // SAFETY: a code object, live by contract.
        is_code.then(|| unsafe { Code::new(object.cast()) })
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut PyCodeObject {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn object(self) -> *mut PyObject {
        self.0.as_ptr().cast()
    }

    #[inline(always)]
    pub fn first_instruction(self) -> *mut c::_Py_CODEUNIT {
        // SAFETY: live by the type's invariant.
        unsafe { (&raw mut (*self.as_ptr()).co_code_adaptive).cast() }
    }

    pub fn flags(self) -> u32 {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).co_flags as u32 }
    }

    pub fn parameters(self) -> Parameters {
        let flags = self.flags();
        // SAFETY: live by the type's invariant.
        let (positional, keyword_only) =
            unsafe { ((*self.as_ptr()).co_argcount, (*self.as_ptr()).co_kwonlyargcount) };
        Parameters {
            positional: positional as usize,
            keyword_only: keyword_only as usize,
            star: flags & c::CO_VARARGS != 0,
            double_star: flags & c::CO_VARKEYWORDS != 0,
        }
    }

    /// Locals, cells and free variables.
    #[inline(always)]
    pub fn slots(self) -> usize {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).co_nlocalsplus as usize }
    }

    /// What a frame takes on the data stack, in slots.
    pub fn frame_slots(self) -> usize {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).co_framesize as usize }
    }

    pub fn free_variables(self) -> usize {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).co_nfreevars as usize }
    }

    /// The name of a local, cell or free variable: a borrowed `str`.
    pub fn slot_name(self, slot: usize) -> *mut PyObject {
        crate::check::check!(slot < self.slots(), "a slot that the code has not");
        // SAFETY: a tuple of `co_nlocalsplus` strings, for any code object.
        unsafe { c::PyTuple_GetItem((*self.as_ptr()).co_localsplusnames, slot as isize) }
    }

    /// How many code units stand before the first `RESUME`; `None`: there is no `RESUME`.
    pub fn prologue(self) -> Option<usize> {
        // SAFETY: live by the type's invariant; its size is its number of instructions.
        let (first_traceable, size) = unsafe {
            ((*self.as_ptr())._co_firsttraceable as isize, (*self.as_ptr()).ob_base.ob_size)
        };
        (first_traceable < size).then_some(first_traceable as usize)
    }

    /// Whether the variable in this slot is said to live in a cell.
    #[inline(always)]
    fn is_cell_variable(self, slot: usize) -> bool {
        crate::check::check!(slot < self.slots(), "a slot that the code has not");
        // SAFETY: a bytes object with a byte for each slot, for any code object.
        let kind = unsafe {
            let kinds = c::PyBytes_AsString((*self.as_ptr()).co_localspluskinds);
            *kinds.add(slot)
        };
        u32::from(kind as u8) & c::CO_FAST_CELL != 0
    }

    /// Whether the prologue makes a cell of the argument in this slot. It does for a
    /// cell variable, unless somebody has written the code by hand.
    fn prologue_makes_cell(self, slot: usize) -> bool {
        let Some(end) = self.prologue() else { return false };
        let mut argument = 0;
        for at in 0..end {
            // SAFETY: one of the code's units. Nobody changes those of the prologue.
            let unit = unsafe { (*self.first_instruction().add(at)).op };
            argument = argument << 8 | usize::from(unit.arg);
            match u32::from(unit.code) {
                c::EXTENDED_ARG => continue,
                c::MAKE_CELL if argument == slot => return true,
                // A generator's frame is offered here.
                c::RETURN_GENERATOR => return false,
                _ => argument = 0,
            }
        }
        false
    }
}

/// A frame on the data stack that has not run yet.
///
/// # Invariants
/// The topmost frame of the calling thread's data stack, owned by the thread, at
/// rest: its stack pointer is saved. The thread alone uses it.
#[derive(Clone, Copy, PartialEq)]
pub struct Frame(NonNull<_PyInterpreterFrame>);

impl Frame {
    /// # Safety
    /// As the type's invariant.
    #[inline(always)]
    pub unsafe fn new(frame: *mut _PyInterpreterFrame) -> Self {
        // SAFETY: not NULL, by contract.
        Frame(unsafe { NonNull::new_unchecked(frame) })
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut _PyInterpreterFrame {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn code(self) -> Code {
        // SAFETY: a frame of a thread runs a code object, and owns a reference.
        unsafe { Code::new((*self.as_ptr()).f_executable.cast()) }
    }

    #[inline(always)]
    pub fn is_on_data_stack(self) -> bool {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).owner == FRAME_OWNED_BY_THREAD }
    }

    #[inline(always)]
    pub fn stage(self) -> Stage {
        // SAFETY: live by the type's invariant.
        match unsafe { (*self.as_ptr()).return_offset } {
            0 => Stage::New,
            0xfffd => Stage::AfterPrologue,
            0xfffe => Stage::Fresh,
            0xffff => Stage::Offered,
            _ => Stage::Running,
        }
    }

    /// Whether the frame starts now. A frame that was offered, or has made a call, says so
    /// itself; one that a debugger has sent back to its first line has a frame object.
    #[inline(always)]
    pub fn is_new(self) -> bool {
        // SAFETY: live by the type's invariant.
        self.stage() == Stage::New && unsafe { (*self.as_ptr()).frame_obj.is_null() }
    }

    /// Whether hooks look at the frame now.
    #[inline(always)]
    pub fn is_being_offered(self) -> bool {
        matches!(self.stage(), Stage::Fresh | Stage::AfterPrologue)
    }

    /// Whether hooks look at a frame that this one was called from, directly or not: this
    /// one starts within a hook.
    pub fn starts_within_a_hook(self) -> bool {
        // SAFETY: live by the type's invariant; who is linked is a frame, and stays while this one is there.
        unsafe {
            let mut at = (*self.as_ptr()).previous;
            while let Some(frame) = NonNull::new(at) {
                if Frame(frame).is_being_offered() {
                    return true;
                }
                at = (*at).previous;
            }
        }
        false
    }

    /// The hooks begin to look at the frame, which is hidden until `show`.
    #[inline(always)]
    pub fn hide(self, stage: Stage) {
        self.step_back();
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).return_offset = stage as u16 };
    }

    /// The frame stands before its first instruction. So it counts as incomplete, for any code
    /// and for whoever walks the frames.
    #[inline(always)]
    pub fn step_back(self) {
        // SAFETY: before the instructions lie other fields of the code object, so the pointer stays
        // in one allocation. Nobody reads through it.
        self.set_next_instruction(unsafe { self.code().first_instruction().sub(1) });
    }

    /// The hooks have looked. The frame goes on, or starts, with the instruction `next`, and is not
    /// offered again.
    #[inline(always)]
    pub fn show(self, next: *mut c::_Py_CODEUNIT) {
        self.set_next_instruction(next);
        self.set_offered();
    }

    /// The frame is not offered any more.
    #[inline(always)]
    pub fn set_offered(self) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).return_offset = Stage::Offered as u16 };
    }

    #[inline(always)]
    pub fn next_instruction(self) -> *mut c::_Py_CODEUNIT {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).instr_ptr }
    }

    #[inline(always)]
    pub fn set_next_instruction(self, next: *mut c::_Py_CODEUNIT) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).instr_ptr = next };
    }

    /// The first local.
    #[inline(always)]
    pub fn slots(self) -> *mut StackSlot {
        // SAFETY: live by the type's invariant.
        unsafe { crate::frame::first_slot(self.as_ptr()) }
    }

    /// How many slots may hold something: locals, cells, free variables, and the stack.
    pub fn slots_in_use(self) -> usize {
        // SAFETY: live by the type's invariant. A frame at rest has no negative number there.
        unsafe { (*self.as_ptr()).stacktop as u32 as usize }
    }

    /// Whether the slot of parameter `index` holds the cell that the prologue has made for
    /// the argument, and not the argument.
    #[inline(always)]
    pub fn has_cell_at(self, index: usize) -> bool {
        if self.stage() != Stage::AfterPrologue || !self.code().is_cell_variable(index) {
            return false;
        }
        // SAFETY: a parameter's slot is one of the frame's; what it holds is live.
        unsafe {
            let value = *self.slots().add(index).cast::<*mut PyObject>();
            !value.is_null()
                && (*value).ob_type == &raw mut c::PyCell_Type
                && self.code().prologue_makes_cell(index)
        }
    }

    /// The value of parameter `index`, a new reference. NULL: its cell was emptied, by whoever
    /// has found it, or somebody has sent the frame back after it had deleted the variable.
    pub fn argument(self, index: usize) -> *mut PyObject {
        crate::check::check!(
            index < self.code().parameters().count(),
            "a parameter that the code has not"
        );
        // SAFETY: a parameter's slot is one of the frame's, and holds a live object or NULL.
        unsafe {
            let value = *self.slots().add(index).cast::<*mut PyObject>();
            if value.is_null() {
                value
            } else if self.has_cell_at(index) {
                c::PyCell_Get(value)
            } else {
                new_reference(value)
            }
        }
    }
}
