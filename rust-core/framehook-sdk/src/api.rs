//! The only gateway to C: each function and variable that the crate uses, looked
//! up by name in the running process, once.
//!
//! Nothing is linked: an extension made with this crate loads into an
//! interpreter without frame hooks and can say so. No layout of an interpreter's
//! structure is relied upon either, so one binary serves the normal, the debug
//! and the free-threaded build.
//!
//! A `&'static Api` is the proof that everything in it was found.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

/// Any Python object; never made or looked into here.
#[repr(C)]
pub struct PyObject {
    private: [u8; 0],
}

/// A frame on the data stack, as the engine hands it to a hook.
#[repr(C)]
pub struct InterpreterFrame {
    private: [u8; 0],
}

/// A thread state.
#[repr(C)]
pub struct ThreadState {
    private: [u8; 0],
}

/// An interpreter.
#[repr(C)]
pub struct InterpreterState {
    private: [u8; 0],
}

/// What an extended hook looks like to the engine: frame, user data and the
/// place for the replacement; answers with one of the constants of [`verdict`].
pub type AskHook =
    unsafe extern "C" fn(*mut InterpreterFrame, *mut c_void, *mut *mut PyObject) -> c_int;
/// Frees a hook's user data.
pub type FreeUserData = unsafe extern "C" fn(*mut c_void);
/// Frees what a capsule holds.
pub type DestroyCapsule = unsafe extern "C" fn(*mut PyObject);

/// `PyUnstable_FrameHookVerdict` of `cpython/framehook.h`.
pub mod verdict {
    use std::ffi::c_int;
    pub const ERROR: c_int = -1;
    pub const PASS: c_int = 0;
    pub const REPLACE: c_int = 1;
    pub const SETTLED: c_int = 2;
}

/// The first argument of `Py_GetConstant` for None.
pub const CONSTANT_NONE: u32 = 0;

/// Declares a struct of function pointers and addresses of variables, and how it is filled.
macro_rules! table {
    ($(#[$note:meta])* $table:ident {
        functions: { $($function:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* }
        variables: { $($variable:ident: $kind:ty;)* }
    }) => {
        $(#[$note])*
        #[allow(non_snake_case)] // CPython's own names
        pub(crate) struct $table {
            $(pub $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $variable: *const $kind,)*
        }

        impl $table {
            /// Fills the table, or names the first thing that is missing.
            ///
            /// # Safety
            /// What `find` returns for a name is null, or the address of what
            /// CPython has under this name; it stays valid for ever.
            unsafe fn fill(
                find: &dyn Fn(&CStr) -> *mut c_void,
            ) -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    $($function: {
                        let address = look_up(find, concat!(stringify!($function), "\0"))?;
                        // SAFETY: not null, and by the caller's promise the address of the
                        // function of this name, whose type is the field's.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                    $($variable: {
                        look_up(find, concat!(stringify!($variable), "\0"))?
                            .cast_const()
                            .cast::<$kind>()
                    },)*
                })
            }
        }
    };
}

/// The address of what is called `name` (with a zero at its end), or the name as an error.
fn look_up(
    find: &dyn Fn(&CStr) -> *mut c_void,
    name: &'static str,
) -> std::result::Result<*mut c_void, &'static str> {
    let address = CStr::from_bytes_with_nul(name.as_bytes()).map(find);
    match address {
        Ok(address) if !address.is_null() => Ok(address),
        _ => Err(name.trim_end_matches('\0')),
    }
}

table! {
    /// What any CPython 3.13 has.
    Python {
        functions: {
            Py_IncRef: fn(*mut PyObject);
            Py_DecRef: fn(*mut PyObject);
            Py_GetConstant: fn(u32) -> *mut PyObject;

            PyErr_GetRaisedException: fn() -> *mut PyObject;
            PyErr_SetRaisedException: fn(*mut PyObject);
            PyErr_SetObject: fn(*mut PyObject, *mut PyObject);
            PyErr_GivenExceptionMatches: fn(*mut PyObject, *mut PyObject) -> c_int;

            PyObject_Type: fn(*mut PyObject) -> *mut PyObject;
            PyObject_Str: fn(*mut PyObject) -> *mut PyObject;
            PyObject_Repr: fn(*mut PyObject) -> *mut PyObject;
            PyObject_IsTrue: fn(*mut PyObject) -> c_int;
            PyObject_GetAttr: fn(*mut PyObject, *mut PyObject) -> *mut PyObject;
            PyObject_GetItem: fn(*mut PyObject, *mut PyObject) -> *mut PyObject;
            PyObject_SetItem: fn(*mut PyObject, *mut PyObject, *mut PyObject) -> c_int;
            PyObject_Vectorcall: fn(*mut PyObject, *const *mut PyObject, usize, *mut PyObject) -> *mut PyObject;

            PyUnicode_FromStringAndSize: fn(*const c_char, isize) -> *mut PyObject;
            PyUnicode_AsUTF8AndSize: fn(*mut PyObject, *mut isize) -> *const c_char;
            PyLong_FromLongLong: fn(i64) -> *mut PyObject;
            PyLong_AsLongLong: fn(*mut PyObject) -> i64;
            PyBool_FromLong: fn(std::ffi::c_long) -> *mut PyObject;
            PyDict_New: fn() -> *mut PyObject;
            PyDict_SetDefaultRef: fn(*mut PyObject, *mut PyObject, *mut PyObject, *mut *mut PyObject) -> c_int;

            PyCapsule_New: fn(*mut c_void, *const c_char, Option<DestroyCapsule>) -> *mut PyObject;
            PyCapsule_GetPointer: fn(*mut PyObject, *const c_char) -> *mut c_void;
            PyCapsule_GetName: fn(*mut PyObject) -> *const c_char;

            PyThreadState_GetUnchecked: fn() -> *mut ThreadState;
            PyThreadState_GetInterpreter: fn(*mut ThreadState) -> *mut InterpreterState;
            PyInterpreterState_GetID: fn(*mut InterpreterState) -> i64;
            PyInterpreterState_GetDict: fn(*mut InterpreterState) -> *mut PyObject;
            PyModuleDef_Init: fn(*mut PyObject) -> *mut PyObject;
        }
        variables: {
            PyBaseObject_Type: PyObject;
            PyCode_Type: PyObject;
            PyCapsule_Type: PyObject;
            PyExc_AttributeError: *mut PyObject;
            PyExc_BaseException: *mut PyObject;
            PyExc_Exception: *mut PyObject;
            PyExc_ImportError: *mut PyObject;
            PyExc_IndexError: *mut PyObject;
            PyExc_KeyError: *mut PyObject;
            PyExc_OverflowError: *mut PyObject;
            PyExc_RuntimeError: *mut PyObject;
            PyExc_SystemError: *mut PyObject;
            PyExc_TypeError: *mut PyObject;
            PyExc_ValueError: *mut PyObject;
        }
    }
}

table! {
    /// What an interpreter with frame hooks has besides: `cpython/framehook.h`.
    Hooks {
        functions: {
            PyUnstable_AddFrameHookEx: fn(*mut InterpreterState, AskHook, *mut c_void, Option<FreeUserData>, *const c_char, c_int) -> i64;
            PyUnstable_RemoveFrameHookEx: fn(*mut InterpreterState, i64) -> c_int;
            PyUnstable_ClearFrameHooks: fn(*mut InterpreterState) -> c_int;
            PyUnstable_EnableFrameHook: fn(*mut InterpreterState, i64) -> c_int;
            PyUnstable_DisableFrameHook: fn(*mut InterpreterState, i64) -> c_int;
            PyUnstable_EnableFrameHookInThread: fn(i64) -> c_int;
            PyUnstable_DisableFrameHookInThread: fn(i64) -> c_int;
            PyUnstable_EnableFrameHookForCode: fn(i64, *mut PyObject) -> c_int;
            PyUnstable_DisableFrameHookForCode: fn(i64, *mut PyObject) -> c_int;
            PyUnstable_HookFrame_GetCode: fn(*mut InterpreterFrame) -> *mut PyObject;
            PyUnstable_HookFrame_GetFunction: fn(*mut InterpreterFrame) -> *mut PyObject;
            PyUnstable_HookFrame_GetGlobals: fn(*mut InterpreterFrame) -> *mut PyObject;
            PyUnstable_HookFrame_GetBuiltins: fn(*mut InterpreterFrame) -> *mut PyObject;
            PyUnstable_HookFrame_GetArgumentCount: fn(*mut InterpreterFrame) -> isize;
            PyUnstable_HookFrame_GetArgument: fn(*mut InterpreterFrame, isize) -> *mut PyObject;
            PyUnstable_HookFrame_GetArgumentName: fn(*mut InterpreterFrame, isize) -> *mut PyObject;
            PyUnstable_HookFrame_GetArgumentByName: fn(*mut InterpreterFrame, *mut PyObject) -> *mut PyObject;
        }
        variables: {}
    }
}

/// Everything that was found in this process.
pub(crate) struct Api {
    pub python: Python,
    /// Or the name of the first function that the interpreter lacks.
    pub hooks: std::result::Result<Hooks, &'static str>,
}

// SAFETY: addresses of functions, and of variables that CPython sets before any
// extension is loaded and never changes; they mean the same in every thread.
unsafe impl Send for Api {}
// SAFETY: see Send.
unsafe impl Sync for Api {}

impl Api {
    /// Looks everything up; the error is the name of what any CPython 3.13 has and this process has
    /// not.
    ///
    /// # Safety
    /// As for the tables: `find` tells the truth.
    pub unsafe fn resolve(
        find: &dyn Fn(&CStr) -> *mut c_void,
    ) -> std::result::Result<Self, &'static str> {
        // SAFETY: the caller's promise is handed on.
        let python = unsafe { Python::fill(find) }?;
        // SAFETY: as above.
        let hooks = unsafe { Hooks::fill(find) };
        Ok(Self { python, hooks })
    }

    /// The table of this process, made at the first call.
    pub fn get() -> std::result::Result<&'static Self, &'static str> {
        static API: OnceLock<std::result::Result<Api, &'static str>> = OnceLock::new();
        // SAFETY: `find_symbol` finds what the process has under CPython's names, which
        // are CPython's functions and variables; the interpreter is never unloaded
        // while an extension of it is loaded.
        let api = API.get_or_init(|| unsafe { Api::resolve(&find_symbol) });
        api.as_ref().map_err(|missing| *missing)
    }
}

#[cfg(not(test))]
pub(crate) fn find_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: dlsym takes any string, and the default scope always exists.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

#[cfg(test)]
pub(crate) use crate::mock::find_symbol;
