//! The C interface, as `Include/cpython/framehook.h` documents it.
//!
//! That header is written by hand, since extensions include it from an installed
//! tree, and CPython's own files include the generated one. A test
//! has a compiler compare the two (`tests/python/test_frame_hook_headers.py`).

use super::description::{Callee, Description};
use super::error::{Outcome, Raised};
use super::registry::{self, Refusal};
use super::switch;
use super::view::View;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyInterpreterState, PyObject};
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use core::ptr::null_mut;

/// Measure the time that the hook takes: `PyUnstable_FRAMEHOOK_TIMED`.
pub const FRAMEHOOK_TIMED: c_int = 1;

// What C passes as a hook. Written out: cbindgen does not see through a name in an `Option`.
type SimpleHookOrNull = Option<unsafe extern "C" fn(*mut _PyInterpreterFrame) -> *mut PyCodeObject>;
type ExtendedHookOrNull = Option<
    unsafe extern "C" fn(*mut _PyInterpreterFrame, *mut c_void, *mut *mut PyCodeObject) -> c_int,
>;

/// 0, or -1 with an exception.
fn status(outcome: Outcome<()>) -> c_int {
    outcome.map_or(-1, |()| 0)
}

/// Does something in the calling thread, which has to belong to that interpreter.
///
/// # Safety
/// A thread state is attached.
pub(super) unsafe fn within<T>(
    interpreter: *mut PyInterpreterState,
    work: impl FnOnce(Thread) -> Outcome<T>,
) -> Outcome<T> {
    // SAFETY: the caller's contract.
    let thread = unsafe { Thread::current() };
    if thread.interpreter() == interpreter {
        return work(thread);
    }
    Err(Raised::runtime_error(thread, c"the calling thread belongs to another interpreter"))
}

/// What a hook reads of a frame: a new reference, or NULL with an exception.
///
/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
pub(super) unsafe fn read(
    frame: *mut _PyInterpreterFrame,
    part: impl FnOnce(View) -> Outcome<Owned>,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { View::new(frame) }.and_then(part).map_or(null_mut(), Owned::into_raw)
}

/// The handle of a simple hook; `None`: it is not installed.
fn find(thread: Thread, hook: SimpleHookOrNull) -> Option<c_longlong> {
    let callee = Callee::Simple(hook?);
    // SAFETY: *quiet*: fields are read.
    let quiet = unsafe { thread.not_stopped() };
    let found = quiet.hooks().find(|hook| hook.is(callee, null_mut()));
    found.map(|hook| hook.id)
}

fn id_of(thread: Thread, hook: SimpleHookOrNull) -> Outcome<c_longlong> {
    find(thread, hook).ok_or_else(|| Refusal::Unknown.raise(thread))
}

/// Enables or disables a hook for one code object.
///
/// # Safety
/// `code` is a live object.
unsafe fn enable_for_code(
    thread: Thread,
    id: c_longlong,
    code: *mut PyObject,
    on: bool,
) -> Outcome<()> {
    // SAFETY: live, by contract.
    let code = unsafe { Code::from_object(code) }
        .ok_or_else(|| Raised::type_error(thread, c"a code object is expected"))?;
    switch::enable_for_code(thread, id, code, on)
}

/// A hook that is not NULL.
pub(super) fn given<F>(thread: Thread, hook: Option<F>) -> Outcome<F> {
    hook.ok_or_else(|| Raised::value_error(thread, c"a frame hook is a function, not NULL"))
}

/// `name` as a string, once it is known to be UTF-8.
///
/// # Safety
/// NULL, or a string that lives as long as the result.
pub(super) unsafe fn checked_name<'a>(thread: Thread, name: *const c_char) -> Outcome<&'a CStr> {
    if name.is_null() {
        return Ok(c"(unnamed)");
    }
    // SAFETY: a string, by contract.
    unsafe {
        match Owned::new(c::PyUnicode_FromString(name)) {
            Some(_) => Ok(CStr::from_ptr(name)),
            None => Err(Raised::by_cpython(thread)),
        }
    }
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_AddFrameHook(
    interpreter: *mut PyInterpreterState,
    hook: SimpleHookOrNull,
) -> c_int {
    // SAFETY: the caller's contract.
    let added = unsafe {
        within(interpreter, |thread| {
            let callee = Callee::Simple(given(thread, hook)?);
            registry::add(thread, &Description::new(callee, null_mut(), c"(C function)"))
        })
    };
    status(added.map(|_| ()))
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_RemoveFrameHook(
    interpreter: *mut PyInterpreterState,
    hook: SimpleHookOrNull,
) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { within(interpreter, |thread| registry::remove(thread, id_of(thread, hook)?)) })
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_ContainsFrameHook(
    interpreter: *mut PyInterpreterState,
    hook: SimpleHookOrNull,
) -> c_int {
    // SAFETY: the caller's contract.
    let thread = unsafe { Thread::current() };
    let found = thread.interpreter() == interpreter && find(thread, hook).is_some();
    c_int::from(found)
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_ClearFrameHooks(interpreter: *mut PyInterpreterState) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { within(interpreter, Ok) }.map(registry::clear))
}

/// # Safety
/// The calling thread has an attached thread state; `name` is NULL or a string;
/// `user_data` is what `hook` and `free_user_data` take.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_AddFrameHookEx(
    interpreter: *mut PyInterpreterState,
    hook: ExtendedHookOrNull,
    user_data: *mut c_void,
    free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    name: *const c_char,
    flags: c_int,
) -> c_longlong {
    // SAFETY: the caller's contract.
    let added = unsafe {
        within(interpreter, |thread| {
            if flags & !FRAMEHOOK_TIMED != 0 {
                return Err(Raised::value_error(thread, c"unknown flags for a frame hook"));
            }
            let callee = Callee::Extended(given(thread, hook)?);
            let name = checked_name(thread, name)?;
            let description = Description {
                free_user_data,
                timed: flags & FRAMEHOOK_TIMED != 0,
                ..Description::new(callee, user_data, name)
            };
            registry::add(thread, &description)
        })
    };
    added.unwrap_or(-1)
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_RemoveFrameHookEx(
    interpreter: *mut PyInterpreterState,
    id: c_longlong,
) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { within(interpreter, |thread| registry::remove(thread, id)) })
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_GetId(
    interpreter: *mut PyInterpreterState,
    hook: SimpleHookOrNull,
) -> c_longlong {
    // SAFETY: the caller's contract.
    unsafe { within(interpreter, |thread| id_of(thread, hook)) }.unwrap_or(-1)
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_EnableFrameHook(
    interpreter: *mut PyInterpreterState,
    id: c_longlong,
) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { within(interpreter, |thread| switch::enable(thread, id, true)) })
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_DisableFrameHook(
    interpreter: *mut PyInterpreterState,
    id: c_longlong,
) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { within(interpreter, |thread| switch::enable(thread, id, false)) })
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_EnableFrameHookInThread(id: c_longlong) -> c_int {
    // SAFETY: the caller's contract.
    status(switch::enable_in_thread(unsafe { Thread::current() }, id, true))
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_DisableFrameHookInThread(id: c_longlong) -> c_int {
    // SAFETY: the caller's contract.
    status(switch::enable_in_thread(unsafe { Thread::current() }, id, false))
}

/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_EnableFrameHookForCode(
    id: c_longlong,
    code: *mut PyObject,
) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { enable_for_code(Thread::current(), id, code, true) })
}

/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_DisableFrameHookForCode(
    id: c_longlong,
    code: *mut PyObject,
) -> c_int {
    // SAFETY: the caller's contract.
    status(unsafe { enable_for_code(Thread::current(), id, code, false) })
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetCode(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| Ok(view.code_object())) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetFunction(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| Ok(view.function())) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetGlobals(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| Ok(view.globals())) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetBuiltins(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| Ok(view.builtins())) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetArgumentCount(
    frame: *mut _PyInterpreterFrame,
) -> isize {
    // SAFETY: the caller's contract.
    unsafe { View::new(frame) }.map_or(-1, |view| view.argument_count() as isize)
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetArgument(
    frame: *mut _PyInterpreterFrame,
    index: isize,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| view.argument(index)) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetArgumentName(
    frame: *mut _PyInterpreterFrame,
    index: isize,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| view.argument_name(index)) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended;
/// `name` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetArgumentByName(
    frame: *mut _PyInterpreterFrame,
    name: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| view.argument_by_name(name)) }
}
