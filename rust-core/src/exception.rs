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
    // SAFETY: the caller is attached, so the exception is its own. The reference that is taken out is
    // given back.
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
    // SAFETY: the caller is attached, and holds no lock that a destructor could need.
    unsafe { run_aside(|| drop(what), || c::PyErr_Clear()) };
}

/// Runs `work` as within an `except` block that has caught `exception`.
pub fn handling<T>(thread: Thread, exception: &Owned, work: impl FnOnce() -> T) -> T {
    let tstate = thread.tstate();
    // SAFETY: live, and the thread's own field. `exception` is a reference, so its object is alive.
    let item = UnsafeCell::new(unsafe {
        c::_PyErr_StackItem {
            exc_value: new_reference(exception.as_ptr()),
            previous_item: (*tstate).exc_info,
        }
    });
    // SAFETY: the thread's own field. `sys._current_exceptions` of other threads reads the item while it
    // is linked, with this thread stopped; the item stays where it is until it is unlinked.
    unsafe { (*tstate).exc_info = item.get() };
    let result = work();
    let c::_PyErr_StackItem { exc_value, previous_item } = item.into_inner();
    // SAFETY: the thread's own field. `work` unlinks all items that it links, so this one is the topmost
    // again, and what it holds is a reference of its own. An exception may be set.
    unsafe {
        (*tstate).exc_info = previous_item;
        drop_aside(Owned::new(exc_value));
    }
    result
}

/// Makes what is handled the context of the exception that is set, if that has none: C may set one
/// without a look at what is handled.
///
/// # Safety
/// The calling thread is attached, and an exception is set.
pub unsafe fn give_context() {
    // SAFETY: the caller is attached and says that an exception is set, so neither call gets NULL, and
    // `new` is a reference of ours.
    let (new, context) = unsafe {
        let new = c::PyErr_GetRaisedException();
        (new, c::PyException_GetContext(new))
    };
    if context.is_null() {
        // Python's `raise` looks for circles too.
        // SAFETY: `PyErr_SetObject` takes references of its own, so ours is given up.
        unsafe {
            c::PyErr_SetObject((*new).ob_type.cast(), new);
            c::Py_DecRef(new);
        }
    } else {
        // SAFETY: both are references of ours. The first is not the last one: `new` has another.
        unsafe {
            c::Py_DecRef(context);
            c::PyErr_SetRaisedException(new);
        }
    }
}
