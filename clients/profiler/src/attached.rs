//! A value that one thread writes at every call, and that another one reads now and then.

use pyo3::Python;

#[cfg(not(Py_GIL_DISABLED))]
mod cell {
    use std::cell::RefCell;

    /// A value that only an attached thread reaches.
    ///
    /// # Invariants
    /// The cell is used with a `Python` in hand alone, and so by one thread at a time.
    pub(super) struct Cell<T>(RefCell<T>);

    // SAFETY: by the invariant the GIL keeps threads from using the cell at the same time. This
    // holds for its flag too. A thread that releases the GIL in the middle leaves the flag set, and the
    // next thread is refused. A module made with PyO3 is not imported where there are two GILs.
    // The value itself may move between threads.
    unsafe impl<T: Send> Sync for Cell<T> {}

    impl<T> Cell<T> {
        pub(super) fn new(value: T) -> Self {
            Self(RefCell::new(value))
        }

        pub(super) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
            let mut value = self.0.try_borrow_mut().ok()?;
            Some(body(&mut value))
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
mod cell {
    use std::sync::{Mutex, PoisonError};

    pub(super) struct Cell<T>(Mutex<T>);

    impl<T> Cell<T> {
        pub(super) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(super) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
            Some(body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }
    }
}

/// A value for attached threads. With a GIL that is all the lock it needs; without one it has a
/// lock of its own, for which only a reader waits.
pub struct Attached<T>(cell::Cell<T>);

impl<T> Attached<T> {
    pub fn new(value: T) -> Self {
        Self(cell::Cell::new(value))
    }

    /// Runs `body` with the value. `None`: it is in use further down on this stack. `body` must
    /// not call into Python: without a GIL it holds a lock.
    #[inline]
    pub fn with<R>(&self, _: Python<'_>, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.with(body)
    }
}
