//! What a hook is, what it answers, and what it is told.

use crate::api::{verdict, RawEvent};
use crate::frame::Frame;
use pyo3::exceptions::PySystemError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use pyo3::Borrowed;
use std::ffi::{c_int, c_uint};

/// A hook: asked about each frame before its first instruction, in the thread that runs it. Not
/// asked about frames that start while it, or another hook, runs in the same thread.
///
/// Threads may ask at the same time, hence `Sync`. A panic becomes a RuntimeError that fails the
/// call, unless the extension is built with `panic = "abort"`.
///
/// Never hold a lock while you call into Python, dropping an object included: other threads may run
/// meanwhile, and their frames ask the same hook.
///
/// ```no_run
/// use framehook::{Answer, Event, Frame, FrameHook};
/// use pyo3::prelude::*;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct Count(AtomicU64);
///
/// impl FrameHook for Count {
///     type Word = u64;
///     fn ask<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
///         Ok(Answer::pass().watch(self.0.fetch_add(1, Ordering::Relaxed)))
///     }
///     fn tell(&self, event: &Event<'_, '_, u64>) -> PyResult<()> {
///         println!("start {} has ended", event.word());
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
///     type Word = ();
///     fn ask<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py>> {
///         self.0.set(self.0.get() + 1);
///         Ok(Answer::pass())
///     }
/// }
/// ```
/// So is a word that cannot go to another thread, where a generator may end:
/// ```compile_fail,E0277
/// use framehook::{Answer, Frame, FrameHook};
/// use pyo3::prelude::*;
/// use std::rc::Rc;
///
/// struct Count;
///
/// impl FrameHook for Count {
///     type Word = Rc<u64>;
///     fn ask<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py, Rc<u64>>> {
///         Ok(Answer::pass())
///     }
/// }
/// ```
pub trait FrameHook: Send + Sync + 'static {
    /// What the hook says with a frame that it watches, and gets back with each event of it. `()`
    /// where it watches none.
    ///
    /// A `usize`, `u32` or `u64` travels with the frame; a value of another type gets a box. Each
    /// is dropped once: when its frame has ended and the hook was told, if it is still there.
    type Word: Send + Sync + 'static;

    /// Whether to be asked about a frame that begins now, in this thread: what `false` says is
    /// [`Answer::pass`], at a fraction of the cost. For hooks that have nothing to say for a time.
    /// It touches no Python object. If it panics, the hook is asked.
    #[inline]
    fn listens(&self) -> bool {
        true
    }

    /// The answer, or an exception that fails the call, as a wrong number of arguments would.
    fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, Self::Word>>;

    /// Told what has happened to a frame that it watches. It cannot change that. An exception makes
    /// the call fail with that one, or is reported where nobody waits.
    fn tell(&self, event: &Event<'_, '_, Self::Word>) -> PyResult<()> {
        let _ = event;
        Ok(())
    }
}

/// What a hook answers about a frame.
#[derive(Debug)]
#[must_use]
pub struct Answer<'py, W = ()> {
    pub(crate) verdict: Verdict<'py>,
    pub(crate) word: Option<W>,
    pub(crate) tell: c_uint,
    pub(crate) extent: c_uint,
}

#[derive(Debug)]
pub(crate) enum Verdict<'py> {
    Pass,
    Settled,
    Replace(Bound<'py, PyCode>),
    Result(Bound<'py, PyAny>),
}

/// Events beside the end of a frame: `Also::YIELDS | Also::RESUMES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Also(c_uint);

impl Also {
    /// Each `yield` or `await` that suspends it.
    pub const YIELDS: Self = Self(2);
    /// Each time that it goes on.
    pub const RESUMES: Self = Self(4);
}

impl std::ops::BitOr for Also {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

const TELL_LEAVE: c_uint = 1;
const NOT_BELOW: c_uint = 1;
const ONLY_BELOW: c_uint = 2;
const ONLY_BELOW_EVERYWHERE: c_uint = 3;

impl<'py, W> Answer<'py, W> {
    fn new(verdict: Verdict<'py>) -> Self {
        Self { verdict, word: None, tell: 0, extent: 0 }
    }

    /// No change; ask again when this code starts the next time.
    pub fn pass() -> Self {
        Self::new(Verdict::Pass)
    }

    /// No change, and never ask again about this code object: its calls then run at full speed.
    pub fn settled() -> Self {
        Self::new(Verdict::Settled)
    }

    /// Run this code instead, with the same arguments. Code that cannot stand in fails the call
    /// with `IncompatibleCodeError`; the frame's own code is no change.
    pub fn replace(code: Bound<'py, PyCode>) -> Self {
        Self::new(Verdict::Replace(code))
    }

    /// Run nothing: the call has this value. Second edition.
    pub fn result(value: Bound<'py, PyAny>) -> Self {
        Self::new(Verdict::Result(value))
    }

    /// And tell me when this frame ends. Second edition.
    pub fn watch(mut self, word: W) -> Self {
        self.word = Some(word);
        self.tell |= TELL_LEAVE;
        self
    }

    /// And tell me when it ends, and when it is suspended or goes on. Second edition.
    pub fn watch_also(self, also: Also, word: W) -> Self {
        let mut answer = self.watch(word);
        answer.tell |= also.0;
        answer
    }

    /// And do not call the hook for the callees of this frame, on this stack. Second edition.
    pub fn not_below(mut self) -> Self {
        self.extent = NOT_BELOW;
        self
    }

    /// And call the hook for the callees of this frame, though a scope around it excludes them. Second
    /// edition.
    pub fn only_below(mut self) -> Self {
        self.extent = ONLY_BELOW;
        self
    }

    /// And call the hook for the callees of this frame, and for nothing else in any other thread or
    /// greenlet, until it is left. Second edition.
    pub fn only_below_everywhere(mut self) -> Self {
        self.extent = ONLY_BELOW_EVERYWHERE;
        self
    }

    pub(crate) fn needs_second_edition(&self) -> bool {
        self.tell != 0 || self.extent != 0 || matches!(self.verdict, Verdict::Result(_))
    }
}

impl Verdict<'_> {
    /// For the engine: the number, and the reference that it takes over, or NULL.
    pub(crate) fn into_raw(self) -> (c_int, *mut PyObject) {
        match self {
            Self::Pass => (verdict::PASS, std::ptr::null_mut()),
            Self::Settled => (verdict::SETTLED, std::ptr::null_mut()),
            Self::Replace(code) => (verdict::REPLACE, code.into_ptr()),
            Self::Result(value) => (verdict::RESULT, value.into_ptr()),
        }
    }
}

/// What has happened to a frame.
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a, 'py> {
    /// It has returned this value.
    Returned(Borrowed<'a, 'py, PyAny>),
    /// It was left with this exception.
    Raised(Borrowed<'a, 'py, PyAny>),
    /// It is suspended, and has given this value.
    Yielded(Borrowed<'a, 'py, PyAny>),
    /// It goes on.
    Resumed,
    /// It was not run to its end, and never will be.
    Dropped,
}

/// An event of a frame that a hook watches, until the hook returns.
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
///     Event::word(&kept)
/// }
/// ```
pub struct Event<'a, 'py, W> {
    py: Python<'py>,
    kind: EventKind<'a, 'py>,
    code: Borrowed<'a, 'py, PyCode>,
    word: &'a W,
}

impl<'a, 'py, W> Event<'a, 'py, W> {
    /// # Safety
    /// What the event points to are references to a value, as the kind says, and to a code object.
    /// They are good as long as `'a`.
    pub(crate) unsafe fn new(py: Python<'py>, raw: &RawEvent, word: &'a W) -> PyResult<Self> {
        // SAFETY: the caller's promise is handed on.
        let value = unsafe { Borrowed::from_ptr_or_opt(py, raw.value) };
        let kind = match (raw.kind, value) {
            (0, Some(value)) => EventKind::Returned(value),
            (1, Some(value)) => EventKind::Raised(value),
            (2, Some(value)) => EventKind::Yielded(value),
            (3, _) => EventKind::Resumed,
            (4, _) => EventKind::Dropped,
            _ => return Err(PySystemError::new_err("an event of an unknown kind")),
        };
        // SAFETY: as above.
        let code = unsafe { Borrowed::from_ptr(py, raw.code).cast_unchecked() };
        Ok(Self { py, kind, code, word })
    }

    /// The proof that this thread is attached to the interpreter.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    /// What has happened.
    pub fn kind(&self) -> EventKind<'a, 'py> {
        self.kind
    }

    /// The code that ran.
    pub fn code(&self) -> Borrowed<'a, 'py, PyCode> {
        self.code
    }

    /// What the hook said when it was asked.
    pub fn word(&self) -> &W {
        self.word
    }
}
