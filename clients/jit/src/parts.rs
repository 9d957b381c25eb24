//! Parts of functions and code objects, read without a lookup by name: nothing is allocated, so nothing can fail.

use crate::python::{CodeObject, DictObject, PyCode_Addr2Line, PyCode_GetCode};
use pyo3::ffi::{self, PyFunctionObject, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCode, PyDict, PyFunction, PyString, PyTuple};

/// A function's code.
pub fn code_of<'py>(function: &Bound<'py, PyFunction>) -> Bound<'py, PyCode> {
    // SAFETY: a function has a code object, to which the result is a new reference; attached, as the binding says.
    unsafe {
        let code = ffi::PyFunction_GetCode(function.as_ptr());
        Bound::from_borrowed_ptr(function.py(), code).cast_into_unchecked()
    }
}

/// A function's globals, which are a dict or of a subclass.
pub fn globals_of<'py>(function: &Bound<'py, PyFunction>) -> Bound<'py, PyDict> {
    // SAFETY: a function has globals, to which the result is a new reference; attached, as the binding says.
    unsafe {
        let globals = ffi::PyFunction_GetGlobals(function.as_ptr());
        Bound::from_borrowed_ptr(function.py(), globals).cast_into_unchecked()
    }
}

/// A function's builtins, of any type.
pub fn builtins_of<'py>(function: &Bound<'py, PyFunction>) -> Bound<'py, PyAny> {
    // SAFETY: a function; the field is never NULL, and only the attached thread changes it. The result is a new reference.
    unsafe {
        let builtins = (*function.as_ptr().cast::<PyFunctionObject>()).func_builtins;
        Bound::from_borrowed_ptr(function.py(), builtins)
    }
}

/// `__qualname__`.
pub fn name_of(function: &Bound<'_, PyFunction>) -> String {
    // SAFETY: a function; the field is never NULL, and only the attached thread changes it. The result is a new reference.
    let name: Bound<'_, PyAny> = unsafe {
        let name = (*function.as_ptr().cast::<PyFunctionObject>()).func_qualname;
        Bound::from_borrowed_ptr(function.py(), name)
    };
    name.extract().unwrap_or_else(|_| "a function".into())
}

/// `co_filename`.
pub fn file_of(code: &Bound<'_, PyCode>) -> String {
    // SAFETY: a code object, whose fields never change; *layouts*. The field is a str, to which the result is a new reference.
    let name: Bound<'_, PyAny> = unsafe {
        let name = (*code.as_ptr().cast::<CodeObject>()).file_name;
        Bound::from_borrowed_ptr(code.py(), name)
    };
    name.extract().unwrap_or_else(|_| "?".into())
}

/// The line of a code unit, or -1.
pub fn line_of(code: &Bound<'_, PyCode>, unit: u32) -> i32 {
    // SAFETY: attached, and a code object; the offset counts bytes, and any is allowed.
    unsafe { PyCode_Addr2Line(code.as_ptr(), 2 * unit as i32) }
}

/// `co_names`.
pub fn names_of<'py>(code: &Bound<'py, PyCode>) -> Bound<'py, PyTuple> {
    tuple(code, |code| code.names)
}

/// `co_consts`.
pub fn constants_of<'py>(code: &Bound<'py, PyCode>) -> Bound<'py, PyTuple> {
    tuple(code, |code| code.consts)
}

fn tuple<'py>(
    code: &Bound<'py, PyCode>,
    field: impl Fn(&CodeObject) -> *mut PyObject,
) -> Bound<'py, PyTuple> {
    // SAFETY: a code object, whose fields never change; *layouts*. The field is a tuple, to which the result is a new reference.
    unsafe {
        let found = field(&*code.as_ptr().cast::<CodeObject>());
        Bound::from_borrowed_ptr(code.py(), found).cast_into_unchecked()
    }
}

/// `co_code`: the instructions, of which none is specialized or instrumented.
pub fn bytes_of<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: attached, and a code object; a new reference to bytes, or NULL with an exception.
    unsafe {
        let bytes = PyCode_GetCode(code.as_ptr());
        Ok(Bound::from_owned_ptr_or_err(code.py(), bytes)?.cast_into_unchecked())
    }
}

/// The watchers of a dict are bits of its version. The lowest two are CPython's own.
const WATCHERS: u64 = 0xfc;

/// Whether a dict has str keys alone, and is not watched: looking something up and storing it runs no other code.
pub fn is_plain(dict: &Bound<'_, PyDict>) -> bool {
    let (mut place, mut key) = (0, std::ptr::null_mut());
    // SAFETY: attached, and an exact dict, which nothing changes meanwhile; *layouts*.
    unsafe {
        if (*dict.as_ptr().cast::<DictObject>()).version & WATCHERS != 0 {
            return false;
        }
        let str_type = std::ptr::addr_of_mut!(ffi::PyUnicode_Type);
        while ffi::PyDict_Next(dict.as_ptr(), &mut place, &mut key, std::ptr::null_mut()) != 0 {
            if ffi::Py_TYPE(key) != str_type {
                return false;
            }
        }
    }
    true
}

macro_rules! names {
    ($($field:ident = $text:literal,)*) => {
        /// Names of attributes, made when the compiler is enabled: there may be no memory for them later.
        pub struct Names {
            $(pub $field: Py<PyString>,)*
        }

        /// The names.
        pub fn names(py: Python<'_>) -> &'static Names {
            static NAMES: PyOnceLock<Names> = PyOnceLock::new();
            NAMES.get_or_init(py, || Names { $($field: PyString::intern(py, $text).unbind(),)* })
        }
    };
}

names! {
    module = "__module__",
    name = "__name__",
    bool = "__bool__",
    len = "__len__",
    class = "__class__",
    init = "__init__",
    reduce = "__reduce__",
    length_hint = "__length_hint__",
    set_state = "__setstate__",
    start = "start",
    step = "step",
}
