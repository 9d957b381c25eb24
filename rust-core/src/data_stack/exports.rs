//! The data stack as C calls it.
//!
//! # Invariants
//! - *Own stack*: the caller passes the calling thread's own state. A data stack is used by its thread
//!   alone, and no code of others runs within these functions but an arena allocator. So nothing else
//!   uses the stack during the call.
//! - *Frame size*: sizes are `co_framesize` of code objects, or sums of a few. CPython keeps the former
//!   below `INT_MAX / sizeof(PyObject *)`.

use super::stack::{DataStack, Slots};
use crate::cpython::{_PyInterpreterFrame, PyThreadState};
use core::ptr::null_mut;

/// `_PyThreadState_HasStackSpace`: whether frames of `size` slots in all can be
/// pushed unchecked. Never fails; costs two loads and a comparison.
///
/// # Safety
/// `tstate` is the calling thread's own; `size` is a `co_framesize` or the sum of a few, so not negative.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyThreadState_HasStackSpace(
    tstate: *mut PyThreadState,
    size: core::ffi::c_int,
) -> bool {
    // SAFETY: *own stack*; *frame size*.
    unsafe { DataStack::of(tstate).has_space(Slots::new(size as usize)) }
}

/// `_PyThreadState_PushFrame`: a frame of `size` slots, not initialized. NULL
/// without an exception when memory ran out; the stack is then as before.
///
/// # Safety
/// `tstate` is the calling thread's own; `size` is a `co_framesize`.
#[no_mangle]
pub unsafe extern "C" fn _PyThreadState_PushFrame(
    tstate: *mut PyThreadState,
    size: usize,
) -> *mut _PyInterpreterFrame {
    // SAFETY: *own stack*; *frame size*.
    let pushed = unsafe { DataStack::of(tstate).push(Slots::new(size)) };
    pushed.map_or(null_mut(), |base| base.as_ptr().cast())
}

/// The push of `_PyFrame_PushUnchecked`: a frame of `size` slots, not
/// initialized. Never NULL.
///
/// # Safety
/// `tstate` is the calling thread's own, and `_PyThreadState_HasStackSpace` was
/// true for this frame and those pushed with it, with no push or pop since. Or they
/// fitted the current chunk, and what was pushed since is popped again (tier 2). `size` is a `co_framesize`.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_PushFrameUnchecked(
    tstate: *mut PyThreadState,
    size: core::ffi::c_int,
) -> *mut _PyInterpreterFrame {
    // SAFETY: *own stack*; *frame size*. The caller says that the frame was admitted, as
    // `push_unchecked` wants it.
    let base = unsafe { DataStack::of(tstate).push_unchecked(Slots::new(size as usize)) };
    base.as_ptr().cast()
}

/// `_PyThreadState_PopFrame`: takes the topmost frame off the data stack. The
/// chunk that it was alone in is kept for the next recursion, or is freed.
///
/// # Safety
/// `tstate` is the calling thread's own, `frame` its topmost frame, already
/// cleared.
#[no_mangle]
pub unsafe extern "C" fn _PyThreadState_PopFrame(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) {
    // SAFETY: *own stack*. The caller says that `frame` is its topmost one, and cleared: its slots hold
    // no references.
    unsafe { DataStack::of(tstate).pop(frame.cast()) };
}

/// Frees every chunk of a thread state that runs no frame any more.
///
/// # Safety
/// Nothing else can reach `tstate`'s data stack: it is being torn down.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_ClearDataStack(tstate: *mut PyThreadState) {
    // SAFETY: the caller says that the thread state is being torn down: no other thread reaches its data
    // stack, and no frame on it is alive.
    unsafe { DataStack::of(tstate).clear() };
}

/// Frees what a thread keeps for its next recursions, but for one chunk.
///
/// # Safety
/// `tstate` is live, and its thread is the calling one, or waits for the GIL, or is stopped: so it
/// is in no function of the data stack.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_ShrinkChunkCache(tstate: *mut PyThreadState) {
    // SAFETY: the caller says that the thread is the calling one, waits for the GIL, or is stopped: so it
    // does not use its data stack now.
    unsafe { DataStack::of(tstate).keep_first_only() };
}
