//! Functions, frames at the top of a data stack, and frame objects.

use super::code::{instruction, prologue_of};
use super::exceptions::PyErr_NoMemory;
use super::memory::is_allowed;
use super::objects::{decref, incref, named_type, object, with_zeros};
use super::threads::PyThreadState_Get;
use super::values::{cell, items, tuple};
use crate::cpython as c;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyFrameObject, PyFunctionObject, PyInterpreterState,
    PyObject, PyThreadState, PyTypeObject,
};
use crate::data_stack::_PyThreadState_PushFrame;
use crate::frame::{_PyFrame_Initialize, _PyRust_EndCall};
use std::cell::RefCell;
use std::ffi::c_int;
use std::ptr::null_mut;

static mut FRAME_TYPE: PyTypeObject =
    PyTypeObject { tp_dealloc: Some(deallocate_frame), ..named_type(c"frame") };
#[no_mangle]
#[allow(non_upper_case_globals)]
static mut PyFunction_Type: PyTypeObject =
    PyTypeObject { tp_dealloc: Some(deallocate_function), ..named_type(c"function") };
/// There are no methods here.
#[no_mangle]
#[allow(non_upper_case_globals)]
static mut PyMethod_Type: PyTypeObject = named_type(c"method");

/// The place of a slot of a frame.
pub fn slot(frame: *mut _PyInterpreterFrame, number: usize) -> *mut *mut PyObject {
    // SAFETY: within the frame's memory.
    unsafe { (&raw mut (*frame).localsplus).cast::<*mut PyObject>().add(number) }
}

// --- Calls. ---

/// A new function: its code, of which it takes a reference, and the content of its closure's cells,
/// which it takes over.
pub fn function(code: *mut PyCodeObject, closure: &[*mut PyObject]) -> *mut PyFunctionObject {
    let function: *mut PyFunctionObject = with_zeros(&raw mut PyFunction_Type, 0);
    // SAFETY: a function made just now, and live code.
    unsafe {
        incref(code.cast());
        (*function).func_code = code.cast();
        (*function).func_globals = object();
        (*function).func_builtins = object();
        (*function).func_closure = tuple(closure.iter().map(|content| cell(*content)).collect());
    }
    function
}

/// Puts the frame of a call on top of the thread's data stack, and gives it the arguments, one for
/// each parameter. It takes the references over. The frame is not linked.
pub fn push(
    function: *mut PyFunctionObject,
    arguments: &[*mut PyObject],
) -> *mut _PyInterpreterFrame {
    let tstate = PyThreadState_Get();
    // SAFETY: a live function, and the thread's own data stack.
    let (code, size, frame) = unsafe {
        let code: *mut PyCodeObject = (*function).func_code.cast();
        let size = (*code).co_framesize as usize;
        (code, size, _PyThreadState_PushFrame(tstate, size))
    };
    assert!(!frame.is_null(), "no memory for the frame of a test");
    // SAFETY: a new frame with as many slots as the code needs.
    unsafe {
        frame.cast::<usize>().write_bytes(0xfe, size);
        _PyFrame_Initialize(frame, function, null_mut(), code, arguments.len() as c_int);
        for (i, argument) in arguments.iter().enumerate() {
            slot(frame, i).write(*argument);
        }
        (*frame).previous = (*tstate).current_frame;
    }
    frame
}

/// Makes a frame the thread's current one.
pub fn link(frame: *mut _PyInterpreterFrame) {
    // SAFETY: the thread's own state.
    unsafe { (*PyThreadState_Get()).current_frame = frame };
}

/// The offset from its call instruction at which a frame continues.
pub mod instruction_behind {
    use crate::cpython as c;

    /// Where a generator has yielded to it.
    pub const YIELD: usize = 1 + size_of::<c::_PySendCache>() / size_of::<c::_Py_CODEUNIT>();
}

/// What a call comes to is put onto the stack of the frame that has called, which continues so many
/// instructions further.
pub fn put(frame: *mut _PyInterpreterFrame, value: *mut PyObject, offset: usize) {
    // SAFETY: a live frame with room for the value.
    unsafe {
        let top = if (*frame).owner == c::FRAME_OWNED_BY_CSTACK { 0 } else { (*frame).stacktop };
        slot(frame, top as usize).write(value);
        (*frame).stacktop = top + 1;
        (*frame).instr_ptr = (*frame).instr_ptr.add(offset);
    }
}

/// Runs what comes before `RESUME`, or before `RETURN_GENERATOR`: makes the cells, and takes the
/// free variables out of the closure.
pub fn run_prologue(frame: *mut _PyInterpreterFrame) {
    // SAFETY: a live frame with code.
    let code: *mut PyCodeObject = unsafe { (*frame).f_executable.cast() };
    let (cells, end) = prologue_of(code);
    for number in cells {
        // SAFETY: a slot of the frame, which has run nothing yet.
        unsafe { slot(frame, number).write(cell(slot(frame, number).read())) };
    }
    // SAFETY: the frame's function, with a closure as its code wants it.
    unsafe {
        let closure = (*(*frame).f_funcobj.cast::<PyFunctionObject>()).func_closure;
        let first_free = ((*code).co_nlocalsplus - (*code).co_nfreevars) as usize;
        for (i, cell) in items(closure).into_iter().enumerate() {
            incref(cell);
            slot(frame, first_free + i).write(cell);
        }
        (*frame).instr_ptr = instruction(code, end);
    }
}

/// The end of a call: the frame is not linked any more.
#[no_mangle]
pub extern "C" fn _PyEval_FrameClearAndPop(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) {
    // SAFETY: the topmost frame of the thread's data stack.
    unsafe {
        assert_eq!((*frame).owner, c::FRAME_OWNED_BY_THREAD);
        assert_ne!((*tstate).current_frame, frame, "a frame ends that is still linked");
        AT_END.with_borrow(|look| look.iter().for_each(|look| look(frame)));
        let code: *mut PyCodeObject = (*frame).f_executable.cast();
        let end = frame.cast::<usize>().add((*code).co_framesize as usize);
        assert_eq!(end, (*tstate).datastack_top.cast(), "not the topmost frame");
        _PyRust_EndCall(tstate, frame);
    }
}

type Look = Box<dyn Fn(*mut _PyInterpreterFrame)>;

thread_local! {
    static AT_END: RefCell<Option<Look>> = const { RefCell::new(None) };
}

/// From now on `look` is called with each frame whose call ends, before it is cleared.
pub fn at_end(look: impl Fn(*mut _PyInterpreterFrame) + 'static) {
    AT_END.set(Some(Box::new(look)));
}

/// The thread's current frame returns.
pub fn end_current() {
    let tstate = PyThreadState_Get();
    // SAFETY: the thread's own state, and a frame that is linked.
    unsafe {
        let frame = (*tstate).current_frame;
        (*tstate).current_frame = (*frame).previous;
        _PyEval_FrameClearAndPop(tstate, frame);
    }
}

type Call = Box<dyn Fn(*mut PyObject) -> *mut PyObject>;

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// From now on `call` makes calls of C's, which have no arguments.
pub fn set_call(call: Option<Call>) {
    CALL.set(call);
}

#[no_mangle]
extern "C" fn PyObject_Vectorcall(
    callable: *mut PyObject,
    _arguments: *const *mut PyObject,
    _count: usize,
    _names: *mut PyObject,
) -> *mut PyObject {
    CALL.with_borrow(|call| call.as_ref().expect("a caller")(callable))
}

thread_local! {
    static INSTRUMENTED: RefCell<Option<Box<dyn Fn() -> c_int>>> = const { RefCell::new(None) };
}

/// From now on `look` is called where code is instrumented; it says how that has ended.
pub fn set_instrument(look: impl Fn() -> c_int + 'static) {
    INSTRUMENTED.set(Some(Box::new(look)));
}

#[no_mangle]
extern "C" fn _Py_Instrument(_: *mut PyCodeObject, _: *mut PyInterpreterState) -> c_int {
    INSTRUMENTED.with_borrow(|look| look.as_ref().map_or(0, |look| look()))
}

/// No tool monitors.
#[no_mangle]
extern "C" fn _Py_call_instrumentation_arg(
    _: *mut PyThreadState,
    _: c_int,
    _: *mut _PyInterpreterFrame,
    _: *mut c::_Py_CODEUNIT,
    _: *mut PyObject,
) -> c_int {
    0
}

// --- Frame objects. ---

#[no_mangle]
extern "C" fn _PyFrame_New_NoTrack(code: *mut PyCodeObject) -> *mut PyFrameObject {
    // SAFETY: the thread's own state, and a live code object.
    unsafe {
        let exception = (*PyThreadState_Get()).current_exception;
        assert!(exception.is_null(), "allocates with an exception set");
        if !is_allowed() {
            return PyErr_NoMemory().cast();
        }
        with_zeros(&raw mut FRAME_TYPE, (*code).co_framesize as usize * size_of::<usize>())
    }
}

unsafe extern "C" fn deallocate_function(object: *mut PyObject) {
    let it: *mut PyFunctionObject = object.cast();
    // SAFETY: a function without references, whose memory stays.
    give_up(unsafe {
        [(*it).func_code, (*it).func_globals, (*it).func_builtins, (*it).func_closure]
    });
}

unsafe extern "C" fn deallocate_frame(object: *mut PyObject) {
    let it: *mut PyFrameObject = object.cast();
    let mut held = Vec::new();
    // SAFETY: a frame object without references, whose memory stays.
    unsafe {
        let own = (*it).f_frame;
        if own.cast() == &raw mut (*it)._f_frame_data {
            for number in 0..(*own).stacktop as usize {
                held.push(slot(own, number).replace(null_mut()));
            }
            held.extend([(*own).f_funcobj, (*own).f_locals, (*own).f_executable]);
        }
        held.push((*it).f_back.cast());
    }
    give_up(held);
}

/// Gives up these references, of which some are NULL.
fn give_up(held: impl IntoIterator<Item = *mut PyObject>) {
    // SAFETY: an object that has died held them.
    held.into_iter().filter(|it| !it.is_null()).for_each(|it| unsafe { decref(it) });
}
