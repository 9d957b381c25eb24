//! The functions of `cpython/framehook.h`, looked up by name in the running process, once.
//!
//! Nothing of them is linked, so an extension loads where there are no frame hooks and can say so.
//! Each `&'static` table is the proof that everything in it was found.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{PyInterpreterState, PyObject};
use pyo3::PyResult;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::OnceLock;

/// A frame on the data stack, as the engine hands it to a hook.
#[repr(C)]
pub(crate) struct RawFrame {
    private: [u8; 0],
}

/// `PyUnstable_FrameHookVerdict`.
pub(crate) mod verdict {
    use std::ffi::c_int;
    pub const ERROR: c_int = -1;
    pub const PASS: c_int = 0;
    pub const REPLACE: c_int = 1;
    pub const SETTLED: c_int = 2;
    pub const RESULT: c_int = 3;
}

/// `PyUnstable_FrameHookAnswer`.
#[repr(C)]
pub(crate) struct RawAnswer {
    pub object: *mut PyObject,
    pub word: *mut c_void,
    pub tell: c_uint,
    pub extent: c_uint,
}

/// `PyUnstable_FrameHookEvent`.
#[repr(C)]
pub(crate) struct RawEvent {
    pub kind: c_int,
    pub value: *mut PyObject,
    pub code: *mut PyObject,
    pub word: *mut c_void,
}

pub(crate) type SimpleAsk =
    unsafe extern "C" fn(*mut RawFrame, *mut c_void, *mut *mut PyObject) -> c_int;
pub(crate) type Ask = unsafe extern "C" fn(*mut RawFrame, *mut c_void, *mut RawAnswer) -> c_int;
pub(crate) type Tell = unsafe extern "C" fn(*const RawEvent, *mut c_void) -> c_int;
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);

/// `PyUnstable_FrameHookDefinition`.
#[repr(C)]
pub(crate) struct Definition {
    pub size: usize,
    pub name: *const c_char,
    pub ask: Ask,
    pub tell: Tell,
    pub user_data: *mut c_void,
    pub free_user_data: Free,
    pub free_word: Free,
    pub flags: c_uint,
    pub place: c_int,
    pub other: i64,
    /// The words of this crate are opaque to the collector: none.
    pub traverse_word: Option<Free>,
}

/// Declares a struct of function pointers, and how it is filled.
macro_rules! table {
    ($(#[$note:meta])* $table:ident {
        $($function:ident: fn($($argument:ty),*) -> $result:ty;)*
    }) => {
        $(#[$note])*
        #[allow(non_snake_case)] // the header's own names
        pub(crate) struct $table {
            $(pub $function: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// The table of this process, or the name of the first function that is missing.
            fn get() -> Result<&'static Self, &'static str> {
                static TABLE: OnceLock<Result<$table, &'static str>> = OnceLock::new();
                let fill = || Ok($table {
                    $($function: {
                        let address = look_up(concat!(stringify!($function), "\0"))?;
                        // SAFETY: not null, so it is the address of the interpreter's function of
                        // this name, whose type in the header is the field's. The interpreter is
                        // never unloaded while an extension of it is loaded.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(address)
                        }
                    },)*
                });
                TABLE.get_or_init(fill).as_ref().map_err(|missing| *missing)
            }
        }
    };
}

/// The address of what is called `name` (with a zero at its end), or the name as an error.
fn look_up(name: &'static str) -> Result<*mut c_void, &'static str> {
    let plain = name.trim_end_matches('\0');
    let name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|_| plain)?;
    // SAFETY: dlsym takes any string, and the default scope always exists.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        Err(plain)
    } else {
        Ok(address)
    }
}

table! {
    /// The first edition.
    First {
        PyUnstable_AddFrameHookEx: fn(*mut PyInterpreterState, SimpleAsk, *mut c_void, Free, *const c_char, c_int) -> i64;
        PyUnstable_RemoveFrameHookEx: fn(*mut PyInterpreterState, i64) -> c_int;
        PyUnstable_ClearFrameHooks: fn(*mut PyInterpreterState) -> c_int;
        PyUnstable_EnableFrameHook: fn(*mut PyInterpreterState, i64) -> c_int;
        PyUnstable_DisableFrameHook: fn(*mut PyInterpreterState, i64) -> c_int;
        PyUnstable_EnableFrameHookInThread: fn(i64) -> c_int;
        PyUnstable_DisableFrameHookInThread: fn(i64) -> c_int;
        PyUnstable_EnableFrameHookForCode: fn(i64, *mut PyObject) -> c_int;
        PyUnstable_DisableFrameHookForCode: fn(i64, *mut PyObject) -> c_int;
        PyUnstable_HookFrame_GetCode: fn(*mut RawFrame) -> *mut PyObject;
        PyUnstable_HookFrame_GetFunction: fn(*mut RawFrame) -> *mut PyObject;
        PyUnstable_HookFrame_GetGlobals: fn(*mut RawFrame) -> *mut PyObject;
        PyUnstable_HookFrame_GetBuiltins: fn(*mut RawFrame) -> *mut PyObject;
        PyUnstable_HookFrame_GetArgumentCount: fn(*mut RawFrame) -> isize;
        PyUnstable_HookFrame_GetArgument: fn(*mut RawFrame, isize) -> *mut PyObject;
        PyUnstable_HookFrame_GetArgumentName: fn(*mut RawFrame, isize) -> *mut PyObject;
        PyUnstable_HookFrame_GetArgumentByName: fn(*mut RawFrame, *mut PyObject) -> *mut PyObject;
    }
}

table! {
    /// What came with the second edition.
    Second {
        PyUnstable_FrameHook_Version: fn() -> c_int;
        PyUnstable_InstallFrameHook: fn(*mut PyInterpreterState, *const Definition) -> i64;
        PyUnstable_FrameHook_CanStandIn: fn(*mut PyObject, *mut PyObject, *mut *const c_char) -> c_int;
        PyUnstable_FrameHook_CallOriginal: fn(*mut PyObject, *const *mut PyObject, usize, *mut PyObject, c_int) -> *mut PyObject;
        PyUnstable_HookFrame_BorrowArgument: fn(*mut RawFrame, isize) -> *mut PyObject;
        PyUnstable_HookFrame_GetFreeVariables: fn(*mut RawFrame) -> *mut PyObject;
        PyUnstable_HookFrame_GetLocals: fn(*mut RawFrame) -> *mut PyObject;
        PyUnstable_HookFrame_GetCaller: fn(*mut RawFrame, *mut c_int) -> *mut PyObject;
    }
}

table! {
    /// What came with a later Ferrule, in the second edition too.
    Later {
        PyUnstable_FrameHook_CallOutside: fn(*mut PyObject, *const *mut PyObject, usize, *mut PyObject) -> *mut PyObject;
        PyUnstable_FrameHook_SetCRecursionRemaining: fn(c_int) -> c_int;
    }
}

/// What came later, or a RuntimeError that says what `what` needs.
pub(crate) fn later(what: &str) -> PyResult<&'static Later> {
    first()?;
    Later::get().map_err(|missing| {
        PyRuntimeError::new_err(format!("{what} needs a newer Ferrule ({missing} is missing)"))
    })
}

/// The first edition's functions, or a RuntimeError that says what is missing.
pub(crate) fn first() -> PyResult<&'static First> {
    First::get().map_err(|missing| {
        PyRuntimeError::new_err(format!(
            "this interpreter has no frame hooks ({missing} is missing): they are a part of Ferrule"
        ))
    })
}

/// The second edition's functions, or a RuntimeError that says what `what` needs.
pub(crate) fn second(what: &str) -> PyResult<&'static Second> {
    first()?;
    Second::get().map_err(|missing| {
        PyRuntimeError::new_err(format!(
            "{what} needs the second edition of frame hooks ({missing} is missing)"
        ))
    })
}

pub(crate) fn version() -> u32 {
    match (First::get(), Second::get()) {
        (Err(_), _) => 0,
        (Ok(_), Err(_)) => 1,
        // SAFETY: needs no thread state.
        (Ok(_), Ok(second)) => unsafe { (second.PyUnstable_FrameHook_Version)() }.unsigned_abs(),
    }
}
