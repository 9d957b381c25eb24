//! The parts of `_framecore` for frame hooks beside its functions.

use super::converted::made;
use super::event::event_type;
use super::singleton::disable;
use super::view::view_type;
use super::{block, suspension};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::once_cell::incompatible_code_error;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, CStr};

/// Adds the constants to `_framecore`.
pub unsafe extern "C" fn fill_module(module: *mut PyObject) -> c_int {
    // SAFETY: called by the import system: a thread state is attached.
    unsafe { fill(Thread::current(), module) }.map_or(-1, |()| 0)
}

/// # Safety
/// `module` is a module.
unsafe fn fill(thread: Thread, module: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller says that `module` is a module; a string and a live object.
    let add = |name: &CStr, object| match unsafe {
        c::PyModule_AddObjectRef(module, name.as_ptr(), object)
    } {
        0 => Ok(()),
        _ => Err(Raised::by_cpython(thread)),
    };
    let disable = disable(thread)?;
    add(c"DISABLE", disable)?;
    // SAFETY: a live object.
    add(c"Disable", unsafe { (*disable).ob_type }.cast())?;
    add(c"FrameView", view_type(thread)?)?;
    add(c"FrameEvent", event_type(thread)?)?;
    add(c"IncompatibleCodeError", incompatible_code_error(thread)?)?;
    // These are new ones for each module object.
    for (name, specification) in
        [(c"HookBlock", block::TYPE.get()), (c"Suspension", suspension::TYPE.get())]
    {
        // SAFETY: the specification lives for ever, and a thread state is attached.
        let class = made(thread, unsafe { Owned::new(c::PyType_FromSpec(specification)) })?;
        add(name, class.as_ptr())?;
    }
    Ok(())
}
