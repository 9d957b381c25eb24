//! Variables of a frame by index: part of `cpython/framehook.h`.
//!
//! `PyUnstable_InterpreterFrame_GetLocal` and `PyUnstable_Code_GetLocalPlusNames` are those that have been proposed for
//! CPython 3.16 (python/cpython#156134).

use super::handle::Frame;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject, Py_ssize_t};
use crate::reference_count::new_reference;
use core::ffi::{c_int, CStr};
use core::ptr::null_mut;

/// # Safety
/// `value` is live.
unsafe fn is_cell(value: *mut PyObject) -> bool {
    // SAFETY: the caller says that it is live.
    unsafe { (*value).ob_type == &raw mut c::PyCell_Type }
}

/// A new reference to what a cell holds, or NULL; to another object itself.
///
/// # Safety
/// `value` is live, and the calling thread is attached.
unsafe fn content(value: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller says that it is live; only a cell is read as one.
    unsafe {
        if is_cell(value) {
            c::PyCell_Get(value)
        } else {
            new_reference(value)
        }
    }
}

/// Whether the prologue has made the cell of a variable, if it makes one.
fn has_made_cells(frame: Frame, code: Code) -> bool {
    // Prefixes, COPY_FREE_VARS and MAKE_CELL come first. At 0 nothing has run.
    frame.instruction() != code.first_instruction()
}

/// What slot `index` of a frame refers to, borrowed.
///
/// # Safety
/// The frame has that slot, and it is set unless the frame was cleared.
unsafe fn held(frame: Frame, index: usize) -> Option<*mut PyObject> {
    if frame.is_cleared() {
        return None;
    }
    // SAFETY: the caller says that the slot is set. The frame holds the object while it is used.
    unsafe { frame.held(index).map(|it| it.object().as_ptr()) }
}

/// The cell of a free variable in the function's closure, borrowed, or `None`.
///
/// # Safety
/// The variable with this index is a free one. The frame owns its function.
unsafe fn in_closure(frame: Frame, code: Code, index: usize) -> Option<*mut PyObject> {
    let number = (index + code.free_variables()).checked_sub(code.slots())?;
    // SAFETY: a function, which the frame owns; its closure is NULL or a tuple, with a cell for each free variable of its
    // own code. `PyTuple_GetItem` is given an index that there is.
    unsafe {
        let function: *mut c::PyFunctionObject = frame.function().cast();
        let closure = (*function).func_closure;
        if closure.is_null() || number >= c::PyTuple_Size(closure) as usize {
            return None;
        }
        Some(c::PyTuple_GetItem(closure, number as isize))
    }
}

/// A new reference to the value of a variable, or NULL.
///
/// # Safety
/// The frame has that variable. The calling thread is attached, and the frame is its own or that of a stopped thread.
unsafe fn value_of(frame: Frame, index: usize) -> *mut PyObject {
    let code = frame.code();
    let kind = code.slot_kind(index);
    if kind & c::CO_FAST_HIDDEN != 0 {
        return null_mut();
    }
    let is_free = kind & c::CO_FAST_FREE != 0;
    let has_cell = is_free || kind & c::CO_FAST_CELL != 0 && has_made_cells(frame, code);
    // SAFETY: the caller says that the frame has that variable, and it is a free one where it is looked for in the closure.
    let value = unsafe {
        match held(frame, index) {
            None if is_free => in_closure(frame, code, index),
            value => value,
        }
    };
    // SAFETY: the frame, or the closure of its function, holds the value.
    value.map_or(null_mut(), |value| unsafe {
        if has_cell {
            content(value)
        } else {
            new_reference(value)
        }
    })
}

/// Raises an exception with a fixed text.
///
/// # Safety
/// `kind` is an exception class. The calling thread is attached.
unsafe fn raise(kind: *mut PyObject, text: &CStr) {
    // SAFETY: the caller passes a class, attached; the text is NUL-terminated.
    unsafe { c::PyErr_SetString(kind, text.as_ptr()) };
}

/// A new reference to the value of the variable with this index, of
/// co_nlocalsplus ones; cells are looked through. NULL without an exception for
/// a variable that is unbound, or belongs to a comprehension within the
/// function. NULL with IndexError: there is no such variable.
///
/// For evaluators of PEP 523 and for hooks: the frame may run or be about to
/// begin, in which case free variables are those of its function's closure.
///
/// # Safety
/// `frame` is a live frame with code of the calling thread, or of a stopped one. The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetLocal(
    frame: *mut _PyInterpreterFrame,
    index: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: the caller passes such a frame, attached. The class lives for ever.
    unsafe {
        let frame = Frame::new(frame);
        let there = usize::try_from(index).ok().filter(|index| *index < frame.code().slots());
        if there.is_none() {
            raise(c::PyExc_IndexError, c"the frame has no variable with this index");
        }
        there.map_or(null_mut(), |index| value_of(frame, index))
    }
}

/// Writes what GetLocal() returns for each variable to `out`, which has room for
/// co_nlocalsplus references. Returns how many there are, or -1 with SystemError
/// if `out` is NULL.
///
/// # Safety
/// As for GetLocal; `out` is NULL or has that room.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InterpreterFrame_GetLocals(
    frame: *mut _PyInterpreterFrame,
    out: *mut *mut PyObject,
) -> c_int {
    if out.is_null() {
        // SAFETY: the caller is attached. The class lives for ever.
        unsafe { raise(c::PyExc_SystemError, c"the variables of a frame are written to NULL") };
        return -1;
    }
    // SAFETY: the caller passes such a frame, and room for all its variables.
    unsafe {
        let frame = Frame::new(frame);
        let count = frame.code().slots();
        for index in 0..count {
            out.add(index).write(value_of(frame, index));
        }
        count as c_int
    }
}

/// A new reference to a tuple with the names of the variables of `code`, in the
/// order of their indices.
///
/// # Safety
/// `code` is a live code object. The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Code_GetLocalPlusNames(
    code: *mut PyCodeObject,
) -> *mut PyObject {
    // SAFETY: the caller passes live code, which holds the tuple for all its life.
    unsafe { new_reference((*code).co_localsplusnames) }
}
