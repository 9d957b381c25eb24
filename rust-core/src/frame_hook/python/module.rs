//! What the module `_framecore` has of frame hooks beside its functions.

use super::block::types;
use super::{settled, view_type};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::kept::incompatible_code_error;
use crate::thread::Thread;
use core::ffi::c_int;

/// Adds the constants to `_framecore`.
pub unsafe extern "C" fn fill_module(module: *mut PyObject) -> c_int {
    // SAFETY: called by the import system: a thread state is attached.
    let thread = unsafe { Thread::current() };
    let filled = (|| -> Outcome<()> {
        for (name, object) in [
            (c"SETTLED", settled(thread)?),
            (c"FrameView", view_type(thread)?),
            (c"IncompatibleCodeError", incompatible_code_error(thread)?),
        ] {
            // SAFETY: a module, a string and a live object.
            if unsafe { c::PyModule_AddObjectRef(module, name.as_ptr(), object) } != 0 {
                return Err(Raised::by_cpython(thread));
            }
        }
        for (name, class) in types(thread)? {
            // SAFETY: as above.
            if unsafe { c::PyModule_AddObjectRef(module, name.as_ptr(), class.as_ptr()) } != 0 {
                return Err(Raised::by_cpython(thread));
            }
        }
        Ok(())
    })();
    filled.map_or(-1, |()| 0)
}
