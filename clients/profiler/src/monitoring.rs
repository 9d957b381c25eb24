//! Calls as `sys.monitoring` reports them, where there are no frame hooks.
//!
//! Its callbacks get the code, and neither the frame nor anything of their own. So a call is known by the
//! address of its frame, which no other frame has meanwhile. A generator's frame stays where it is while
//! it is suspended; when it is released nothing is reported, and its address may be another's that
//! starts there.

use crate::attached::Attached;
use crate::count::{self, Counts};
use crate::entered::CurrentFrame;
use crate::exact::{Ignored, HERE};
use crate::graph::{Begun, Graph};
use crate::offsets;
use crate::session::{lock, Lines, Session, NAME};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCode};
use pyo3::{Borrowed, PyClass};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::{Mutex, OnceLock};

/// Set in the number of a call that is known by its frame: no other number has it.
const OF_FRAME: u64 = 1 << 63;
/// The instruction after which a generator waits to be started: its number in CPython 3.13.
const RETURN_GENERATOR: u8 = 35;
/// The numbers of these events in CPython 3.13.
const PY_START: i32 = 1;
const PY_RESUME: i32 = 2;
/// In this order: tools with a greater id are called before others, whose callbacks may raise.
const TOOL_IDS: [u8; 6] = [5, 4, 3, 2, 1, 0];

/// What is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Start,
    Resume,
    Throw,
    Return,
    Yield,
    Unwind,
    /// A line begins. Its number comes in the place of an offset.
    Line,
}

impl Event {
    const ALL: [Self; 7] = [
        Self::Start,
        Self::Resume,
        Self::Throw,
        Self::Return,
        Self::Yield,
        Self::Unwind,
        Self::Line,
    ];

    const fn name(self) -> &'static CStr {
        match self {
            Self::Start => c"PY_START",
            Self::Resume => c"PY_RESUME",
            Self::Throw => c"PY_THROW",
            Self::Return => c"PY_RETURN",
            Self::Yield => c"PY_YIELD",
            Self::Unwind => c"PY_UNWIND",
            Self::Line => c"LINE",
        }
    }

    /// Whether a callback may disable it for an instruction.
    const fn is_local(self) -> bool {
        !matches!(self, Self::Throw | Self::Unwind)
    }
}

/// What a callback answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Continue,
    /// Nothing more is to be reported of this code, where that can be chosen.
    Disable,
}

/// What is reported of.
pub struct Call<'a, 'py> {
    py: Python<'py>,
    code: Borrowed<'a, 'py, PyCode>,
    offset: Borrowed<'a, 'py, PyAny>,
    /// The address of the frame.
    frame: usize,
}

impl Call<'_, '_> {
    /// The number of a call that is no generator's.
    fn id(&self) -> u64 {
        self.frame as u64 | OF_FRAME
    }

    fn key(&self) -> usize {
        self.code.as_ptr() as usize
    }

    /// Whether it is a generator's that has not begun: an exception was thrown into it.
    #[cold]
    fn is_unstarted(&self) -> bool {
        let before = || {
            let offset = self.offset.extract::<usize>().ok()?;
            let code = self.code.getattr("co_code").ok()?.cast_into::<PyBytes>().ok()?;
            code.as_bytes().get(offset.checked_sub(2)?).copied()
        };
        before() == Some(RETURN_GENERATOR)
    }
}

thread_local! {
    /// The number of a profile that leaves this thread out.
    static LEFT_OUT: Cell<u64> = const { Cell::new(0) };
}

/// Keeps what this thread begins out of the profile with this number.
pub fn leave_out_this_thread(session: u64) {
    LEFT_OUT.set(session);
}

/// Whether the frames of calls have known addresses.
pub fn is_possible() -> bool {
    !cfg!(Py_GIL_DISABLED) && frame_place().is_some()
}

/// Where a thread's state has the pointer to the frame that runs.
#[inline(always)]
fn frame_place() -> Option<usize> {
    static PLACE: OnceLock<Option<usize>> = OnceLock::new();
    *PLACE.get_or_init(|| Some(offsets::of_thread_states()?.frame))
}

/// The generators and coroutines that have begun while a profile was made: the numbers of their calls, by
/// the addresses of their frames.
pub struct Monitored(Attached<FxHashMap<usize, u64>>);

impl Default for Monitored {
    fn default() -> Self {
        Self(Attached::new(FxHashMap::default()))
    }
}

impl Monitored {
    #[inline(always)]
    pub fn report(
        &self,
        session: &Session<Graph>,
        arguments: bool,
        call: &Call<'_, '_>,
        event: Event,
    ) -> Reply {
        match event {
            Event::Start => self.started(session, arguments, call),
            Event::Resume | Event::Throw => self.resumed(session, arguments, call, event),
            Event::Return | Event::Yield | Event::Unwind => self.left(session, call, event),
            Event::Line => {
                begin_line(session, call);
                Reply::Continue
            }
        }
    }

    #[inline(always)]
    fn started(&self, session: &Session<Graph>, arguments: bool, call: &Call<'_, '_>) -> Reply {
        if LEFT_OUT.get() == session.serial {
            return Reply::Continue;
        }
        let py = call.py;
        let begun = session.with(py, &HERE, |graph| {
            let link = graph.find(call.key())?;
            Some(self.begin(session, graph, link, call))
        });
        match begun.flatten() {
            Some((begun, released)) => {
                if arguments {
                    Python::attach(|_| note_arguments(session, &begun, call));
                }
                run(session, &begun, released, call);
                Reply::Continue
            }
            None => Python::attach(|_| self.start_slowly(session, arguments, call)),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_slowly(
        &self,
        session: &Session<Graph>,
        arguments: bool,
        call: &Call<'_, '_>,
    ) -> Reply {
        let begun = session.first_call(&call.code, &CurrentFrame(&call.code), |graph, link| {
            self.begin(session, graph, link, call)
        });
        match begun {
            Err(Ignored) => return Reply::Disable,
            Ok(None) => {}
            Ok(Some((begun, released))) => {
                if arguments {
                    note_arguments(session, &begun, call);
                }
                run(session, &begun, released, call);
            }
        }
        Reply::Continue
    }

    /// With a call that is over: its frame was where this one is.
    #[inline(always)]
    fn begin(
        &self,
        session: &Session<Graph>,
        graph: &mut Graph,
        link: u32,
        call: &Call<'_, '_>,
    ) -> (Begun, Option<u64>) {
        let (mut id, mut released) = (call.id(), None);
        if graph.is_resumable(link) {
            id = graph.new_id();
            released = self.0.with(call.py, |begun| begun.insert(call.frame, id)).flatten();
        }
        (graph.begin_as(link, id, session.clock.now()), released)
    }

    fn resumed(
        &self,
        session: &Session<Graph>,
        arguments: bool,
        call: &Call<'_, '_>,
        event: Event,
    ) -> Reply {
        let id = self.0.with(call.py, |begun| begun.get(&call.frame).copied());
        match id.flatten() {
            Some(id) => session.resumed(call.py, call.code, id),
            None if event == Event::Throw && call.is_unstarted() => {
                return self.started(session, arguments, call);
            }
            None => return ignored(session, call),
        }
        Reply::Continue
    }

    #[inline(always)]
    fn left(&self, session: &Session<Graph>, call: &Call<'_, '_>, event: Event) -> Reply {
        let raised = event == Event::Unwind;
        let left = session.with(call.py, &HERE, |graph| {
            let is_top = graph.running() == call.id();
            if is_top {
                graph.leave(call.id(), session.clock.now(), raised);
            }
            is_top
        });
        if left == Some(true) {
            return Reply::Continue;
        }
        self.left_generator(session, call, event)
    }

    /// It was a generator, or is not what the thread has begun last: greenlets have switched, or it
    /// began before the profile.
    #[inline(never)]
    fn left_generator(&self, session: &Session<Graph>, call: &Call<'_, '_>, event: Event) -> Reply {
        let (py, now, ended) = (call.py, session.clock.now(), event != Event::Yield);
        let id = self.0.with(py, |begun| {
            if ended {
                begun.remove(&call.frame)
            } else {
                begun.get(&call.frame).copied()
            }
        });
        let known = id.flatten();
        let foreign = session.with(py, &HERE, |graph| {
            let id = known.unwrap_or(call.id());
            if ended {
                graph.leave(id, now, event == Event::Unwind);
                graph.forget(id)
            } else {
                graph.suspend(id, now);
                false
            }
        });
        if foreign == Some(true) {
            session.forget_moved(py, known.unwrap_or(0));
        }
        if known.is_some() {
            Reply::Continue
        } else {
            ignored(session, call)
        }
    }
}

/// A line of a chosen function begins.
#[inline(always)]
fn begin_line(session: &Session<Graph>, call: &Call<'_, '_>) {
    let Ok(line) = call.offset.extract() else { return };
    let now = session.clock.now();
    session.with(call.py, &HERE, |graph| graph.begin_line(call.key(), line, now));
}

/// What is made runs at once. The other call was released.
#[inline(always)]
fn run(session: &Session<Graph>, begun: &Begun, released: Option<u64>, call: &Call<'_, '_>) {
    if let Begun::Made(id) = begun {
        if let Some(released) = released {
            session.dropped(call.py, released);
        }
        session.resumed(call.py, call.code, *id);
    }
}

#[cold]
fn note_arguments(session: &Session<Graph>, begun: &Begun, call: &Call<'_, '_>) {
    session.note_arguments(begun, &CurrentFrame(&call.code), call.py);
}

/// Nothing was begun in this frame.
#[cold]
fn ignored(session: &Session<Graph>, call: &Call<'_, '_>) -> Reply {
    let known = lock(&session.codes).at(call.key());
    if known.is_some_and(|known| known.ignored) {
        Reply::Disable
    } else {
        Reply::Continue
    }
}

/// Counts a call.
#[inline(always)]
pub fn count(session: &Session<Counts>, call: &Call<'_, '_>, event: Event) -> Reply {
    if LEFT_OUT.get() == session.serial || (event == Event::Throw && !call.is_unstarted()) {
        return Reply::Continue;
    }
    if session.with(call.py, &count::HERE, |counts| counts.count(call.key())).flatten().is_some() {
        return Reply::Continue;
    }
    let first = || session.first_call(&call.code, &CurrentFrame(&call.code));
    match Python::attach(|_| first()) {
        Ok(()) => Reply::Continue,
        Err(Ignored) => Reply::Disable,
    }
}

/// An event and what is called at it: a [`definition`].
pub type Callback = (Event, ffi::PyMethodDef);

/// A profile that callbacks report to.
pub trait Reported: PyClass<Frozen = True> + Sync {
    /// Those of all calls.
    const CALLBACKS: &'static [Callback];
    fn report(&self, call: &Call<'_, '_>, event: Event) -> Reply;
}

/// A callback as CPython knows it, without what PyO3 has around a function: it is called at every call
/// of a program. `EVENT` is its place in [`Event::ALL`].
pub const fn definition<P: Reported, const EVENT: usize>() -> Callback {
    let event = Event::ALL[EVENT];
    let definition = ffi::PyMethodDef {
        ml_name: event.name().as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFast: callback::<P, EVENT> },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: std::ptr::null(),
    };
    (event, definition)
}

/// # Safety
/// Called by the interpreter, as a function of a `P`.
unsafe extern "C" fn callback<P: Reported, const EVENT: usize>(
    profile: *mut PyObject,
    arguments: *mut *mut PyObject,
    count: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: functions are called attached. `profile` is what the function was made with, borrowed for
    // the call.
    let (py, profile) = unsafe {
        let py = Python::assume_attached();
        (py, Borrowed::from_ptr(py, profile).cast_unchecked::<P>())
    };
    // Programs can get the function from `register_callback()`, and call it with anything.
    if count < 2 {
        return py.None().into_ptr();
    }
    // SAFETY: there are as many arguments as the count says, also borrowed for the call.
    let (code, offset) =
        unsafe { (Borrowed::from_ptr(py, *arguments), Borrowed::from_ptr(py, *arguments.add(1))) };
    let event = Event::ALL[EVENT];
    let reply = reported(profile.get(), code, offset, event);
    if reply == Reply::Disable && event.is_local() {
        return Python::attach(disable);
    }
    py.None().into_ptr()
}

#[inline(always)]
fn reported<'py, P: Reported>(
    profile: &P,
    code: Borrowed<'_, 'py, PyAny>,
    offset: Borrowed<'_, 'py, PyAny>,
    event: Event,
) -> Reply {
    let (Ok(code), Some(place)) = (code.cast::<PyCode>(), frame_place()) else {
        return Reply::Continue;
    };
    // SAFETY: attached, so there is a state, which has a pointer there.
    let frame = unsafe { ffi::PyThreadState_GetUnchecked().byte_add(place).cast::<usize>().read() };
    profile.report(&Call { py: code.py(), code, offset, frame }, event)
}

/// `sys.monitoring.DISABLE`.
#[cold]
fn disable(py: Python<'_>) -> *mut PyObject {
    static DISABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let find = || Ok::<_, PyErr>(monitoring_of(py)?.getattr("DISABLE")?.unbind());
    let found = DISABLE.get_or_try_init(py, find).map(|disable| disable.clone_ref(py));
    found.unwrap_or_else(|_| py.None()).into_ptr()
}

/// `sys.monitoring`. No `import` here runs what the program makes of it.
fn monitoring_of(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: attached. The reference is borrowed from `sys`, and another one is made of it.
    let found = unsafe {
        Bound::from_borrowed_ptr_or_opt(py, ffi::PySys_GetObject(c"monitoring".as_ptr()))
    };
    found.ok_or_else(|| {
        PyRuntimeError::new_err("calls cannot be counted: there is no sys.monitoring")
    })
}

/// The callbacks of a profile among the tools of `sys.monitoring`.
pub struct Tool {
    monitoring: Py<PyAny>,
    id: u8,
    events: Vec<i32>,
    /// The code objects of which alone it reports.
    codes: Mutex<Vec<Py<PyAny>>>,
}

impl Tool {
    /// Reports all calls to a profile. RuntimeError: all ids are taken.
    pub fn install<P: Reported>(profile: &Bound<'_, P>) -> PyResult<Self> {
        let py = profile.py();
        if !is_possible() {
            return Err(PyRuntimeError::new_err("this interpreter has no frame hooks"));
        }
        let tool = Self::with_callbacks(profile, P::CALLBACKS, "calls")?;
        let all = tool.events.iter().fold(0, |all, event| all | event);
        let set = tool.monitoring.call_method1(py, "set_events", (tool.id, all));
        if let Err(error) = set {
            tool.remove(py);
            return Err(error);
        }
        Ok(tool)
    }

    /// Reports what is watched to a profile. RuntimeError: all ids are taken.
    pub fn with_callbacks<P: Reported>(
        profile: &Bound<'_, P>,
        callbacks: &'static [Callback],
        what: &str,
    ) -> PyResult<Self> {
        let monitoring = monitoring_of(profile.py())?;
        let (id, codes) = (take_id(&monitoring, what)?, Mutex::default());
        let events = Vec::new();
        let mut tool = Self { monitoring: monitoring.clone().unbind(), id, events, codes };
        if let Err(error) = tool.register(&monitoring, profile, callbacks) {
            tool.remove(profile.py());
            return Err(error);
        }
        Ok(tool)
    }

    fn register<P: Reported>(
        &mut self,
        monitoring: &Bound<'_, PyAny>,
        profile: &Bound<'_, P>,
        callbacks: &'static [Callback],
    ) -> PyResult<()> {
        let numbers = monitoring.getattr("events")?;
        for (event, definition) in callbacks {
            let number: i32 = numbers.getattr(&*event.name().to_string_lossy())?.extract()?;
            // SAFETY: attached. The definition lives as long as the process, and nothing writes it. The
            // function is a new reference with one to the profile, or null with an exception that is set.
            let callback = unsafe {
                let definition = std::ptr::from_ref(definition).cast_mut();
                let made =
                    ffi::PyCFunction_NewEx(definition, profile.as_ptr(), std::ptr::null_mut());
                Bound::from_owned_ptr_or_err(profile.py(), made)
            }?;
            monitoring.call_method1("register_callback", (self.id, number, callback))?;
            self.events.push(number);
        }
        Ok(())
    }

    /// Nothing more is reported. What others have made of the id meanwhile is left alone.
    pub fn remove(&self, py: Python<'_>) {
        let codes = std::mem::take(&mut *lock(&self.codes));
        let monitoring = self.monitoring.bind(py);
        let remove = || {
            let name = monitoring.call_method1("get_tool", (self.id,))?;
            if !name.extract::<String>().is_ok_and(|name| name == NAME) {
                return Ok(());
            }
            monitoring.call_method1("set_events", (self.id, 0))?;
            for code in &codes {
                monitoring.call_method1("set_local_events", (self.id, code, 0))?;
            }
            let mut removed = Ok(());
            for event in &self.events {
                let arguments = (self.id, *event, py.None());
                // An audit hook may refuse each.
                if let Err(error) = monitoring.call_method1("register_callback", arguments) {
                    removed = Err(error);
                }
            }
            monitoring.call_method1("free_tool_id", (self.id,))?;
            removed
        };
        if let Err(error) = remove() {
            error.write_unraisable(py, Some(monitoring));
        }
    }
}

impl Lines for Tool {
    #[cold]
    fn watch(&self, code: &Bound<'_, PyCode>) {
        let py = code.py();
        let Some(event) = self.events.first() else { return };
        // Where RESUME is specialized CPython reports no LINE for a line that it is on (gh-155992).
        let events = event | PY_START | PY_RESUME;
        lock(&self.codes).push(code.clone().into_any().unbind());
        let monitoring = self.monitoring.bind(py);
        if let Err(error) = monitoring.call_method1("set_local_events", (self.id, code, events)) {
            error.write_unraisable(py, Some(monitoring));
        }
    }

    fn remove(&self, py: Python<'_>) {
        Self::remove(self, py);
    }
}

/// An id that no other tool has.
fn take_id(monitoring: &Bound<'_, PyAny>, what: &str) -> PyResult<u8> {
    let mut others = Vec::new();
    for id in TOOL_IDS {
        let name = monitoring.call_method1("get_tool", (id,))?;
        if name.is_none() {
            monitoring.call_method1("use_tool_id", (id, NAME))?;
            return Ok(id);
        }
        others.push(name.to_string());
    }
    others.reverse();
    Err(PyRuntimeError::new_err(format!(
        "{what} cannot be counted: sys.monitoring has no tool id left; these have them: {}",
        others.join(", ")
    )))
}
