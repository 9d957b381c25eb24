//! Counts without the GIL. An object has one for the thread that made it and one for all others.
//!
//! CPython's own functions take and give up references, since they know the rules for the two
//! counts. This file only reads counts.
//!
//! # Invariants
//! - *Atomic header*: the caller passes a live object. Other threads write its counts and its collector
//!   bits meanwhile, but, as CPython's own code does, atomically and in fields of the same size.

pub use super::called::{decref, decref_within, incref};
use crate::cpython::{_PyGC_BITS_DEFERRED, _Py_REF_SHARED_SHIFT, PyObject};
use core::sync::atomic::{AtomicIsize, AtomicU32, AtomicU8, Ordering};

/// The own thread's count of an immortal object.
const IMMORTAL: u32 = u32::MAX;

/// Whether the object's count never changes.
///
/// # Safety
/// `object` is alive.
#[inline(always)]
pub unsafe fn is_immortal(object: *mut PyObject) -> bool {
    // SAFETY: *atomic header*.
    let local = unsafe { AtomicU32::from_ptr(&raw mut (*object).ob_ref_local) };
    local.load(Ordering::Relaxed) == IMMORTAL
}

/// Whether there are more references than one; always of an immortal object.
/// Those that other threads take or give up meanwhile may be counted or not.
///
/// # Safety
/// `object` is alive.
#[inline(always)]
pub unsafe fn is_shared(object: *mut PyObject) -> bool {
    // SAFETY: *atomic header*.
    let (local, shared) = unsafe {
        (
            AtomicU32::from_ptr(&raw mut (*object).ob_ref_local).load(Ordering::Relaxed),
            AtomicIsize::from_ptr(&raw mut (*object).ob_ref_shared).load(Ordering::Relaxed),
        )
    };
    let counted = (local as isize).wrapping_add(shared >> _Py_REF_SHARED_SHIFT);
    local == IMMORTAL || counted > 1
}

/// Whether frames may refer to the object without counting. Only the collector frees such an
/// object.
///
/// # Safety
/// `object` is alive.
#[inline(always)]
pub unsafe fn has_deferred_count(object: *mut PyObject) -> bool {
    // SAFETY: *atomic header*.
    let bits = unsafe { AtomicU8::from_ptr(&raw mut (*object).ob_gc_bits) };
    bits.load(Ordering::Relaxed) & (_PyGC_BITS_DEFERRED as u8) != 0
}
