//! The functions and structs of `cpython/framehook.h`, for code that needs them as they are.
//!
//! The functions are looked up by name in the running process, once. Nothing is linked, so an
//! extension loads where there are no frame hooks, and can say so: an `&'static Api` proves that
//! all of them were found. The header documents each.

#![allow(missing_docs)] // the header documents them

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{visitproc, PyInterpreterState, PyObject};
use pyo3::PyResult;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::OnceLock;

/// `struct _PyInterpreterFrame`.
#[repr(C)]
pub struct Frame {
    private: [u8; 0],
}

pub const ERROR: c_int = -1;
pub const PASS: c_int = 0;
pub const REPLACE: c_int = 1;
pub const DISABLE: c_int = 2;
pub const RESULT: c_int = 3;

pub const ON_EXIT: c_uint = 1;
pub const ON_YIELD: c_uint = 2;
pub const ON_RESUME: c_uint = 4;

pub const EXCLUDE_CALLEES: c_uint = 1;
pub const ONLY_CALLEES: c_uint = 2;
pub const ONLY_CALLEES_EVERYWHERE: c_uint = 3;

pub const RETURNED: c_int = 0;
pub const RAISED: c_int = 1;
pub const YIELDED: c_int = 2;
pub const RESUMED: c_int = 3;
pub const DROPPED: c_int = 4;

pub const TIMED: c_uint = 1;
pub const THIS_THREAD: c_uint = 2;
pub const VISIBLE: c_uint = 4;

pub const LAST: c_int = 0;
pub const FIRST: c_int = 1;
pub const BEFORE: c_int = 2;
pub const AFTER: c_int = 3;

pub const LOOP_ERROR: c_int = -1;
pub const LOOP_CONTINUE: c_int = 0;
pub const LOOP_RESULT: c_int = 1;
pub const LOOP_UNWIND: c_int = 2;

/// `PyUnstable_FrameLoop`.
#[repr(C)]
pub struct Loop {
    pub frame: *mut Frame,
    pub function: *mut PyObject,
    pub code: *mut PyObject,
    pub slots: *mut *mut PyObject,
    pub local_count: c_int,
    pub stack_depth: c_int,
    pub jump: c_int,
    pub instruction: c_int,
    pub turns: c_int,
    pub object: *mut PyObject,
}

/// `PyUnstable_FrameHookAnswer`.
#[repr(C)]
pub struct Answer {
    pub object: *mut PyObject,
    pub data: *mut c_void,
    pub events: c_uint,
    pub scope: c_uint,
}

/// `PyUnstable_FrameHookEvent`.
#[repr(C)]
pub struct Event {
    pub kind: c_int,
    pub value: *mut PyObject,
    pub code: *mut PyObject,
    pub data: *mut c_void,
}

/// `PyUnstable_FrameHookEntryFunction`.
pub type EntryFunction = unsafe extern "C" fn(*mut Frame, *mut c_void, *mut Answer) -> c_int;
/// `PyUnstable_FrameHookEventFunction`.
pub type EventFunction = unsafe extern "C" fn(*const Event, *mut c_void) -> c_int;
/// `PyUnstable_FrameLoopFunction`.
pub type LoopFunction = unsafe extern "C" fn(*mut Loop, *mut c_void) -> c_int;
pub type FreeFunction = unsafe extern "C" fn(*mut c_void);
pub type TraverseFunction = unsafe extern "C" fn(*mut c_void, visitproc, *mut c_void) -> c_int;

/// `PyUnstable_FrameHookDefinition`.
#[repr(C)]
pub struct Definition {
    pub size: usize,
    pub name: *const c_char,
    pub on_entry: Option<EntryFunction>,
    pub on_event: Option<EventFunction>,
    pub user_data: *mut c_void,
    pub free_user_data: Option<FreeFunction>,
    pub free_data: Option<FreeFunction>,
    pub traverse_data: Option<TraverseFunction>,
    pub flags: c_uint,
    pub position: c_int,
    pub other: i64,
    pub on_loop: Option<LoopFunction>,
}

/// `PyUnstable_FrameRecord`.
#[repr(C)]
pub struct Record {
    pub function: *mut PyObject,
    pub code: *mut PyObject,
    pub locals: *mut PyObject,
    pub instruction: c_int,
    pub stack_depth: c_int,
    pub slots: *mut *mut PyObject,
}

/// Declares the struct of function pointers, and how it is filled.
macro_rules! table {
    ($($function:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, by their names in the header.
        #[allow(non_snake_case)]
        pub struct Api {
            $(pub $function: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        /// The functions of this process, or the name of the first one that is missing.
        fn find() -> Result<&'static Api, &'static str> {
            static TABLE: OnceLock<Result<Api, &'static str>> = OnceLock::new();
            let fill = || Ok(Api {
                $($function: {
                    let address = look_up(concat!(stringify!($function), "\0"))?;
                    // SAFETY: not null, so it is the address of the interpreter's function of this
                    // name, whose type in the header is the field's. The interpreter is never
                    // unloaded while an extension of it is loaded.
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

type Args = *const *mut PyObject;
type SimpleFunction = unsafe extern "C" fn(*mut Frame) -> *mut PyObject;

table! {
    PyUnstable_FrameHook_Version: fn() -> c_int;
    PyUnstable_FrameHook_Install: fn(*const Definition) -> i64;
    PyUnstable_FrameHook_Remove: fn(i64) -> c_int;
    PyUnstable_FrameHook_Clear: fn() -> c_int;
    PyUnstable_FrameHook_Enable: fn(i64) -> c_int;
    PyUnstable_FrameHook_Disable: fn(i64) -> c_int;
    PyUnstable_FrameHook_EnableInThread: fn(i64) -> c_int;
    PyUnstable_FrameHook_DisableInThread: fn(i64) -> c_int;
    PyUnstable_FrameHook_EnableForCode: fn(i64, *mut PyObject) -> c_int;
    PyUnstable_FrameHook_DisableForCode: fn(i64, *mut PyObject) -> c_int;
    PyUnstable_FrameHook_WatchLoops: fn(i64, *mut PyObject, c_int) -> c_int;
    PyUnstable_FrameHook_UnwatchLoops: fn(i64, *mut PyObject) -> c_int;
    PyUnstable_Code_Observers: fn(*mut PyObject) -> *const usize;
    PyUnstable_Code_IsObserved: fn(*mut PyObject) -> c_int;
    PyUnstable_Function_RestoreVectorcall: fn(*mut PyObject) -> c_int;
    PyUnstable_FrameHook_Incompatibility: fn(*mut PyObject, *mut PyObject, *mut *const c_char) -> c_int;
    PyUnstable_FrameHook_CallUnhooked: fn(*mut PyObject, Args, usize, *mut PyObject, c_int) -> *mut PyObject;
    PyUnstable_FrameHook_CallReentrant: fn(*mut PyObject, Args, usize, *mut PyObject) -> *mut PyObject;
    PyUnstable_FrameHook_SetCRecursionRemaining: fn(c_int) -> c_int;
    PyUnstable_FrameHook_GetCode: fn(*mut Frame) -> *mut PyObject;
    PyUnstable_FrameHook_GetFunction: fn(*mut Frame) -> *mut PyObject;
    PyUnstable_FrameHook_GetGlobals: fn(*mut Frame) -> *mut PyObject;
    PyUnstable_FrameHook_GetBuiltins: fn(*mut Frame) -> *mut PyObject;
    PyUnstable_FrameHook_GetLocals: fn(*mut Frame) -> *mut PyObject;
    PyUnstable_FrameHook_GetFreeVariables: fn(*mut Frame) -> *mut PyObject;
    PyUnstable_FrameHook_GetCaller: fn(*mut Frame, *mut c_int) -> *mut PyObject;
    PyUnstable_FrameHook_GetArgumentCount: fn(*mut Frame) -> isize;
    PyUnstable_FrameHook_GetArgument: fn(*mut Frame, isize) -> *mut PyObject;
    PyUnstable_FrameHook_BorrowArgument: fn(*mut Frame, isize) -> *mut PyObject;
    PyUnstable_FrameHook_GetArgumentName: fn(*mut Frame, isize) -> *mut PyObject;
    PyUnstable_FrameHook_GetArgumentByName: fn(*mut Frame, *mut PyObject) -> *mut PyObject;
    PyUnstable_Frame_Continue: fn(*const Record, isize, *mut PyObject) -> *mut PyObject;
    PyUnstable_InterpreterFrame_GetLocal: fn(*mut Frame, isize) -> *mut PyObject;
    PyUnstable_InterpreterFrame_GetLocals: fn(*mut Frame, *mut *mut PyObject) -> c_int;
    PyUnstable_AddFrameHook: fn(*mut PyInterpreterState, SimpleFunction) -> c_int;
    PyUnstable_RemoveFrameHook: fn(*mut PyInterpreterState, SimpleFunction) -> c_int;
}

impl Api {
    /// The functions, or a RuntimeError that says what is missing.
    pub fn get() -> PyResult<&'static Self> {
        find().map_err(|missing| {
            PyRuntimeError::new_err(format!(
                "this interpreter has no frame hooks ({missing} is missing): they are a part of Ferrule"
            ))
        })
    }
}

/// The version of frame hooks that the interpreter of this process has; 0 in stock CPython, which
/// has none and where installing a hook raises RuntimeError.
pub fn version() -> u32 {
    // SAFETY: needs no thread state.
    find().map_or(0, |api| unsafe { (api.PyUnstable_FrameHook_Version)() }.unsigned_abs())
}
