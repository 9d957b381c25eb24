//! The C API of `co_extra`, and what the rest of CPython calls.

use super::error::Error;
use super::index::MOST_INDICES;
use super::registry::{is_code_before_any_release, Registry};
use super::table::{extra_of, look_once, Elsewhere, TableRef};
use super::values::{get_further, value_further};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{PyCodeObject, PyInterpreterState, PyObject};
use crate::in_cpython::FreeFunction;
use core::ffi::{c_int, c_void, CStr};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// The registry of the calling thread's interpreter.
///
/// # Safety
/// The calling thread is attached.
unsafe fn current_registry() -> Registry {
    // SAFETY: attached by contract, and an interpreter outlives its threads.
    unsafe { Registry::of((*c::PyThreadState_Get()).interp) }
}

/// Sets the exception for an object that is no code object.
///
/// # Safety
/// The object is live, and the thread attached.
#[cold]
unsafe fn refuse(object: *mut PyObject, function: &CStr) {
    // SAFETY: the formats fit their arguments, and a type has a name.
    unsafe {
        c::PyErr_Format(
            c::PyExc_SystemError,
            c"%s: bad argument to internal function: a code object is needed, not '%.200s'"
                .as_ptr(),
            function.as_ptr(),
            (*(*object).ob_type).tp_name,
        );
    }
}

/// Sets the exception for an error that `function` found about `index`.
///
/// # Safety
/// The calling thread is attached.
#[cold]
unsafe fn raise(error: Error, function: &CStr, index: isize) {
    let name = function.as_ptr();
    // SAFETY: attached by contract, and each format fits its arguments.
    unsafe {
        match error {
            Error::NoMemory => {
                c::PyErr_NoMemory();
            }
            Error::Released => {
                c::PyErr_Format(
                    c::PyExc_ValueError,
                    c"%s: code extra index %zd was released".as_ptr(),
                    name,
                    index,
                );
            }
            Error::Unknown { in_use } => {
                c::PyErr_Format(
                    c::PyExc_SystemError,
                    c"%s: bad argument to internal function: this interpreter did not hand out \
                      code extra index %zd (%zu are in use)"
                        .as_ptr(),
                    name,
                    index,
                    in_use,
                );
            }
            Error::Exhausted { in_use } => {
                c::PyErr_Format(
                    c::PyExc_RuntimeError,
                    c"%s: no more code extra indices: %zu of at most %zu are in use".as_ptr(),
                    name,
                    in_use,
                    MOST_INDICES,
                );
            }
            Error::ForeignCode => {
                c::PyErr_Format(
                    c::PyExc_RuntimeError,
                    c"%s: no value under code extra index %zd: the code object holds values of \
                      another interpreter"
                        .as_ptr(),
                    name,
                    index,
                );
            }
            Error::Finished => {
                c::PyErr_Format(
                    c::PyExc_RuntimeError,
                    c"%s: the interpreter is at its end and has no code extra indices any more"
                        .as_ptr(),
                    name,
                );
            }
        }
    }
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
    // SAFETY: attached by contract.
    match unsafe { current_registry() }.request(free) {
        Ok(index) => index.raw(),
        Err(error) => {
            // SAFETY: as above.
            unsafe { raise(error, c"PyUnstable_Eval_RequestCodeExtraIndex", -1) };
            -1
        }
    }
}

/// Gives an index back. From the call on nobody gets or sets a value under it;
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
    // SAFETY: attached by contract.
    match unsafe { current_registry().release(index) } {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: as above.
            unsafe { raise(error, c"PyUnstable_Eval_ReleaseCodeExtraIndex", index) };
            -1
        }
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
    // SAFETY: the caller's contract; what is no code object goes the other way.
    unsafe {
        if !is_code_before_any_release(code) {
            return get_after_release(code, index, extra);
        }
        let code = Code::new(code.cast());
        match look_once(code, index) {
            // Volatile only so that it stays a store of its own. Made one with that of
            // NULL below, it is reached by a jump, which each value found would pay for.
            Ok(value) => extra.write_volatile(value),
            Err(Elsewhere::Nowhere) => *extra = null_mut(),
            Err(Elsewhere::MaybeFurther) => *extra = value_further(code, index),
        }
    }
    0
}

/// [`PyUnstable_Code_GetExtra`] once an index was released, or for what is no code
/// object.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn get_after_release(code: *mut PyObject, index: isize, extra: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(checked) = Code::from_object(code) {
            if let Ok(value) = look_once(checked, index) {
                *extra = value;
                return 0;
            }
        }
        get_elsewhere(code, index, extra)
    }
}

/// [`PyUnstable_Code_GetExtra`] where the first look did not settle it.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn get_elsewhere(code: *mut PyObject, index: isize, extra: *mut *mut c_void) -> c_int {
    const NAME: &CStr = c"PyUnstable_Code_GetExtra";
    // SAFETY: the caller's contract.
    unsafe {
        *extra = null_mut();
        let Some(checked) = Code::from_object(code) else {
            refuse(code, NAME);
            return -1;
        };
        match get_further(checked, index, || current_registry()) {
            Ok(value) => {
                *extra = value;
                0
            }
            Err(error) => {
                raise(error, NAME, index);
                -1
            }
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
    // SAFETY: the caller's contract.
    unsafe {
        let Some(checked) = Code::from_object(code) else {
            refuse(code, NAME);
            return -1;
        };
        match current_registry().set(checked, index, extra) {
            Ok(()) => 0,
            Err(error) => {
                raise(error, NAME, index);
                -1
            }
        }
    }
}

/// Frees the values of a code object that is being deallocated.
///
/// # Safety
/// `code` is a code object without references, whose memory is freed next; the
/// calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_ForgetCodeExtra(code: *mut PyCodeObject) {
    // SAFETY: the caller's contract.
    unsafe { current_registry().forget(Code::new(code)) };
}

/// The bytes that a code object takes for its values, as `__sizeof__` counts
/// them: 0 without values.
///
/// # Safety
/// `code` is a live code object, and the calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_CodeExtraBytes(code: *mut PyCodeObject) -> usize {
    // SAFETY: live by contract; a table is not freed while this thread is attached.
    let table = unsafe { TableRef::from_raw(extra_of(Code::new(code)).load(Ordering::Acquire)) };
    table.map_or(0, TableRef::bytes)
}

/// The interpreter's end: every value that is still set is freed, with the
/// tables and the registry.
///
/// # Safety
/// `interpreter` is being cleared by the calling thread, which is attached, and no
/// other thread of it runs any more.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_FinishCodeExtra(interpreter: *mut PyInterpreterState) {
    // SAFETY: the caller's contract.
    unsafe { Registry::of(interpreter).finish() };
}
