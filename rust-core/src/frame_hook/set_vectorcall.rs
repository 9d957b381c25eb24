//! Functions whose vectorcall was set: called as an `__init__`, and given back to the interpreter.
//!
//! `PyFunction_SetVectorcall` takes the function's version away, since specialized calls enter its code without calling
//! its vectorcall. Nothing in CPython gives it one again, so calls of it stay unspecialized for ever.

use crate::cpython as c;
use crate::cpython::{PyFunctionObject, PyHeapTypeObject, PyObject};
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::c_int;
use core::ptr::null_mut;

/// In a vectorcall's number of arguments: the callee may change the slot below the first one while it runs.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// Sets the function's vectorcall to CPython's own, and gives it a version that no function has had.
///
/// # Safety
/// `function` is a live Python function.
pub unsafe fn restore(thread: Thread, function: *mut PyFunctionObject) {
    // SAFETY: the caller says that the function is live. The interpreter is the thread's; the counter is one of the
    // fields that CPython writes under the GIL, or without one as racily as this does. A version is not in the cache of
    // functions by version, so that the function is never found there with code whose version is another.
    unsafe {
        (*function).vectorcall = Some(c::_PyFunction_Vectorcall);
        if (*function).func_version == 0 {
            let next = &raw mut (*thread.interpreter()).func_state.next_version;
            (*function).func_version = *next;
            if *next != 0 {
                *next += 1;
            }
        }
    }
}

/// Calls a class whose `__init__` has a vectorcall that was set, where CALL_ALLOC_AND_ENTER_INIT would begin a frame. On the
/// evaluation stack are the class, a free slot and `count` arguments. All are given up. Returns the stack pointer
/// after the call: with the instance on the stack, or without and an exception set.
///
/// # Safety
/// The calling thread has an attached thread state, and the slots are those of its current frame. The class's
/// specialization cache has its `__init__`, a Python function whose vectorcall was set.
#[no_mangle]
#[inline(never)] // in the eval loop it takes registers from other instructions (clang 22)
pub unsafe extern "C" fn _PyRust_CallInit(
    stack_pointer: *mut *mut PyObject,
    count: c_int,
) -> *mut *mut PyObject {
    let count = count as usize;
    // SAFETY: the caller says that the thread is attached, and what the slots have. Only the current frame's instruction
    // uses them, which is executing. The class keeps its `__init__` until it gets another one, and the call may do that
    // to it, so both are held. An instance goes into the slot that the class leaves.
    unsafe {
        let thread = Thread::current();
        let base = stack_pointer.sub(count + 2);
        let class = Owned::from_new_reference(*base);
        let function = (*class.as_ptr().cast::<PyHeapTypeObject>())._spec_cache.init;
        let function = Owned::share(thread, function);
        let made = Owned::new(c::_PyType_NewManagedObject(class.as_ptr().cast()));
        let arguments = base.add(1);
        *arguments = made.as_ref().map_or(null_mut(), Owned::as_ptr);
        let result = made.as_ref().and_then(|_| {
            let vectorcall = (*function.as_ptr().cast::<PyFunctionObject>()).vectorcall?;
            let number = (count + 1) | ARGUMENTS_OFFSET;
            Owned::new(vectorcall(function.as_ptr(), arguments, number, null_mut()))
        });
        let is_none = |result: Owned| {
            let is_none = result.as_ptr() == &raw mut c::_Py_NoneStruct;
            if !is_none {
                let name = (*(*result.as_ptr()).ob_type).tp_name;
                let format = c"__init__() should return None, not '%.200s'";
                c::PyErr_Format(c::PyExc_TypeError, format.as_ptr(), name);
            }
            is_none
        };
        let succeeded = result.is_some_and(is_none);
        drop(function);
        for index in 1..=count {
            c::Py_DecRef(*arguments.add(index));
        }
        drop(class);
        let Some(made) = made.filter(|_| succeeded) else { return base };
        *base = made.into_raw();
        base.add(1)
    }
}
