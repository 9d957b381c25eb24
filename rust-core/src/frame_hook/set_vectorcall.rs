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
    // SAFETY: the caller says that the thread is attached, and what the slots have. Only the current frame's instruction,
    // which is executing, uses them. The reference to the class is taken over.
    let (thread, base, class) = unsafe {
        let base = stack_pointer.sub(count + 2);
        (Thread::current(), base, Owned::from_new_reference(*base))
    };
    // SAFETY: the caller says what the class is. The call may give it another `__init__`, so this one is held.
    let (init, made) = unsafe {
        let init = (*class.as_ptr().cast::<PyHeapTypeObject>())._spec_cache.init;
        let made = Owned::new(c::_PyType_NewManagedObject(class.as_ptr().cast()));
        (Owned::share(thread, init), made)
    };
    // SAFETY: attached, and the slots are as before.
    let made = made.filter(|made| unsafe { initialize(&init, made, base.add(1), count) });
    drop(init);
    for index in 0..count {
        // SAFETY: the stack's references, which are given up from now on.
        unsafe { c::Py_DecRef(*base.add(2 + index)) };
    }
    drop(class);
    let Some(made) = made else { return base };
    // SAFETY: the slot that the class has left.
    unsafe {
        *base = made.into_raw();
        base.add(1)
    }
}

/// Calls the `__init__` of a new instance. False: an exception is set.
///
/// # Safety
/// The calling thread is attached. `init` is a function whose vectorcall was set. There is a free slot at `arguments`,
/// and behind it are `count` arguments.
#[inline]
unsafe fn initialize(
    init: &Owned,
    made: &Owned,
    arguments: *mut *mut PyObject,
    count: usize,
) -> bool {
    // SAFETY: the caller says what the function and the slots are. All that is passed is held during the call, also if its
    // code changes the class.
    let result = unsafe {
        *arguments = made.as_ptr();
        let vectorcall = (*init.as_ptr().cast::<PyFunctionObject>()).vectorcall;
        let number = (count + 1) | ARGUMENTS_OFFSET;
        vectorcall.and_then(|call| Owned::new(call(init.as_ptr(), arguments, number, null_mut())))
    };
    let Some(result) = result else { return false };
    if result.as_ptr() == &raw mut c::_Py_NoneStruct {
        return true;
    }
    // SAFETY: a class, and a format that takes a string, which the live result's type has.
    unsafe {
        let format = c"__init__() should return None, not '%.200s'";
        let name = (*(*result.as_ptr()).ob_type).tp_name;
        c::PyErr_Format(c::PyExc_TypeError, format.as_ptr(), name);
    }
    false
}
