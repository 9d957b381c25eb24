//! PEP 523 and the one gate: which function evaluates a frame that starts.
//!
//! Each start of a frame, in the eval loop or from C, tests one pointer of the
//! interpreter. While it is NULL the eval loop continues; the test is the only cost.
//!
//! ```text
//!   PyInterpreterState
//!     eval_frame ─────► what runs a frame; NULL: the eval loop itself
//!     eval_gate.evaluator    what SetEvalFrameFunc set
//!              .trampoline   perf's; runs first, and calls the evaluator
//! ```
//!
//! `eval_frame` is CPython's field at CPython's offset, where outside readers
//! look for it. [`Gate::update`] alone writes it.
//!
//! # Invariants
//! - `eval_frame` is the trampoline, or else the evaluator, or else NULL.
//! - `evaluator` is never `_PyEval_EvalFrameDefault`, and never the trampoline,
//!   which would call itself.
//! - All change only while every other thread of the runtime that could read
//!   them is stopped: under the interpreter's GIL, or on the free-threaded build
//!   with the world stopped. No thread stops between testing `eval_frame` and
//!   using it, so reads need no lock.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::check::check;
use crate::cpython::{
    _PyEval_EvalFrameDefault, _PyEval_EvaluatorChanged, _PyEval_StartTheWorld,
    _PyEval_StopTheWorld, _PyInterpreterFrame, PyInterpreterState, PyObject, PyThreadState,
};
use crate::frame_hook::{dispatch_before_evaluator, evaluator_changed, pass_through_shims};
use crate::in_cpython::{EvalFrameFunction, EvalGate};
use core::ffi::c_int;
use core::ptr::{fn_addr_eq, NonNull};

fn same(one: EvalFrameFunction, other: EvalFrameFunction) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => fn_addr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// What others decide; `eval_frame` follows from it.
#[derive(Clone, Copy)]
struct Settings {
    evaluator: EvalFrameFunction,
    trampoline: EvalFrameFunction,
    allow_specialization: bool,
}

impl Settings {
    fn same(&self, other: &Settings) -> bool {
        same(self.evaluator, other.evaluator)
            && same(self.trampoline, other.trampoline)
            && self.allow_specialization == other.allow_specialization
    }
}

/// The gate of one interpreter.
///
/// # Invariants
/// Points to a live interpreter state. The calling thread is attached to it, or to one with the same GIL.
/// So that thread has the GIL, or is one of those that a change stops.
#[derive(Clone, Copy)]
struct Gate(NonNull<PyInterpreterState>);

impl Gate {
    /// # Safety
    /// `interp` is live, and the calling thread is attached to it, or to one with the same GIL, for as long
    /// as the result is used.
    unsafe fn of(interp: *mut PyInterpreterState) -> Self {
        check!(!interp.is_null(), "the evaluator of no interpreter is requested");
        // SAFETY: a live interpreter is not NULL.
        // INVARIANT: the caller says that it is live, and the thread attached.
        Gate(unsafe { NonNull::new_unchecked(interp) })
    }

    fn settings(self) -> Settings {
        // SAFETY: live by the type's invariant. Written only while this thread
        // is stopped, or by it. No reference is made: C has pointers to it too.
        unsafe {
            let gate = EvalGate::of(self.0.as_ptr());
            Settings {
                evaluator: (*gate).evaluator,
                trampoline: (*gate).trampoline,
                allow_specialization: (*gate).allow_specialization,
            }
        }
    }

    fn eval_frame(self) -> EvalFrameFunction {
        // SAFETY: live by the type's invariant. Other threads write the field only while this one is stopped.
        unsafe { (*self.0.as_ptr()).eval_frame }
    }

    /// The one place where anything here changes. `edit` gets the settings of the moment, with the
    /// world stopped; it runs twice, first to see whether there is anything to change.
    fn change(self, edit: impl Fn(Settings) -> Settings) {
        let now = self.settings();
        if edit(now).same(&now) {
            return;
        }
        // SAFETY: live, and a thread state is held, by the type's invariant.
        unsafe { _PyEval_StopTheWorld(self.0.as_ptr()) };
        // Another thread may have changed something before the world stood still.
        // SAFETY: the world is stopped.
        unsafe { self.update(edit(self.settings())) };
        // SAFETY: as for stopping. Traces of tier 2 do not test the gate, so they are dropped
        // before any thread continues.
        unsafe {
            _PyEval_EvaluatorChanged(self.0.as_ptr());
            _PyEval_StartTheWorld(self.0.as_ptr());
        }
    }

    /// # Safety
    /// The world is stopped: no other thread of the interpreter runs Python code.
    unsafe fn update(self, wanted: Settings) {
        // SAFETY: live by the type's invariant. The caller says that the world is stopped, so no other
        // thread reads or writes the fields.
        unsafe {
            let interp = self.0.as_ptr();
            let gate = EvalGate::of(interp);
            (*gate).evaluator = wanted.evaluator;
            (*gate).trampoline = wanted.trampoline;
            (*gate).allow_specialization = wanted.allow_specialization;
            // INVARIANT: the trampoline, or else the evaluator, or else none.
            (*interp).eval_frame = wanted.trampoline.or(wanted.evaluator);
        }
    }
}

/// Runs a frame the way the interpreter wants it: by the trampoline or the
/// evaluator, or by the eval loop. For callers that found `eval_frame` not NULL.
///
/// Returns a new reference, or NULL with an exception set.
///
/// # Safety
/// What `_PyEval_EvalFrameDefault` requires: `tstate` is the calling thread's own, and attached; `frame`
/// is complete, is the thread's, is not linked yet and does not execute. The call takes it over: it may
/// be freed on return.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_EvalFrame(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
    throwflag: c_int,
) -> *mut PyObject {
    // SAFETY: the caller passes its own, attached thread state and a frame that does not execute. A frame that the
    // dispatch returns is such a frame too, and the shim lies upon the thread's current frame.
    unsafe {
        match dispatch_before_evaluator(tstate, frame) {
            Ok((frame, None)) => evaluate(tstate, frame, throwflag),
            Ok((frame, Some(shim))) => {
                let result = evaluate(tstate, frame, throwflag);
                pass_through_shims(tstate, shim, result)
            }
            Err(result) => result,
        }
    }
}

/// Runs a frame by whatever runs frames now. A hook may have changed that.
///
/// # Safety
/// As for [`_PyRust_EvalFrame`].
#[inline(always)]
unsafe fn evaluate(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
    throwflag: c_int,
) -> *mut PyObject {
    // SAFETY: the caller passes its own, attached thread state, whose interpreter is live, and a frame
    // that does not execute. That is all an evaluator requires.
    unsafe {
        match Gate::of((*tstate).interp).eval_frame() {
            Some(evaluator) => evaluator(tstate, frame, throwflag),
            None => _PyEval_EvalFrameDefault(tstate, frame, throwflag),
        }
    }
}

/// The interpreter's evaluator, `_PyEval_EvalFrameDefault` for none; never the
/// perf trampoline's.
///
/// # Safety
/// `interp` is live, and the calling thread is attached to it, or to one with the same GIL.
#[no_mangle]
pub unsafe extern "C" fn _PyInterpreterState_GetEvalFrameFunc(
    interp: *mut PyInterpreterState,
) -> EvalFrameFunction {
    // SAFETY: the caller passes a live interpreter, and is attached.
    let settings = unsafe { Gate::of(interp) }.settings();
    settings.evaluator.or(Some(_PyEval_EvalFrameDefault))
}

/// Sets the interpreter's evaluator for every frame that starts from now on, and
/// for resumed generators. NULL or `_PyEval_EvalFrameDefault` means none.
///
/// The perf trampoline, if active, stays and calls it. Costs stopping the other
/// threads on the free-threaded build, unless nothing changes.
///
/// # Safety
/// `interp` is live, the calling thread is attached to it or to one with the same GIL, and `eval_frame`
/// keeps `_PyFrameEvalFunction`'s contract for as long as it is set.
#[no_mangle]
pub unsafe extern "C" fn _PyInterpreterState_SetEvalFrameFunc(
    interp: *mut PyInterpreterState,
    eval_frame: EvalFrameFunction,
) {
    // SAFETY: the caller passes a live interpreter, and is attached.
    let gate = unsafe { Gate::of(interp) };
    let had_one = gate.eval_frame().is_some();
    gate.change(|now| {
        let is_none =
            same(eval_frame, Some(_PyEval_EvalFrameDefault)) || same(eval_frame, now.trampoline);
        // INVARIANT: neither the default evaluator nor the trampoline gets in.
        Settings { evaluator: if is_none { None } else { eval_frame }, ..now }
    });
    if had_one || gate.eval_frame().is_some() {
        evaluator_changed();
    }
}

/// Whether instructions are still specialized for Python functions while an
/// evaluator is set; 0 at first. Holds for later evaluators too.
///
/// The evaluator is not involved: it sees every frame either way.
///
/// # Safety
/// `interp` is live, and the calling thread is attached to it, or to one with the same GIL.
#[no_mangle]
pub unsafe extern "C" fn _PyInterpreterState_SetEvalFrameAllowSpecialization(
    interp: *mut PyInterpreterState,
    allow_specialization: c_int,
) {
    // SAFETY: the caller passes a live interpreter, and is attached.
    let gate = unsafe { Gate::of(interp) };
    let allow_specialization = allow_specialization != 0;
    gate.change(|now| Settings { allow_specialization, ..now });
}

/// 1 where instructions are specialized for Python functions now, else 0.
///
/// # Safety
/// `interp` is live, and the calling thread is attached to it, or to one with the same GIL.
#[no_mangle]
pub unsafe extern "C" fn _PyInterpreterState_IsSpecializationEnabled(
    interp: *mut PyInterpreterState,
) -> c_int {
    // SAFETY: the caller passes a live interpreter, and is attached.
    let gate = unsafe { Gate::of(interp) };
    c_int::from(gate.eval_frame().is_none() || gate.settings().allow_specialization)
}

/// Puts the perf trampoline's evaluator in front of the evaluator; NULL takes it
/// away.
///
/// # Safety
/// `interp` is live, the calling thread is attached to it or to one with the same GIL, and `trampoline`
/// runs what `_PyInterpreterState_GetEvalFrameFunc` returns.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_SetTrampoline(
    interp: *mut PyInterpreterState,
    trampoline: EvalFrameFunction,
) {
    // SAFETY: the caller passes a live interpreter, and is attached.
    let gate = unsafe { Gate::of(interp) };
    let had_one = gate.eval_frame().is_some();
    gate.change(|now| Settings { trampoline, ..now });
    if had_one || gate.eval_frame().is_some() {
        evaluator_changed();
    }
}
