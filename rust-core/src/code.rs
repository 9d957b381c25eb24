//! A code object, as the whole crate knows it.

use crate::check::check;
use crate::cpython as c;
use crate::cpython::{PyCodeObject, PyObject};
use core::ptr::NonNull;

/// Parameters of a code object, by group, in the order of their slots.
#[derive(Clone, Copy)]
pub struct Parameters {
    pub positional: usize,
    pub keyword_only: usize,
    pub star: bool,
    pub double_star: bool,
}

impl Parameters {
    /// Those that have names of their own: all but `*args` and `**kwargs`, whatever those are
    /// called.
    pub fn named(self) -> usize {
        self.positional + self.keyword_only
    }

    pub fn count(self) -> usize {
        self.named() + usize::from(self.star) + usize::from(self.double_star)
    }
}

/// A code object, borrowed.
///
/// No reference is made to the structure: other threads write some of its fields.
/// Those that are read here never change.
///
/// # Invariants
/// Live for as long as the `Code` is used: a frame, a function or the caller
/// holds a reference. There is no lifetime, as such a holder is no Rust value; methods lend nothing. A caller that runs
/// foreign code, which may let a frame end, has a reference of its own (`replace`, `set_code`).
#[derive(Clone, Copy, PartialEq)]
pub struct Code(NonNull<PyCodeObject>);

/// # Safety
/// `object` is live.
#[inline(always)]
unsafe fn is_code(object: *mut PyObject) -> bool {
    // SAFETY: the caller passes a live object. No type derives from the code type.
    unsafe { (*object).ob_type == &raw mut c::PyCode_Type }
}

impl Code {
    /// # Safety
    /// `code` is a code object that stays alive while the result is used.
    #[inline(always)]
    pub unsafe fn new(code: *mut PyCodeObject) -> Self {
        // SAFETY: the caller passes a live object.
        check!(unsafe { is_code(code.cast()) }, "what is no code is taken for code");
        // SAFETY: the caller passes a code object, which is not NULL.
        Code(unsafe { NonNull::new_unchecked(code) })
    }

    /// `object` as code; `None` if it is something else.
    ///
    /// # Safety
    /// `object` is live, and stays so while the result is used.
    #[inline(always)]
    pub unsafe fn from_object(object: *mut PyObject) -> Option<Self> {
        // SAFETY: the caller passes an object that stays alive while the result is used.
        unsafe { is_code(object).then(|| Code::new(object.cast())) }
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut PyCodeObject {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn as_object(self) -> *mut PyObject {
        self.as_ptr().cast()
    }

    /// The first instruction: the instructions begin where the structure ends.
    #[inline(always)]
    pub fn first_instruction(self) -> *mut c::_Py_CODEUNIT {
        // SAFETY: live by the type's invariant.
        unsafe { (&raw mut (*self.as_ptr()).co_code_adaptive).cast() }
    }

    /// The first `RESUME`. Where there is none, the end of the instructions.
    #[inline(always)]
    pub fn first_resume(self) -> *mut c::_Py_CODEUNIT {
        // SAFETY: live by the type's invariant; the number is at most that of the instructions.
        unsafe { self.first_instruction().offset((*self.as_ptr())._co_firsttraceable as isize) }
    }

    /// How many code units come before the first `RESUME`; `None`: there is no `RESUME`.
    pub fn prologue(self) -> Option<usize> {
        // SAFETY: live by the type's invariant. The number is not negative.
        let first_traceable = unsafe { (*self.as_ptr())._co_firsttraceable } as usize;
        (first_traceable < self.size()).then_some(first_traceable)
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

    /// How many values its evaluation stack takes.
    #[cfg(not(any(test, fuzzing)))] // what continues frames
    pub fn stack_size(self) -> usize {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).co_stacksize as usize }
    }

    /// How many code units its instructions take.
    pub fn size(self) -> usize {
        // SAFETY: live by the type's invariant; its size is its number of instructions.
        unsafe { (*self.as_ptr()).ob_base.ob_size as usize }
    }

    pub fn free_variables(self) -> usize {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).co_nfreevars as usize }
    }

    /// The name of a local, cell or free variable: a borrowed `str`.
    #[inline] // or its symbol would be exported
    pub fn slot_name(self, slot: usize) -> *mut PyObject {
        check!(slot < self.slots(), "a slot that the code has not");
        // SAFETY: a tuple of `co_nlocalsplus` strings, for any code object.
        unsafe { c::PyTuple_GetItem((*self.as_ptr()).co_localsplusnames, slot as isize) }
    }

    /// What kind of variable a slot is: `CO_FAST_*`; 0 of a slot that the code does not have.
    #[inline(always)]
    pub fn slot_kind(self, slot: usize) -> u32 {
        check!(slot < self.slots(), "a slot that the code has not");
        if slot >= self.slots() {
            return 0;
        }
        // SAFETY: a bytes object with a byte for each slot, for any code object; `slot` is one of them.
        unsafe {
            let kinds: *mut c::PyBytesObject = (*self.as_ptr()).co_localspluskinds.cast();
            let first: *const u8 = (&raw const (*kinds).ob_sval).cast();
            u32::from(*first.add(slot))
        }
    }

    /// Whether the prologue makes a cell of the argument in this slot. It does for a
    /// cell variable, unless the code was written by hand.
    pub fn prologue_makes_cell(self, slot: usize) -> bool {
        let Some(end) = self.prologue() else { return false };
        let mut argument = 0;
        for at in 0..end {
            // SAFETY: one of the code's units. Nothing changes those of the prologue.
            let unit = unsafe { (*self.first_instruction().add(at)).op };
            argument = argument << 8 | usize::from(unit.arg);
            match u32::from(unit.code) {
                c::EXTENDED_ARG => continue,
                c::MAKE_CELL if argument == slot => return true,
                // Hooks see a generator's frame here, before its `RESUME`.
                c::RETURN_GENERATOR => return false,
                _ => argument = 0,
            }
        }
        false
    }
}
