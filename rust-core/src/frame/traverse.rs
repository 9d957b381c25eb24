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

/// The collector's function, with its argument.
///
/// # Invariants
/// `function` takes any live object with `argument`, and changes no frame.
#[derive(Clone, Copy)]
struct Visitor {
    function: VisitFunction,
    argument: *mut c_void,
}

impl Visitor {
    /// `Err` with the visitor's number where it is not 0; NULL is not visited.
    ///
    /// # Safety
    /// `object` is NULL or alive.
    #[inline(always)]
    unsafe fn visit(self, object: *mut PyObject) -> Result<(), c_int> {
        if object.is_null() {
            return Ok(());
        }
        // SAFETY: the type's invariant; the caller passes a live object.
        match unsafe { (self.function)(object, self.argument) } {
            0 => Ok(()),
            stop => Err(stop),
        }
    }
}

/// The `tp_traverse` of what frame hooks keep in a generator's frame in place of its locals; `None` of
/// anything else. Such an object belongs to the frame alone, and the collector does not track it.
///
/// # Safety
/// `locals` is NULL or alive, and the calling thread is attached.
unsafe fn kept_by_hooks(locals: *mut PyObject) -> Option<TraverseFunction> {
    // SAFETY: the caller passes NULL or a live object. The calling thread is attached to the interpreter
    // that has made the frame, and the field that is read is written before there is such an object.
    unsafe {
        let kind: *mut PyObject = locals.as_ref()?.ob_type.cast();
        let interpreter = Thread::current().interpreter();
        if kind.is_null() || kind != (*FrameHookState::of(interpreter)).watched_type {
            return None;
        }
        (*kind.cast::<PyTypeObject>()).tp_traverse
    }
}

/// Visits all that the frame owns.
///
/// # Safety
/// The calling thread is attached.
unsafe fn traverse(frame: Frame, visitor: Visitor) -> Result<(), c_int> {
    let locals = frame.locals();
    // SAFETY: the frame owns its object, its locals, its function and its code; each is NULL or alive,
    // and no visitor changes the frame. `traverse` is the `tp_traverse` of the type of `locals`.
    unsafe {
        visitor.visit(frame.object().cast())?;
        match kept_by_hooks(locals) {
            Some(traverse) => match traverse(locals, Some(visitor.function), visitor.argument) {
                0 => {}
                stop => return Err(stop),
            },
            None => visitor.visit(locals)?,
        }
    }
    // SAFETY: as for the fields before.
    unsafe {
        visitor.visit(frame.function())?;
        visitor.visit(frame.code().as_object())?;
    }
    for i in 0..frame.slots_in_use() {
        // SAFETY: a slot in use is set, and no visitor changes the frame: the object stays alive.
        unsafe {
            let held = frame.held(i);
            visitor.visit(held.map_or(null_mut(), |it| it.object().as_ptr()))?;
        }
    }
    Ok(())
}

/// `_PyFrame_Traverse`: shows each object that the frame owns to `visit`, its frame object and its
/// code included, and ends with the first number that is not 0. A frame that executes shows no
/// slots.
///
/// # Safety
/// `frame` is a frame with code, and no thread changes it meanwhile; `visit` takes live objects and
/// `arg`. The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyFrame_Traverse(
    frame: *mut _PyInterpreterFrame,
    visit: VisitFunction,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a frame with code that no thread changes meanwhile: its own thread has
    // the GIL, or the collector has stopped all others.
    let frame = unsafe { Frame::new(frame) };
    // INVARIANT: the caller says that `visit` takes live objects and `arg`.
    let visitor = Visitor { function: visit, argument: arg };
    // SAFETY: the caller says that the thread is attached.
    match unsafe { traverse(frame, visitor) } {
        Ok(()) => 0,
        Err(stop) => stop,
    }
}
