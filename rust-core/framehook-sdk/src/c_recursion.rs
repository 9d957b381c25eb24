//! How deep code in C may call itself.

use crate::raw::Api;
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
    api: &'static Api,
    before: c_int,
    /// Of this thread: neither `Send` nor `Sync`.
    attached: PhantomData<(Python<'py>, *mut ())>,
}

impl<'py> CRecursion<'py> {
    /// RuntimeError: the interpreter has no frame hooks.
    pub fn allow(_: Python<'py>, levels: i32) -> PyResult<Self> {
        let api = Api::get()?;
        // SAFETY: attached; any number is allowed.
        let before = unsafe { (api.PyUnstable_FrameHook_SetCRecursionRemaining)(levels) };
        Ok(Self { api, before, attached: PhantomData })
    }

    /// How many levels there were.
    pub fn before(&self) -> i32 {
        self.before
    }
}

impl Drop for CRecursion<'_> {
    fn drop(&mut self) {
        // SAFETY: attached, as long as `'py` lasts. The number was there before.
        unsafe { (self.api.PyUnstable_FrameHook_SetCRecursionRemaining)(self.before) };
    }
}
