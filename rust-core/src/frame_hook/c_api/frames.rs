//! What an entry callback reads of its frame: part of `cpython/framehook.h`.

use crate::cpython::{_PyInterpreterFrame, PyObject, Py_ssize_t};
use crate::frame_hook::error::Outcome;
use crate::frame_hook::view::View;
use crate::object::Owned;
use core::ffi::c_int;
use core::ptr::null_mut;

/// A new reference, or NULL with an exception.
///
/// # Safety
/// An entry callback of the calling thread was called with `frame`, which has
/// not been left.
unsafe fn read(
    frame: *mut _PyInterpreterFrame,
    part: impl FnOnce(View) -> Outcome<Owned>,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left, so it is live; `View` checks that
    // it is being dispatched.
    unsafe { View::new(frame) }.and_then(part).map_or(null_mut(), Owned::into_raw)
}

/// The code object that is to run, as the hooks before this one have left it.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetCode(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| Ok(view.code_object())) }
}

/// The function that was called. CPython makes one for a module, a class body
/// and exec() too.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetFunction(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| Ok(view.function())) }
}

/// The global variables.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetGlobals(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| Ok(view.globals())) }
}

/// The builtins.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetBuiltins(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| Ok(view.builtins())) }
}

/// The mapping that holds the locals of a module, a class body or exec();
/// otherwise None.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetLocals(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| Ok(view.locals())) }
}

/// A new dict of the free variables by name, without those that are unset.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetFreeVariables(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| view.free_variables()) }
}

/// The code object of the calling frame, and its line: *line, if `line` is not
/// NULL; -1 if unknown. None and -1 if no Python code has called. RuntimeError
/// while the callback waits in another greenlet.
///
/// # Safety
/// As for [`read`]; `line` is NULL or can be written.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetCaller(
    frame: *mut _PyInterpreterFrame,
    line: *mut c_int,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left, and that `line` can be written.
    unsafe {
        read(frame, |view| {
            let (code, number) = view.caller()?;
            if !line.is_null() {
                line.write(number);
            }
            Ok(code)
        })
    }
}

/// The number of parameters, `*args` and `**kwargs` included; -1 with
/// RuntimeError.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetArgumentCount(
    frame: *mut _PyInterpreterFrame,
) -> Py_ssize_t {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { View::new(frame) }.map_or(-1, |view| view.argument_count() as Py_ssize_t)
}

/// The argument for parameter `index`: positional parameters first, then
/// keyword-only ones, `*args`, `**kwargs`. IndexError: there is no such
/// parameter. UnboundLocalError: its cell is empty.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetArgument(
    frame: *mut _PyInterpreterFrame,
    index: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| view.argument(index)) }
}

/// As GetArgument(), but a borrowed reference, valid until the callback
/// returns or runs Python code. No reference count changes.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_BorrowArgument(
    frame: *mut _PyInterpreterFrame,
    index: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { View::new(frame) }.and_then(|view| view.borrowed_argument(index)).unwrap_or(null_mut())
}

/// The name of parameter `index`, a str. IndexError: there is no such
/// parameter.
///
/// # Safety
/// As for [`read`].
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetArgumentName(
    frame: *mut _PyInterpreterFrame,
    index: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left.
    unsafe { read(frame, |view| view.argument_name(index)) }
}

/// The argument for the parameter called `name`, a str. Compares names.
/// KeyError: there is no such parameter. UnboundLocalError: its cell is empty.
///
/// # Safety
/// As for [`read`]; `name` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetArgumentByName(
    frame: *mut _PyInterpreterFrame,
    name: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller says that the frame has not been left, and that `name` is live.
    unsafe { read(frame, |view| view.argument_by_name(name)) }
}
