//! Generators, as the eval loop makes, resumes and suspends them.

use super::frames::{instruction_behind, put};
use super::objects::{decref, is_of_type, named_type, with_zeros};
use super::threads::PyThreadState_Get;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyGenObject, PyObject, PyTypeObject};
use crate::data_stack::_PyThreadState_PopFrame;
use crate::frame::{_PyFrame_ClearExceptCode, _PyRust_MoveFrame};
use std::ptr::null_mut;

#[no_mangle]
#[allow(non_upper_case_globals)]
static mut PyGen_Type: PyTypeObject =
    PyTypeObject { tp_dealloc: Some(deallocate), ..named_type(c"generator") };
/// There are no others here.
#[no_mangle]
#[allow(non_upper_case_globals)]
static mut PyCoro_Type: PyTypeObject = named_type(c"coroutine");
#[no_mangle]
#[allow(non_upper_case_globals)]
static mut PyAsyncGen_Type: PyTypeObject = named_type(c"async_generator");

/// Values of `gi_frame_state`.
const CREATED: i8 = c::FRAME_CREATED;
const SUSPENDED: i8 = -2;
const CLEARED: i8 = 4;

pub fn is_generator(object: *mut PyObject) -> bool {
    is_of_type(object, &raw mut PyGen_Type)
}

/// The frame of a generator.
pub fn frame_of(generator: *mut PyObject) -> *mut _PyInterpreterFrame {
    assert!(is_generator(generator));
    // SAFETY: a generator, whose memory stays.
    unsafe { (&raw mut (*generator.cast::<PyGenObject>()).gi_iframe).cast() }
}

/// The generator whose frame this is.
fn of_frame(frame: *mut _PyInterpreterFrame) -> *mut PyGenObject {
    // SAFETY: the frame lies in a generator.
    unsafe { frame.byte_sub(std::mem::offset_of!(PyGenObject, gi_iframe)).cast() }
}

/// What `RETURN_GENERATOR` does: the thread's current frame moves into a generator, which is what
/// its call comes to.
pub fn make() {
    let tstate = PyThreadState_Get();
    // SAFETY: the thread's own state, and its current frame with its code.
    let (frame, slots) = unsafe {
        let frame = (*tstate).current_frame;
        let code: *mut PyCodeObject = (*frame).f_executable.cast();
        (frame, (*code).co_framesize as usize * size_of::<usize>())
    };
    let generator: *mut PyGenObject = with_zeros(&raw mut PyGen_Type, slots);
    let own = frame_of(generator.cast());
    // SAFETY: a frame that has stopped at `RETURN_GENERATOR`, and a generator for one of its code.
    let below = unsafe {
        (*frame).instr_ptr = (*frame).instr_ptr.add(1);
        _PyRust_MoveFrame(frame, own);
        (*own).owner = c::FRAME_OWNED_BY_GENERATOR;
        (*generator).gi_frame_state = CREATED;
        (*frame).previous
    };
    // SAFETY: the topmost frame of the thread's data stack, which owns nothing any more.
    unsafe {
        _PyThreadState_PopFrame(tstate, frame);
        (*tstate).current_frame = below;
        put(below, generator.cast(), (*below).return_offset.into());
    }
}

/// Resumes a generator: its frame becomes the thread's current one. Returns whether it begins.
pub fn resume(generator: *mut PyObject) -> bool {
    let (tstate, frame) = (PyThreadState_Get(), frame_of(generator));
    let generator: *mut PyGenObject = generator.cast();
    // SAFETY: the thread's own state, and a generator that is suspended.
    unsafe {
        let begins = (*generator).gi_frame_state == CREATED;
        assert!(begins || (*generator).gi_frame_state == SUSPENDED, "does not wait");
        (*generator).gi_frame_state = c::FRAME_EXECUTING;
        (*generator).gi_exc_state.previous_item = (*tstate).exc_info;
        (*tstate).exc_info = &raw mut (*generator).gi_exc_state;
        (*frame).previous = (*tstate).current_frame;
        (*tstate).current_frame = frame;
        begins
    }
}

/// The generator whose frame is the current one does not run any more. The frame below is the
/// current one then, and is returned with the generator's.
fn leave(state: i8) -> (*mut _PyInterpreterFrame, *mut _PyInterpreterFrame) {
    let tstate = PyThreadState_Get();
    // SAFETY: the thread's own state.
    let frame = unsafe { (*tstate).current_frame };
    let generator = of_frame(frame);
    // SAFETY: the thread's own state, and a generator that runs.
    unsafe {
        assert_eq!((*generator).gi_frame_state, c::FRAME_EXECUTING);
        (*generator).gi_frame_state = state;
        (*tstate).exc_info = (*generator).gi_exc_state.previous_item;
        (*generator).gi_exc_state.previous_item = null_mut();
        let below = std::mem::replace(&mut (*frame).previous, null_mut());
        (*tstate).current_frame = below;
        (below, frame)
    }
}

/// Suspends it at that instruction.
pub fn give(value: *mut PyObject, next_instruction: *mut c::_Py_CODEUNIT) {
    // SAFETY: the frame of a generator that runs.
    unsafe { (*(*PyThreadState_Get()).current_frame).instr_ptr = next_instruction };
    let (below, _) = leave(SUSPENDED);
    put(below, value, instruction_behind::YIELD);
}

/// It has come to its end. Without a value an exception is set.
pub fn end(value: Option<*mut PyObject>) {
    let (below, frame) = leave(CLEARED);
    clear(frame);
    if let Some(value) = value {
        // SAFETY: a live frame.
        put(below, value, unsafe { (*below).return_offset }.into());
    }
}

fn clear(frame: *mut _PyInterpreterFrame) {
    // SAFETY: linked from nowhere, and over.
    unsafe {
        _PyFrame_ClearExceptCode(frame);
        decref((*frame).f_executable);
    }
}

/// Ends a generator that has died and was suspended.
unsafe extern "C" fn deallocate(object: *mut PyObject) {
    let generator: *mut PyGenObject = object.cast();
    // SAFETY: a generator without references, whose memory stays.
    unsafe {
        if (*generator).gi_frame_state < c::FRAME_EXECUTING {
            (*generator).gi_frame_state = CLEARED;
            clear(frame_of(object));
        }
    }
}
