//! Exceptions: the one of the thread state, and those that were reported and forgotten.

use super::memory::is_allowed;
use super::objects::{
    decref, keep, kept_zeros, name_of, named_type, type_name, with_zeros, TestObject,
};
use super::threads::PyThreadState_Get;
use crate::cpython::{PyObject, PyTypeObject};
use crate::reference_count::new_reference;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr};
use std::ptr::null_mut;

/// The class of an exception, under the name that C knows it by.
macro_rules! exception_classes {
    ($($class:ident, $pointer:ident, $name:literal;)*) => {
        $(
            static mut $class: PyTypeObject = named_type($name);
            #[no_mangle]
            #[allow(non_upper_case_globals)]
            static mut $pointer: *mut PyObject = (&raw mut $class).cast();
        )*
    };
}

exception_classes! {
    INDEX_ERROR, PyExc_IndexError, c"IndexError";
    KEY_ERROR, PyExc_KeyError, c"KeyError";
    RUNTIME_ERROR, PyExc_RuntimeError, c"RuntimeError";
    STOP_ASYNC_ITERATION, PyExc_StopAsyncIteration, c"StopAsyncIteration";
    STOP_ITERATION, PyExc_StopIteration, c"StopIteration";
    SYSTEM_ERROR, PyExc_SystemError, c"SystemError";
    TYPE_ERROR, PyExc_TypeError, c"TypeError";
    UNBOUND_LOCAL_ERROR, PyExc_UnboundLocalError, c"UnboundLocalError";
    VALUE_ERROR, PyExc_ValueError, c"ValueError";
}

static mut MEMORY_ERROR_TYPE: PyTypeObject = named_type(c"MemoryError");
static mut UNICODE_DECODE_ERROR: PyTypeObject = named_type(c"UnicodeDecodeError");

#[repr(C)]
struct Exception {
    head: TestObject,
    text: String,
}

thread_local! {
    static MEMORY_ERROR: Exception = const {
        let mut head = TestObject::of_type(&raw mut MEMORY_ERROR_TYPE);
        head.immortal = true;
        Exception { head, text: String::new() }
    };
    static CLEARED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static UNRAISABLE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

// --- What tests use. ---

/// The place of the thread's exception.
fn place<'a>() -> &'a mut *mut PyObject {
    // SAFETY: the thread's own, live thread state. The reference is used up in each function at
    // once.
    unsafe { &mut (*PyThreadState_Get()).current_exception }
}

/// The `MemoryError` that is always there.
pub fn memory_error() -> *mut PyObject {
    MEMORY_ERROR.with(|it| it.head.as_object())
}

/// Kind and text of an exception, such as "ValueError: no".
pub fn described(exception: *mut PyObject) -> String {
    // SAFETY: alive; every object of the tests has this head.
    let kind = unsafe { (*exception.cast::<TestObject>()).kind.get() };
    if kind.is_null() {
        return name_of(exception);
    }
    // SAFETY: what has a type and is raised is an `Exception`, and its type has a name.
    let (name, text) = unsafe { (type_name(kind), &(*exception.cast::<Exception>()).text) };
    match text.as_str() {
        "" => name,
        text => format!("{name}: {text}"),
    }
}

/// Sets an exception.
pub fn raise(class: *mut PyObject, text: &str) {
    set(keep(Exception { head: TestObject::of_type(class.cast()), text: text.to_string() }));
}

/// Sets a `ValueError`, as code of others does that fails.
pub fn raise_value_error(text: &str) {
    raise((&raw mut VALUE_ERROR).cast(), text);
}

/// Sets the error for text that is not UTF-8.
pub fn raise_decode_error() {
    raise((&raw mut UNICODE_DECODE_ERROR).cast(), "not UTF-8");
}

fn set(exception: *mut PyObject) {
    let before = std::mem::replace(place(), exception);
    assert!(before.is_null(), "{} overwrites {}", described(exception), described(before));
}

/// Whether an exception is set.
pub fn is_set() -> bool {
    !PyErr_Occurred().is_null()
}

/// Takes the exception that is set away: its kind and text; `None` if there is none.
pub fn taken() -> Option<String> {
    let exception = PyErr_GetRaisedException();
    if exception.is_null() {
        return None;
    }
    let text = described(exception);
    // SAFETY: the reference was the thread state's.
    unsafe { decref(exception) };
    Some(text)
}

/// The exceptions that were cleared since the last call.
pub fn cleared() -> Vec<String> {
    CLEARED.take()
}

/// The exceptions that were reported as unraisable since the last call.
pub fn unraisable() -> Vec<String> {
    UNRAISABLE.take()
}

// --- What the crate calls. ---

#[no_mangle]
pub extern "C" fn PyErr_GetRaisedException() -> *mut PyObject {
    std::mem::replace(place(), null_mut())
}

#[no_mangle]
pub extern "C" fn PyErr_SetRaisedException(raised: *mut PyObject) {
    if raised.is_null() {
        if let Some(before) = taken() {
            panic!("{before} is forgotten");
        }
    } else {
        set(raised);
    }
}

#[no_mangle]
extern "C" fn PyErr_Occurred() -> *mut PyObject {
    let exception = *place();
    if exception.is_null() {
        return null_mut();
    }
    // SAFETY: alive while it is set.
    match unsafe { (*exception.cast::<TestObject>()).kind.get() } {
        kind if kind.is_null() => exception,
        kind => kind.cast(),
    }
}

#[no_mangle]
extern "C" fn PyErr_Clear() {
    let text = taken().expect("an exception that is cleared");
    CLEARED.with_borrow_mut(|cleared| cleared.push(text));
}

#[no_mangle]
pub extern "C" fn PyErr_NoMemory() -> *mut PyObject {
    set(memory_error());
    null_mut()
}

#[no_mangle]
extern "C" fn PyErr_SetString(class: *mut PyObject, text: *const c_char) {
    // SAFETY: callers pass a NUL-terminated string, as to CPython's function.
    raise(class, &unsafe { CStr::from_ptr(text) }.to_string_lossy());
}

#[no_mangle]
extern "C" fn PyErr_SetObject(class: *mut PyObject, value: *mut PyObject) {
    raise(class, &name_of(value));
}

/// The text that a format of C makes of its arguments.
///
/// # Safety
/// The arguments are what the format says, and at most as many as there are here.
unsafe fn formatted(format: *const c_char, arguments: &[usize]) -> String {
    // SAFETY: the caller passes a NUL-terminated string.
    let format = unsafe { CStr::from_ptr(format) }.to_string_lossy();
    let mut parts = format.split('%');
    let mut text = parts.next().unwrap_or_default().to_string();
    for (part, argument) in parts.zip(arguments) {
        let letter = part.find(|it: char| it.is_ascii_alphabetic() && it != 'z');
        let (directive, rest) = part.split_at(letter.expect("a letter that says of what type") + 1);
        match directive {
            "zd" => text += &(*argument as isize).to_string(),
            "zu" => text += &argument.to_string(),
            "R" | "U" => text += &name_of(*argument as *mut PyObject),
            // SAFETY: the caller says that the argument is as the format says: an object with a type.
            "T" => text += &unsafe { type_name((*(*argument as *mut PyObject)).ob_type) },
            _ if directive.ends_with('s') => {
                // SAFETY: the caller says that the argument is as the format says: a string.
                text += &unsafe { CStr::from_ptr(*argument as *const c_char) }.to_string_lossy();
            }
            _ => panic!("the tests do not know %{directive}"),
        }
        text += rest;
    }
    text
}

// Both are variadic in C, which cannot be written in Rust. Arguments that are words arrive in the
// same registers as those of a function that always takes so many, so those that the caller did not
// pass are anything, and not looked at.

#[no_mangle]
extern "C" fn PyErr_Format(
    class: *mut PyObject,
    format: *const c_char,
    one: usize,
    two: usize,
    three: usize,
    four: usize,
) -> *mut PyObject {
    // SAFETY: no format of the crate takes more arguments.
    raise(class, &unsafe { formatted(format, &[one, two, three, four]) });
    null_mut()
}

/// The cause is released: no test reads it.
#[no_mangle]
extern "C" fn _PyErr_FormatFromCause(
    class: *mut PyObject,
    format: *const c_char,
    one: usize,
) -> *mut PyObject {
    let _ = taken();
    // SAFETY: no format of the crate takes more arguments.
    raise(class, &unsafe { formatted(format, &[one]) });
    null_mut()
}

/// Contexts are not kept here.
#[no_mangle]
extern "C" fn _PyErr_ChainStackItem() {}

/// There are no audit hooks here.
#[no_mangle]
extern "C" fn PySys_Audit(_event: *const c_char, _format: *const c_char, _one: usize) -> c_int {
    0
}

#[no_mangle]
extern "C" fn PyErr_ExceptionMatches(class: *mut PyObject) -> c_int {
    // SAFETY: an exception is set, and classes have no subclasses here.
    c_int::from(unsafe { (**place()).ob_type.cast() == class })
}

#[no_mangle]
extern "C" fn PyErr_FormatUnraisable(format: *const c_char, one: usize, two: usize) {
    // SAFETY: no format of the crate takes more arguments.
    let text = unsafe { formatted(format, &[one, two]) };
    let what = taken().expect("an exception that is reported");
    UNRAISABLE.with_borrow_mut(|unraisable| unraisable.push(format!("{text}: {what}")));
}

#[no_mangle]
extern "C" fn PyErr_NewExceptionWithDoc(
    name: *const c_char,
    _doc: *const c_char,
    _base: *mut PyObject,
    _dict: *mut PyObject,
) -> *mut PyObject {
    if !is_allowed() {
        return PyErr_NoMemory();
    }
    // SAFETY: callers pass a NUL-terminated string, as to CPython's function.
    new_class(unsafe { CStr::from_ptr(name) })
}

/// A new class of exceptions.
fn new_class(name: &CStr) -> *mut PyObject {
    let class: *mut PyTypeObject = with_zeros(null_mut(), 0);
    let name = name.to_bytes_with_nul();
    let kept = kept_zeros(name.len());
    // SAFETY: a type made just now, and memory for its name.
    unsafe {
        kept.copy_from_nonoverlapping(name.as_ptr(), name.len());
        (*class).tp_name = kept.cast();
    }
    class.cast()
}

/// Each exception has one; its value is not read.
#[no_mangle]
extern "C" fn PyException_GetContext(exception: *mut PyObject) -> *mut PyObject {
    // SAFETY: live.
    unsafe { new_reference(exception) }
}
