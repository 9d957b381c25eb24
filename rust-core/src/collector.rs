//! What the garbage collector knows about an object.

use crate::cpython as c;
use crate::cpython::PyObject;

/// Whether the collector knows the object. Here, and not a call of `PyObject_GC_IsTracked`, since
/// it is read for each frame that outlives its call.
///
/// # Safety
/// `object` is alive and of a kind that the collector may know.
#[cfg(all(not(any(test, fuzzing)), not(ferrule_free_threaded)))]
#[inline(always)]
pub unsafe fn is_tracked(object: *mut PyObject) -> bool {
    // SAFETY: the caller passes a live object of a kind that has the collector's head before it. Only
    // threads with this interpreter's GIL write the head.
    unsafe { (*object.cast::<c::PyGC_Head>().sub(1))._gc_next != 0 }
}

/// Whether the collector knows the object.
///
/// # Safety
/// `object` is alive and of a kind that the collector may know.
#[cfg(all(not(any(test, fuzzing)), ferrule_free_threaded))]
#[inline(always)]
pub unsafe fn is_tracked(object: *mut PyObject) -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: the caller passes a live object. Other threads write the field too, but atomically.
    let bits = unsafe { AtomicU8::from_ptr(&raw mut (*object).ob_gc_bits) };
    bits.load(Ordering::Relaxed) & (c::_PyGC_BITS_TRACKED as u8) != 0
}

/// Whether the tests' collector knows the object.
///
/// # Safety
/// The address is only looked up among the tests' objects, so any will do.
#[cfg(any(test, fuzzing))]
pub unsafe fn is_tracked(object: *mut PyObject) -> bool {
    // SAFETY: a stand-in that looks the address up.
    unsafe { c::PyObject_GC_IsTracked(object) != 0 }
}
