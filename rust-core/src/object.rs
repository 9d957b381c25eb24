//! Python objects that Rust makes, and the static tables that CPython reads.

use crate::cpython as c;
use crate::cpython::PyObject;
use crate::thread::Thread;
use core::cell::UnsafeCell;
use core::ffi::{c_long, CStr};
use core::ptr::NonNull;

/// A strong reference. It is given up where a thread state is attached: no `Owned` leaves the call
/// that made it, but for what is handed to C.
///
/// What makes an object takes a [`Thread`] as the proof that one is attached.
pub struct Owned(NonNull<PyObject>);

impl Owned {
    /// Takes over a new reference; `None` when the call that made it failed.
    ///
    /// # Safety
    /// `object` is NULL or a reference that the caller owns.
    // Without it rustc 1.85 makes it a symbol of the interpreter.
    #[inline]
    pub unsafe fn new(object: *mut PyObject) -> Option<Self> {
        NonNull::new(object).map(Owned)
    }

    /// Takes over a new reference that is not NULL.
    ///
    /// # Safety
    /// `object` is a reference that the caller owns, and is not NULL.
    pub unsafe fn from_new_reference(object: *mut PyObject) -> Self {
        // SAFETY: the caller says that it is not NULL.
        Owned(unsafe { NonNull::new_unchecked(object) })
    }

    /// Another reference to a live object.
    ///
    /// # Safety
    /// `object` is live.
    pub unsafe fn share(_thread: Thread, object: *mut PyObject) -> Self {
        // SAFETY: the caller passes a live object; `Thread` proves that the thread is attached.
        unsafe {
            c::Py_IncRef(object);
            Owned::from_new_reference(object)
        }
    }

    /// The object, borrowed.
    pub fn as_ptr(&self) -> *mut PyObject {
        self.0.as_ptr()
    }

    #[inline] // or its symbol would be exported
    pub fn signed(_thread: Thread, number: i64) -> Option<Self> {
        // SAFETY: any number will do, and a thread state is attached.
        unsafe { Owned::new(c::PyLong_FromLongLong(number)) }
    }

    pub fn list(_thread: Thread) -> Option<Self> {
        // SAFETY: a thread state is attached.
        unsafe { Owned::new(c::PyList_New(0)) }
    }

    /// Appends to this list; `None` with an exception set on failure.
    pub fn append(&self, _thread: Thread, item: &Owned) -> Option<()> {
        // SAFETY: a list, and a live object; a thread state is attached.
        (unsafe { c::PyList_Append(self.as_ptr(), item.as_ptr()) } == 0).then_some(())
    }

    pub fn text(_thread: Thread, text: &CStr) -> Option<Self> {
        // SAFETY: NUL-terminated UTF-8; a thread state is attached.
        unsafe { Owned::new(c::PyUnicode_FromString(text.as_ptr())) }
    }

    /// The one object of this text; it lives while it has a reference. CPython remembers, by the
    /// object of an attribute's name, where a class has the attribute, so another object each time
    /// would be remembered each time.
    pub fn interned(_thread: Thread, text: &CStr) -> Option<Self> {
        // SAFETY: NUL-terminated UTF-8; a thread state is attached.
        unsafe { Owned::new(c::PyUnicode_InternFromString(text.as_ptr())) }
    }

    pub fn number(_thread: Thread, number: usize) -> Option<Self> {
        // SAFETY: any number will do, and a thread state is attached.
        unsafe { Owned::new(c::PyLong_FromSize_t(number)) }
    }

    pub fn truth(_thread: Thread, value: bool) -> Option<Self> {
        // SAFETY: any number will do, and a thread state is attached.
        unsafe { Owned::new(c::PyBool_FromLong(c_long::from(value))) }
    }

    #[inline] // or its symbol would be exported
    pub fn none(_thread: Thread) -> Self {
        // SAFETY: None is never NULL and lives for ever.
        unsafe {
            c::Py_IncRef(&raw mut c::_Py_NoneStruct);
            Owned(NonNull::new_unchecked(&raw mut c::_Py_NoneStruct))
        }
    }

    pub fn dict(_thread: Thread) -> Option<Self> {
        // SAFETY: a thread state is attached.
        unsafe { Owned::new(c::PyDict_New()) }
    }

    /// Stores `value` in this dict; `None` with an exception set on failure.
    pub fn set(&self, _thread: Thread, key: &CStr, value: Owned) -> Option<()> {
        // SAFETY: self is a dict made by `dict`; the call takes references of
        // its own, and a thread state is attached.
        let status =
            unsafe { c::PyDict_SetItemString(self.0.as_ptr(), key.as_ptr(), value.0.as_ptr()) };
        (status == 0).then_some(())
    }

    pub fn into_raw(self) -> *mut PyObject {
        let object = self.0.as_ptr();
        core::mem::forget(self);
        object
    }
}

impl Drop for Owned {
    // Inlined, or its symbol would be exported from the interpreter.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own one reference, and a thread state is attached.
        unsafe { c::Py_DecRef(self.0.as_ptr()) };
    }
}

/// A static that C fills in and that Rust itself never reads or writes.
#[repr(transparent)]
pub struct ForC<T>(UnsafeCell<T>);

impl<T> ForC<T> {
    pub const fn new(value: T) -> Self {
        ForC(UnsafeCell::new(value))
    }

    pub const fn get(&self) -> *mut T {
        self.0.get()
    }
}

// SAFETY: Rust touches none of these after the program's start; CPython writes
// the definition's header under its own import lock.
unsafe impl<T> Sync for ForC<T> {}
