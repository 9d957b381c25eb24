//! Counts with the GIL. They are read and written here. So a count costs no call, even in a build
//! whose linker does not inline C into Rust.
//!
//! A count has 64 bits. CPython counts in the lower half of them, and the sign of that half marks
//! an immortal object.
//!
//! # Invariants
//! - *Count under the GIL*: the caller passes a live object, and is attached. No other thread of the
//!   interpreter accesses the count then. Interpreters share immortal objects alone, each with a GIL of
//!   its own. Their counts are read here and not written: `decref` skips each count that marks an
//!   immortal object but 2^31, to which CPython sets none. No Rust reference to a count is made.

use crate::cpython::{_Py_Dealloc, PyObject};

/// Which of the two halves is the lower one.
const LOW_HALF: usize = if cfg!(target_endian = "big") { 1 } else { 0 };

/// From 3.14 on, counts of this value and above never change: there is room for counts that went
/// astray. 3.13 has one such value, with all bits of the lower half set.
const IMMORTAL_SINCE_3_14: u32 = 3 << 30;

/// Takes a reference.
///
/// # Safety
/// `object` is alive, and the calling thread is attached.
#[inline(always)]
pub unsafe fn incref(object: *mut PyObject) {
    // SAFETY: *count under the GIL*. Both halves of the union are plain integers.
    unsafe {
        let count = &raw mut (*object).__bindgen_anon_1.ob_refcnt_split[LOW_HALF];
        let next = (*count).wrapping_add(1);
        let immortal = next == 0 || (cfg!(ferrule_py314) && *count >= IMMORTAL_SINCE_3_14);
        if !immortal {
            *count = next;
        }
    }
}

/// Gives a reference up; the object's destructor may run, and with it any code.
///
/// # Safety
/// `object` is alive, the caller owns the reference, and the calling thread is attached.
#[inline(always)]
pub unsafe fn decref(object: *mut PyObject) {
    // SAFETY: the caller passes a live object and gives up a reference to it, attached.
    unsafe { decref_within(object, || ()) };
}

/// As [`decref`]. If the object dies, what `enter` returns lives as long as its destructor runs.
///
/// # Safety
/// As for `decref`.
#[inline(always)]
pub unsafe fn decref_within<T>(object: *mut PyObject, enter: impl FnOnce() -> T) {
    // SAFETY: *count under the GIL*.
    let halves = unsafe { &raw mut (*object).__bindgen_anon_1.ob_refcnt_split };
    // The half is read and written as `incref` writes it. A wider load would have to wait until that
    // narrow store has left the processor's queue.
    //
    // The upper half is zero, but for some immortal objects: extensions that were compiled before there
    // were such objects count in all 64 bits, and so may carry into it. That keeps the object from being
    // freed here.
    //
    // One less is negative for each immortal count but 2^31, and for a lower half of zero, beside which
    // an upper half is set: so one subtraction tells immortal, last and others. CPython never sets a
    // count to 2^31. An object that 2^31 references have led to it has one fewer now, which is right.
    // SAFETY: *count under the GIL*. Both halves of the union are plain integers.
    let is_last = unsafe {
        let left = (*halves)[LOW_HALF].wrapping_sub(1);
        if (left as i32) < 0 {
            return;
        }
        (*halves)[LOW_HALF] = left;
        left == 0 && (*halves)[1 - LOW_HALF] == 0
    };
    if is_last {
        let _within = enter();
        // SAFETY: the caller's reference was the last one.
        unsafe { _Py_Dealloc(object) };
    }
}

/// Whether the object's count never changes.
///
/// # Safety
/// `object` is alive, and the calling thread is attached.
#[inline(always)]
pub unsafe fn is_immortal(object: *mut PyObject) -> bool {
    // SAFETY: *count under the GIL*. The sign of the lower half marks an immortal object.
    let low = unsafe { (*object).__bindgen_anon_1.ob_refcnt_split[LOW_HALF] };
    (low as i32) < 0
}

/// Whether there are more references than one; always of an immortal object.
///
/// # Safety
/// `object` is alive, and the calling thread is attached.
#[inline(always)]
pub unsafe fn is_shared(object: *mut PyObject) -> bool {
    // SAFETY: *count under the GIL*.
    unsafe { (*object).__bindgen_anon_1.ob_refcnt > 1 }
}

/// Whether frames may refer to the object without counting: never with the GIL.
///
/// # Safety
/// `object` is alive, and the calling thread is attached.
#[inline(always)]
pub unsafe fn has_deferred_count(_object: *mut PyObject) -> bool {
    false
}
