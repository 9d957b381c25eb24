//! Thread states, and what is said to all threads.

#[cfg(loom)]
pub use super::interleaved::{is_world_stopped, locks_held};
#[cfg(not(loom))]
#[cfg_attr(fuzzing, allow(unused_imports))] // what only unit tests use
pub use super::locks::{forget_locks, is_world_stopped, locks_held};
use super::memory::zeroed;
use crate::code_extra::NO_INDEX;
use crate::cpython::{
    _PyInterpreterFrame, _PyThreadStateImpl, PyInterpreterState, PyObject, PyThreadState,
};
use crate::in_cpython::CodeExtraState;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr::{null_mut, without_provenance_mut};

thread_local! {
    static CURRENT: Cell<*mut PyThreadState> = const { Cell::new(null_mut()) };
    /// What a test is attached to that has made nothing itself.
    static FALLBACK: RefCell<Option<Attached>> = const { RefCell::new(None) };
    static EVALUATOR_CHANGES: Cell<usize> = const { Cell::new(0) };
    static CLOCK: Cell<i64> = const { Cell::new(0) };
}

/// An interpreter as it begins, and a thread state to which this thread is attached until the value
/// goes.
pub struct Attached {
    pub interpreter: *mut PyInterpreterState,
    tstate: *mut _PyThreadStateImpl,
    before: *mut PyThreadState,
}

impl Attached {
    pub fn to_interpreter(id: i64) -> Self {
        // SAFETY: CPython starts from zeros too, as far as the crate can observe, but for these two.
        let (mut interpreter, mut tstate): (Box<PyInterpreterState>, Box<_PyThreadStateImpl>) =
            unsafe { (zeroed(), zeroed()) };
        interpreter.id = id;
        let interpreter = Box::into_raw(interpreter);
        // SAFETY: made just now.
        unsafe {
            (*CodeExtraState::of(interpreter)).perf_trampoline_index = NO_INDEX;
        }
        tstate.base.interp = interpreter;
        let tstate = Box::into_raw(tstate);
        // SAFETY: made just now.
        unsafe { (*interpreter).threads.head = tstate.cast() };
        Attached { interpreter, tstate, before: CURRENT.replace(tstate.cast()) }
    }

    pub fn tstate(&self) -> *mut PyThreadState {
        self.tstate.cast()
    }

    /// Attaches the thread to what it was attached to before. The interpreter stays until the value
    /// goes.
    pub fn leave(&self) {
        if CURRENT.get() == self.tstate() {
            CURRENT.set(self.before);
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.leave();
        // SAFETY: boxes from `to_interpreter`.
        unsafe {
            drop(Box::from_raw(self.interpreter));
            drop(Box::from_raw(self.tstate));
        }
    }
}

#[no_mangle]
pub extern "C" fn PyThreadState_Get() -> *mut PyThreadState {
    if CURRENT.get().is_null() {
        FALLBACK.set(Some(Attached::to_interpreter(0)));
    }
    CURRENT.get()
}

#[no_mangle]
extern "C" fn PyInterpreterState_ThreadHead(interp: *mut PyInterpreterState) -> *mut PyThreadState {
    // SAFETY: live.
    unsafe { (*interp).threads.head }
}

#[no_mangle]
extern "C" fn PyThreadState_Next(tstate: *mut PyThreadState) -> *mut PyThreadState {
    // SAFETY: live.
    unsafe { (*tstate).next }
}

// --- What is said to all. ---

/// How often tier 2 was notified of another evaluator.
pub fn evaluator_changes() -> usize {
    EVALUATOR_CHANGES.get()
}

#[no_mangle]
extern "C" fn _PyEval_EvaluatorChanged(_interp: *mut PyInterpreterState) {
    assert!(is_world_stopped(), "notified while other threads run");
    EVALUATOR_CHANGES.set(EVALUATOR_CHANGES.get() + 1);
}

// --- What runs. ---

/// What the eval loop returns: no object, but a number of its own.
pub const RESULT_OF_THE_LOOP: usize = 1;

#[no_mangle]
pub extern "C" fn _PyEval_EvalFrameDefault(
    _tstate: *mut PyThreadState,
    _frame: *mut _PyInterpreterFrame,
    _throwflag: c_int,
) -> *mut PyObject {
    without_provenance_mut(RESULT_OF_THE_LOOP)
}

/// A clock that advances by one at each read.
#[no_mangle]
extern "C" fn PyTime_PerfCounterRaw(result: *mut i64) -> c_int {
    CLOCK.set(CLOCK.get() + 1);
    // SAFETY: the caller's place for the time.
    unsafe { result.write(CLOCK.get()) };
    0
}
