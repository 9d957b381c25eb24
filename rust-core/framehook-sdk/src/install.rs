//! Installing a hook, removing it, and the C functions that the interpreter calls.

use crate::data;
use crate::frame::Frame;
use crate::hook::{Answer, Event, FrameHook};
use crate::hot_loop::HotLoop;
use crate::raw::{self, Api};
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

/// The position of a hook among the others. The numbers are ids ([`Installed::id`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// After all others.
    #[default]
    Last,
    /// Before all others.
    First,
    /// Right before that one.
    Before(i64),
    /// Right after that one.
    After(i64),
}

/// How a hook is installed.
///
/// ```no_run
/// use framehook::{Builder, FrameHook, Installed, Position};
/// use pyo3::prelude::*;
/// fn install<H: FrameHook>(py: Python<'_>, hook: H) -> PyResult<Installed<H>> {
///     Builder::new("profiler").position(Position::First).this_thread().install(py, hook)
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    name: String,
    position: Position,
    flags: c_uint,
}

impl Builder {
    /// `name` appears in messages and in `framehook.hooks()`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), position: Position::Last, flags: 0 }
    }

    /// Its position among the others.
    pub fn position(mut self, position: Position) -> Self {
        self.position = position;
        self
    }

    /// Measures the time that the hook takes: two clock readings a call.
    pub fn timed(mut self) -> Self {
        self.flags |= raw::TIMED;
        self
    }

    /// Calls the hook for frames of the calling thread only. It is removed when that ends.
    pub fn this_thread(mut self) -> Self {
        self.flags |= raw::THIS_THREAD;
        self
    }

    /// Shows the Python code that the hook runs to trace, profile and monitoring functions.
    pub fn visible(mut self) -> Self {
        self.flags |= raw::VISIBLE;
        self
    }

    /// Installs the hook in the interpreter that the thread is attached to.
    ///
    /// RuntimeError: the interpreter has no frame hooks, or as many as it allows. ValueError: the
    /// name has a zero byte, or the hook of the position is not installed. Each code object is
    /// dispatched again at its next call, which costs each of them one slow start.
    pub fn install<H: FrameHook>(self, py: Python<'_>, hook: H) -> PyResult<Installed<H>> {
        let api = Api::get()?;
        let name = CString::new(self.name.as_str())
            .map_err(|_| PyValueError::new_err("the name of a frame hook has a zero byte"))?;
        let (position, other) = match self.position {
            Position::Last => (raw::LAST, 0),
            Position::First => (raw::FIRST, 0),
            Position::Before(other) => (raw::BEFORE, other),
            Position::After(other) => (raw::AFTER, other),
        };
        let registration = Arc::new(Registration {
            hook,
            api,
            name: self.name,
            // SAFETY: attached to this interpreter, so it is there.
            interpreter: unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) },
            id: AtomicI64::new(0),
            turn: AtomicU8::new(0),
            retired: AtomicBool::new(false),
            released: AtomicBool::new(false),
        });
        let user_data = Arc::into_raw(registration.clone()).cast_mut().cast();
        let definition = raw::Definition {
            size: size_of::<raw::Definition>(),
            name: name.as_ptr(),
            on_entry: Some(on_entry::<H>),
            on_event: Some(on_event::<H>),
            user_data,
            free_user_data: Some(free_user_data::<H>),
            free_data: data::is_boxed::<H::Data>().then_some(free_data::<H> as raw::FreeFunction),
            traverse_data: None, // data of this crate owns no reference that the collector could see
            flags: self.flags,
            position,
            other,
            on_loop: Some(on_loop::<H>),
        };
        // SAFETY: attached. The functions are made for this user data, a reference that the
        // interpreter owns from here on, and for its data. The rest is copied.
        let id = unsafe { (api.PyUnstable_FrameHook_Install)(&definition) };
        if id > 0 {
            registration.id.store(id, Ordering::Release);
            return Ok(Installed { registration, keeps: false });
        }
        let error = PyErr::fetch(py);
        if !registration.released.load(Ordering::Acquire) {
            // SAFETY: the interpreter has not taken over the reference that was made above.
            drop(unsafe { Arc::from_raw(user_data.cast::<Registration<H>>()) });
        }
        Err(error)
    }
}

/// The user data of a hook. Owned by the interpreter and by the guard.
struct Registration<H: FrameHook> {
    hook: H,
    api: &'static Api,
    name: String,
    interpreter: i64,
    /// 0 until it is known.
    id: AtomicI64,
    /// Counts the calls of callbacks.
    turn: AtomicU8,
    /// The guard is gone: the callbacks are not called any more.
    retired: AtomicBool,
    /// The interpreter has given its reference back.
    released: AtomicBool,
}

impl<H: FrameHook> Registration<H> {
    #[inline(always)]
    fn enter<'py>(
        &self,
        py: Python<'py>,
        frame: *mut raw::Frame,
    ) -> PyResult<Answer<'py, H::Data>> {
        if self.retired.load(Ordering::Acquire) {
            return self.remove_retired(py);
        }
        // SAFETY: the interpreter calls for this frame, and `on_entry` returns before the frame runs.
        let frame = unsafe { Frame::new(py, self.api, frame) };
        // Its lifetime may be anything here. The hook is to work with any, so it can use none but
        // that of its call.
        self.hook.on_entry(&frame)
    }

    /// It could not be removed when its guard was dropped.
    #[cold]
    fn remove_retired<'py>(&self, py: Python<'py>) -> PyResult<Answer<'py, H::Data>> {
        if remove(self.id.load(Ordering::Acquire)).is_err() {
            PyErr::take(py); // it has been removed by now
        }
        Ok(Answer::pass())
    }
}

/// A hook that is installed; removes it when it is dropped.
///
/// Dropped in a thread that is not attached to the hook's interpreter, it cannot remove anything.
/// Then the hook is retired: its callbacks are not called any more, and it is removed at the next frame
/// in that interpreter, or at the interpreter's end. Dropped after the interpreter's end, or after
/// other code has removed the hook, it does nothing.
///
/// The hook itself is dropped when the guard is gone and the interpreter does not use it any more: when
/// it was removed and no callback of it runs.
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

    /// A positive number that the interpreter never uses again. The functions of the Python module
    /// `framehook` take it.
    pub fn id(&self) -> i64 {
        self.registration.id.load(Ordering::Acquire)
    }

    /// Whether the hook is still installed: others may remove it too.
    pub fn is_installed(&self) -> bool {
        !self.registration.released.load(Ordering::Acquire)
    }

    /// Removes the hook now. ValueError: other code has removed it. RuntimeError, and the hook
    /// is retired: the thread is attached to another interpreter.
    pub fn remove(self, py: Python<'_>) -> PyResult<()> {
        self.in_own_interpreter(py)?;
        let removed = remove(self.id());
        // Whatever came of it, dropping the guard has nothing left to do. Not before the removal: a callback in another
        // thread would remove the retired hook first, and this function would fail as if other code had done it.
        self.registration.retired.store(true, Ordering::Release);
        removed.map_err(|()| PyErr::fetch(py))
    }

    /// Leaves the hook installed until the interpreter's end.
    pub fn keep(mut self) {
        self.keeps = true;
    }

    /// Disables the hook in all threads. It keeps its position and the code objects for which it is
    /// disabled. ValueError: the hook has been removed. RuntimeError: the thread is attached to another
    /// interpreter.
    pub fn disable(&self, py: Python<'_>) -> PyResult<()> {
        self.switch(py, |api| api.PyUnstable_FrameHook_Disable)
    }

    /// Takes [`disable`](Self::disable) back.
    pub fn enable(&self, py: Python<'_>) -> PyResult<()> {
        self.switch(py, |api| api.PyUnstable_FrameHook_Enable)
    }

    /// Disables the hook in the calling thread.
    pub fn disable_in_thread(&self, py: Python<'_>) -> PyResult<()> {
        self.switch(py, |api| api.PyUnstable_FrameHook_DisableInThread)
    }

    /// Takes [`disable_in_thread`](Self::disable_in_thread) back.
    pub fn enable_in_thread(&self, py: Python<'_>) -> PyResult<()> {
        self.switch(py, |api| api.PyUnstable_FrameHook_EnableInThread)
    }

    /// Disables the hook for a code object in all threads, as [`Answer::disable`] does.
    pub fn disable_for_code(&self, code: &Bound<'_, PyCode>) -> PyResult<()> {
        self.switch_for_code(code, |api| api.PyUnstable_FrameHook_DisableForCode)
    }

    /// Enables the hook for a code object for which it is disabled.
    pub fn enable_for_code(&self, code: &Bound<'_, PyCode>) -> PyResult<()> {
        self.switch_for_code(code, |api| api.PyUnstable_FrameHook_EnableForCode)
    }

    /// Has the hook called at the head of each loop of a code object that has taken so many turns. Returns how many loops
    /// there are. ValueError: no turns. RuntimeError: another hook watches them.
    pub fn watch_loops(&self, code: &Bound<'_, PyCode>, turns: u16) -> PyResult<usize> {
        self.in_own_interpreter(code.py())?;
        let watch = self.registration.api.PyUnstable_FrameHook_WatchLoops;
        // SAFETY: attached; any id is allowed, and the code object is live.
        let loops = unsafe { watch(self.id(), code.as_ptr(), c_int::from(turns)) };
        checked(code.py(), loops)?;
        Ok(loops as usize)
    }

    /// Takes [`watch_loops`](Self::watch_loops) back.
    pub fn unwatch_loops(&self, code: &Bound<'_, PyCode>) -> PyResult<()> {
        self.switch_for_code(code, |api| api.PyUnstable_FrameHook_UnwatchLoops)
    }

    fn switch(
        &self,
        py: Python<'_>,
        function: impl FnOnce(&Api) -> unsafe extern "C" fn(i64) -> c_int,
    ) -> PyResult<()> {
        self.in_own_interpreter(py)?;
        // SAFETY: attached to this interpreter; any id is allowed.
        checked(py, unsafe { function(self.registration.api)(self.id()) })
    }

    fn switch_for_code(
        &self,
        code: &Bound<'_, PyCode>,
        function: impl FnOnce(&Api) -> unsafe extern "C" fn(i64, *mut PyObject) -> c_int,
    ) -> PyResult<()> {
        self.in_own_interpreter(code.py())?;
        // SAFETY: attached; any id is allowed, and the code object is live.
        checked(code.py(), unsafe { function(self.registration.api)(self.id(), code.as_ptr()) })
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
        // SAFETY: the first can be called in any thread, attached or not. The others are called where
        // there is a thread state, and so an interpreter.
        let here = unsafe {
            !ffi::PyThreadState_GetUnchecked().is_null()
                && ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get())
                    == registration.interpreter
        };
        if here {
            // SAFETY: attached. An exception that is set, this may be part of a destructor, is put
            // aside, and one that says that other code has just removed the hook is dropped.
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
    let Ok(api) = Api::get() else { return Ok(()) };
    // SAFETY: every caller is attached; any id is allowed.
    match unsafe { (api.PyUnstable_FrameHook_Remove)(id) } {
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
    let api = Api::get()?;
    // SAFETY: attached.
    checked(py, unsafe { (api.PyUnstable_FrameHook_Clear)() })
}

/// Runs a callback. Neither an error nor a panic gets out: they become the exception that goes with
/// `None`.
///
/// # Safety
/// The interpreter has called with this user data of `install::<H>`, in an attached thread, and keeps
/// its reference until `body` has returned.
#[inline(always)]
unsafe fn called<H: FrameHook, T>(
    user_data: *mut c_void,
    body: impl FnOnce(Python<'_>, &Registration<H>) -> PyResult<T>,
) -> Option<T> {
    // SAFETY: the interpreter keeps its reference, by contract. There are only shared references to a
    // registration.
    let registration = unsafe { &*user_data.cast::<Registration<H>>() };
    if H::BARE {
        // SAFETY: the thread is attached until the callback returns, and the value goes before that.
        let py = unsafe { Python::assume_attached() };
        return body(py, registration).map_err(|error| error.restore(py)).ok();
    }
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
        // SAFETY: as for bare hooks.
        run(unsafe { Python::assume_attached() })
    }
}

/// PyO3 attaches the thread once in so many calls, which costs as much as the call of an empty hook. A
/// `Py` that was dropped meanwhile is given back then.
const TURNS: u8 = 64;

/// Whether the hook has anything to do. One that panics has, and so has one that is to be removed.
///
/// # Safety
/// `user_data` is that of `install::<H>`, and is kept while this runs.
#[inline(always)]
unsafe fn listens<H: FrameHook>(user_data: *mut c_void) -> bool {
    // SAFETY: kept, by contract. Only shared references to it are made.
    let registration = unsafe { &*user_data.cast::<Registration<H>>() };
    let listens = if H::BARE {
        registration.hook.listens()
    } else {
        let caught = catch_unwind(AssertUnwindSafe(|| registration.hook.listens()));
        caught.unwrap_or_else(|payload| {
            forget(payload); // what it holds may panic again
            true
        })
    };
    listens || registration.retired.load(Ordering::Relaxed)
}

/// # Safety
/// The interpreter calls it as an entry callback, with the user data of `install::<H>`.
unsafe extern "C" fn on_entry<H: FrameHook>(
    frame: *mut raw::Frame,
    user_data: *mut c_void,
    answer: *mut raw::Answer,
) -> c_int {
    // SAFETY: the interpreter keeps the user data until this function returns.
    if !unsafe { listens::<H>(user_data) } {
        return raw::PASS;
    }
    let body = |py: Python<'_>, registration: &Registration<H>| {
        let given = registration.enter(py, frame)?;
        let (verdict, object) = given.verdict.into_raw();
        if object.is_null() && given.events | given.scope == 0 {
            return Ok(verdict);
        }
        // SAFETY: the interpreter gives room for the answer until this function returns.
        let answer = unsafe { &mut *answer };
        answer.object = object;
        answer.events = given.events;
        answer.scope = given.scope;
        if let Some(data) = given.data {
            answer.data = data::into_raw(data);
        }
        Ok(verdict)
    };
    // SAFETY: the interpreter calls, as `called` needs it.
    unsafe { called(user_data, body) }.unwrap_or(raw::ERROR)
}

/// # Safety
/// The interpreter calls it as an event callback, with the user data of `install::<H>`.
unsafe extern "C" fn on_event<H: FrameHook>(
    event: *const raw::Event,
    user_data: *mut c_void,
) -> c_int {
    let body = |py: Python<'_>, registration: &Registration<H>| {
        // SAFETY: the interpreter lends the event until this function returns.
        let event = unsafe { &*event };
        if registration.retired.load(Ordering::Acquire) {
            return Ok(());
        }
        let call = |data: &H::Data| {
            // SAFETY: the references of the event are valid until this function returns. The hook is
            // to work with any lifetime, so it can use none but that of its call.
            let event = unsafe { Event::new(py, event, data) }?;
            registration.hook.on_event(&event)
        };
        // SAFETY: `on_entry::<H>` made the data. The interpreter frees it when no further event is
        // delivered, so not before this function has returned. What the callback runs cannot resume
        // or end the frame: a generator counts as running during its events.
        unsafe { data::with(event.data, call) }
    };
    // SAFETY: the interpreter calls, as `called` needs it.
    unsafe { called(user_data, body) }.map_or(-1, |()| 0)
}

/// # Safety
/// The interpreter calls it as a loop callback, with the user data of `install::<H>`.
unsafe extern "C" fn on_loop<H: FrameHook>(hot: *mut raw::Loop, user_data: *mut c_void) -> c_int {
    let body = |py: Python<'_>, registration: &Registration<H>| {
        if registration.retired.load(Ordering::Acquire) {
            return Ok(raw::LOOP_CONTINUE);
        }
        // SAFETY: the interpreter lends the struct until this function returns. The hook is to work with any lifetime, so
        // it can use none but that of its call.
        let answer = registration.hook.on_loop(&mut unsafe { HotLoop::new(py, &mut *hot) })?;
        let (verdict, object) = answer.into_raw(py);
        // SAFETY: as above.
        unsafe { (*hot).object = object };
        Ok(verdict)
    };
    // SAFETY: the interpreter calls, as `called` needs it.
    unsafe { called(user_data, body) }.unwrap_or(raw::LOOP_ERROR)
}

/// # Safety
/// The interpreter calls it once with the data of an answer, in an attached thread, when no further
/// event of the frame is delivered.
unsafe extern "C" fn free_data<H: FrameHook>(raw: *mut c_void) {
    if !needs_drop::<H::Data>() {
        // SAFETY: `on_entry::<H>` made the data, unless it is NULL, and it comes here once and last.
        return unsafe { data::drop_raw::<H::Data>(raw) };
    }
    // SAFETY: as above. The thread is attached, as in `called`.
    unsafe { Python::attach_unchecked(|_| quietly(|| data::drop_raw::<H::Data>(raw))) }
}

/// # Safety
/// The interpreter calls it once, with the user data of `install::<H>`, in a thread attached to the
/// hook's interpreter, when the hook was removed and no callback of it runs.
unsafe extern "C" fn free_user_data<H: FrameHook>(user_data: *mut c_void) {
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
