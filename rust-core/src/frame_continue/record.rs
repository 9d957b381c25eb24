//! What is known of a frame that was left elsewhere.

use super::instruction::Instruction;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{PyCodeObject, PyObject};
use crate::exception::drop_aside;
use crate::object::Owned;
use core::ffi::{c_int, CStr};
use core::ptr::null_mut;

/// A frame that was left elsewhere and continues in the interpreter.
///
/// The references in `slots` are consumed; the others are borrowed.
#[repr(C)]
pub struct FrameRecord {
    /// A Python function: the frame's globals and builtins are its own.
    pub function: *mut PyObject,
    /// The code that runs. NULL: what the function has now, so give the code if
    /// other code may have run since it was compiled and assigned another
    /// `__code__`. It has no more free variables than the function's closure.
    pub code: *mut PyCodeObject,
    /// NULL, or the mapping of the locals if the code is that of a module, a
    /// class body or exec().
    pub locals: *mut PyObject,
    /// Index of an instruction, in code units. Innermost frame: the next
    /// instruction. Other frames: the CALL, CALL_KW, CALL_FUNCTION_EX,
    /// BINARY_SUBSCR or LOAD_ATTR whose result is awaited. EXTENDED_ARG
    /// belongs to the instruction.
    pub instruction: c_int,
    /// How many values are on the evaluation stack. What the awaited call takes
    /// from the stack is not there any more.
    pub stack_depth: c_int,
    /// `co_nlocalsplus` variables, then the evaluation stack. NULL for a
    /// variable that is unbound and for an empty place on the stack. A variable
    /// with a cell is the cell.
    pub slots: *mut *mut PyObject,
}

/// Why frames do not continue.
pub enum Refusal {
    Type(&'static CStr),
    Value(&'static CStr),
    Memory,
    CStack,
    /// An exception is set already.
    Raised,
}

impl Refusal {
    /// Sets the exception.
    ///
    /// # Safety
    /// The calling thread is attached.
    pub unsafe fn raise(self) {
        // SAFETY: the classes are set as long as there is an interpreter.
        let (kind, text) = unsafe {
            match self {
                Refusal::Type(text) => (c::PyExc_TypeError, text),
                Refusal::Value(text) => (c::PyExc_ValueError, text),
                Refusal::CStack => (c::PyExc_RecursionError, c"maximum recursion depth exceeded"),
                Refusal::Memory | Refusal::Raised => (null_mut(), c""),
            }
        };
        // SAFETY: the caller is attached. A class, and a text that is NUL-terminated.
        unsafe {
            if !kind.is_null() {
                c::PyErr_SetString(kind, text.as_ptr());
            } else if c::PyErr_Occurred().is_null() {
                c::PyErr_NoMemory();
            }
        }
    }
}

/// What a record has to keep to, by its place in the chain.
#[derive(Clone, Copy)]
pub struct Place {
    pub is_innermost: bool,
    /// Whether a value is pushed before the frame continues.
    pub gets_value: bool,
}

impl FrameRecord {
    /// # Safety
    /// `function` is live or NULL.
    unsafe fn has_function(&self) -> bool {
        // SAFETY: the caller says that it is live or NULL.
        !self.function.is_null()
            && unsafe { (*self.function).ob_type == &raw mut c::PyFunction_Type }
    }

    /// The code that runs, if there is any.
    ///
    /// # Safety
    /// `function` and `code` are live or NULL.
    pub unsafe fn code(&self) -> Option<Code> {
        // SAFETY: the caller says that both are live or NULL. What is of the type of functions has their layout, and a
        // code object.
        unsafe {
            if !self.code.is_null() {
                return Code::from_object(self.code.cast());
            }
            let function: *mut c::PyFunctionObject = self.function.cast();
            self.has_function().then(|| Code::new((*function).func_code.cast()))
        }
    }

    /// Whether the function has a cell for each free variable of `code`: its prologue may still copy them.
    ///
    /// # Safety
    /// The function is live.
    unsafe fn has_closure_for(&self, code: Code) -> bool {
        if code.free_variables() == 0 || self.code.is_null() {
            return true;
        }
        // SAFETY: a live function. Its closure is NULL or a tuple, and stays for all its life.
        let cells = unsafe { (*self.function.cast::<c::PyFunctionObject>()).func_closure };
        // SAFETY: a tuple.
        !cells.is_null() && unsafe { c::PyTuple_Size(cells) } as usize >= code.free_variables()
    }

    /// The instruction at which the frame continues, or behind the prefixes there.
    ///
    /// # Safety
    /// As the field's documentation says, or outside of the code.
    pub unsafe fn instruction(&self, code: Code) -> Option<Instruction> {
        let index = usize::try_from(self.instruction).ok()?;
        // SAFETY: the caller says so.
        unsafe { Instruction::at(code, index) }
    }

    /// How many slots there are.
    pub fn count(&self, code: Code) -> usize {
        code.slots() + usize::try_from(self.stack_depth).unwrap_or(0)
    }

    /// The code of a frame that can continue with this.
    ///
    /// # Safety
    /// The fields keep to their documentation, but for what is refused.
    pub unsafe fn checked(&self, place: Place) -> Result<Code, Refusal> {
        const SUSPENDED: u32 =
            c::CO_GENERATOR | c::CO_COROUTINE | c::CO_ASYNC_GENERATOR | c::CO_ITERABLE_COROUTINE;
        // SAFETY: the caller says that the objects are live.
        if !unsafe { self.has_function() } {
            return Err(Refusal::Type(c"a frame continues with a Python function"));
        }
        // SAFETY: the caller says that the objects are live, and the function is one.
        let Some(code) = (unsafe { self.code() }) else {
            return Err(Refusal::Type(c"a frame continues with a code object, or with NULL"));
        };
        let refuse = |text| Err(Refusal::Value(text));
        if code.flags() & SUSPENDED != 0 {
            return refuse(c"the frame of a generator or coroutine cannot be continued");
        }
        // SAFETY: it is a live function.
        if !unsafe { self.has_closure_for(code) } {
            return refuse(c"a frame continues with a function that has a cell for each free variable of the code");
        }
        if (code.flags() & c::CO_OPTIMIZED != 0) != self.locals.is_null() {
            return refuse(c"a frame continues with a mapping of locals just if its code has one");
        }
        let depth = usize::try_from(self.stack_depth).unwrap_or(usize::MAX);
        if depth.saturating_add(usize::from(place.gets_value)) > code.stack_size() {
            return refuse(c"a frame to continue has more on its stack than its code allows");
        }
        if self.slots.is_null() && self.count(code) != 0 {
            return refuse(c"a frame continues with slots, not with NULL");
        }
        // SAFETY: the caller says that an instruction begins there, if the code has that place.
        match unsafe { self.instruction(code) } {
            None => refuse(c"a frame continues at an instruction of its code"),
            Some(it) if !place.is_innermost && !it.waits_for_a_call() => {
                refuse(c"no frame waits at this instruction for one that it has called")
            }
            Some(_) => Ok(code),
        }
    }

    /// How many references the slots hold, as far as that is known.
    ///
    /// # Safety
    /// `function` and `code` are live or NULL.
    pub unsafe fn references(&self) -> usize {
        // SAFETY: the caller says so.
        match unsafe { self.code() } {
            Some(code) if !self.slots.is_null() => self.count(code),
            _ => 0,
        }
    }

    /// Gives up what the slots hold: so many references. The exception that is set stays.
    ///
    /// # Safety
    /// The slots have so many references, which are the caller's. The thread is attached, and holds no lock.
    pub unsafe fn give_up_slots(&self, references: usize) {
        for i in 0..references {
            // SAFETY: the caller says that so many are in the slots, and its own.
            unsafe { drop_aside(Owned::new(*self.slots.add(i))) };
        }
    }
}
