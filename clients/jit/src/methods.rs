//! Methods of lists as values: `add = a.append`. Each is an object that has the method's definition and the list.

use crate::lists::cleared;
use crate::resolve::LIST_METHODS;
use pyo3::ffi::{self, PyMethodDef, PyObject};
use std::ffi::CStr;

/// Where a method's object has its definition, and the list.
pub const DEFINITION: i32 = std::mem::offset_of!(ffi::PyCFunctionObject, m_ml) as i32;
pub const LIST: i32 = std::mem::offset_of!(ffi::PyCFunctionObject, m_self) as i32;

pub fn method_type() -> usize {
    std::ptr::addr_of_mut!(ffi::PyCFunction_Type) as usize
}

/// The methods of lists that are compiled: their definitions and names.
fn definitions() -> impl Iterator<Item = (*mut PyMethodDef, &'static str)> {
    // SAFETY: a static type, whose definitions never change, and end with one without a name.
    let first = unsafe { (*std::ptr::addr_of!(ffi::PyList_Type)).tp_methods };
    let all = (0..).map(move |index| first.wrapping_add(index));
    // SAFETY: as above.
    all.map_while(|definition| unsafe {
        let name = (*definition).ml_name;
        (!name.is_null()).then(|| (definition, CStr::from_ptr(name)))
    })
    .filter_map(|(definition, name)| {
        let known = LIST_METHODS.iter().find(|known| known.as_bytes() == name.to_bytes())?;
        Some((definition, *known))
    })
}

/// The definition of a method with this name, if it is compiled.
pub fn definition_of(name: &str) -> Option<usize> {
    definitions().find(|(_, known)| *known == name).map(|(definition, _)| definition as usize)
}

/// And the name of one.
pub fn name_of(definition: usize) -> Option<&'static str> {
    definitions().find(|(known, _)| *known as usize == definition).map(|(_, name)| name)
}

/// The definition and the object that a builtin function has, unless somebody has a weak reference to it.
///
/// # Safety
/// Attached, and an object that is alive.
pub unsafe fn parts_of(object: *mut PyObject) -> Option<(usize, *mut PyObject)> {
    // SAFETY: by contract.
    unsafe {
        if ffi::Py_TYPE(object) as usize != method_type() {
            return None;
        }
        let function = &*object.cast::<ffi::PyCFunctionObject>();
        let is_plain = function.m_weakreflist.is_null() && function.m_module.is_null();
        (is_plain && !function.m_self.is_null())
            .then_some((function.m_ml as usize, function.m_self))
    }
}

/// The method of a list, a new reference; NULL: leave.
///
/// # Safety
/// Attached; a definition from above, and an exact list.
pub unsafe extern "C" fn make(definition: *mut PyMethodDef, list: *mut PyObject) -> *mut PyObject {
    let nothing = std::ptr::null_mut();
    // SAFETY: by contract.
    unsafe { cleared(ffi::PyCMethod_New(definition, list, nothing, nothing.cast())) }
}
