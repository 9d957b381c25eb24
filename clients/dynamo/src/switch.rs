//! The hook of the process, and the threads in which it is called.
//!
//! In a thread without a callback the hook has nothing to do. Once it was called there often enough without
//! work it is disabled in that thread, which makes calls as fast as without a hook, and enabled again where the thread
//! gets a callback. Both together cost as much as so many calls without work.

use framehook::{FrameHook, Installed};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// After so many calls without work in a thread the hook is disabled there.
const PATIENCE: u32 = 16;

/// An installed hook, whatever it does.
trait Hook: Send + Sync {
    /// In this thread. Does nothing if the hook was removed.
    fn enable(&self, py: Python<'_>, on: bool) -> PyResult<()>;
    fn enable_for(&self, code: &Bound<'_, PyCode>, on: bool) -> PyResult<()>;
    fn remove(self: Arc<Self>, py: Python<'_>) -> PyResult<()>;
}

impl<H: FrameHook> Hook for Installed<H> {
    fn enable(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        match on {
            _ if !self.is_installed() => Ok(()),
            true => self.enable_in_thread(py),
            false => self.disable_in_thread(py),
        }
    }

    fn enable_for(&self, code: &Bound<'_, PyCode>, on: bool) -> PyResult<()> {
        match on {
            true => self.enable_for_code(code),
            false => self.disable_for_code(code),
        }
    }

    fn remove(self: Arc<Self>, py: Python<'_>) -> PyResult<()> {
        match Arc::try_unwrap(self) {
            Ok(installed) if installed.is_installed() => installed.remove(py),
            // Another thread is about to switch it; it is removed when that one has.
            _ => Ok(()),
        }
    }
}

static HOOK: Mutex<Option<Arc<dyn Hook>>> = Mutex::new(None);
/// How many threads have a callback.
static THREADS: AtomicIsize = AtomicIsize::new(0);
thread_local! {
    /// How many of them this thread counts for: one of its own, and one for each that is taken.
    static COUNTED: Cell<isize> = const { Cell::new(0) };
    /// How often the hook was called here without work since it was enabled.
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
    /// Whether it is disabled here.
    static RESTS: Cell<bool> = const { Cell::new(false) };
}
/// Counts the installations.
static INSTALLATION: AtomicU32 = AtomicU32::new(0);
/// Whether the hook is there.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The hook, taken out of the lock: what is done with it may wait for other threads.
fn hook() -> Option<Arc<dyn Hook>> {
    HOOK.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A thread has a callback from now on.
#[inline]
pub fn begin(py: Python<'_>) {
    count(1);
    wake(py);
}

/// The hook is called in this thread, which has a callback.
#[inline]
pub fn wake(py: Python<'_>) {
    IN_VAIN.set(0);
    if RESTS.get() {
        enable(py);
    }
}

#[cold]
fn enable(py: Python<'_>) {
    RESTS.set(false);
    // It fails where others have just removed the hook.
    if let Some(Err(error)) = hook().map(|hook| hook.enable(py, true)) {
        drop(error);
    }
}

/// A thread has no callback any more.
#[inline]
pub fn end() {
    count(-1);
}

#[inline]
fn count(more: isize) {
    COUNTED.set(COUNTED.get() + more);
    THREADS.fetch_add(more, Ordering::SeqCst);
}

/// This process was forked: its only thread is the one that did so.
#[pyfunction]
pub fn forked() {
    THREADS.store(COUNTED.get(), Ordering::SeqCst);
}

/// The hook was called without work once more. Whether that is enough to disable it in this thread.
#[inline]
pub fn is_idle() -> bool {
    let count = IN_VAIN.get() + 1;
    IN_VAIN.set(count);
    count >= PATIENCE
}

/// Disables the hook in this thread until it gets a callback.
pub fn rest(py: Python<'_>) {
    IN_VAIN.set(0);
    // Where there is no memory for that, the hook is called on without work.
    if hook().is_some_and(|hook| hook.enable(py, false).is_ok()) {
        RESTS.set(true);
    }
}

/// Takes over a hook that was installed.
pub fn connect<H: FrameHook>(installed: Installed<H>) {
    let hook = Arc::new(installed);
    let before = HOOK.lock().unwrap_or_else(PoisonError::into_inner).replace(hook);
    drop(before);
    // From here on torch's functions are those of the hook.
    INSTALLATION.fetch_add(1, Ordering::Relaxed);
    INSTALLED.store(true, Ordering::SeqCst);
}

/// Removes the hook. RuntimeError: a thread is in a compiled region.
pub fn disconnect(py: Python<'_>) -> PyResult<()> {
    if THREADS.load(Ordering::SeqCst) != 0 {
        return Err(PyRuntimeError::new_err("a thread is in a torch.compile region"));
    }
    // From here on torch's functions are its own.
    INSTALLED.store(false, Ordering::SeqCst);
    let hook = HOOK.lock().unwrap_or_else(PoisonError::into_inner).take();
    hook.map_or(Ok(()), |hook| hook.remove(py))
}

/// The number of this installation.
pub fn installation() -> u32 {
    INSTALLATION.load(Ordering::Relaxed)
}

/// Whether the hook was installed, and was not removed.
#[pyfunction]
#[inline]
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Whether the hook is called for frames of this thread.
#[pyfunction]
pub fn is_enabled() -> bool {
    is_installed() && !RESTS.get()
}

/// Enables the hook for a code object for which it is disabled, or disables it.
pub fn enable_for_code(code: &Bound<'_, PyCode>, on: bool) -> PyResult<()> {
    match hook() {
        Some(hook) => hook.enable_for(code, on),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the counts are those of the process.
    #[test]
    fn threads_with_a_callback_are_counted_and_others_become_idle() {
        Python::initialize();
        Python::attach(|py| {
            assert!(disconnect(py).is_ok());
            begin(py);
            std::thread::scope(|scope| scope.spawn(|| count(1)).join()).unwrap();
            end();
            assert!(disconnect(py).is_err(), "the other thread counts");
            // In a forked child the other thread is not there.
            forked();
            assert!(disconnect(py).is_ok());

            let idle_after = || (1..).find(|_| is_idle());
            assert_eq!(idle_after(), Some(PATIENCE));
            // Without a hook none is disabled, and the count begins anew.
            rest(py);
            assert!(!RESTS.get());
            assert!(!is_idle());
            // So it does where the thread gets a callback.
            wake(py);
            assert_eq!(idle_after(), Some(PATIENCE));
            RESTS.set(true);
            wake(py);
            assert!(!RESTS.get());
        });
    }
}
