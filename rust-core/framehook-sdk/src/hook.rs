//! What a hook is, what it answers, and its events.

use crate::frame::Frame;
use crate::hot_loop::{HotLoop, LoopAnswer};
use crate::raw;
use pyo3::exceptions::PySystemError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use pyo3::Borrowed;
use std::ffi::{c_int, c_uint};

/// A hook: a callback for each frame before its first instruction, in the thread that runs it. It is not
/// called for frames that start while a callback of any hook runs in the same thread.
///
/// Threads may call it at the same time, hence `Sync`. A panic becomes a RuntimeError that fails the
/// call, unless the extension is built with `panic = "abort"`, or the hook is [`BARE`](Self::BARE).
///
/// Never hold a lock while you call into Python, dropping an object included: other threads may run
/// meanwhile, and their frames call the same hook.
///
/// ```no_run
/// use framehook::{Answer, Event, Frame, FrameHook};
/// use pyo3::prelude::*;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct Count(AtomicU64);
///
/// impl FrameHook for Count {
///     type Data = u64;
///     fn on_entry<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
///         Ok(Answer::pass().watch(self.0.fetch_add(1, Ordering::Relaxed)))
///     }
///     fn on_event(&self, event: &Event<'_, '_, u64>) -> PyResult<()> {
///         println!("call {} has ended", event.data());
///         Ok(())
///     }
/// }
/// ```
/// What cannot be shared between threads is refused:
/// ```compile_fail,E0277
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::prelude::*;
///
/// struct Count(std::cell::Cell<u64>);
///
/// impl FrameHook for Count {
///     type Data = ();
///     fn on_entry<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py>> {
///         self.0.set(self.0.get() + 1);
///         Ok(Answer::pass())
///     }
/// }
/// ```
/// So is data that cannot go to another thread, where a generator may end:
/// ```compile_fail,E0277
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::prelude::*;
/// use std::rc::Rc;
///
/// struct Count;
///
/// impl FrameHook for Count {
///     type Data = Rc<u64>;
///     fn on_entry<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py, Rc<u64>>> {
///         Ok(Answer::pass())
///     }
/// }
/// ```
pub trait FrameHook: Send + Sync + 'static {
    /// Given with each frame that the hook watches, and lent to each event of it. `()` if it watches
    /// none.
    ///
    /// A `usize`, `u32` or `u64` is kept as it is; a value of another type is boxed. Each is dropped
    /// once, when no further event of its frame is delivered.
    type Data: Send + Sync + 'static;

    /// Whether the callbacks are called without anything around them: a panic in one ends the process,
    /// and PyO3 gives objects back that they drop only the next time that it attaches the thread
    /// ([`Python::attach`] within a callback does that). For hooks that are called at every call of a
    /// program and do next to nothing.
    const BARE: bool = false;

    /// Whether the hook has anything to do in this thread now: `false` means [`Answer::pass`], at a
    /// fraction of the cost. It touches no Python object. If it panics, the entry callback is called.
    #[inline]
    fn listens(&self) -> bool {
        true
    }

    /// The entry callback. An error fails the call, as a wrong number of arguments does.
    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, Self::Data>>;

    /// The event callback of frames that the hook watches. An error fails the call, or is reported as
    /// unraisable if the frame was dropped.
    fn on_event(&self, event: &Event<'_, '_, Self::Data>) -> PyResult<()> {
        let _ = event;
        Ok(())
    }

    /// The loop callback, called at hot loops of code objects ([`Installed::watch_loops`](crate::Installed::watch_loops)).
    /// An error is raised at the loop's head.
    fn on_loop<'py>(&self, hot: &mut HotLoop<'_, 'py>) -> PyResult<LoopAnswer<'py>> {
        let _ = hot;
        Ok(LoopAnswer::Continue)
    }
}

/// What an entry callback returns.
#[derive(Debug)]
#[must_use]
pub struct Answer<'py, D = ()> {
    pub(crate) verdict: Verdict<'py>,
    pub(crate) data: Option<D>,
    pub(crate) events: c_uint,
    pub(crate) scope: c_uint,
}

#[derive(Debug)]
pub(crate) enum Verdict<'py> {
    Pass,
    Disable,
    Replace(Bound<'py, PyCode>),
    Result(Bound<'py, PyAny>),
}

/// Events beside the exit of a frame: `Also::YIELDS | Also::RESUMES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Also(c_uint);

impl Also {
    /// Each `yield` or `await` that suspends it.
    pub const YIELDS: Self = Self(raw::ON_YIELD);
    /// Each time that it is resumed.
    pub const RESUMES: Self = Self(raw::ON_RESUME);
}

impl std::ops::BitOr for Also {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl<'py, D> Answer<'py, D> {
    #[inline]
    fn new(verdict: Verdict<'py>) -> Self {
        Self { verdict, data: None, events: 0, scope: 0 }
    }

    /// The frame runs unchanged.
    #[inline]
    pub fn pass() -> Self {
        Self::new(Verdict::Pass)
    }

    /// The frame runs unchanged, and the hook is disabled for this code object in all threads: its
    /// calls then run at full speed.
    #[inline]
    pub fn disable() -> Self {
        Self::new(Verdict::Disable)
    }

    /// This code runs instead, with the same arguments. Incompatible code fails the call with
    /// `IncompatibleCodeError`; the frame's own code is no change.
    pub fn replace(code: Bound<'py, PyCode>) -> Self {
        Self::new(Verdict::Replace(code))
    }

    /// Nothing runs: the call returns this value.
    pub fn result(value: Bound<'py, PyAny>) -> Self {
        Self::new(Verdict::Result(value))
    }

    /// Also delivers an event when the frame is left.
    #[inline]
    pub fn watch(mut self, data: D) -> Self {
        self.data = Some(data);
        self.events |= raw::ON_EXIT;
        self
    }

    /// Also delivers events when the frame is left, and when it is suspended or resumed.
    #[inline]
    pub fn watch_also(self, also: Also, data: D) -> Self {
        let mut answer = self.watch(data);
        answer.events |= also.0;
        answer
    }

    /// Until the frame is left, the hook is not called for its callees, on this stack.
    pub fn exclude_callees(mut self) -> Self {
        self.scope = raw::EXCLUDE_CALLEES;
        self
    }

    /// Until the frame is left, the hook is called for its callees, even if a scope around it excludes
    /// them.
    pub fn only_callees(mut self) -> Self {
        self.scope = raw::ONLY_CALLEES;
        self
    }

    /// Until the frame is left, the hook is called for its callees, and in no other thread or greenlet.
    pub fn only_callees_everywhere(mut self) -> Self {
        self.scope = raw::ONLY_CALLEES_EVERYWHERE;
        self
    }
}

impl Verdict<'_> {
    /// The number, and the reference that the interpreter takes over, or NULL.
    #[inline]
    pub(crate) fn into_raw(self) -> (c_int, *mut PyObject) {
        match self {
            Self::Pass => (raw::PASS, std::ptr::null_mut()),
            Self::Disable => (raw::DISABLE, std::ptr::null_mut()),
            Self::Replace(code) => (raw::REPLACE, code.into_ptr()),
            Self::Result(value) => (raw::RESULT, value.into_ptr()),
        }
    }
}

/// What has happened to a frame.
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a, 'py> {
    /// It has returned this value.
    Returned(Borrowed<'a, 'py, PyAny>),
    /// This exception has left it.
    Raised(Borrowed<'a, 'py, PyAny>),
    /// It is suspended, and has yielded this value.
    Yielded(Borrowed<'a, 'py, PyAny>),
    /// It is resumed.
    Resumed,
    /// It was not run to its end, and never runs again.
    Dropped,
}

/// An event of a frame that a hook watches, until the callback returns.
///
/// ```no_run
/// use framehook::{Event, EventKind};
/// fn name(event: &Event<'_, '_, u64>) -> String {
///     match event.kind() {
///         EventKind::Returned(value) => value.to_string(),
///         kind => format!("{kind:?}"),
///     }
/// }
/// ```
/// ```compile_fail,E0515
/// use framehook::{Event, EventKind};
/// use pyo3::prelude::*;
/// fn keep<'a, 'py>(event: Event<'a, 'py, u64>) -> &'a u64 {
///     let kept = event;
///     Event::data(&kept)
/// }
/// ```
pub struct Event<'a, 'py, D> {
    py: Python<'py>,
    kind: EventKind<'a, 'py>,
    code: Borrowed<'a, 'py, PyCode>,
    data: &'a D,
}

impl<'a, 'py, D> Event<'a, 'py, D> {
    /// # Safety
    /// What the event points to are references to a value, as the kind says, and to a code object.
    /// They are good as long as `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(py: Python<'py>, event: &raw::Event, data: &'a D) -> PyResult<Self> {
        // SAFETY: the caller's promise is handed on.
        let value = unsafe { Borrowed::from_ptr_or_opt(py, event.value) };
        let kind = match (event.kind, value) {
            (raw::RETURNED, Some(value)) => EventKind::Returned(value),
            (raw::RAISED, Some(value)) => EventKind::Raised(value),
            (raw::YIELDED, Some(value)) => EventKind::Yielded(value),
            (raw::RESUMED, _) => EventKind::Resumed,
            (raw::DROPPED, _) => EventKind::Dropped,
            _ => return Err(PySystemError::new_err("an event of an unknown kind")),
        };
        // SAFETY: as above.
        let code = unsafe { Borrowed::from_ptr(py, event.code).cast_unchecked() };
        Ok(Self { py, kind, code, data })
    }

    /// The proof that this thread is attached to the interpreter.
    #[inline]
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    /// What has happened.
    #[inline]
    pub fn kind(&self) -> EventKind<'a, 'py> {
        self.kind
    }

    /// The code object that ran.
    #[inline]
    pub fn code(&self) -> Borrowed<'a, 'py, PyCode> {
        self.code
    }

    /// What the hook gave with the frame.
    #[inline]
    pub fn data(&self) -> &D {
        self.data
    }
}
