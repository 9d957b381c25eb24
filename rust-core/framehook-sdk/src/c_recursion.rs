//! How deep code in C may call itself.

use crate::api::{later, Later};
use pyo3::prelude::*;
use std::ffi::c_int;
use std::marker::PhantomData;

/// Has this thread raise RecursionError after so many more levels of C recursion, until the value is
/// dropped: then it has as many left as before. For hooks that run a compiler, which calls itself
/// deeply through C.
///
/// Nothing else changes: Python's own limit is `sys.setrecursionlimit`. As with that, a number for
/// which the stack of the thread is too small ends the process.
///
/// ```no_run
/// use pyo3::prelude::*;
/// fn compile<'py>(compiler: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
///     let levels = framehook::CRecursion::allow(compiler.py(), 50_000)?;
///     println!("there were {} before", levels.before());
///     compiler.call0()
/// }
/// ```
pub struct CRecursion<'py> {
    functions: &'static Later,
    before: c_int,
    /// Of this thread: neither `Send` nor `Sync`.
    attached: PhantomData<(Python<'py>, *mut ())>,
}

impl<'py> CRecursion<'py> {
    /// RuntimeError: this interpreter has no function for it.
    pub fn allow(_: Python<'py>, levels: i32) -> PyResult<Self> {
        let functions = later("changing the limit of C recursion")?;
        // SAFETY: attached; any number is allowed.
        let before = unsafe { (functions.PyUnstable_FrameHook_SetCRecursionRemaining)(levels) };
        Ok(Self { functions, before, attached: PhantomData })
    }

    /// How many levels there were.
    pub fn before(&self) -> i32 {
        self.before
    }
}

impl Drop for CRecursion<'_> {
    fn drop(&mut self) {
        // SAFETY: attached, as long as `'py` lasts. The number was there before.
        unsafe { (self.functions.PyUnstable_FrameHook_SetCRecursionRemaining)(self.before) };
    }
}
