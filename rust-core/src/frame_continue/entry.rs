//! How the eval loop comes to the innermost frame of a chain.
//!
//! The loop is called with a shim, a frame of the C stack whose only instruction is that of a return shim. It calls
//! [`enter_chain`], which links the outermost frame to the loop's entry frame in place of the shim, and makes the
//! innermost frame current. Nothing runs before that.

use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame::{Frame, Owner};
use crate::in_cpython::RETURN_TO_SHIM;
use crate::object::ForC;
use crate::thread::Thread;
use core::ffi::{c_int, c_uint};
use core::mem::MaybeUninit;
use core::ptr::null_mut;

/// How many levels of C recursion an eval loop takes; C asserts it.
pub const EVAL_C_STACK_UNITS: c_int = 2;

/// Whether the C stack allows another eval loop, as the loop itself tests it.
pub fn has_c_stack(thread: Thread) -> bool {
    // SAFETY: the thread's own field.
    unsafe { (*thread.tstate()).c_recursion_remaining >= EVAL_C_STACK_UNITS - 1 }
}

/// The only instruction of the shim, as the eval loop reads it.
#[repr(C, align(2))]
struct Unit {
    code: u8,
    argument: u8,
}

static INSTRUCTION: ForC<Unit> = ForC::new(Unit { code: RETURN_TO_SHIM, argument: 0 });

/// A chain that is to be entered.
pub struct Entry {
    pub innermost: Frame,
    pub outermost: Frame,
    /// The exception that is raised in the innermost frame; NULL: none. A reference.
    pub raised: *mut PyObject,
    /// How far ahead of the innermost frame's `instr_ptr` it continues; if there is an exception, where the instruction
    /// ends that raises it.
    pub ahead: c_uint,
    /// How many frames there are.
    pub frames: usize,
}

/// The shim, and what it leads to.
#[repr(C)]
struct Shim {
    frame: _PyInterpreterFrame,
    chain: Entry,
    /// What is left of the recursion limit in the innermost frame.
    remaining: c_int,
}

/// Whether the thread's current frame is the shim of a chain.
///
/// # Safety
/// `frame` is a live frame.
#[inline(always)]
pub unsafe fn is_entry(frame: *mut _PyInterpreterFrame) -> bool {
    // SAFETY: the caller passes a live frame.
    unsafe { (*frame).instr_ptr == INSTRUCTION.get().cast() }
}

/// Evaluates the frames of a chain, the innermost first. Returns the result of the outermost one, or NULL with an
/// exception set.
///
/// # Safety
/// The frames are complete, linked to each other by `previous`, and lie upon each other at the top of the thread's data
/// stack; nothing else leads to them. No exception is set. The code of each is instrumented, and the thread was not
/// stopped since. There is C stack.
pub unsafe fn evaluate(thread: Thread, chain: Entry) -> *mut PyObject {
    let tstate = thread.tstate();
    // SAFETY: the thread's own field.
    let before = unsafe { (*tstate).py_recursion_remaining };
    let frames = c_int::try_from(chain.frames).unwrap_or(c_int::MAX);
    // What lies above the limit is not counted, since CPython gives up where much does.
    let counted = frames.min(before.max(0));
    let remaining = before - counted;
    let mut shim = MaybeUninit::<Shim>::uninit();
    let frame: *mut _PyInterpreterFrame = shim.as_mut_ptr().cast();
    // SAFETY: memory for a shim, which begins with its frame. The fields are those that the eval loop, and who walks
    // frames, reads of a frame of the C stack; `previous` is the eval loop's to set.
    unsafe {
        (&raw mut (*shim.as_mut_ptr()).chain).write(chain);
        (&raw mut (*shim.as_mut_ptr()).remaining).write(remaining);
        c_stack_frame(frame);
        // The loop counts the shim, and must not find the limit reached.
        (*tstate).py_recursion_remaining = before.max(1);
        let result = c::_PyEval_EvalFrameDefault(tstate, frame, 0);
        (*tstate).py_recursion_remaining -= frames - counted;
        result
    }
}

/// Makes a frame of the C stack out of memory.
///
/// # Safety
/// `frame` can be written, and no other code reads it yet.
unsafe fn c_stack_frame(frame: *mut _PyInterpreterFrame) {
    // SAFETY: the caller says so.
    unsafe {
        (*frame).f_executable = &raw mut c::_Py_NoneStruct;
        (*frame).f_funcobj = null_mut();
        (*frame).f_globals = null_mut();
        (*frame).frame_obj = null_mut();
        (*frame).instr_ptr = INSTRUCTION.get().cast();
        (*frame).stacktop = 0;
        (*frame).return_offset = 0;
        Frame::new(frame).set_owner(Owner::C_STACK);
    }
}

/// Makes the innermost frame of a chain current, where the eval loop executes the shim. Returns the offset at which that
/// frame continues.
///
/// # Safety
/// The thread's current frame is the shim of a chain.
#[cold]
#[inline(never)]
pub unsafe fn enter_chain(thread: Thread) -> c_uint {
    let tstate = thread.tstate();
    // SAFETY: the caller says that this is the shim, which lives until the loop has ended. The frames are complete.
    unsafe {
        let shim: *mut Shim = (*tstate).current_frame.cast();
        let Entry { innermost, outermost, raised, ahead, .. } = (&raw const (*shim).chain).read();
        outermost.set_previous((*shim).frame.previous);
        (*tstate).py_recursion_remaining = (*shim).remaining;
        thread.set_current_frame(innermost.as_ptr());
        c::PyErr_SetRaisedException(raised);
        ahead
    }
}
