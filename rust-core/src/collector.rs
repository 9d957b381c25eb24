//! What the garbage collector knows about an object, and its list of garbage.

use crate::cpython as c;
use crate::cpython::PyObject;
use core::ptr::NonNull;

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
    // SAFETY: `fake_cpython` looks the address up.
    unsafe { c::PyObject_GC_IsTracked(object) != 0 }
}

/// The object after `at` in the collector's list of garbage, which begins after `list`.
///
/// Both are where an object would be whose collector's head is the head of the list, or the object.
///
/// # Safety
/// `at` is `list` or an object in it. The calling thread is the one that collects.
#[cfg(all(not(any(test, fuzzing)), not(ferrule_free_threaded)))]
pub unsafe fn next_garbage(list: *mut PyObject, at: *mut PyObject) -> Option<NonNull<PyObject>> {
    // SAFETY: `at` has a head before it, whose flags are cleared in a list of garbage. The calling
    // thread has the GIL, and no other one changes the list.
    let next = unsafe { (*at.cast::<c::PyGC_Head>().sub(1))._gc_next as *mut c::PyGC_Head };
    let next = next.wrapping_add(1).cast::<PyObject>();
    NonNull::new(next).filter(|_| next != list)
}

/// The object after `at` in the collector's list of garbage, which begins after `list`: where an object would be whose
/// thread is the list's first one.
///
/// # Safety
/// `at` is `list` or an object in it. The calling thread is the one that collects.
#[cfg(all(not(any(test, fuzzing)), ferrule_free_threaded))]
pub unsafe fn next_garbage(_list: *mut PyObject, at: *mut PyObject) -> Option<NonNull<PyObject>> {
    // SAFETY: the list owns a reference to each. The field links them while they are in it, and only
    // the thread that collects writes it then.
    NonNull::new(unsafe { (*at).ob_tid as *mut PyObject })
}

/// The tests' collector has no such list.
///
/// # Safety
/// None.
#[cfg(any(test, fuzzing))]
pub unsafe fn next_garbage(_list: *mut PyObject, _at: *mut PyObject) -> Option<NonNull<PyObject>> {
    None
}
