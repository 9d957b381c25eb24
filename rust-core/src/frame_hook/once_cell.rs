//! Objects that are created on first use, and kept until the interpreter ends.

use super::error::{Outcome, Raised};
use super::state::is_closed;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::thread::Thread;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Keeps in `place` what `make` makes, unless something is kept there already.
///
/// # Safety
/// `place` is a field of the interpreter's state, and `make` returns NULL with an
/// exception or a new reference.
pub unsafe fn keep(
    thread: Thread,
    place: *mut *mut PyObject,
    make: impl FnOnce() -> *mut PyObject,
) -> Outcome<*mut PyObject> {
    // SAFETY: the caller says that `place` is a field of the interpreter's state. On a free-threaded build another
    // thread may be faster, hence the atomic: then its object stays.
    let place = unsafe { AtomicPtr::from_ptr(place) };
    let kept = place.load(Ordering::Acquire);
    if !kept.is_null() {
        return Ok(kept);
    }
    if is_closed(thread) {
        let text = c"there are no frame hooks any more: the interpreter is at its end";
        return Err(Raised::runtime_error(thread, text));
    }
    let new = make();
    if new.is_null() {
        // When a struct sequence's type gets no memory, CPython does not always set an exception.
        let is_set = thread.has_exception();
        return Err(if is_set { Raised::by_cpython(thread) } else { Raised::no_memory(thread) });
    }
    match place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(new),
        Err(faster) => {
            // SAFETY: the caller says that `make` returns a new reference.
            unsafe { c::Py_DecRef(new) };
            Ok(faster)
        }
    }
}

/// The class of the error for code that cannot stand in. A borrowed reference.
pub fn incompatible_code_error(thread: Thread) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state; strings that live for ever, and a class.
    unsafe {
        keep(thread, &raw mut (*thread.state()).incompatible, || {
            c::PyErr_NewExceptionWithDoc(
                c"framehook.IncompatibleCodeError".as_ptr(),
                c"A frame hook chose code that cannot stand in for the frame's own.".as_ptr(),
                c::PyExc_ValueError,
                null_mut(),
            )
        })
    }
}
