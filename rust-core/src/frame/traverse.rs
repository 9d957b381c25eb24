//! What the garbage collector sees of a frame.

use super::handle::Frame;
use crate::cpython::{_PyInterpreterFrame, PyObject, PyTypeObject};
use crate::in_cpython::FrameHookState;
use crate::thread::Thread;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// CPython's `visitproc`.
pub type VisitFunction = unsafe extern "C" fn(*mut PyObject, *mut c_void) -> c_int;

/// A type's `tp_traverse`.
type TraverseFunction =
    unsafe extern "C" fn(*mut PyObject, Option<VisitFunction>, *mut c_void) -> c_int;

/// The collector's function, with what it wants to be told besides.
#[derive(Clone, Copy)]
struct Visitor {
    function: VisitFunction,
    argument: *mut c_void,
}

impl Visitor {
    /// `Err` with the visitor's number when it has seen enough; NULL is not visited.
    #[inline(always)]
    fn visit(self, object: *mut PyObject) -> Result<(), c_int> {
        if object.is_null() {
            return Ok(());
        }
        // SAFETY: the collector's function takes any live object, with its own argument.
        match unsafe { (self.function)(object, self.argument) } {
            0 => Ok(()),
            stop => Err(stop),
        }
    }
}

/// What frame hooks keep in a generator's frame, in place of its locals, and what shows what that refers
/// to. It is the frame's alone, and no object of the collector's.
fn kept_by_hooks(locals: *mut PyObject) -> Option<TraverseFunction> {
    // SAFETY: NULL or a live object. The collector's thread is attached, and its interpreter has made the
    // frame.
    unsafe {
        let kind: *mut PyObject = locals.as_ref()?.ob_type.cast();
        let interpreter = Thread::current().interpreter();
        if kind.is_null() || kind != (*FrameHookState::of(interpreter)).watched_type {
            return None;
        }
        (*kind.cast::<PyTypeObject>()).tp_traverse
    }
}

fn traverse(frame: Frame, visitor: Visitor) -> Result<(), c_int> {
    visitor.visit(frame.object().cast())?;
    let locals = frame.locals();
    match kept_by_hooks(locals) {
        Some(traverse) => {
            // SAFETY: the type's own function, for an object of it, with what the collector has given.
            match unsafe { traverse(locals, Some(visitor.function), visitor.argument) } {
                0 => {}
                stop => return Err(stop),
            }
        }
        None => visitor.visit(locals)?,
    }
    visitor.visit(frame.function())?;
    visitor.visit(frame.code().as_object())?;
    for i in 0..frame.slots_in_use() {
        // SAFETY: a slot in use; a visitor changes no frame.
        let held = unsafe { frame.held(i) };
        visitor.visit(held.map_or(null_mut(), |it| it.object().as_ptr()))?;
    }
    Ok(())
}

/// `_PyFrame_Traverse`: shows each object that the frame owns to `visit`, its frame object and its
/// code included, and ends with the first number that is not 0. A frame that executes shows no
/// slots.
///
/// # Safety
/// `frame` is a frame with code, and no thread changes it meanwhile; `visit` takes live objects and
/// `arg`.
#[no_mangle]
pub unsafe extern "C" fn _PyFrame_Traverse(
    frame: *mut _PyInterpreterFrame,
    visit: VisitFunction,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let frame = unsafe { Frame::new(frame) };
    match traverse(frame, Visitor { function: visit, argument: arg }) {
        Ok(()) => 0,
        Err(stop) => stop,
    }
}
