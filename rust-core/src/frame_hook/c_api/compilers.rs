//! For compilers: part of `cpython/framehook.h`.

use crate::code::Code;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::c_types::*;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::{loops, observers, set_vectorcall};
use crate::thread::Thread;
use core::ffi::c_int;
use core::ptr::null;

/// # Safety
/// A thread state is attached; `code` is a live object.
unsafe fn code_of(code: *mut PyObject) -> Outcome<(Thread, Code)> {
    // SAFETY: the caller says that the thread is attached and the object live.
    unsafe {
        let thread = Thread::current();
        let code = Code::from_object(code);
        let refuse = || Raised::type_error(thread, c"a code object is expected");
        code.map(|code| (thread, code)).ok_or_else(refuse)
    }
}

/// The address of a word that equals the `eval_breaker` of a thread only if
/// nothing observes calls of `code` in that thread now: nothing is pending
/// (signals, the GIL, the collector), no function for tracing or profiling, no
/// event of sys.monitoring, no evaluator of PEP 523, and no hook that is not
/// disabled for the code. NULL with an exception set: no code object, or no
/// memory.
///
/// The address is valid as long as the code object and the interpreter. Code
/// that is called instead of the function compares both words on each call, as
/// FrameHook_MayBeObserved() does, and at its back edges. If they
/// differ, it calls PyUnstable_Code_IsObserved(), or leaves the call to the
/// interpreter.
///
/// A function that gets another `__code__` keeps its vectorcall:
/// PyFunction_AddWatcher() reports it.
///
/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Code_Observers(code: *mut PyObject) -> *const usize {
    // SAFETY: the caller says that the thread is attached and the object live.
    let word = unsafe { code_of(code) }.and_then(|(thread, code)| observers::word(thread, code));
    word.unwrap_or(null())
}

/// Whether anybody observes calls of `code` in the calling thread: 0 or 1, or
/// -1 with TypeError. Sets the word of PyUnstable_Code_Observers() if nothing
/// does. 1 also if a hook that is called in this thread was not yet called for
/// the code, or has not disabled itself for it; then let the interpreter call it.
///
/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Code_IsObserved(code: *mut PyObject) -> c_int {
    // SAFETY: the caller says that the thread is attached and the object live.
    let observed = unsafe { code_of(code) };
    observed.map_or(-1, |(thread, code)| c_int::from(observers::is_observed(thread, code)))
}

/// Takes back what PyFunction_SetVectorcall() has done: the interpreter
/// executes the function's code again, and calls of it are specialized again.
/// TypeError: `function` is no Python function.
///
/// # Safety
/// The calling thread has an attached thread state; `function` is a live
/// object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Function_RestoreVectorcall(function: *mut PyObject) -> c_int {
    // SAFETY: the caller says that the thread is attached and the object live. No type derives from that of functions.
    unsafe {
        let thread = Thread::current();
        if (*function).ob_type != &raw mut c::PyFunction_Type {
            let Raised { .. } = Raised::type_error(thread, c"a Python function is expected");
            return -1;
        }
        set_vectorcall::restore(thread, function.cast());
        0
    }
}

/// Calls the hook's `on_loop` at the head of each loop of `code` that has
/// taken `turns` turns (1 to 65,535), and again after as many, or as the
/// callback says. Returns the number of loops; -1 with an exception set.
///
/// Turns are counted per loop, over all calls and threads. Loops are those
/// that end with a JUMP_BACKWARD, comprehensions among them; the one of
/// `yield from` and `await` is none. The callback is not called in a frame
/// that runs within a callback, while the code has events of sys.monitoring
/// (trace and profile functions included), or where the hook is disabled.
///
/// ValueError: the hook is not installed, or has no `on_loop`; a wrong number
/// of turns. RuntimeError: another hook watches them. TypeError: no code
/// object.
///
/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_WatchLoops(
    id: FrameHookId,
    code: *mut PyObject,
    turns: c_int,
) -> c_int {
    // SAFETY: the caller says that the thread is attached and the object live.
    let found = unsafe { code_of(code) };
    found.and_then(|(thread, code)| loops::watch(thread, id, code, turns)).unwrap_or(-1)
}

/// Ends WatchLoops(). Removing the hook does so too. TypeError: no code
/// object.
///
/// # Safety
/// The calling thread has an attached thread state; `code` is a live object.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_FrameHook_UnwatchLoops(
    id: FrameHookId,
    code: *mut PyObject,
) -> c_int {
    // SAFETY: the caller says that the thread is attached and the object live.
    let found = unsafe { code_of(code) };
    found.map_or(-1, |(thread, code)| {
        loops::unwatch(thread, id, code);
        0
    })
}
