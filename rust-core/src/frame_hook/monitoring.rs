//! What monitoring, trace and profile functions see of a watched generator.

use super::error::{Outcome, Raised};
use crate::code::Code;
use crate::cpython as c;
use crate::exception::drop_aside;
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Brings a resumed frame's code up to date with monitoring, which callbacks may have changed: CPython then looks for
/// running code in the frames from the shim down.
pub fn instrument(thread: Thread, frame: Frame) -> Outcome<()> {
    let code = frame.code().as_ptr();
    let wanted = thread.eval_breaker();
    // SAFETY: a field of live code, which other threads may write.
    let version = unsafe { AtomicUsize::from_ptr(&raw mut (*code)._co_instrumentation_version) };
    let version = version.load(Ordering::Acquire);
    if (wanted ^ version) >> c::_PY_EVAL_EVENTS_BITS == 0 {
        return Ok(());
    }
    // SAFETY: the frame's own code, and the thread's own interpreter. No lock is held.
    match unsafe { c::_Py_Instrument(code, thread.interpreter()) } {
        0 => Ok(()),
        _ => Err(Raised::by_cpython(thread)),
    }
}

/// Reports `PY_THROW` for the exception that is set, thrown into a generator at `at`, as `throw()` does. A tool that
/// fails replaces the exception.
///
/// # Safety
/// `frame` is the thread's current frame, with its stack pointer saved, and no lock is held.
pub unsafe fn report_throw(thread: Thread, frame: Frame, at: *mut c::_Py_CODEUNIT) {
    const EVENT: usize = c::PY_MONITORING_EVENT_PY_THROW as usize;
    // SAFETY: the thread's own interpreter. Tools are added and removed with the world stopped, and this thread
    // runs.
    let is_wanted = unsafe { (*thread.interpreter()).monitors.tools[EVENT] != 0 };
    if !is_wanted || frame.code().flags() & c::CO_NO_MONITORING_EVENTS != 0 {
        return;
    }
    // SAFETY: the caller says that `frame` is the thread's current one, with its stack pointer
    // saved, and that no lock is held. The exception is this function's own meanwhile. Tools run
    // Python code, which may do anything but end the frame, since it executes; nothing that was
    // read of it is used later.
    unsafe {
        let Some(raised) = Owned::new(c::PyErr_GetRaisedException()) else { return };
        let (tstate, exception) = (thread.tstate(), raised.as_ptr());
        match c::_Py_call_instrumentation_arg(tstate, EVENT as c_int, frame.as_ptr(), at, exception)
        {
            0 => c::PyErr_SetRaisedException(raised.into_raw()),
            _ => drop_aside(raised),
        }
    }
}

/// Whether an event of `sys.monitoring` is enabled, for the code or for all code. That is also how functions for tracing
/// and profiling work.
pub fn is_monitored(thread: Thread, code: Code) -> bool {
    // SAFETY: live by the types' invariants. On the free-threaded build the fields change with the world stopped.
    unsafe {
        let everywhere = (*thread.interpreter()).monitors.tools;
        let own = (*code.as_ptr())._co_monitoring;
        let own = own.as_ref().map(|own| own.local_monitors.tools);
        everywhere.iter().chain(own.iter().flatten()).any(|tools| *tools != 0)
    }
}
