//! How code of others is run where an exception may be set already.

use crate::cpython as c;
use crate::object::Owned;
use crate::reference_count::new_reference;
use crate::thread::Thread;
use core::cell::UnsafeCell;

/// Runs `work` without the thread's exception, which is as it was afterwards. What `work` has
/// raised is cleared by `report`, and not passed on.
///
/// # Safety
/// The calling thread is attached, and holds no lock: `work` may run any code.
pub unsafe fn run_aside(work: impl FnOnce(), report: impl FnOnce()) {
    // SAFETY: attached, by contract. What was taken is given back.
    unsafe {
        let pending = c::PyErr_GetRaisedException();
        work();
        if !c::PyErr_Occurred().is_null() {
            report();
        }
        c::PyErr_SetRaisedException(pending);
    }
}

/// Gives something up while an exception is set, which stays as it is.
///
/// # Safety
/// As for [`run_aside`].
pub unsafe fn drop_aside<T>(what: T) {
    // SAFETY: the caller's contract.
    unsafe { run_aside(|| drop(what), || c::PyErr_Clear()) };
}

/// Runs `work` as within an `except` block that has caught `exception`.
pub fn handling<T>(thread: Thread, exception: &Owned, work: impl FnOnce() -> T) -> T {
    let tstate = thread.tstate();
    // SAFETY: the thread's own state. Who looks at what other threads handle reads the item while it
    // is linked, and this thread is stopped. `work` leaves as many items as it has found, and what
    // lies in this one then is a reference of its own.
    unsafe {
        let item = UnsafeCell::new(c::_PyErr_StackItem {
            exc_value: new_reference(exception.as_ptr()),
            previous_item: (*tstate).exc_info,
        });
        (*tstate).exc_info = item.get();
        let result = work();
        let c::_PyErr_StackItem { exc_value, previous_item } = item.into_inner();
        (*tstate).exc_info = previous_item;
        // An exception may be set.
        drop_aside(Owned::new(exc_value));
        result
    }
}

/// Makes what is handled the context of the exception that is set, if that has none: C may set one
/// without a look at what is handled.
///
/// # Safety
/// The calling thread is attached, and an exception is set.
pub unsafe fn give_context() {
    // SAFETY: by contract; references are owned.
    unsafe {
        let new = c::PyErr_GetRaisedException();
        let context = c::PyException_GetContext(new);
        if context.is_null() {
            // Python's `raise` looks for circles too.
            c::PyErr_SetObject((*new).ob_type.cast(), new);
            c::Py_DecRef(new);
        } else {
            c::Py_DecRef(context);
            c::PyErr_SetRaisedException(new);
        }
    }
}
