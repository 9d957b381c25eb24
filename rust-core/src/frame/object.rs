//! Frame objects: what Python sees of a frame, made on request.

use super::handle::Frame;
use crate::check::check;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyFrameObject, PyObject};
use crate::reference_count::decref;
use core::ptr::{null_mut, NonNull};

/// A frame object, borrowed.
///
/// # Invariants
/// A live `PyFrameObject`, made for the code of its frame.
#[derive(Clone, Copy)]
pub struct FrameObject(NonNull<PyFrameObject>);

impl FrameObject {
    /// # Safety
    /// As the type's invariant says, for as long as the caller uses it.
    #[inline(always)]
    pub unsafe fn new(object: NonNull<PyFrameObject>) -> Self {
        FrameObject(object)
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut PyFrameObject {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn as_object(self) -> *mut PyObject {
        self.as_ptr().cast()
    }

    /// The object's own memory for a frame: room for the fields, and for all slots that the code
    /// needs.
    #[inline(always)]
    pub fn own_frame(self) -> *mut _PyInterpreterFrame {
        // SAFETY: live by the type's invariant.
        unsafe { (&raw mut (*self.as_ptr())._f_frame_data).cast() }
    }

    /// Says where the object's frame is.
    #[inline(always)]
    pub fn set_frame(self, frame: Frame) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).f_frame = frame.as_ptr() };
    }

    /// Says who called, once that cannot be found through the frame any more.
    ///
    /// # Safety
    /// `back` is a reference to a frame object that the caller gives up.
    #[inline(always)]
    pub unsafe fn set_back(self, back: *mut PyObject) {
        // SAFETY: live by the type's invariant.
        unsafe {
            check!((*self.as_ptr()).f_back.is_null(), "a frame object has its caller already");
            (*self.as_ptr()).f_back = back.cast();
        }
    }
}

/// The frame's object, made if there is none yet. `None` where there is no memory: the exception
/// that was set before stays set, and no other one.
///
/// # Safety
/// `frame` is complete and its call is in progress. The calling thread is attached.
#[inline(always)]
pub unsafe fn of_frame(frame: Frame) -> Option<FrameObject> {
    check!(!frame.is_incomplete(), "an incomplete frame is shown");
    let known = frame.object();
    // SAFETY: the caller says that the frame is complete and of a call, and the thread attached. It has no
    // object yet.
    let object = if known.is_null() { unsafe { make(frame, Failure::Forgotten) } } else { known };
    NonNull::new(object).map(FrameObject)
}

/// What becomes of the error where there is no memory for an object.
enum Failure {
    /// It is raised, and takes the place of an exception that was set before.
    Raised,
    /// It is forgotten, and an exception that was set before stays.
    Forgotten,
}

/// `_PyFrame_MakeAndSetFrameObject`: makes the frame's object and returns it, borrowed: the frame
/// owns it. An exception that is set stays set; NULL with `MemoryError` set instead where there is
/// no memory. Runs no Python code.
///
/// # Safety
/// `frame` is complete, its object's memory is not its own, and it has no object yet. No other thread
/// works on it. The calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyFrame_MakeAndSetFrameObject(
    frame: *mut _PyInterpreterFrame,
) -> *mut PyFrameObject {
    // SAFETY: the caller passes a complete frame that has no object and that no other thread works on;
    // the thread is attached.
    unsafe { make(Frame::new(frame), Failure::Raised) }
}

/// # Safety
/// As for [`_PyFrame_MakeAndSetFrameObject`].
#[inline]
unsafe fn make(frame: Frame, failure: Failure) -> *mut PyFrameObject {
    check!(frame.object().is_null(), "a frame gets a second object");
    // Objects are also made while an exception is on its way, and a failing allocation raises
    // another.
    // SAFETY: the caller says that the thread is attached.
    let raised = unsafe { c::PyErr_GetRaisedException() };
    // SAFETY: a code object. What is made is untracked: the collector does not see it before the
    // frame moves in.
    let object = unsafe { c::_PyFrame_New_NoTrack(frame.code().as_ptr()) };
    if object.is_null() {
        match failure {
            // SAFETY: the thread is attached. The error of the allocation, which is set, is given
            // up, and what was handed out above comes back.
            Failure::Forgotten => unsafe {
                c::PyErr_Clear();
                c::PyErr_SetRaisedException(raised);
            },
            // SAFETY: handed out above. The error of the allocation takes its place.
            Failure::Raised if !raised.is_null() => unsafe { decref(raised) },
            Failure::Raised => {}
        }
        return null_mut();
    }
    // SAFETY: NULL, or the reference from above.
    unsafe { c::PyErr_SetRaisedException(raised) };
    check!(frame.object().is_null(), "a frame got an object while its object was made");
    check!(
        frame.belongs_to_a_call(),
        "a frame object is made for a frame that is in one, or on the C stack"
    );
    // SAFETY: both are live; the frame owns the new reference.
    unsafe {
        (*object).f_frame = frame.as_ptr();
        (*frame.as_ptr()).frame_obj = object;
    }
    object
}
