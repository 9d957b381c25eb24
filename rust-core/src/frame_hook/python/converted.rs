//! Conversions between Python and the hooks: results, arguments, ids and code.

use crate::code::Code;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::registry::Refusal;
use crate::object::Owned;
use crate::tables::{Arguments, ForPython};
use crate::thread::Thread;
use core::ffi::c_longlong;
use core::ptr::null_mut;

impl ForPython for Outcome<Owned> {
    #[inline] // or its symbol would be exported
    fn for_python(self, _thread: Thread) -> *mut PyObject {
        self.map_or(null_mut(), Owned::into_raw)
    }
}

/// None, or an exception.
impl ForPython for Outcome<()> {
    #[inline] // or its symbol would be exported
    fn for_python(self, thread: Thread) -> *mut PyObject {
        self.map(|()| Owned::none(thread)).for_python(thread)
    }
}

/// A hook's id, or an exception.
impl ForPython for Outcome<c_longlong> {
    #[inline] // or its symbol would be exported
    fn for_python(self, thread: Thread) -> *mut PyObject {
        self.and_then(|id| made(thread, Owned::signed(thread, id))).for_python(thread)
    }
}

/// `None` means that a call into CPython has failed.
pub fn made<T>(thread: Thread, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| Raised::by_cpython(thread))
}

/// Just so many arguments, or `TypeError`.
pub fn exactly<const N: usize>(
    thread: Thread,
    arguments: Arguments,
) -> Outcome<[*mut PyObject; N]> {
    arguments.all().ok_or_else(|| Raised::type_error(thread, c"wrong number of arguments"))
}

/// # Safety
/// `object` is live.
pub unsafe fn truth(thread: Thread, object: *mut PyObject) -> Outcome<bool> {
    // SAFETY: the caller says that `object` is live, and keeps it while a `__bool__` runs.
    match unsafe { c::PyObject_IsTrue(object) } {
        -1 => Err(Raised::by_cpython(thread)),
        other => Ok(other != 0),
    }
}

/// The id of a hook.
///
/// # Safety
/// `object` is live.
pub unsafe fn id_number(thread: Thread, object: *mut PyObject) -> Outcome<c_longlong> {
    // SAFETY: the caller says that `object` is live, and keeps it while an `__index__` runs.
    unsafe {
        if (*object).ob_type == &raw mut c::PyBool_Type {
            return Err(Refusal::Unknown.raise(thread));
        }
        let id = c::PyLong_AsLongLong(object);
        if id == -1 && !c::PyErr_Occurred().is_null() {
            return Err(Raised::by_cpython(thread));
        }
        Ok(id)
    }
}

/// The code object of an argument.
///
/// # Safety
/// `object` is live, and stays so while the result is used.
pub unsafe fn code_of(thread: Thread, object: *mut PyObject) -> Outcome<Code> {
    // SAFETY: the caller says that `object` is live, and stays so while the result is used.
    unsafe {
        Code::from_object(object).ok_or_else(|| {
            let text = c"a code object, or a function that has one, is expected, not %T";
            c::PyErr_Format(c::PyExc_TypeError, text.as_ptr(), object);
            Raised::by_cpython(thread)
        })
    }
}

/// Whether an object is of a type, or of one that is derived from it.
///
/// # Safety
/// `object` is live.
pub unsafe fn is_a(object: *mut PyObject, kind: *mut c::PyTypeObject) -> bool {
    // SAFETY: the caller says that `object` is live. No Python code runs here.
    unsafe { c::PyType_IsSubtype((*object).ob_type, kind) != 0 }
}
