//! Reference counts of objects, as cheap as in C.
//!
//! With the GIL the count is read and written here, so nothing is lost where no linker inlines across languages. Builds
//! that count references in total, or share counts between threads, go through CPython's own functions: their rules
//! are more than a count. Every function wants a thread state, and an object that is alive.

use crate::cpython::PyObject;

/// From 3.14 on, counts of this value and above never change: there is room for
/// counts that went astray. 3.13 has one such value, with all bits set.
#[cfg(all(not(test), not(ferrule_free_threaded), not(ferrule_counts_in_c)))]
const IMMORTAL_SINCE_3_14: u32 = 3 << 30;

#[cfg(all(not(test), not(ferrule_free_threaded)))]
const LOW_HALF: usize = if cfg!(target_endian = "big") { 1 } else { 0 };

/// Takes a reference.
///
/// # Safety
/// `object` is alive, and a thread state is held.
#[cfg(all(not(test), any(ferrule_free_threaded, ferrule_counts_in_c)))]
#[inline(always)]
pub unsafe fn incref(object: *mut PyObject) {
    // SAFETY: the caller's contract is CPython's.
    unsafe { crate::cpython::Py_IncRef(object) }
}

/// Gives a reference up; the object's destructor may run, and with it any code.
///
/// # Safety
/// `object` is alive, the caller owns the reference, and a thread state is held.
#[cfg(all(not(test), any(ferrule_free_threaded, ferrule_counts_in_c)))]
#[inline(always)]
pub unsafe fn decref(object: *mut PyObject) {
    // SAFETY: the caller's contract is CPython's.
    unsafe { crate::cpython::Py_DecRef(object) }
}

/// Takes a reference.
///
/// # Safety
/// `object` is alive, and a thread state is held.
#[cfg(all(not(test), not(ferrule_free_threaded), not(ferrule_counts_in_c)))]
#[inline(always)]
pub unsafe fn incref(object: *mut PyObject) {
    // SAFETY: alive by contract. The GIL keeps other threads away from the count, but for that of an immortal
    // object: interpreters share those, so no reference is made to it. Both halves of the union are plain integers.
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
/// `object` is alive, the caller owns the reference, and a thread state is held.
#[cfg(all(not(test), not(ferrule_free_threaded), not(ferrule_counts_in_c)))]
#[inline(always)]
pub unsafe fn decref(object: *mut PyObject) {
    // SAFETY: as in `incref`; that reference was the last one where both halves are zero.
    unsafe {
        let halves = &raw mut (*object).__bindgen_anon_1.ob_refcnt_split;
        if ((*halves)[LOW_HALF] as i32) < 0 {
            return;
        }
        // As wide as the store of `incref`: a processor cannot forward a narrow store to a wider load, and would wait
        // here until the store has left its queue. There is no borrow: an upper half that is not zero comes from an
        // extension of the days before immortal objects, and says that the object is one.
        (*halves)[LOW_HALF] = (*halves)[LOW_HALF].wrapping_sub(1);
        if (*halves)[LOW_HALF] == 0 && (*halves)[1 - LOW_HALF] == 0 {
            crate::cpython::_Py_Dealloc(object);
        }
    }
}

/// Whether the object's count never changes.
///
/// # Safety
/// `object` is alive.
#[cfg(all(not(test), not(ferrule_free_threaded)))]
#[inline(always)]
pub unsafe fn is_immortal(object: *mut PyObject) -> bool {
    // SAFETY: alive by contract; the sign of the lower half says it.
    let low = unsafe { (*object).__bindgen_anon_1.ob_refcnt_split[LOW_HALF] };
    (low as i32) < 0
}

/// Whether the object's count never changes.
///
/// # Safety
/// `object` is alive.
#[cfg(all(not(test), ferrule_free_threaded))]
#[inline(always)]
pub unsafe fn is_immortal(object: *mut PyObject) -> bool {
    use core::sync::atomic::{AtomicU32, Ordering};
    // SAFETY: alive by contract; others access the field atomically too.
    let local = unsafe { AtomicU32::from_ptr(&raw mut (*object).ob_ref_local) };
    local.load(Ordering::Relaxed) == u32::MAX
}

/// Whether there are more references than one; always of an immortal object.
///
/// # Safety
/// `object` is alive.
#[cfg(all(not(test), not(ferrule_free_threaded)))]
#[inline(always)]
pub unsafe fn is_shared(object: *mut PyObject) -> bool {
    // SAFETY: alive by contract, and the GIL keeps other threads away.
    unsafe { (*object).__bindgen_anon_1.ob_refcnt > 1 }
}

/// Whether there are more references than one; always of an immortal object.
/// Those that other threads take or give up meanwhile may be counted or not.
///
/// # Safety
/// `object` is alive.
#[cfg(all(not(test), ferrule_free_threaded))]
#[inline(always)]
pub unsafe fn is_shared(object: *mut PyObject) -> bool {
    use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering};
    // SAFETY: alive by contract; others access both fields atomically too.
    let (local, shared) = unsafe {
        (
            AtomicU32::from_ptr(&raw mut (*object).ob_ref_local).load(Ordering::Relaxed),
            AtomicIsize::from_ptr(&raw mut (*object).ob_ref_shared).load(Ordering::Relaxed),
        )
    };
    let counted = (local as isize).wrapping_add(shared >> crate::cpython::_Py_REF_SHARED_SHIFT);
    local == u32::MAX || counted > 1
}

/// Whether frames may refer to the object without counting: only the collector
/// of a free-threaded build frees such an object.
///
/// # Safety
/// `object` is alive.
#[cfg(all(not(test), ferrule_free_threaded))]
#[inline(always)]
pub unsafe fn has_deferred_count(object: *mut PyObject) -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: alive by contract; others access the field atomically too.
    let bits = unsafe { AtomicU8::from_ptr(&raw mut (*object).ob_gc_bits) };
    bits.load(Ordering::Relaxed) & (crate::cpython::_PyGC_BITS_DEFERRED as u8) != 0
}

/// Whether frames may refer to the object without counting: never with the GIL.
///
/// # Safety
/// `object` is alive.
#[cfg(all(not(test), not(ferrule_free_threaded)))]
#[inline(always)]
pub unsafe fn has_deferred_count(_object: *mut PyObject) -> bool {
    false
}

/// Takes a reference, and returns the object.
///
/// # Safety
/// `object` is alive, and a thread state is held.
#[inline(always)]
pub unsafe fn new_reference(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { incref(object) };
    object
}

#[cfg(test)]
pub use crate::stand_in::objects::{decref, has_deferred_count, incref, is_immortal, is_shared};
