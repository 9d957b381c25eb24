//! Rust values inside of Python objects.

use crate::api::{Api, PyObject};
use crate::object::Object;
use crate::python::{while_attached_to, Python};
use crate::Result;
use std::any::{Any, TypeId};
use std::ffi::{c_char, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The capsules of this copy of the crate are told from all others by the address
/// of their name, which no other name has.
static NAME: [u8; 16] = *b"framehook.value\0";

fn name() -> *const c_char {
    NAME.as_ptr().cast()
}

/// What a capsule points to. The type comes first, whatever the value is.
#[repr(C)]
struct Contents<T> {
    type_id: TypeId,
    interpreter: i64,
    value: T,
}

impl<'py> Python<'py> {
    /// A Python object that owns a Rust value, a capsule. The value is dropped with
    /// the object, in whichever thread that happens, but attached.
    ///
    /// So a function can hand a registration to Python code, for as long as that
    /// keeps the object:
    ///
    /// ```
    /// use framehook::{FrameHook, Object, Python, Result};
    /// fn install<'py>(py: Python<'py>, hook: impl FrameHook) -> Result<'py, Object<'py>> {
    ///     py.capsule(py.interpreter().install("mine", hook)?)
    /// }
    /// ```
    pub fn capsule<T: Any + Send + Sync>(self, value: T) -> Result<'py, Object<'py>> {
        let interpreter = self.interpreter().id();
        let contents = Box::new(Contents { type_id: TypeId::of::<T>(), interpreter, value });
        let pointer: *mut Contents<T> = Box::into_raw(contents);
        // SAFETY: attached; the pointer is not NULL and the name lives for ever; a new
        // reference or NULL with an exception.
        let capsule = unsafe {
            self.own((self.api.python.PyCapsule_New)(pointer.cast(), name(), Some(destroy::<T>)))
        };
        if capsule.is_err() {
            // SAFETY: made from a box above, and no capsule has it.
            drop(unsafe { Box::from_raw(pointer) });
        }
        capsule
    }
}

impl Object<'_> {
    /// The value of a capsule that [`Python::capsule`] has made from this very type;
    /// `None` for any other object. The value lives as long as the object:
    ///
    /// ```
    /// fn text<'a>(object: &'a framehook::Object<'_>) -> Option<&'a String> {
    ///     object.value::<String>()
    /// }
    /// ```
    /// ```compile_fail,E0515
    /// fn text<'a>(object: framehook::Object<'a>) -> Option<&'a String> {
    ///     object.value::<String>()
    /// }
    /// ```
    pub fn value<T: Any + Send + Sync>(&self) -> Option<&T> {
        let table = &self.python().api.python;
        if !self.has_exact_type(table.PyCapsule_Type) {
            return None;
        }
        // SAFETY: attached, and a capsule.
        let found = unsafe { (table.PyCapsule_GetName)(self.as_raw().cast()) };
        if !std::ptr::eq(found, name()) {
            return None;
        }
        // SAFETY: attached, and a capsule of this name, which cannot fail.
        let pointer = unsafe { (table.PyCapsule_GetPointer)(self.as_raw().cast(), name()) };
        // SAFETY: the name says that `capsule` made it, so it points to some Contents,
        // which begin with the type.
        let type_id = unsafe { *pointer.cast::<TypeId>() };
        if type_id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: of this type, as was just seen; the capsule frees it when it dies, and
        // `self` keeps it alive while the result is borrowed. Only shared references are
        // ever made, and T is Sync.
        Some(unsafe { &(*pointer.cast::<Contents<T>>()).value })
    }
}

/// The destructor of a capsule of `Contents<T>`.
unsafe extern "C" fn destroy<T: Any + Send + Sync>(capsule: *mut PyObject) {
    let Ok(api) = Api::get() else { return };
    // SAFETY: CPython calls this in an attached thread, with a capsule of that name.
    let pointer: *mut c_void = unsafe { (api.python.PyCapsule_GetPointer)(capsule, name()) };
    // SAFETY: `capsule` made it from a box of this type, and CPython destroys once.
    let contents = unsafe { Box::from_raw(pointer.cast::<Contents<T>>()) };
    drop_in(api, contents.interpreter, contents);
}

/// Drops a value in a destructor that CPython or the engine has called: exceptions
/// that are set stay as they are.
pub(crate) fn drop_in<T>(api: &'static Api, interpreter: i64, value: T) {
    let mut value = Some(value);
    while_attached_to(api, interpreter, |_| drop_quietly(value.take()));
    // Still there if the thread is attached elsewhere; what it holds of Python minds
    // that itself.
    drop_quietly(value);
}

/// Drops a value at a place where a panic has nowhere to go: Rust's panic message
/// on stderr is what there is to see of it.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        forget_payload(payload);
    }
}

/// Gets rid of what a panic carries, which may itself panic when it is dropped.
pub(crate) fn forget_payload(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

const _: () = {
    // The name has one zero, at its end.
    assert!(CStr::from_bytes_with_nul(&NAME).is_ok());
};
