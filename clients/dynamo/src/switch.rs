//! Whether the hook of the process is there, and when it is enabled.
//!
//! While no thread has a callback, the hook has nothing to say to any frame. To switch it off at
//! once would be wrong, as switching it on again dispatches each code object once more, and
//! a program may come to its compiled function again a moment later. So it stays on until it was
//! called without work for a while. What that costs is a small part of what the next switch would.

use framehook::{FrameHook, Installed};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// After so many calls without work the hook is switched off.
const PATIENCE: u32 = 2_000;

/// An installed hook, whatever it does.
trait Hook: Send + Sync {
    fn enable(&self, py: Python<'_>, on: bool) -> PyResult<()>;
    fn enable_for(&self, code: &Bound<'_, PyCode>, on: bool) -> PyResult<()>;
    fn remove(self: Arc<Self>, py: Python<'_>) -> PyResult<()>;
}

impl<H: FrameHook> Hook for Installed<H> {
    fn enable(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        match on {
            true => Installed::enable(self, py),
            false => Installed::disable(self, py),
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
}
/// Counts the installations.
static INSTALLATION: AtomicU32 = AtomicU32::new(0);
/// Whether the hook is there.
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Whether the hook is called.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// How often it was in vain.
static IN_VAIN: AtomicU32 = AtomicU32::new(0);

/// The hook, taken out of the lock: what is done with it may wait for other threads.
fn hook() -> Option<Arc<dyn Hook>> {
    HOOK.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn switch(py: Python<'_>, on: bool) -> PyResult<()> {
    let hook = hook().ok_or_else(|| {
        PyRuntimeError::new_err("ferrule_dynamo is not installed: call ferrule_dynamo.install()")
    })?;
    ENABLED.store(on, Ordering::SeqCst);
    IN_VAIN.store(0, Ordering::Relaxed);
    hook.enable(py, on)
}

/// A thread has a callback from now on.
#[inline]
pub fn begin(py: Python<'_>) -> PyResult<()> {
    count(1);
    if ENABLED.load(Ordering::SeqCst) {
        return Ok(());
    }
    switch(py, true).inspect_err(|_| end())
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

/// Whether some thread has a callback.
#[inline]
pub fn is_needed() -> bool {
    THREADS.load(Ordering::Relaxed) != 0
}

/// The hook was called in vain once more. Whether that is enough to switch it off.
#[inline]
pub fn is_idle() -> bool {
    // Threads may overwrite each other's count: it only matters that it grows.
    let count = IN_VAIN.load(Ordering::Relaxed) + 1;
    IN_VAIN.store(count, Ordering::Relaxed);
    count >= PATIENCE
}

/// Switches the hook off until a thread has a callback.
pub fn rest(py: Python<'_>) -> PyResult<()> {
    if THREADS.load(Ordering::SeqCst) == 0 {
        switch(py, false)?;
    }
    // A thread that has got a callback meanwhile may have found it switched on.
    if THREADS.load(Ordering::SeqCst) != 0 && !ENABLED.load(Ordering::SeqCst) {
        switch(py, true)?;
    }
    Ok(())
}

/// Takes over a hook that was installed, and is enabled.
pub fn connect<H: FrameHook>(installed: Installed<H>) {
    IN_VAIN.store(0, Ordering::Relaxed);
    ENABLED.store(true, Ordering::SeqCst);
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
    ENABLED.store(false, Ordering::SeqCst);
    hook.map_or(Ok(()), |hook| hook.remove(py))
}

/// The number of this installation.
pub fn installation() -> u32 {
    INSTALLATION.load(Ordering::Relaxed)
}

/// Whether the hook was installed, and was not removed.
#[inline]
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Whether the hook is called for frames now.
#[pyfunction]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Enables the hook for a code object for which it is disabled, or disables it.
pub fn enable_for_code(code: &Bound<'_, PyCode>, on: bool) -> PyResult<()> {
    match hook() {
        Some(hook) => hook.enable_for(code, on),
        None => Ok(()),
    }
}
