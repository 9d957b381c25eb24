//! Installing, switching and calling around hooks: part of `cpython/framehook.h`.

use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyInterpreterState, PyObject};
use crate::frame_hook::c_types::*;
use crate::frame_hook::description::{Description, Position};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::registry::{self, Refusal};
use crate::frame_hook::{generator_watch, reentrant, replace, switch, unhooked};
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_char, c_int, c_longlong, c_uint, c_void, CStr};
use core::mem::transmute;
use core::ptr::null_mut;

/// 0, or -1 with an exception.
fn status(outcome: Outcome<()>) -> c_int {
    outcome.map_or(-1, |()| 0)
}

/// `name` as a string, once it is known to be UTF-8.
///
/// # Safety
/// NULL, or a string that lives as long as the result.
unsafe fn checked_name<'a>(thread: Thread, name: *const c_char) -> Outcome<&'a CStr> {
    if name.is_null() {
        return Ok(c"(unnamed)");
    }
    // SAFETY: the caller says that `name`, which is not NULL here, is a NUL-terminated string that
    // lives as long as the result.
    unsafe {
        match Owned::new(c::PyUnicode_FromString(name)) {
            Some(_) => Ok(CStr::from_ptr(name)),
            None => Err(Raised::by_cpython(thread)),
        }
    }
}

/// # Safety
/// `definition` is NULL, or can be read as far as its size says, and keeps to
/// the header.
unsafe fn install(thread: Thread, definition: *const FrameHookDefinition) -> Outcome<c_longlong> {
    const FLAGS: c_uint = FRAMEHOOK_TIMED | FRAMEHOOK_THIS_THREAD | FRAMEHOOK_VISIBLE;
    let refuse = |text| Err(Raised::value_error(thread, text));
    // SAFETY: the caller says that it can be read as far as its size says.
    let size = unsafe { definition.as_ref() }.map(|definition| definition.size);
    if size != Some(size_of::<FrameHookDefinition>()) {
        return refuse(c"a definition of a frame hook begins with its size in bytes");
    }
    // SAFETY: it has this size.
    let definition = unsafe { &*definition };
    if definition.flags & !FLAGS != 0 {
        return refuse(c"unknown flags for a frame hook");
    }
    let Some(position) = Position::from_c(definition.position, definition.other) else {
        return refuse(c"unknown position for a frame hook");
    };
    let Some(on_entry) = definition.on_entry else {
        return refuse(c"a frame hook needs an entry callback, not NULL");
    };
    // What a dispatch needs is allocated now, where an error is expected.
    generator_watch::watched_type(thread)?;
    // SAFETY: the header wants a string or NULL.
    let name = unsafe { checked_name(thread, definition.name) }?;
    registry::add(
        thread,
        &Description {
            free_user_data: definition.free_user_data,
            timed: definition.flags & FRAMEHOOK_TIMED != 0,
            on_event: definition.on_event,
            free_data: definition.free_data,
            traverse_data: definition.traverse_data,
            visible: definition.flags & FRAMEHOOK_VISIBLE != 0,
            only_in: (definition.flags & FRAMEHOOK_THIS_THREAD != 0).then(|| thread.number()),
            position,
            on_loop: definition.on_loop,
            ..Description::new(on_entry, definition.user_data, name)
        },
    )
}

/// PyUnstable_FRAMEHOOK_VERSION of the interpreter. Needs no thread state.
#[no_mangle]
pub extern "C" fn PyUnstable_FrameHook_Version() -> c_int {
    FRAMEHOOK_VERSION
}

/// Installs a hook in the calling thread's interpreter and returns its id, or
/// -1 with an exception set. The definition is copied.
///
/// Every code object is dispatched again at its next call, which costs each of
/// them one slow start; hooks that are disabled for it are not called. Raises
/// the audit event framehook.add with the name.
///
/// ValueError: a field makes no sense, `other` is not installed, or a hook
/// with this `on_entry` and `user_data` is installed. RuntimeError: 1,024
/// hooks are installed.
///
/// # Safety
/// The calling thread has an attached thread state. `definition` is NULL or
/// keeps to the header.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_Install(
    definition: *const FrameHookDefinition,
) -> FrameHookId {
    // SAFETY: the caller says that the thread is attached, and that the definition keeps to the header.
    unsafe { install(Thread::current(), definition) }.unwrap_or(-1)
}

/// Removes a hook. None of its callbacks is called afterwards, not even by a
/// dispatch in progress. ValueError: it is not installed.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_Remove(id: FrameHookId) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    status(registry::remove(unsafe { Thread::current() }, id))
}

/// Removes all hooks of the calling thread's interpreter, those of others too.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_Clear() -> c_int {
    // SAFETY: the caller says that the thread is attached.
    registry::clear(unsafe { Thread::current() });
    0
}

/// Enables a hook that PyUnstable_FrameHook_Disable() has disabled.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_Enable(id: FrameHookId) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    status(switch::enable(unsafe { Thread::current() }, id, true))
}

/// Disables a hook in all threads. It keeps its position and the code objects
/// for which it is disabled.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_Disable(id: FrameHookId) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    status(switch::enable(unsafe { Thread::current() }, id, false))
}

/// Enables a hook that PyUnstable_FrameHook_DisableInThread() has disabled in
/// the calling thread.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_EnableInThread(id: FrameHookId) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    status(switch::enable_in_thread(unsafe { Thread::current() }, id, true))
}

/// Disables a hook in the calling thread.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_DisableInThread(id: FrameHookId) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    status(switch::enable_in_thread(unsafe { Thread::current() }, id, false))
}

/// Enables or disables a hook for one code object.
///
/// # Safety
/// A thread state is attached; `code` is a live object.
unsafe fn enable_for_code(id: c_longlong, code: *mut PyObject, on: bool) -> Outcome<()> {
    // SAFETY: the caller says that the thread is attached.
    let thread = unsafe { Thread::current() };
    // SAFETY: the caller says that the object is live.
    let code = unsafe { Code::from_object(code) }
        .ok_or_else(|| Raised::type_error(thread, c"a code object is expected"))?;
    switch::enable_for_code(thread, id, code, on)
}

/// Enables a hook for a code object for which it is disabled. TypeError:
/// `code` is no code object.
///
/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_EnableForCode(
    id: FrameHookId,
    code: *mut PyObject,
) -> c_int {
    // SAFETY: the caller says that the thread is attached and the object live.
    status(unsafe { enable_for_code(id, code, true) })
}

/// Disables a hook for a code object in all threads, as the verdict DISABLE
/// does. TypeError: `code` is no code object.
///
/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_DisableForCode(
    id: FrameHookId,
    code: *mut PyObject,
) -> c_int {
    // SAFETY: the caller says that the thread is attached and the object live.
    status(unsafe { enable_for_code(id, code, false) })
}

/// Whether a frame of `code` cannot run `other` instead: 0, or 1 and the
/// reason in *reason (if `reason` is not NULL), a string that is never freed.
/// -1 with TypeError: one of them is no code object.
///
/// # Safety
/// The calling thread has an attached thread state; the objects are live;
/// `reason` is NULL or can be written.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_Incompatibility(
    code: *mut PyObject,
    other: *mut PyObject,
    reason: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller says that the thread is attached and that the objects are live.
    let (thread, codes) =
        unsafe { (Thread::current(), (Code::from_object(code), Code::from_object(other))) };
    let (Some(code), Some(other)) = codes else {
        let Raised { .. } = Raised::type_error(thread, c"two code objects are expected");
        return -1;
    };
    let Some(why) = replace::incompatibility(code, other) else { return 0 };
    if !reason.is_null() {
        // SAFETY: the caller says that it can be written.
        unsafe { reason.write(why.as_ptr()) };
    }
    1
}

/// Calls a Python function as PyObject_Vectorcall() does, but dispatches no
/// hook for the frame of the call; if `callees` is not 0, nor for its callees.
/// Other callables are called as usual.
///
/// # Safety
/// As for `PyObject_Vectorcall`.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_CallUnhooked(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
    callees: c_int,
) -> *mut PyObject {
    // SAFETY: the caller says what `PyObject_Vectorcall` needs.
    let result =
        unsafe { unhooked::call(Thread::current(), callable, args, nargsf, kwnames, callees != 0) };
    result.ok().flatten().map_or(null_mut(), Owned::into_raw)
}

/// A re-entrant call: calls a callable from within a callback of a hook as
/// PyObject_Vectorcall() does, and dispatches hooks for it as if the callback
/// did not run, this hook among them. For hooks that run code of others, as a
/// compiler does. The frame cannot be read meanwhile. Without a callback it is
/// a plain call.
///
/// # Safety
/// As for `PyObject_Vectorcall`.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_CallReentrant(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller says what `PyObject_Vectorcall` needs.
    let result = unsafe { reentrant::call(Thread::current(), callable, args, nargsf, kwnames) };
    result.map_or(null_mut(), Owned::into_raw)
}

/// Sets after how many more levels of C recursion the calling thread raises
/// RecursionError, and returns how many were left. For hooks that run a deeply
/// recursive compiler; they restore the value afterwards. As with
/// sys.setrecursionlimit(), a number for which the stack is too small ends the
/// process.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_SetCRecursionRemaining(levels: c_int) -> c_int {
    // SAFETY: the caller says that the thread is attached. It alone uses the field, and runs
    // nothing else meanwhile.
    unsafe {
        let remaining = &raw mut (*Thread::current().tstate()).c_recursion_remaining;
        remaining.replace(levels)
    }
}

/// The entry callback of a hook of the proposal, whose user data is the
/// function.
unsafe extern "C" fn call_simple(
    frame: *mut _PyInterpreterFrame,
    function: *mut c_void,
    answer: *mut FrameHookAnswer,
) -> c_int {
    // SAFETY: `simple` has made the pointer of such a function; the dispatch passes a frame and an answer.
    unsafe {
        let function = transmute::<*mut c_void, FrameHookSimpleFunction>(function);
        let code = function(frame);
        (*answer).object = code.cast();
        if code.is_null() {
            FRAMEHOOK_PASS
        } else {
            FRAMEHOOK_REPLACE
        }
    }
}

/// The calling thread, and the user data of a hook of the proposal.
///
/// # Safety
/// A thread state is attached.
unsafe fn simple(
    interp: *mut PyInterpreterState,
    hook: Option<unsafe extern "C" fn(*mut _PyInterpreterFrame) -> *mut c::PyCodeObject>,
) -> Outcome<(Thread, *mut c_void)> {
    // SAFETY: the caller says that the thread is attached.
    let thread = unsafe { Thread::current() };
    if thread.interpreter() != interp {
        let text = c"the calling thread belongs to another interpreter";
        return Err(Raised::runtime_error(thread, text));
    }
    match hook {
        Some(hook) => Ok((thread, hook as *mut c_void)),
        None => Err(Raised::value_error(thread, c"a frame hook is a function, not NULL")),
    }
}

/// As in the frame hook proposal for CPython: installs a hook that may only
/// replace code. `interp` must be the calling thread's, otherwise
/// RuntimeError.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_AddFrameHook(
    interp: *mut PyInterpreterState,
    hook: Option<unsafe extern "C" fn(frame: *mut _PyInterpreterFrame) -> *mut c::PyCodeObject>,
) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    let added = unsafe { simple(interp, hook) }.and_then(|(thread, data)| {
        registry::add(thread, &Description::new(call_simple, data, c"(C function)"))
    });
    status(added.map(|_| ()))
}

/// As in the frame hook proposal for CPython: removes a hook that
/// PyUnstable_AddFrameHook() has installed.
///
/// # Safety
/// The calling thread has an attached thread state.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_RemoveFrameHook(
    interp: *mut PyInterpreterState,
    hook: Option<unsafe extern "C" fn(frame: *mut _PyInterpreterFrame) -> *mut c::PyCodeObject>,
) -> c_int {
    // SAFETY: the caller says that the thread is attached.
    status(unsafe { simple(interp, hook) }.and_then(|(thread, data)| {
        let id = registry::id_of(thread, call_simple, data);
        registry::remove(thread, id.ok_or_else(|| Refusal::Unknown.raise(thread))?)
    }))
}
