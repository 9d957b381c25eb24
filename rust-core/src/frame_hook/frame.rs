//! A frame that is being offered, and the code it is to run.

use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject, FRAME_OWNED_BY_THREAD};
use crate::reference_count::new_reference;
use crate::stack_ref::StackSlot;
use core::ptr::NonNull;

/// `_PyInterpreterFrame.return_offset` means nothing before the frame makes its
/// first call, and a frame is made with 0 in it. Until then it tells where a
/// frame stands that is offered.
#[repr(u16)]
#[derive(Clone, Copy, PartialEq)]
pub enum Stage {
    /// Not offered yet, or no more.
    Idle = 0,
    /// Being offered, with the prologue behind it: cells and free variables are
    /// in place.
    AfterPrologue = 0xfffd,
    /// Being offered, with nothing but its arguments set.
    Fresh = 0xfffe,
    /// Was offered, and starts (again) from its first instruction.
    Offered = 0xffff,
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
    pub fn get(&self) -> &PyCodeObject {
        // SAFETY: live by the type's invariant. What is read here of a code
        // object never changes.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub fn first_instruction(self) -> *mut c::_Py_CODEUNIT {
        // SAFETY: live by the type's invariant.
        unsafe { (&raw mut (*self.as_ptr()).co_code_adaptive).cast() }
    }

    pub fn parameters(self) -> Parameters {
        let flags = self.get().co_flags as u32;
        Parameters {
            positional: self.get().co_argcount as usize,
            keyword_only: self.get().co_kwonlyargcount as usize,
            star: flags & c::CO_VARARGS != 0,
            double_star: flags & c::CO_VARKEYWORDS != 0,
        }
    }

    /// Locals, cells and free variables.
    #[inline(always)]
    pub fn slots(self) -> usize {
        self.get().co_nlocalsplus as usize
    }

    /// At most so many cells are made by the prologue.
    pub fn cells(self) -> usize {
        self.get().co_ncellvars as usize
    }

    pub fn free_variables(self) -> usize {
        self.get().co_nfreevars as usize
    }

    /// The name of a local, cell or free variable: a borrowed `str`.
    pub fn slot_name(self, slot: usize) -> *mut PyObject {
        crate::check::check!(slot < self.slots(), "a slot that the code has not");
        // SAFETY: a tuple of `co_nlocalsplus` strings, for any code object.
        unsafe { c::PyTuple_GetItem(self.get().co_localsplusnames, slot as isize) }
    }

    /// Whether the prologue puts a cell into this slot.
    #[inline(always)]
    pub fn is_cell(self, slot: usize) -> bool {
        crate::check::check!(slot < self.slots(), "a slot that the code has not");
        // SAFETY: a bytes object with a byte for each slot, for any code object.
        let kinds = unsafe { c::PyBytes_AsString(self.get().co_localspluskinds) };
        // SAFETY: as above.
        let kind = unsafe { *kinds.add(slot) } as u8;
        u32::from(kind) & c::CO_FAST_CELL != 0
    }
}

/// A frame on the data stack that has not run yet.
///
/// # Invariants
/// The topmost frame of the calling thread's data stack, owned by the thread;
/// its arguments are set.
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
            0xfffd => Stage::AfterPrologue,
            0xfffe => Stage::Fresh,
            0xffff => Stage::Offered,
            _ => Stage::Idle,
        }
    }

    #[inline(always)]
    pub fn set_stage(self, stage: Stage) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).return_offset = stage as u16 };
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
        // SAFETY: live by the type's invariant; the field is where C's flexible
        // array begins.
        unsafe { (&raw mut (*self.as_ptr()).localsplus).cast() }
    }

    /// The value of parameter `index`; a new reference. It is there: before the
    /// first instruction every parameter has its argument.
    pub fn argument(self, index: usize) -> *mut PyObject {
        crate::check::check!(
            index < self.code().parameters().count(),
            "a parameter that the code has not"
        );
        // SAFETY: a parameter's slot is one of the frame's, and holds a live object.
        let value = unsafe { *self.slots().add(index).cast::<*mut PyObject>() };
        if self.stage() == Stage::AfterPrologue && self.code().is_cell(index) {
            // SAFETY: the prologue has put a cell there. A new reference.
            return unsafe { c::PyCell_Get(value) };
        }
        // SAFETY: live.
        unsafe { new_reference(value) }
    }
}
