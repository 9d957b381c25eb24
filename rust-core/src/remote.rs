//! Scripts that other processes send: `sys.remote_exec()`, as in CPython 3.14 (PEP 768).
//!
//! A request lies in [`AREA`], a section of the binary, into which the sender writes through `/proc/PID/mem`; its side is
//! `Lib/_remoteexec.py`, and docs/remote.md describes both. The sender then stores one byte, [`EVENTS`], at the main
//! thread's `eval_breaker`. CPython handles the bits, and [`_PyRust_RunRemoteScript`] is called with one of them.

use crate::cpython as c;
use crate::cpython::{PyObject, PyThreadState};
use crate::frame_hook::in_callback;
use crate::object::{ForC, Owned};
use crate::sync::{AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
use crate::tables::{method, NamedArguments, NO_METHOD};
use crate::thread::Thread;
use core::ffi::{c_char, c_int, CStr};
use core::ptr::null_mut;

const ROOM: usize = 4096;

/// The event with which a script is announced.
const ANNOUNCED: u32 = c::_PY_ASYNC_EXCEPTION_BIT;

/// What the sender stores as the lowest byte of `eval_breaker`. A process cannot set a bit of another one's memory
/// atomically, so all events that CPython announces only once are set: each handler finds out whether it has work, and
/// none is lost. Those of the GIL and of the collector are not set. Threads that wait for the GIL, and allocations,
/// announce theirs again; but a request to drop the GIL that no thread made would be waited for without end, and a
/// collection would take place where the program does not want one. Only a build without the GIL handles the last two.
const EVENTS: u32 = ANNOUNCED
    | c::_PY_SIGNALS_PENDING_BIT
    | c::_PY_CALLS_TO_DO_BIT
    | if cfg!(ferrule_free_threaded) {
        c::_PY_EVAL_PLEASE_STOP_BIT | c::_PY_EVAL_EXPLICIT_MERGE_BIT
    } else {
        0
    };

/// What `_remoteexec.py` knows as well: the last byte of the magic is the layout's number.
#[repr(C)]
struct Area {
    magic: [u8; 16],
    /// Of CPython: the number in `sys.hexversion`.
    version: u32,
    room: u16,
    events: u16,
    /// The area's own address; 0: the runtime has not started.
    here: AtomicUsize,
    /// The address of the main thread's `eval_breaker`; 0: scripts are refused.
    breaker: AtomicUsize,
    /// Of `path`, FNV-1a.
    checksum: AtomicU64,
    length: AtomicU32,
    /// 1: there is a request.
    pending: AtomicU32,
    path: [AtomicU8; ROOM],
}

// Whole, since its address is stored in `here`. `#[used]` would make it a symbol of the interpreter.
#[link_section = ".ferrule_remote"]
static AREA: Area = Area {
    magic: *b"FERRULE-REMOTE\0\x01",
    version: c::PY_VERSION_HEX,
    room: ROOM as u16,
    events: EVENTS as u16,
    here: AtomicUsize::new(0),
    breaker: AtomicUsize::new(0),
    checksum: AtomicU64::new(0),
    length: AtomicU32::new(0),
    pending: AtomicU32::new(0),
    path: [const { AtomicU8::new(0) }; ROOM],
};

/// The address of a thread's `eval_breaker`.
fn breaker_of(tstate: *mut PyThreadState) -> usize {
    tstate.addr() + core::mem::offset_of!(PyThreadState, eval_breaker)
}

/// Whether scripts are accepted.
fn is_enabled() -> bool {
    AREA.breaker.load(Ordering::Relaxed) != 0
}

/// Scripts for the main interpreter are accepted from now on, in its first thread, unless `disabled` is a text (that of
/// `PYTHON_DISABLE_REMOTE_DEBUG`) or `-X disable-remote-debug` is given.
///
/// # Safety
/// `tstate` is the calling thread's, which is attached, and is part of the interpreter's state, so that its memory stays
/// when it ends: a sender may be about to write to it. `sys` is there.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_OpenRemote(tstate: *mut PyThreadState, disabled: *const c_char) {
    // SAFETY: the calling thread is attached; both references are borrowed, and NULL is checked.
    let disabled_by_option = unsafe {
        let options = c::PySys_GetObject(c"_xoptions".as_ptr());
        let name = c"disable-remote-debug".as_ptr();
        !options.is_null() && !c::PyDict_GetItemString(options, name).is_null()
    };
    if disabled.is_null() && !disabled_by_option {
        AREA.breaker.store(breaker_of(tstate), Ordering::Relaxed);
    }
    AREA.here.store((&raw const AREA).addr(), Ordering::Release);
}

/// Scripts are refused from now on, and one that waits is dropped: where the runtime ends.
#[no_mangle]
pub extern "C" fn _PyRust_CloseRemote() {
    AREA.breaker.store(0, Ordering::Relaxed);
    AREA.pending.store(0, Ordering::Relaxed);
}

/// In a forked child: the parent's request is not the child's. Where another thread than the first has forked, scripts are
/// refused, as the memory of its state goes when it ends.
#[no_mangle]
pub extern "C" fn _PyRust_RemoteAfterFork(tstate: *mut PyThreadState) {
    if AREA.breaker.load(Ordering::Relaxed) == breaker_of(tstate) {
        AREA.pending.store(0, Ordering::Relaxed);
    } else {
        _PyRust_CloseRemote();
    }
}

/// Takes the request: the path, as bytes. `None`: an exception is set.
fn take() -> Option<Owned> {
    let length = AREA.length.load(Ordering::Relaxed) as usize;
    let checksum = AREA.checksum.load(Ordering::Relaxed);
    let is_possible = (1..ROOM).contains(&length);
    let size = if is_possible { length as isize } else { 0 };
    // SAFETY: new bytes; the caller is attached.
    let path = unsafe { Owned::new(c::PyBytes_FromStringAndSize(null_mut(), size)) };
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut has_end = false;
    if let (Some(path), true) = (&path, is_possible) {
        // SAFETY: new bytes, to which no other reference exists.
        let to: *mut c_char = unsafe { c::PyBytes_AsString(path.as_ptr()) };
        for (at, byte) in AREA.path.iter().take(length).enumerate() {
            let byte = byte.load(Ordering::Relaxed);
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            has_end |= byte == 0;
            // SAFETY: the object has room for `length` bytes.
            unsafe { to.add(at).write(byte as c_char) };
        }
    }
    AREA.pending.store(0, Ordering::Release);
    let path = path?;
    if !is_possible || has_end || hash != checksum {
        // SAFETY: the caller is attached, and no exception is set.
        unsafe { c::PyErr_SetString(c::PyExc_RuntimeError, c"the request is damaged".as_ptr()) };
        return None;
    }
    Some(path)
}

/// The source in the file `name`, as bytes. `None`: an exception is set.
fn read(name: &Owned) -> Option<Owned> {
    // SAFETY: the caller is attached; the objects live, and the strings end in NUL. The exception of a read that fails is
    // kept while the file is closed, and is raised after it.
    unsafe {
        let file = Owned::new(c::PyFile_OpenCodeObject(name.as_ptr()))?;
        let source =
            Owned::new(c::PyObject_CallMethod(file.as_ptr(), c"read".as_ptr(), null_mut()));
        let raised = c::PyErr_GetRaisedException();
        drop(Owned::new(c::PyObject_CallMethod(file.as_ptr(), c"close".as_ptr(), null_mut())));
        c::PyErr_SetRaisedException(raised);
        source
    }
}

/// Runs the script at `path`, whose name is `name`, in a new namespace. `None`: an exception is set.
fn run(thread: Thread, path: *const c_char, name: &Owned) -> Option<()> {
    let event = c"cpython.remote_debugger_script".as_ptr();
    // SAFETY: the thread is attached, and the format takes one object.
    if unsafe { c::PySys_Audit(event, c"O".as_ptr(), name.as_ptr()) } != 0 {
        return None;
    }
    let source = read(name)?;
    let globals = Owned::dict(thread)?;
    globals.set(thread, c"__name__", Owned::text(thread, c"__main__")?)?;
    // Without it the script would have the builtins of the function that it interrupts.
    // SAFETY: the thread is attached, and the module has been imported.
    let builtins = unsafe { Owned::new(c::PyImport_AddModuleRef(c"builtins".as_ptr())) }?;
    globals.set(thread, c"__builtins__", builtins)?;
    let mut text: *mut c_char = null_mut();
    // SAFETY: the thread is attached. The call refuses what is not bytes, and bytes with a NUL.
    if unsafe { c::PyBytes_AsStringAndSize(source.as_ptr(), &raw mut text, null_mut()) } != 0 {
        return None;
    }
    let kind = c::Py_file_input as c_int;
    // SAFETY: the thread is attached; both texts end in NUL, and the source lives meanwhile. The last is an object.
    unsafe {
        let code = c::Py_CompileStringExFlags(text, path, kind, null_mut(), -1);
        let code = Owned::new(code)?;
        Owned::new(c::PyEval_EvalCode(code.as_ptr(), globals.as_ptr(), globals.as_ptr()))?;
    }
    Some(())
}

/// Runs the script that another process has sent to the main thread, if there is one. What it raises is reported as
/// unraisable. Within a callback of a hook, and while an exception is set, the request is left and announced again.
///
/// # Safety
/// `tstate` is the calling thread's, which is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_RunRemoteScript(tstate: *mut PyThreadState) {
    if AREA.pending.load(Ordering::Acquire) == 0
        || AREA.breaker.load(Ordering::Relaxed) != breaker_of(tstate)
    {
        return;
    }
    // SAFETY: the caller's thread is attached.
    let thread = unsafe { Thread::new(tstate) };
    if in_callback(thread) || thread.has_exception() {
        thread.eval_breaker_word().fetch_or(ANNOUNCED as usize, Ordering::Relaxed);
        return;
    }
    let Some(path) = take() else {
        // SAFETY: an exception is set, and the format takes nothing.
        unsafe { c::PyErr_FormatUnraisable(c"Exception ignored in a remote script".as_ptr()) };
        return;
    };
    // SAFETY: bytes, which end in NUL and live as long as `path`.
    let text = unsafe { c::PyBytes_AsString(path.as_ptr()) };
    // SAFETY: the same string.
    let ran = unsafe { Owned::new(c::PyUnicode_DecodeFSDefault(text)) }
        .and_then(|name| run(thread, text, &name));
    if ran.is_none() {
        let format = c"Exception ignored in the remote script %s".as_ptr();
        // SAFETY: an exception is set, and the format takes a string, which lives.
        unsafe { c::PyErr_FormatUnraisable(format, text) };
    }
}

/// `sys.remote_exec`: calls `_remoteexec.remote_exec` where scripts are accepted in this process too.
fn remote_exec(_thread: Thread, arguments: NamedArguments) -> Option<Owned> {
    const DISABLED: &CStr = c"remote debugging is not enabled in this process";
    const LEFT_OUT: &CStr = c"this interpreter was built without remote debugging";
    if !is_enabled() {
        let is_built = AREA.here.load(Ordering::Relaxed) != 0;
        let message = if is_built { DISABLED } else { LEFT_OUT };
        // SAFETY: the calling thread is attached.
        unsafe { c::PyErr_SetString(c::PyExc_RuntimeError, message.as_ptr()) };
        return None;
    }
    let (first, count, names) = arguments.parts();
    // SAFETY: the calling thread is attached, and the arguments live as long as the call.
    unsafe {
        let module = Owned::new(c::PyImport_ImportModule(c"_remoteexec".as_ptr()))?;
        let function = c::PyObject_GetAttrString(module.as_ptr(), c"remote_exec".as_ptr());
        let function = Owned::new(function)?;
        Owned::new(c::PyObject_Vectorcall(function.as_ptr(), first, count, names))
    }
}

/// What `sys` has of this module.
static FUNCTIONS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    method!(
        named "remote_exec" "($module, /, pid, script)",
        "Execute a file of Python code in another process.",
        |thread, _, arguments| remote_exec(thread, arguments)
    ),
    method!(
        none "is_remote_debug_enabled" "($module, /)",
        "Return whether other processes may have this one execute a script.",
        |thread, _| Owned::truth(thread, is_enabled())
    ),
    NO_METHOD,
]);

/// Adds `remote_exec()` and `is_remote_debug_enabled()` to a new `sys`. -1: an exception is set.
///
/// # Safety
/// `sys` is a module, and the calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_AddRemoteFunctions(sys: *mut PyObject) -> c_int {
    // SAFETY: as the caller promises; CPython does not change the table, which lives for ever.
    unsafe { c::PyModule_AddFunctions(sys, FUNCTIONS.get().cast()) }
}
