//! The C API of `co_extra`, and what the rest of CPython calls.
//!
//! # Invariants
//! - *Attached*: the caller says that the calling thread is attached. So its thread state and its
//!   interpreter are live, and no table that it finds is freed before it detaches: on the free-threaded
//!   build old tables wait for all threads (`free_delayed`).
//! - *Live object*: the caller holds a reference to `code`, or it is being deallocated by the caller.

use super::error::Error;
use super::index::{Index, MOST_INDICES};
use super::registry::{is_code_before_any_release, Registry, Unusable};
use super::table::{find, TableRef};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{PyCodeObject, PyInterpreterState, PyObject};
use crate::in_cpython::FreeFunction;
use core::ffi::{c_int, c_void, CStr};
use core::ptr::null_mut;

/// The registry of the calling thread's interpreter.
///
/// # Safety
/// The calling thread is attached.
unsafe fn current_registry() -> Registry {
    // SAFETY: *attached*; an interpreter outlives its threads.
    unsafe { Registry::of((*c::PyThreadState_Get()).interp) }
}

/// Sets the exception for an object that is no code object.
///
/// # Safety
/// The object is live, and the thread attached.
#[cold]
unsafe fn refuse(object: *mut PyObject, function: &CStr) -> c_int {
    // SAFETY: *attached*, *live object*. The format fits its arguments, and a type has a name.
    unsafe {
        c::PyErr_Format(
            c::PyExc_SystemError,
            c"%s: bad argument to internal function: a code object is needed, not '%.200s'"
                .as_ptr(),
            function.as_ptr(),
            (*(*object).ob_type).tp_name,
        );
    }
    -1
}

/// Sets the exception for an error that `function` found about `index`; -1.
///
/// # Safety
/// The calling thread is attached.
#[cold]
unsafe fn raise(error: Error, function: &CStr, index: isize) -> c_int {
    let released = c"%s: code extra index %zd was released";
    let unknown = c"%s: bad argument to internal function: this interpreter did not hand out \
                    code extra index %zd (%zd are in use)";
    let exhausted = c"%s: no more code extra indices: %zd of at most %zd are in use";
    let foreign = c"%s: no value under code extra index %zd: the code object holds values of \
                    another interpreter";
    let finished = c"%s: the interpreter is at its end and has no code extra indices any more";
    let (format, one, other) = match error {
        Error::NoMemory => {
            // SAFETY: *attached*.
            unsafe { c::PyErr_NoMemory() };
            return -1;
        }
        Error::Released => (released, index, 0),
        Error::Unknown { in_use } => (unknown, index, in_use as isize),
        Error::Exhausted { in_use } => (exhausted, in_use as isize, MOST_INDICES as isize),
        Error::ForeignCode => (foreign, index, 0),
        Error::Finished => (finished, 0, 0),
    };
    // SAFETY: CPython sets these once, before any thread can be attached.
    let class = unsafe {
        match error {
            Error::Released => c::PyExc_ValueError,
            Error::Unknown { .. } => c::PyExc_SystemError,
            _ => c::PyExc_RuntimeError,
        }
    };
    // SAFETY: *attached*. Each format takes a string and at most two such numbers.
    unsafe { c::PyErr_Format(class, format.as_ptr(), function.as_ptr(), one, other) };
    -1
}

/// Hands out an index under which this interpreter's code objects can have a
/// value each; `free`, if not NULL, is called once for each value that is not NULL when it is
/// replaced, when its code object dies, when the index is released or when the
/// interpreter ends.
///
/// Returns the index, which is not negative; -1 with `RuntimeError` when all are
/// in use, with `MemoryError` without memory. Costs amortized constant time.
///
/// # Safety
/// The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Eval_RequestCodeExtraIndex(free: FreeFunction) -> isize {
    const NAME: &CStr = c"PyUnstable_Eval_RequestCodeExtraIndex";
    // SAFETY: *attached*.
    unsafe {
        let index = current_registry().request(free).map(Index::raw);
        index.unwrap_or_else(|error| raise(error, NAME, -1) as isize)
    }
}

/// Releases an index. From the call on no value can be read or stored under it;
/// on return the free function has been called for each value that was not NULL,
/// and the place may be handed out again, with another number.
///
/// Returns 0; -1 with `ValueError` for an index that was released before, with
/// `SystemError` for one that this interpreter did not hand out, with
/// `MemoryError` without memory, and then the index stays in use. Looks at each
/// code object that has values.
///
/// # Safety
/// The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Eval_ReleaseCodeExtraIndex(index: isize) -> c_int {
    const NAME: &CStr = c"PyUnstable_Eval_ReleaseCodeExtraIndex";
    // SAFETY: *attached*.
    unsafe {
        let released = current_registry().release(index);
        released.map_or_else(|error| raise(error, NAME, index), |()| 0)
    }
}

/// Stores in `extra` what the code object has under `index`, NULL when it has
/// nothing. The value stays the code object's.
///
/// Returns 0; -1 with `ValueError` for an index that was released, with
/// `SystemError` for what is no code object, and then `extra` is NULL. Takes no
/// lock; costs a few loads.
///
/// # Safety
/// `code` is a live object, `extra` may be written, and the thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Code_GetExtra(
    code: *mut PyObject,
    index: isize,
    extra: *mut *mut c_void,
) -> c_int {
    // SAFETY: *attached*, *live object*. What is no code object takes the other way.
    let found = unsafe {
        if !is_code_before_any_release(code) {
            return get_after_release(code, index, extra);
        }
        find(Code::new(code.cast()), index)
    };
    match found {
        // Volatile only so that it stays a store of its own. Made one with that of
        // NULL below, it is reached by a jump, which each value found would pay for.
        // SAFETY: the caller says that `extra` may be written.
        Some(value) => unsafe { extra.write_volatile(value) },
        // SAFETY: the caller says that `extra` may be written.
        None => unsafe { *extra = null_mut() },
    }
    0
}

/// [`PyUnstable_Code_GetExtra`] once an index was released, or for what is no code
/// object.
///
/// # Safety
/// As for [`PyUnstable_Code_GetExtra`].
#[inline(never)]
unsafe fn get_after_release(code: *mut PyObject, index: isize, extra: *mut *mut c_void) -> c_int {
    // SAFETY: *attached*, *live object*. The caller says that `extra` may be written.
    unsafe {
        match Code::from_object(code).and_then(|code| find(code, index)) {
            Some(value) => {
                *extra = value;
                0
            }
            None => get_nothing(code, index, extra),
        }
    }
}

/// [`PyUnstable_Code_GetExtra`] where there is no value: NULL, or an error.
///
/// # Safety
/// As for [`PyUnstable_Code_GetExtra`].
#[cold]
#[inline(never)]
unsafe fn get_nothing(code: *mut PyObject, index: isize, extra: *mut *mut c_void) -> c_int {
    const NAME: &CStr = c"PyUnstable_Code_GetExtra";
    // SAFETY: *attached*, *live object*. The caller says that `extra` may be written.
    unsafe {
        *extra = null_mut();
        if Code::from_object(code).is_none() {
            refuse(code, NAME)
        } else if current_registry().index_in_use(index) == Err(Unusable::Released) {
            raise(Error::Released, NAME, index)
        } else {
            0
        }
    }
}

/// Stores `extra`, which may be NULL, under `index`; then frees the value that
/// was there. The code object owns `extra` from then on.
///
/// Returns 0; -1 with `SystemError` for an index that this interpreter did not
/// hand out and for what is no code object, with `ValueError` for an index that
/// was released, with `RuntimeError` for a code object that has values of
/// another interpreter, with `MemoryError` without memory. Then nothing has
/// changed, and `extra` stays the caller's.
///
/// # Safety
/// `code` is a live object, and the calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Code_SetExtra(
    code: *mut PyObject,
    index: isize,
    extra: *mut c_void,
) -> c_int {
    const NAME: &CStr = c"PyUnstable_Code_SetExtra";
    // SAFETY: *attached*, *live object*. The registry is that of the calling thread's interpreter.
    unsafe {
        let Some(checked) = Code::from_object(code) else { return refuse(code, NAME) };
        let stored = current_registry().update(checked, index, |_| extra);
        stored.map_or_else(|error| raise(error, NAME, index), |()| 0)
    }
}

/// Frees the values of a code object that is being deallocated.
///
/// # Safety
/// `code` is a code object without references, whose memory is freed next; the
/// calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_ClearCodeExtra(code: *mut PyCodeObject) {
    // SAFETY: *attached*, *live object*: no other thread has a reference, and its memory is freed after
    // the call.
    unsafe { current_registry().forget(Code::new(code)) };
}

/// The bytes that a code object takes for its values, as `__sizeof__` counts
/// them: 0 without values.
///
/// # Safety
/// `code` is a live code object, and the calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_CodeExtraBytes(code: *mut PyCodeObject) -> usize {
    // SAFETY: *attached*, *live object*.
    unsafe { TableRef::of(Code::new(code)) }.map_or(0, TableRef::bytes)
}

/// The interpreter's end: every value that is still set is freed, with the
/// tables and the registry.
///
/// # Safety
/// `interpreter` is being cleared by the calling thread, which is attached, and no
/// other thread of it runs any more.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_FiniCodeExtra(interpreter: *mut PyInterpreterState) {
    // SAFETY: *attached*. The caller clears the interpreter, so it is live, and is its last thread.
    unsafe { Registry::of(interpreter).finish() };
}
