//! The callback of each thread, and the region that its calls compile for.

use crate::switch;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};

/// What a thread does with frames that begin.
pub enum Callback {
    /// Nothing. `None` in Python.
    Off,
    /// It runs what was compiled, and compiles nothing. `False` in Python.
    RunOnly,
    /// It has frames compiled by this callable.
    On(Py<PyAny>),
}

impl Callback {
    /// As torch has it. `None`: it is no callback.
    pub fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        if object.is_none() {
            Some(Self::Off)
        } else if object.is(&*pyo3::types::PyBool::new(object.py(), false)) {
            Some(Self::RunOnly)
        } else {
            object.is_callable().then(|| Self::On(object.clone().unbind()))
        }
    }

    /// As torch has it.
    pub fn to_object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self {
            Self::Off => py.None().into_bound(py),
            Self::RunOnly => pyo3::types::PyBool::new(py, false).to_owned().into_any(),
            Self::On(callable) => callable.bind(py).clone(),
        }
    }

    /// As torch has it, without another reference.
    pub fn into_object(self, py: Python<'_>) -> Bound<'_, PyAny> {
        match self {
            Self::On(callable) => callable.into_bound(py),
            other => other.to_object(py),
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::RunOnly => Self::RunOnly,
            Self::On(callable) => Self::On(callable.clone_ref(py)),
        }
    }

    /// Drops it, at once.
    #[inline]
    pub fn forget(self, py: Python<'_>) {
        if let Self::On(callable) = self {
            callable.drop_ref(py);
        }
    }

    pub fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Whether they are one and the same.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Off, Self::Off) | (Self::RunOnly, Self::RunOnly) => true,
            (Self::On(one), Self::On(other)) => one.is(other),
            _ => false,
        }
    }
}

/// A thread's callback. A thread that ends with one counts no more.
struct Own(RefCell<Callback>);

impl Own {
    #[inline]
    fn replace(&self, callback: Callback) -> Callback {
        self.0.replace(callback)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if !self.0.get_mut().is_off() {
            switch::end();
        }
    }
}

thread_local! {
    static CALLBACK: Own = const { Own(RefCell::new(Callback::Off)) };
    static REGION: Cell<i64> = const { Cell::new(DEFAULT_REGION) };
}

/// The region of all calls that do not have one of their own.
pub const DEFAULT_REGION: i64 = -1;

/// Whether this thread does nothing with frames. So it is where the thread ends.
#[inline]
pub fn is_off() -> bool {
    CALLBACK.try_with(|own| own.0.borrow().is_off()).unwrap_or(true)
}

/// A callback that is not this thread's for the time: while guards are checked and torch compiles,
/// the thread has none. Where it is not put back, the thread continues without.
///
/// # Invariants
/// It is not [`Callback::Off`], and the thread counts as one that has a callback.
pub struct Taken(Callback);

/// Takes this thread's callback. `None`: it has none.
#[inline]
pub fn take() -> Option<Taken> {
    let taken = CALLBACK.with(|own| own.replace(Callback::Off));
    // INVARIANT: it was set as the thread's, and so it is counted. Where there is none, no value is
    // made: its end would count.
    (!taken.is_off()).then(|| Taken(taken))
}

impl Taken {
    pub fn callback(&self) -> &Callback {
        &self.0
    }

    /// It is the thread's again.
    #[inline]
    pub fn put_back(mut self, py: Python<'_>) {
        let callback = std::mem::replace(&mut self.0, Callback::Off);
        std::mem::forget(self);
        set(py, callback);
    }

    /// The thread gets another one for a time. Returns the one that was taken.
    pub fn put(mut self, py: Python<'_>, other: Callback) -> Callback {
        let callback = std::mem::replace(&mut self.0, Callback::Off);
        if other.is_off() {
            switch::end();
        }
        std::mem::forget(self);
        set(py, other);
        callback
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        switch::end();
    }
}

/// Sets the thread's callback, which is counted already. What was set while it was taken goes.
#[inline]
fn set(py: Python<'_>, callback: Callback) {
    if !callback.is_off() {
        switch::wake(py);
    }
    let before = CALLBACK.with(|own| own.replace(callback));
    if !before.is_off() {
        switch::end();
        before.forget(py);
    }
}

/// This thread's callback.
pub fn current(py: Python<'_>) -> Callback {
    CALLBACK.with(|own| own.0.borrow().clone_ref(py))
}

/// Gives this thread another callback, and returns the one before.
pub fn replace(py: Python<'_>, callback: Callback) -> Callback {
    let on = !callback.is_off();
    // What is replaced is dropped by the caller, not within the borrow: a destructor may come here.
    let before = CALLBACK.with(|own| own.replace(callback));
    match (before.is_off(), on) {
        (true, true) => switch::begin(py),
        (false, false) => switch::end(),
        _ => {}
    }
    before
}

/// The region that this thread compiles for.
#[inline]
pub fn region() -> i64 {
    REGION.get()
}

/// Sets it, and returns the one before.
pub fn set_region(region: i64) -> i64 {
    REGION.replace(region)
}
