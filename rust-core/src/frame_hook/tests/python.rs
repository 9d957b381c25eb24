//! What the engine asks of its Python face, which is not tested here.

use super::Thread;
use crate::cpython as c;
use crate::cpython::PyObject;
use core::ptr::null_mut;

/// The class of the error for code that cannot stand in; `None` with an exception set.
pub fn incompatible_code_error(thread: Thread) -> Option<*mut PyObject> {
    // SAFETY: a field of the state, which this thread alone uses; a name that lives for ever.
    unsafe {
        let place = &raw mut (*thread.state()).incompatible;
        if (*place).is_null() {
            let name = c"framehook.IncompatibleCodeError".as_ptr();
            *place = c::PyErr_NewExceptionWithDoc(name, null_mut(), null_mut(), null_mut());
        }
        (!(*place).is_null()).then_some(*place)
    }
}
