//! Frame hooks by their C interface.
//!
//! The crate `framehook` offers each hook an answer that may also be an error, a replacement or a
//! result. A hook here answers with a number alone, and is asked at every call of a program, so it
//! is given to the interpreter without that in between.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyInterpreterState, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyCode;
use pyo3::Borrowed;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::mem::transmute;
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::OnceLock;

/// What a hook answers.
#[derive(Clone, Copy)]
pub enum Said {
    /// Never ask about this code again.
    Settled,
    /// Ask again.
    Pass,
    /// Ask again, and tell of this frame's end under this number.
    Watch(u64),
    /// And of each time that it is suspended and goes on.
    WatchAll(u64),
}

/// What a hook is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Returned,
    Raised,
    Yielded,
    Resumed,
    Dropped,
}

/// A hook. It is not hidden from trace functions, which would cost more than all that it does. So it
/// runs no Python code, but asks C functions and reads attributes. A panic in it ends the process:
/// nothing here may panic.
pub trait Hook: Send + Sync + 'static {
    /// Whether it watches frames. One that does not is asked in a shorter way.
    const WATCHES: bool;
    /// A frame of `code` is about to run.
    fn ask(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, frame: &Frame) -> Said;
    /// What has happened to a frame that was answered with `word`.
    fn tell(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, told: Told, word: u64);
}

/// A frame that a hook is asked about.
///
/// # Invariants
/// The interpreter offers it to this thread as long as there is a reference to it.
pub struct Frame(*mut c_void);

impl Frame {
    /// The value of its first parameter.
    pub fn first_argument<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let face = Face::get().ok()?;
        // SAFETY: by the invariant. A new reference, or NULL with an exception.
        let argument = unsafe { Bound::from_owned_ptr_or_err(py, (face.argument)(self.0, 0)) };
        argument.ok()
    }

    /// Names and values of its parameters; no value: a cell that is empty.
    pub fn arguments<'py>(&self, py: Python<'py>) -> Vec<(String, Option<Bound<'py, PyAny>>)> {
        let Ok(face) = Face::get() else { return Vec::new() };
        // SAFETY: by the invariant.
        let count = unsafe { (face.argument_count)(self.0) };
        let argument = |index| {
            // SAFETY: by the invariant. New references, or NULL with an exception.
            let (name, value) = unsafe {
                (
                    Bound::from_owned_ptr_or_err(py, (face.argument_name)(self.0, index)),
                    Bound::from_owned_ptr_or_err(py, (face.argument)(self.0, index)),
                )
            };
            Some((name.ok()?.extract().ok()?, value.ok()))
        };
        (0..count).filter_map(argument).collect()
    }
}

/// Runs what calls Python. PyO3 is told that the thread is attached, as it is where a hook is asked
/// or told, so that objects are given back at once.
pub fn attached<R>(body: impl FnOnce(Python<'_>) -> R) -> R {
    Python::attach(body)
}

// The structures of cpython/framehook.h.

#[repr(C)]
struct Answer {
    object: *mut PyObject,
    word: *mut c_void,
    tell: c_uint,
    extent: c_uint,
}

#[repr(C)]
struct Event {
    kind: c_int,
    value: *mut PyObject,
    code: *mut PyObject,
    word: *mut c_void,
}

type Ask = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut Answer) -> c_int;
type Tell = unsafe extern "C" fn(*const Event, *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void);

#[repr(C)]
struct Definition {
    size: usize,
    name: *const c_char,
    ask: Ask,
    tell: Tell,
    user_data: *mut c_void,
    free_user_data: Free,
    free_word: Option<Free>,
    flags: c_uint,
    place: c_int,
    other: i64,
    traverse_word: Option<Free>,
}

type SimpleAsk = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut PyObject) -> c_int;

const FAILED: c_int = -1;
const PASS: c_int = 0;
const SETTLED: c_int = 2;
const TELL_LEAVE: c_uint = 1;
const TELL_ALL: c_uint = 1 | 2 | 4;

type Install = unsafe extern "C" fn(*mut PyInterpreterState, *const Definition) -> i64;
type Add = unsafe extern "C" fn(
    *mut PyInterpreterState,
    SimpleAsk,
    *mut c_void,
    Free,
    *const c_char,
    c_int,
) -> i64;
type Remove = unsafe extern "C" fn(*mut PyInterpreterState, i64) -> c_int;
type GetCode = unsafe extern "C" fn(*mut c_void) -> *mut PyObject;
type GetArgument = unsafe extern "C" fn(*mut c_void, ffi::Py_ssize_t) -> *mut PyObject;
type GetCount = unsafe extern "C" fn(*mut c_void) -> ffi::Py_ssize_t;
type InThread = unsafe extern "C" fn(i64) -> c_int;

/// The functions that are used, all of them found in this process.
struct Face {
    install: Install,
    add: Add,
    remove: Remove,
    code: GetCode,
    argument: GetArgument,
    argument_name: GetArgument,
    argument_count: GetCount,
    disable_in_thread: InThread,
}

fn look_up(name: &'static CStr) -> Result<*mut c_void, &'static CStr> {
    // SAFETY: any string may be looked up, and the default scope always exists.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        Err(name)
    } else {
        Ok(address)
    }
}

impl Face {
    fn get() -> PyResult<&'static Self> {
        static FACE: OnceLock<Result<Face, &'static CStr>> = OnceLock::new();
        let find = || {
            let install = look_up(c"PyUnstable_InstallFrameHook")?;
            let add = look_up(c"PyUnstable_AddFrameHookEx")?;
            let remove = look_up(c"PyUnstable_RemoveFrameHookEx")?;
            let code = look_up(c"PyUnstable_HookFrame_GetCode")?;
            let argument = look_up(c"PyUnstable_HookFrame_GetArgument")?;
            let argument_name = look_up(c"PyUnstable_HookFrame_GetArgumentName")?;
            let argument_count = look_up(c"PyUnstable_HookFrame_GetArgumentCount")?;
            let disable_in_thread = look_up(c"PyUnstable_DisableFrameHookInThread")?;
            // SAFETY: none is null, so they are the interpreter's functions of these names, which
            // have these types in the header. The interpreter outlives its extensions.
            unsafe {
                Ok(Self {
                    install: transmute::<*mut c_void, Install>(install),
                    add: transmute::<*mut c_void, Add>(add),
                    remove: transmute::<*mut c_void, Remove>(remove),
                    code: transmute::<*mut c_void, GetCode>(code),
                    argument: transmute::<*mut c_void, GetArgument>(argument),
                    argument_name: transmute::<*mut c_void, GetArgument>(argument_name),
                    argument_count: transmute::<*mut c_void, GetCount>(argument_count),
                    disable_in_thread: transmute::<*mut c_void, InThread>(disable_in_thread),
                })
            }
        };
        FACE.get_or_init(find).as_ref().map_err(|missing| {
            let missing = missing.to_string_lossy();
            PyRuntimeError::new_err(format!(
                "this interpreter has no frame hooks ({missing} is missing): they are a part of \
                 Ferrule"
            ))
        })
    }
}

/// What the engine keeps of a hook.
struct Registration<H> {
    hook: H,
    code: GetCode,
}

/// Asks the hook; `None`: an exception is set.
///
/// # Safety
/// The engine has called in an attached thread, with a frame that it offers until it is answered,
/// and with the user data of `install::<H>`.
#[inline(always)]
unsafe fn said<H: Hook>(frame: *mut c_void, user_data: *mut c_void) -> Option<Said> {
    // SAFETY: the engine keeps the registration until it is answered, and there are only shared
    // references to it. The thread is attached. The frame is offered to it.
    let (registration, py, code) = unsafe {
        let registration = &*user_data.cast::<Registration<H>>();
        (registration, Python::assume_attached(), (registration.code)(frame))
    };
    if code.is_null() {
        return None;
    }
    // SAFETY: what a frame runs is a code object; this is our reference to it.
    let borrowed = unsafe { Borrowed::from_ptr(py, code).cast_unchecked() };
    // INVARIANT: the engine offers the frame until it is answered.
    let said = registration.hook.ask(py, borrowed, &Frame(frame));
    // Given back last: at once it would wait for the store that has counted it.
    // SAFETY: it is our reference, and is used no more.
    unsafe { ffi::Py_DECREF(code) };
    Some(said)
}

/// # Safety
/// As for `said`, with an answer that nobody else sees.
unsafe extern "C" fn ask<H: Hook>(
    frame: *mut c_void,
    user_data: *mut c_void,
    answer: *mut Answer,
) -> c_int {
    // SAFETY: the engine calls, as `said` needs it.
    let (word, tell) = match unsafe { said::<H>(frame, user_data) } {
        None => return FAILED,
        Some(Said::Settled) => return SETTLED,
        Some(Said::Pass) => return PASS,
        Some(Said::Watch(word)) => (word, TELL_LEAVE),
        Some(Said::WatchAll(word)) => (word, TELL_ALL),
    };
    // SAFETY: the engine gives room for the answer until this has returned.
    unsafe {
        (*answer).word = without_provenance_mut(word as usize);
        (*answer).tell = tell;
    }
    PASS
}

/// # Safety
/// As for `said`.
unsafe extern "C" fn ask_simply<H: Hook>(
    frame: *mut c_void,
    user_data: *mut c_void,
    _replacement: *mut *mut PyObject,
) -> c_int {
    // SAFETY: the engine calls, as `said` needs it.
    match unsafe { said::<H>(frame, user_data) } {
        None => FAILED,
        Some(Said::Settled) => SETTLED,
        Some(_) => PASS,
    }
}

/// # Safety
/// The engine calls it, in an attached thread, with an event whose references are good until it
/// returns, and the user data of `install::<H>`.
unsafe extern "C" fn tell<H: Hook>(event: *const Event, user_data: *mut c_void) -> c_int {
    // SAFETY: as in `ask`. The engine lends the event, and the code of it is a code object.
    unsafe {
        let (registration, event) = (&*user_data.cast::<Registration<H>>(), &*event);
        let py = Python::assume_attached();
        let told = match event.kind {
            0 => Told::Returned,
            1 => Told::Raised,
            2 => Told::Yielded,
            3 => Told::Resumed,
            _ => Told::Dropped,
        };
        let code = Borrowed::from_ptr(py, event.code).cast_unchecked();
        registration.hook.tell(py, code, told, event.word as usize as u64);
    }
    0
}

/// # Safety
/// The engine calls it once, with the user data of `install::<H>`, when nobody uses the hook.
unsafe extern "C" fn free<H: Hook>(user_data: *mut c_void) {
    // SAFETY: `install` made it from this type of box and gave it away.
    drop(unsafe { Box::from_raw(user_data.cast::<Registration<H>>()) });
}

/// A hook that is installed. Dropped, it is removed.
pub struct Installed(AtomicI64);

/// Installs a hook behind all others.
pub fn install<H: Hook>(py: Python<'_>, name: &CStr, hook: H) -> PyResult<Installed> {
    let face = Face::get()?;
    let registration = Box::into_raw(Box::new(Registration { hook, code: face.code }));
    let definition = Definition {
        size: size_of::<Definition>(),
        name: name.as_ptr(),
        ask: ask::<H>,
        tell: tell::<H>,
        user_data: registration.cast(),
        free_user_data: free::<H>,
        free_word: None,
        flags: 0,
        place: 0,
        other: 0,
        traverse_word: None,
    };
    // SAFETY: attached. The functions are made for this user data, which the engine owns from here
    // on. The rest is copied.
    let id = unsafe {
        let interpreter = ffi::PyInterpreterState_Get();
        if H::WATCHES {
            (face.install)(interpreter, &definition)
        } else {
            let (data, free) = (registration.cast(), free::<H> as Free);
            (face.add)(interpreter, ask_simply::<H>, data, free, name.as_ptr(), 0)
        }
    };
    if id <= 0 {
        let error = PyErr::fetch(py);
        // SAFETY: the engine has not taken it.
        drop(unsafe { Box::from_raw(registration) });
        return Err(error);
    }
    Ok(Installed(AtomicI64::new(id)))
}

/// Asks a hook about nothing that the calling thread begins from now on.
pub fn leave_out_this_thread(py: Python<'_>, id: i64) {
    let Ok(face) = Face::get() else { return };
    // SAFETY: attached; any number is allowed.
    if unsafe { (face.disable_in_thread)(id) } != 0 {
        drop(PyErr::take(py)); // somebody has removed it
    }
}

impl Installed {
    /// By what the interpreter knows it; 0: it was removed.
    pub fn id(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// Removes it. Nothing happens where that was done before, by whomever.
    pub fn remove(&self, py: Python<'_>) {
        let id = self.0.swap(0, Ordering::AcqRel);
        let Ok(face) = Face::get() else { return };
        // SAFETY: attached; any number is allowed.
        if id != 0 && unsafe { (face.remove)(ffi::PyInterpreterState_Get(), id) } != 0 {
            drop(PyErr::take(py));
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if self.0.load(Ordering::Acquire) != 0 {
            Python::try_attach(|py| self.remove(py));
        }
    }
}
