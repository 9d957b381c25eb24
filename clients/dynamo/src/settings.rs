//! What torch sets: for all threads, but for what is said to be of one.

use crate::switch;
use framehook::CRecursion;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A flag of the process.
pub struct Flag(AtomicBool);

impl Flag {
    const fn new(on: bool) -> Self {
        Self(AtomicBool::new(on))
    }

    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it, and returns what it was.
    pub fn set(&self, on: bool) -> bool {
        self.0.swap(on, Ordering::Relaxed)
    }
}

/// Only the guards that distinguish the compiled codes of a function are checked.
pub static SKIP_UNSAFE: Flag = Flag::new(false);
/// What was found comes first the next time.
pub static LRU: Flag = Flag::new(true);

thread_local! {
    /// How many compiled frames ran since a call with a full graph began in this thread, and the
    /// installation in which it did; negative: there is none.
    static FRAMES: Cell<(u32, i64)> = const { Cell::new((0, -1)) };
    /// Whether below compiled code of a full graph a frame that would be compiled is an error.
    static NESTED_IS_ERROR: Cell<bool> = const { Cell::new(false) };
}

fn frames() -> i64 {
    let (installation, count) = FRAMES.get();
    if installation == switch::installation() {
        count
    } else {
        -1
    }
}

/// Whether a call with a full graph is under way. If so, one compiled frame more runs in it.
pub fn count_frame() -> bool {
    let count = frames();
    if count >= 0 {
        FRAMES.set((switch::installation(), count + 1));
    }
    count >= 0
}

/// Sets the count and returns what it was. A call within a call does not begin anew.
pub fn set_frame_count(count: i64) -> i64 {
    let before = frames();
    if count < 0 || before < 0 {
        FRAMES.set((switch::installation(), count));
    }
    before
}

/// Whether compiling below compiled code of a full graph is an error in this thread.
pub fn nested_is_error() -> bool {
    NESTED_IS_ERROR.get()
}

/// Sets it, and returns what it was.
pub fn set_nested_is_error(on: bool) -> bool {
    NESTED_IS_ERROR.replace(on)
}

/// How many levels of C recursion there are while torch compiles; negative: as many as are left.
static C_RECURSION: AtomicI32 = AtomicI32::new(-1);

/// Sets it.
pub fn set_c_recursion(levels: i32) {
    C_RECURSION.store(levels, Ordering::Relaxed);
}

/// That limit begins to hold in this thread, until the value is dropped. It warns as torch does
/// where fewer levels are left then than before.
pub fn limit_c_recursion(py: Python<'_>) -> PyResult<Option<CRecursion<'_>>> {
    let levels = C_RECURSION.load(Ordering::Relaxed);
    if levels < 0 {
        return Ok(None);
    }
    let limit = CRecursion::allow(py, levels)?;
    let before = limit.before();
    if levels >= before {
        return Ok(Some(limit));
    }
    // The caller that shows the warning has the earlier value.
    drop(limit);
    let text = CString::new(format!(
        "new c_recursion limit ({levels}) is lower than thread's current c_recursion_remaining \
         ({before})."
    ))?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
    CRecursion::allow(py, levels).map(Some)
}

/// A callable that torch has set.
pub struct Hook {
    is_set: AtomicBool,
    callable: Mutex<Option<Py<PyAny>>>,
}

impl Hook {
    const fn new() -> Self {
        Self { is_set: AtomicBool::new(false), callable: Mutex::new(None) }
    }

    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        if !self.is_set.load(Ordering::Relaxed) {
            return None;
        }
        let hook = self.callable.lock().unwrap_or_else(PoisonError::into_inner);
        hook.as_ref().map(|hook| hook.bind(py).clone())
    }

    /// Sets it, or takes it away where `hook` is `None` in Python. Returns what it was.
    pub fn set<'py>(&self, hook: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        let py = hook.py();
        let new = (!hook.is_none()).then(|| hook.clone().unbind());
        let before = {
            let mut place = self.callable.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_set.store(new.is_some(), Ordering::Relaxed);
            std::mem::replace(&mut *place, new)
        };
        before.unwrap_or_else(|| py.None()).into_bound(py)
    }
}

/// Called when a guard has raised.
pub static GUARD_ERROR: Hook = Hook::new();
/// Called when the guards of a frame were checked; may request compilation all the same.
pub static GUARD_COMPLETE: Hook = Hook::new();
