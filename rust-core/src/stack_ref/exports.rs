//! The helpers that C calls: those of 3.13's `pycore_stackref.h` and those that 3.14 has instead.
//!
//! `include/ferrule_stackref.h` gives them the names that CPython's code uses. A macro of C may
//! evaluate its argument twice; these are functions and do not.
//!
//! # Invariants
//! All callers are attached: a reference is counted, or given up, by the thread that works on the frame.
//! - *Alive*: the caller passes a word of this build's representation, or an object, and keeps what it
//!   refers to alive during the call.
//! - *Own*: the caller passes a reference that it owns, and does not use the word again: the function
//!   gives the reference up or hands it on.

use super::{InFrame, Native, StackRef, StackRefBorrow, StackSlot};
use crate::check::check;
use crate::cpython::PyObject;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::{null_mut, NonNull};
use static_assertions::const_assert_eq;

/// `_PyStackRef`: one word.
#[repr(C)]
#[derive(Clone, Copy)]
pub union StackRefBits {
    /// The address and the tag.
    bits: usize,
}

const_assert_eq!(size_of::<StackRefBits>(), size_of::<StackRef<Native>>());
const_assert_eq!(size_of::<StackSlot<InFrame>>(), size_of::<*mut PyObject>());

type Ref = StackRef<Native>;

const NULL: StackRefBits = StackRefBits { bits: <Native as super::Representation>::NULL };

#[inline(always)]
fn word(reference: StackRefBits) -> usize {
    // SAFETY: every bit pattern is a number.
    unsafe { reference.bits }
}

#[inline(always)]
fn give(reference: Ref) -> StackRefBits {
    StackRefBits { bits: reference.into_bits() }
}

/// Calls `use_it` with the reference of a caller that keeps it; `None` of NULL.
///
/// # Safety
/// `reference` is NULL or alive, and is so when `use_it` has returned.
#[inline(always)]
unsafe fn lent<T>(reference: StackRefBits, use_it: impl FnOnce(Option<&Ref>) -> T) -> T {
    // SAFETY: *alive*. The reference stays the caller's: it is neither closed nor counted below.
    let own = unsafe { Ref::from_bits(word(reference)) };
    let result = use_it(own.as_ref());
    if let Some(own) = own {
        let _still_the_callers = own.into_bits();
    }
    result
}

/// The same where it is not NULL: no test for that is made.
///
/// # Safety
/// `reference` is alive, and not NULL.
#[inline(always)]
unsafe fn lent_not_null(reference: &StackRefBits) -> StackRefBorrow<'_, Native> {
    check!(word(*reference) != word(NULL), "NULL where a reference must be");
    // INVARIANT: the caller says so.
    StackRefBorrow { bits: word(*reference), _of: PhantomData }
}

#[inline(always)]
fn object_or_null(reference: Option<&Ref>) -> *mut PyObject {
    match reference {
        Some(reference) => reference.object().as_ptr(),
        None => null_mut(),
    }
}

/// `PyStackRef_Get`: the object, borrowed; NULL of NULL.
///
/// # Safety
/// `reference` is NULL or alive.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_Get(reference: StackRefBits) -> *mut PyObject {
    // SAFETY: *alive*.
    unsafe { lent(reference, object_or_null) }
}

/// `PyStackRef_StealRef`: takes the caller's reference over; NULL of NULL.
///
/// # Safety
/// `object` is NULL or a reference of the caller's.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_StealRef(object: *mut PyObject) -> StackRefBits {
    match NonNull::new(object) {
        // SAFETY: *own*.
        Some(object) => give(unsafe { Ref::steal(object) }),
        None => NULL,
    }
}

/// `PyStackRef_NewRefDeferred`: a new reference, counted only where it must be.
///
/// # Safety
/// `object` is alive; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_NewRefDeferred(object: *mut PyObject) -> StackRefBits {
    // SAFETY: *alive*, and the caller says that it is not NULL.
    give(unsafe { Ref::new(NonNull::new_unchecked(object)) })
}

/// `PyStackRef_XNewRefDeferred`: the same; NULL of NULL.
///
/// # Safety
/// `object` is NULL or alive.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_XNewRefDeferred(object: *mut PyObject) -> StackRefBits {
    match NonNull::new(object) {
        // SAFETY: *alive*.
        Some(object) => give(unsafe { Ref::new(object) }),
        None => NULL,
    }
}

/// `PyStackRef_StealObject`: gives the reference back as a counted one; NULL of NULL.
///
/// # Safety
/// `reference` is NULL or the caller's own.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_StealObject(reference: StackRefBits) -> *mut PyObject {
    // SAFETY: *own*, or NULL.
    match unsafe { Ref::from_bits(word(reference)) } {
        Some(reference) => reference.into_object().as_ptr(),
        None => null_mut(),
    }
}

/// `PyStackRef_INCREF`: one reference more, of the same kind.
///
/// # Safety
/// `reference` is alive; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_Incref(reference: StackRefBits) {
    // SAFETY: *alive*, and the caller says that it is not NULL.
    let _now_the_callers = give(unsafe { lent_not_null(&reference) }.dup());
}

/// `PyStackRef_DECREF`: closes the reference.
///
/// # Safety
/// `reference` is the caller's own; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_Decref(reference: StackRefBits) {
    // SAFETY: *own*, and the caller says that it is not NULL.
    unsafe { Ref::of_bits(word(reference)) }.close();
}

/// `PyStackRef_XDECREF`: closes the reference; nothing for NULL.
///
/// # Safety
/// `reference` is NULL or the caller's own.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_XDecref(reference: StackRefBits) {
    // SAFETY: *own*, or NULL.
    if let Some(reference) = unsafe { Ref::from_bits(word(reference)) } {
        reference.close();
    }
}

/// `PyStackRef_NewRef`: a second reference of the same kind.
///
/// # Safety
/// `reference` is alive; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_NewRef(reference: StackRefBits) -> StackRefBits {
    // SAFETY: *alive*, and the caller says that it is not NULL.
    give(unsafe { lent_not_null(&reference) }.dup())
}

/// `PyStackRef_XNewRef`: a second reference of the same kind; NULL of NULL.
///
/// # Safety
/// `reference` is NULL or alive.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_XNewRef(reference: StackRefBits) -> StackRefBits {
    let second = |own: Option<&Ref>| own.map_or(NULL, |own| give(own.dup()));
    // SAFETY: *alive*.
    unsafe { lent(reference, second) }
}

/// `_Py_untag_stack_borrowed`: the objects of `length` references, borrowed.
///
/// # Safety
/// `source` and `target` have `length` words and do not overlap, and the references are NULL or
/// alive.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_StackRef_UntagBorrowed(
    target: *mut *mut PyObject,
    source: *const StackRefBits,
    length: usize,
) {
    for i in 0..length {
        // SAFETY: `i` is below the length of both arrays. *Alive*, each of them.
        unsafe { target.add(i).write(_PyRust_StackRef_Get(source.add(i).read())) };
    }
}

/// `_Py_untag_stack_steal`: the objects of `length` references, as counted ones that the caller
/// owns.
///
/// # Safety
/// `source` and `target` have `length` words and do not overlap, and the references are NULL or the
/// caller's.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_StackRef_UntagSteal(
    target: *mut *mut PyObject,
    source: *const StackRefBits,
    length: usize,
) {
    for i in 0..length {
        // SAFETY: `i` is below the length of both arrays. *Own*, each of them; each word is used once.
        unsafe { target.add(i).write(_PyRust_StackRef_StealObject(source.add(i).read())) };
    }
}

/// 3.14's `PyStackRef_IsNull`.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub extern "C" fn _PyRust_StackRef_IsNull(reference: StackRefBits) -> bool {
    word(reference) == word(NULL)
}

/// 3.14's `PyStackRef_AsPyObjectBorrow`: the object, borrowed; NULL of NULL.
///
/// # Safety
/// `reference` is NULL or alive.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_AsPyObjectBorrow(
    reference: StackRefBits,
) -> *mut PyObject {
    // SAFETY: *alive*.
    unsafe { lent(reference, object_or_null) }
}

/// 3.14's `PyStackRef_AsPyObjectSteal`: gives the reference back as a counted one.
///
/// # Safety
/// `reference` is NULL or the caller's own.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_AsPyObjectSteal(
    reference: StackRefBits,
) -> *mut PyObject {
    // SAFETY: *own*, or NULL.
    unsafe { _PyRust_StackRef_StealObject(reference) }
}

/// 3.14's `PyStackRef_FromPyObjectSteal`: takes the caller's reference over.
///
/// # Safety
/// `object` is NULL or a reference of the caller's.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_FromPyObjectSteal(object: *mut PyObject) -> StackRefBits {
    // SAFETY: *own*, or NULL.
    unsafe { _PyRust_StackRef_StealRef(object) }
}

/// 3.14's `PyStackRef_FromPyObjectNew`: a new reference, counted only where it must be.
///
/// # Safety
/// `object` is alive; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_FromPyObjectNew(object: *mut PyObject) -> StackRefBits {
    // SAFETY: *alive*, and the caller says that it is not NULL.
    unsafe { _PyRust_StackRef_NewRefDeferred(object) }
}

/// 3.14's `PyStackRef_FromPyObjectImmortal`: never counted.
///
/// # Safety
/// `object` is immortal.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_FromPyObjectImmortal(
    object: *mut PyObject,
) -> StackRefBits {
    // SAFETY: the caller says that the object is immortal, so it is alive and not NULL.
    give(unsafe { Ref::immortal(NonNull::new_unchecked(object)) })
}

/// 3.14's `PyStackRef_DUP`: a second reference.
///
/// # Safety
/// `reference` is alive; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_DUP(reference: StackRefBits) -> StackRefBits {
    // SAFETY: *alive*, and the caller says that it is not NULL.
    unsafe { _PyRust_StackRef_NewRef(reference) }
}

/// 3.14's `PyStackRef_CLOSE`.
///
/// # Safety
/// `reference` is the caller's own; not NULL.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_CLOSE(reference: StackRefBits) {
    // SAFETY: *own*, and the caller says that it is not NULL.
    unsafe { _PyRust_StackRef_Decref(reference) }
}

/// 3.14's `PyStackRef_XCLOSE`: nothing for NULL.
///
/// # Safety
/// `reference` is NULL or the caller's own.
#[no_mangle]
#[inline(always)]
#[allow(unused_attributes)]
pub unsafe extern "C" fn _PyRust_StackRef_XCLOSE(reference: StackRefBits) {
    // SAFETY: *own*, or NULL.
    unsafe { _PyRust_StackRef_XDecref(reference) }
}
