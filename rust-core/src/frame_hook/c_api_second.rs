//! The second edition of the C interface, as `Include/cpython/framehook.h` documents it.

use super::c_api::{checked_name, given, read, within, FRAMEHOOK_TIMED};
use super::description::{Callee, Description, Place};
use super::error::{Outcome, Raised};
use super::verdict::{HookAnswer, HookEvent};
use super::watched::watched_type;
use super::{original, outside, registry, replace};
use crate::code::Code;
use crate::cpython::{_PyInterpreterFrame, PyInterpreterState, PyObject};
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_char, c_int, c_longlong, c_uint, c_void};
use core::ptr::null_mut;

pub const FRAMEHOOK_VERSION: c_int = 2;

/// It is asked about frames of the thread that installs it, and no others.
pub const FRAMEHOOK_THIS_THREAD: c_uint = 2;
/// The Python code that it runs is shown to trace, profile and monitoring functions.
pub const FRAMEHOOK_VISIBLE: c_uint = 8;

/// `PyUnstable_FrameHookDefinition` in the header.
#[repr(C)]
pub struct HookDefinition {
    pub size: usize,
    pub name: *const c_char,
    pub ask: Option<
        unsafe extern "C" fn(*mut _PyInterpreterFrame, *mut c_void, *mut HookAnswer) -> c_int,
    >,
    pub tell: Option<unsafe extern "C" fn(*const HookEvent, *mut c_void) -> c_int>,
    pub user_data: *mut c_void,
    pub free_user_data: Option<unsafe extern "C" fn(*mut c_void)>,
    pub free_word: Option<unsafe extern "C" fn(*mut c_void)>,
    pub flags: c_uint,
    pub place: c_int,
    pub other: c_longlong,
    pub traverse_word: Option<
        unsafe extern "C" fn(
            *mut c_void,
            unsafe extern "C" fn(*mut PyObject, *mut c_void) -> c_int,
            *mut c_void,
        ) -> c_int,
    >,
}

/// # Safety
/// `definition` is one whose functions keep to the header, or NULL.
unsafe fn install(thread: Thread, definition: *const HookDefinition) -> Outcome<c_longlong> {
    const FLAGS: c_uint = FRAMEHOOK_TIMED as c_uint | FRAMEHOOK_THIS_THREAD | FRAMEHOOK_VISIBLE;
    // SAFETY: by contract. Its size says what can be read of it.
    let definition = unsafe {
        let size = definition.as_ref().map(|definition| definition.size);
        match size {
            Some(size) if size == size_of::<HookDefinition>() => &*definition,
            _ => {
                return Err(Raised::value_error(
                    thread,
                    c"a definition of a frame hook begins with its size in bytes",
                ))
            }
        }
    };
    if definition.flags & !FLAGS != 0 {
        return Err(Raised::value_error(thread, c"unknown flags for a frame hook"));
    }
    let Some(place) = Place::from_c(definition.place, definition.other) else {
        return Err(Raised::value_error(thread, c"unknown place for a frame hook"));
    };
    // What a round will need is made now, where an error is expected.
    watched_type(thread)?;
    let callee = Callee::Asked(given(thread, definition.ask)?);
    // SAFETY: a string or NULL, by contract.
    let name = unsafe { checked_name(thread, definition.name) }?;
    registry::add(
        thread,
        &Description {
            free_user_data: definition.free_user_data,
            timed: definition.flags & FRAMEHOOK_TIMED as c_uint != 0,
            tell: definition.tell,
            free_word: definition.free_word,
            traverse_word: definition.traverse_word,
            visible: definition.flags & FRAMEHOOK_VISIBLE != 0,
            only_in: (definition.flags & FRAMEHOOK_THIS_THREAD != 0).then(|| thread.number()),
            place,
            ..Description::new(callee, definition.user_data, name)
        },
    )
}

#[no_mangle]
pub extern "C" fn PyUnstable_FrameHook_Version() -> c_int {
    FRAMEHOOK_VERSION
}

/// # Safety
/// The calling thread has an attached thread state. `definition` is one whose functions keep to the
/// header, or NULL.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_InstallFrameHook(
    interpreter: *mut PyInterpreterState,
    definition: *const HookDefinition,
) -> c_longlong {
    // SAFETY: the caller's contract.
    unsafe { within(interpreter, |thread| install(thread, definition)) }.unwrap_or(-1)
}

/// # Safety
/// The calling thread has an attached thread state; the objects are live; `reason` is NULL or can
/// be written.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_CanStandIn(
    code: *mut PyObject,
    other: *mut PyObject,
    reason: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let thread = Thread::current();
        let (Some(code), Some(other)) = (Code::from_object(code), Code::from_object(other)) else {
            let Raised { .. } = Raised::type_error(thread, c"two code objects are expected");
            return -1;
        };
        let Some(why) = replace::obstacle(code, other) else { return 1 };
        if !reason.is_null() {
            reason.write(why.as_ptr());
        }
        0
    }
}

/// # Safety
/// As for `PyObject_Vectorcall`.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_CallOriginal(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    nargsf: usize,
    names: *mut PyObject,
    below: c_int,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    let result = unsafe {
        original::call(Thread::current(), callable, arguments, nargsf, names, below != 0)
    };
    result.ok().flatten().map_or(null_mut(), Owned::into_raw)
}

/// # Safety
/// As for `PyObject_Vectorcall`.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_CallOutside(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    nargsf: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    let result = unsafe { outside::call(Thread::current(), callable, arguments, nargsf, names) };
    result.map_or(null_mut(), Owned::into_raw)
}

/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_SetCRecursionRemaining(levels: c_int) -> c_int {
    // SAFETY: the caller's contract. The thread alone reads and writes the field, and runs nothing
    // else meanwhile.
    unsafe {
        let remaining = &raw mut (*Thread::current().tstate()).c_recursion_remaining;
        remaining.replace(levels)
    }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_BorrowArgument(
    frame: *mut _PyInterpreterFrame,
    index: isize,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { super::view::View::new(frame) }
        .and_then(|view| view.borrowed_argument(index))
        .unwrap_or(null_mut())
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetFreeVariables(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| view.free_variables()) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetLocals(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { read(frame, |view| Ok(view.locals())) }
}

/// # Safety
/// A hook of the calling thread was asked about `frame`, which has not ended; `line` is NULL or can
/// be written.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_HookFrame_GetCaller(
    frame: *mut _PyInterpreterFrame,
    line: *mut c_int,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
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
