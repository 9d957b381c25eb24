//! Installing a hook, taking it out, and the C functions that the engine calls.

use crate::api::{first, second, verdict, Definition, First, RawAnswer, RawEvent, RawFrame};
use crate::frame::Frame;
use crate::hook::{Answer, Event, FrameHook};
use crate::word;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::any::Any;
use std::ffi::{c_int, c_uint, c_void, CString};
use std::mem::{forget, needs_drop, size_of};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::Arc;

/// Where a hook comes among the others. The numbers are handles ([`Installed::id`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Behind all others.
    #[default]
    Last,
    /// Before all others.
    First,
    /// Right before that one.
    Before(i64),
    /// Right behind that one.
    Behind(i64),
}

/// How a hook is installed. All but [`timed`](Self::timed) needs the second edition.
///
/// ```no_run
/// use framehook::{Builder, FrameHook, Installed, Place};
/// use pyo3::prelude::*;
/// fn install<H: FrameHook>(py: Python<'_>, hook: H) -> PyResult<Installed<H>> {
///     Builder::new("profiler").place(Place::First).this_thread().install(py, hook)
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    name: String,
    place: Place,
    flags: c_uint,
}

const TIMED: c_uint = 1;
const THIS_THREAD: c_uint = 2;
const VISIBLE: c_uint = 8;

impl Builder {
    /// `name` appears in messages and in `framehook.hooks()`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: Place::Last, flags: 0 }
    }

    /// Where it comes among the others.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Measures the time that the hook takes: two clock readings a call.
    pub fn timed(mut self) -> Self {
        self.flags |= TIMED;
        self
    }

    /// Calls the hook for frames of the calling thread only. It is removed when that ends.
    pub fn this_thread(mut self) -> Self {
        self.flags |= THIS_THREAD;
        self
    }

    /// Shows the Python code that the hook runs to trace, profile and monitoring functions.
    pub fn visible(mut self) -> Self {
        self.flags |= VISIBLE;
        self
    }

    /// Installs the hook in the interpreter that the thread is attached to.
    ///
    /// RuntimeError: the interpreter has no frame hooks, or as many as it allows. ValueError: the
    /// name has a zero byte, or the hook of `place` is not installed. Each code object is asked
    /// about again at its next call, which costs each of them one slow start.
    pub fn install<H: FrameHook>(self, py: Python<'_>, hook: H) -> PyResult<Installed<H>> {
        let simple = first()?;
        let name = CString::new(self.name.as_str())
            .map_err(|_| PyValueError::new_err("the name of a frame hook has a zero byte"))?;
        let (place, other) = match self.place {
            Place::Last => (0, 0),
            Place::First => (1, 0),
            Place::Before(other) => (2, other),
            Place::Behind(other) => (3, other),
        };
        // SAFETY: attached.
        let interpreter = unsafe { ffi::PyInterpreterState_Get() };
        let registration = Arc::new(Registration {
            hook,
            functions: simple,
            name: self.name,
            // SAFETY: attached to this interpreter, so it is there.
            interpreter: unsafe { ffi::PyInterpreterState_GetID(interpreter) },
            id: AtomicI64::new(0),
            turn: AtomicU8::new(0),
            retired: AtomicBool::new(false),
            released: AtomicBool::new(false),
        });
        let user_data = Arc::into_raw(registration.clone()).cast_mut().cast();
        let id = match second("placing a frame hook, or limiting it to a thread,") {
            Ok(functions) => {
                let definition = Definition {
                    size: size_of::<Definition>(),
                    name: name.as_ptr(),
                    ask: ask::<H>,
                    tell: tell::<H>,
                    user_data,
                    free_user_data: free::<H>,
                    free_word: free_word::<H>,
                    flags: self.flags,
                    place,
                    other,
                    traverse_word: None,
                };
                // SAFETY: attached to this interpreter. The functions are made for this user data,
                // a reference that the engine owns from here on, and for its words. The rest is
                // copied.
                Ok(unsafe { (functions.PyUnstable_InstallFrameHook)(interpreter, &definition) })
            }
            Err(missing) if place != 0 || self.flags & !TIMED != 0 => Err(missing),
            // SAFETY: as above.
            Err(_) => Ok(unsafe {
                (simple.PyUnstable_AddFrameHookEx)(
                    interpreter,
                    ask_simply::<H>,
                    user_data,
                    free::<H>,
                    name.as_ptr(),
                    self.flags as c_int,
                )
            }),
        };
        match id {
            Ok(id) if id > 0 => {
                registration.id.store(id, Ordering::Release);
                Ok(Installed { registration, keeps: false })
            }
            failed => {
                let error = failed.err().unwrap_or_else(|| PyErr::fetch(py));
                if !registration.released.load(Ordering::Acquire) {
                    // SAFETY: the engine has not taken over the reference that was made above.
                    drop(unsafe { Arc::from_raw(user_data.cast::<Registration<H>>()) });
                }
                Err(error)
            }
        }
    }
}

/// What a hook is for the engine: its user data. Owned by the engine and by the guard.
struct Registration<H: FrameHook> {
    hook: H,
    functions: &'static First,
    name: String,
    interpreter: i64,
    /// The engine's handle; 0 until it is known.
    id: AtomicI64,
    /// Counts the engine's calls.
    turn: AtomicU8,
    /// The guard is gone: whatever the engine asks, the hook is not asked any more.
    retired: AtomicBool,
    /// The engine has given the hook back.
    released: AtomicBool,
}

impl<H: FrameHook> Registration<H> {
    fn ask<'py>(&self, py: Python<'py>, frame: *mut RawFrame) -> PyResult<Answer<'py, H::Word>> {
        if self.retired.load(Ordering::Acquire) {
            // Nobody could remove it at the time. An error: somebody has by now.
            if remove(self.id.load(Ordering::Acquire)).is_err() {
                PyErr::take(py);
            }
            return Ok(Answer::pass());
        }
        // SAFETY: the engine offers this frame until `ask` returns.
        let frame = unsafe { Frame::new(py, self.functions, frame) }?;
        // Its lifetime may be anything here. The hook is to work with any, so it can use none but
        // that of its call.
        self.hook.ask(&frame)
    }
}

/// A hook that is installed; removes it when it is dropped.
///
/// Dropped in a thread that is not attached to the hook's interpreter, it cannot remove anything.
/// Then the hook is retired: it is not asked or told any more, and the interpreter takes it out
/// when it would ask it the next time, or at its end. Dropped after the interpreter's end, or after
/// somebody else has removed the hook, it does nothing.
///
/// The hook itself is dropped when both the engine and the guard have let it go. The engine does
/// when no frame is left that the hook watches.
#[must_use]
pub struct Installed<H: FrameHook> {
    registration: Arc<Registration<H>>,
    keeps: bool,
}

impl<H: FrameHook> Installed<H> {
    /// The hook.
    pub fn hook(&self) -> &H {
        &self.registration.hook
    }

    /// The engine's handle: a positive number, never used twice in an interpreter. The functions of
    /// the Python module `framehook` take it.
    pub fn id(&self) -> i64 {
        self.registration.id.load(Ordering::Acquire)
    }

    /// Whether the engine still has the hook: others may remove it too.
    pub fn is_installed(&self) -> bool {
        !self.registration.released.load(Ordering::Acquire)
    }

    /// Removes the hook now. ValueError: somebody else has removed it. RuntimeError, and the hook
    /// is retired: the thread is attached to another interpreter.
    pub fn remove(self, py: Python<'_>) -> PyResult<()> {
        self.in_own_interpreter(py)?;
        // Whatever comes of it, dropping the guard has nothing left to do.
        self.registration.retired.store(true, Ordering::Release);
        let removed = remove(self.id());
        removed.map_err(|()| PyErr::fetch(py))
    }

    /// Leaves the hook installed until the interpreter's end.
    pub fn keep(mut self) {
        self.keeps = true;
    }

    /// Asks the hook, or does not ask it, from now on. A disabled hook keeps its place in the order
    /// and what it has settled. ValueError: the hook has been removed. RuntimeError: the thread is
    /// attached to another interpreter.
    pub fn enable(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.in_own_interpreter(py)?;
        let functions = first()?;
        let switch = if on {
            functions.PyUnstable_EnableFrameHook
        } else {
            functions.PyUnstable_DisableFrameHook
        };
        // SAFETY: attached to this interpreter; any handle is allowed.
        checked(py, unsafe { switch(ffi::PyInterpreterState_Get(), self.id()) })
    }

    /// The same for frames of the calling thread only.
    pub fn enable_in_thread(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.in_own_interpreter(py)?;
        let functions = first()?;
        let switch = if on {
            functions.PyUnstable_EnableFrameHookInThread
        } else {
            functions.PyUnstable_DisableFrameHookInThread
        };
        // SAFETY: attached; any handle is allowed.
        checked(py, unsafe { switch(self.id()) })
    }

    /// The same for one code object: enabling forgets that it was settled, disabling settles it.
    pub fn enable_for(&self, code: &Bound<'_, PyCode>, on: bool) -> PyResult<()> {
        self.in_own_interpreter(code.py())?;
        let functions = first()?;
        let switch = if on {
            functions.PyUnstable_EnableFrameHookForCode
        } else {
            functions.PyUnstable_DisableFrameHookForCode
        };
        // SAFETY: attached; any handle is allowed, and the code is alive.
        checked(code.py(), unsafe { switch(self.id(), code.as_ptr()) })
    }

    fn in_own_interpreter(&self, _: Python<'_>) -> PyResult<()> {
        // SAFETY: attached, so there is an interpreter.
        let here = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
        let Registration { name, interpreter, .. } = &*self.registration;
        if *interpreter == here {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "frame hook {name:?} belongs to interpreter {interpreter}, not {here}"
        )))
    }
}

impl<H: FrameHook> Drop for Installed<H> {
    fn drop(&mut self) {
        let registration = &self.registration;
        if self.keeps
            || registration.released.load(Ordering::Acquire)
            || registration.retired.swap(true, Ordering::AcqRel)
        {
            return;
        }
        // SAFETY: the first can be asked in any thread, attached or not. The others are asked where
        // there is a thread state, and so an interpreter.
        let here = unsafe {
            !ffi::PyThreadState_GetUnchecked().is_null()
                && ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get())
                    == registration.interpreter
        };
        if here {
            // SAFETY: attached. An exception that is set, this may be part of a destructor, is put
            // aside, and one that says that somebody has just removed the hook is dropped.
            unsafe {
                let aside = ffi::PyErr_GetRaisedException();
                remove(registration.id.load(Ordering::Acquire)).ok();
                ffi::PyErr_SetRaisedException(aside);
            }
        }
    }
}

/// Removes a hook of this thread's interpreter, or leaves an exception set. The thread is attached.
fn remove(id: i64) -> Result<(), ()> {
    let Ok(functions) = first() else { return Ok(()) };
    // SAFETY: every caller is attached; any handle is allowed.
    match unsafe { (functions.PyUnstable_RemoveFrameHookEx)(ffi::PyInterpreterState_Get(), id) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Nothing, or the exception that came with a status of -1.
pub(crate) fn checked(py: Python<'_>, status: c_int) -> PyResult<()> {
    if status < 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(())
}

/// Removes every hook of the interpreter, those of others too.
pub fn clear(py: Python<'_>) -> PyResult<()> {
    let functions = first()?;
    // SAFETY: attached to this interpreter.
    checked(py, unsafe { (functions.PyUnstable_ClearFrameHooks)(ffi::PyInterpreterState_Get()) })
}

/// Runs what the engine has called. Neither an error nor a panic gets out: they become the
/// exception that goes with `None`.
///
/// # Safety
/// The engine has called with this user data of `install::<H>`, in an attached thread, and keeps
/// its reference until `body` has returned.
unsafe fn called<H: FrameHook, T>(
    user_data: *mut c_void,
    body: impl FnOnce(Python<'_>, &Registration<H>) -> PyResult<T>,
) -> Option<T> {
    // SAFETY: the engine keeps its reference, by the caller's promise. There are only shared
    // references to a registration.
    let registration = unsafe { &*user_data.cast::<Registration<H>>() };
    let run = |py: Python<'_>| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            body(py, registration).map_err(|error| error.restore(py)).ok()
        }));
        caught.unwrap_or_else(|payload| {
            let name = &registration.name;
            let text = format!("frame hook {name:?} panicked: {}", text_of(&*payload));
            quietly(|| drop(payload));
            PyRuntimeError::new_err(text).restore(py);
            None
        })
    };
    let turn = registration.turn.load(Ordering::Relaxed);
    // Threads may overwrite each other's: it only matters that the turn comes now and then.
    registration.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
    if turn % TURNS == 0 {
        // SAFETY: the thread is attached, so Python is initialized, and that is all there is to it.
        unsafe { Python::attach_unchecked(run) }
    } else {
        // SAFETY: the thread is attached until the engine's call returns, and the value is dropped
        // before that.
        run(unsafe { Python::assume_attached() })
    }
}

/// PyO3 is told each so many calls that the thread is attached, which costs as much as the call of
/// an empty hook. A `Py` that was dropped meanwhile is given back then.
const TURNS: u8 = 64;

/// Whether the hook wants to be asked. One that panics is, and so is one that is to be removed.
///
/// # Safety
/// `user_data` is that of `install::<H>`, and is kept while this runs.
#[inline(always)]
unsafe fn listens<H: FrameHook>(user_data: *mut c_void) -> bool {
    // SAFETY: the caller's contract. Only shared references to it are made.
    let registration = unsafe { &*user_data.cast::<Registration<H>>() };
    let listens = catch_unwind(AssertUnwindSafe(|| registration.hook.listens()));
    let listens = listens.unwrap_or_else(|payload| {
        // What it holds may panic again.
        forget(payload);
        true
    });
    listens || registration.retired.load(Ordering::Relaxed)
}

/// A hook's C function.
///
/// # Safety
/// The engine calls it, in an attached thread, with a frame that it offers until it returns, the
/// user data of `install::<H>`, and an answer that nobody else sees.
unsafe extern "C" fn ask<H: FrameHook>(
    frame: *mut RawFrame,
    user_data: *mut c_void,
    raw: *mut RawAnswer,
) -> c_int {
    // SAFETY: the engine's user data, which it keeps until this function returns.
    if !unsafe { listens::<H>(user_data) } {
        return verdict::PASS;
    }
    let body = |py: Python<'_>, registration: &Registration<H>| {
        let answer = registration.ask(py, frame)?;
        let (verdict, object) = answer.verdict.into_raw();
        // SAFETY: the engine gives room for the answer until this function returns.
        let raw = unsafe { &mut *raw };
        raw.object = object;
        raw.tell = answer.tell;
        raw.extent = answer.extent;
        if let Some(word) = answer.word {
            raw.word = word::into_raw(word);
        }
        Ok(verdict)
    };
    // SAFETY: the engine calls, as `called` needs it.
    unsafe { called(user_data, body) }.unwrap_or(verdict::ERROR)
}

/// A hook's C function where there is the first edition only.
///
/// # Safety
/// As for `ask`, with room for the replacement.
unsafe extern "C" fn ask_simply<H: FrameHook>(
    frame: *mut RawFrame,
    user_data: *mut c_void,
    replacement: *mut *mut PyObject,
) -> c_int {
    // SAFETY: as in `ask`.
    if !unsafe { listens::<H>(user_data) } {
        return verdict::PASS;
    }
    let body = |py: Python<'_>, registration: &Registration<H>| {
        let answer = registration.ask(py, frame)?;
        if answer.needs_second_edition() {
            second("watching a frame, an extent or a result")?;
        }
        let (verdict, object) = answer.verdict.into_raw();
        if !object.is_null() {
            // SAFETY: the engine gives room for the replacement.
            unsafe { *replacement = object };
        }
        Ok(verdict)
    };
    // SAFETY: the engine calls, as `called` needs it.
    unsafe { called(user_data, body) }.unwrap_or(verdict::ERROR)
}

/// A hook's C function for events.
///
/// # Safety
/// The engine calls it, in an attached thread, with an event whose references are good until it
/// returns, and the user data of `install::<H>`.
unsafe extern "C" fn tell<H: FrameHook>(event: *const RawEvent, user_data: *mut c_void) -> c_int {
    let body = |py: Python<'_>, registration: &Registration<H>| {
        // SAFETY: the engine lends the event until this function returns.
        let raw = unsafe { &*event };
        if registration.retired.load(Ordering::Acquire) {
            return Ok(());
        }
        let tell = |word: &H::Word| {
            // SAFETY: the engine's references are good until this function returns. The hook is to
            // work with any lifetime, so it can use none but that of its call.
            let event = unsafe { Event::new(py, raw, word) }?;
            registration.hook.tell(&event)
        };
        // SAFETY: `ask::<H>` made the word. The engine frees it when nothing more is told of the
        // frame, and so not before this function has returned. What `tell` runs cannot have the
        // frame go on or end: a generator is running for as long as its hooks are told.
        unsafe { word::with(raw.word, tell) }
    };
    // SAFETY: the engine calls, as `called` needs it.
    unsafe { called(user_data, body) }.map_or(-1, |()| 0)
}

/// Drops a word.
///
/// # Safety
/// The engine calls it once with each word, in an attached thread, when nothing more is told of the
/// word's frame.
unsafe extern "C" fn free_word<H: FrameHook>(raw: *mut c_void) {
    if !needs_drop::<H::Word>() {
        // SAFETY: `ask::<H>` made the word, unless it is NULL, and it comes here once and last.
        return unsafe { word::drop_raw::<H::Word>(raw) };
    }
    // SAFETY: as above. The thread is attached, as in `called`.
    unsafe { Python::attach_unchecked(|_| quietly(|| word::drop_raw::<H::Word>(raw))) }
}

/// Gives the engine's reference to a hook back.
///
/// # Safety
/// The engine calls it once, with the user data of `install::<H>`, in a thread attached to the
/// hook's interpreter, when no round uses the hook any more and no frame is left that it watches.
unsafe extern "C" fn free<H: FrameHook>(user_data: *mut c_void) {
    // SAFETY: `install` made it from this type of Arc and gave this reference away.
    let registration = unsafe { Arc::from_raw(user_data.cast::<Registration<H>>()) };
    registration.released.store(true, Ordering::Release);
    // SAFETY: attached, as in `called`.
    unsafe { Python::attach_unchecked(|_| quietly(|| drop(registration))) }
}

/// Runs destructors. A panic goes nowhere: Rust has printed it.
fn quietly(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        // What it holds may panic again.
        forget(payload);
    }
}

/// The text of a panic.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
