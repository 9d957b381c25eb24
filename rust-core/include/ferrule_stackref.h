/* Stack references under the names that CPython's C code uses:
   pycore_stackref.h includes this file where the frame core is Rust. The
   functions are in rust-core/src/stack_ref/exports.rs. */
#ifndef FERRULE_STACKREF_H
#define FERRULE_STACKREF_H

#include "ferrule_core.h"

typedef _PyRust_StackRefBits _PyStackRef;

/* 3.13's names. */

static const _PyStackRef Py_STACKREF_NULL = { .bits = 0 };

#define Py_TAG_DEFERRED (1)

#define PyStackRef_Get(ref) _PyRust_StackRef_Get(ref)
#define PyStackRef_StealRef(obj) _PyRust_StackRef_StealRef(_PyObject_CAST(obj))
#define PyStackRef_NewRefDeferred(obj) \
    _PyRust_StackRef_NewRefDeferred(_PyObject_CAST(obj))
#define PyStackRef_XNewRefDeferred(obj) \
    _PyRust_StackRef_XNewRefDeferred(_PyObject_CAST(obj))
#define PyStackRef_StealObject(ref) _PyRust_StackRef_StealObject(ref)
#define PyStackRef_INCREF(ref) _PyRust_StackRef_Incref(ref)
#define PyStackRef_DECREF(ref) _PyRust_StackRef_Decref(ref)
#define PyStackRef_XDECREF(ref) _PyRust_StackRef_XDecref(ref)
#define PyStackRef_NewRef(ref) _PyRust_StackRef_NewRef(ref)
#define PyStackRef_XNewRef(ref) _PyRust_StackRef_XNewRef(ref)

#define _Py_untag_stack_borrowed(dst, src, length) \
    _PyRust_StackRef_UntagBorrowed((dst), (src), (length))
#define _Py_untag_stack_steal(dst, src, length) \
    _PyRust_StackRef_UntagSteal((dst), (src), (length))

/* These store before they release, so that a destructor sees the new value. */
#define PyStackRef_XSETREF(slot, ref) ferrule_stackref_set(&(slot), (ref))
#define PyStackRef_SETREF(slot, ref) ferrule_stackref_set(&(slot), (ref))
#define PyStackRef_CLEAR(slot) \
    ferrule_stackref_set(&(slot), Py_STACKREF_NULL)

static inline void
ferrule_stackref_set(_PyStackRef *slot, _PyStackRef ref)
{
    _PyStackRef old = *slot;
    *slot = ref;
    _PyRust_StackRef_XDecref(old);
}

/* 3.14's names, on this build's representation. */

#define PyStackRef_IsNull(ref) _PyRust_StackRef_IsNull(ref)
#define PyStackRef_AsPyObjectBorrow(ref) _PyRust_StackRef_AsPyObjectBorrow(ref)
#define PyStackRef_AsPyObjectSteal(ref) _PyRust_StackRef_AsPyObjectSteal(ref)
#define PyStackRef_FromPyObjectSteal(obj) \
    _PyRust_StackRef_FromPyObjectSteal(_PyObject_CAST(obj))
#define PyStackRef_FromPyObjectNew(obj) \
    _PyRust_StackRef_FromPyObjectNew(_PyObject_CAST(obj))
#define PyStackRef_FromPyObjectImmortal(obj) \
    _PyRust_StackRef_FromPyObjectImmortal(_PyObject_CAST(obj))
#define PyStackRef_DUP(ref) _PyRust_StackRef_DUP(ref)
#define PyStackRef_CLOSE(ref) _PyRust_StackRef_CLOSE(ref)
#define PyStackRef_XCLOSE(ref) _PyRust_StackRef_XCLOSE(ref)

#endif
