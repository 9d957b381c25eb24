//! The gate against a model: whatever is set and taken away in whatever order,
//! `eval_frame` and what runs a frame agree.

use crate::cpython::{_PyInterpreterFrame, PyObject, PyThreadState};
use crate::eval_frame::{
    _PyInterpreterState_GetEvalFrameFunc, _PyInterpreterState_IsSpecializationEnabled,
    _PyInterpreterState_SetEvalFrameAllowSpecialization, _PyInterpreterState_SetEvalFrameFunc,
    _PyRust_EvalFrame, _PyRust_SetTrampoline,
};
use crate::fake_cpython::threads::{_PyEval_EvalFrameDefault, evaluator_changes, is_world_stopped};
use crate::fake_cpython::World;
use crate::in_cpython::EvalFrameFunction;
use proptest::prelude::*;
use std::ffi::c_int;
use std::ptr::{null_mut, without_provenance_mut};

/// Evaluators that return their own number as a pointer.
macro_rules! evaluator {
    ($name:ident, $number:literal) => {
        unsafe extern "C" fn $name(
            _tstate: *mut PyThreadState,
            _frame: *mut _PyInterpreterFrame,
            _throwflag: c_int,
        ) -> *mut PyObject {
            without_provenance_mut($number)
        }
    };
}

evaluator!(first, 2);
evaluator!(second, 3);
evaluator!(trampoline, 4);

fn number(function: EvalFrameFunction) -> usize {
    // SAFETY: the functions above touch nothing.
    function.map_or(0, |function| unsafe { function(null_mut(), null_mut(), 0) }.addr())
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Evaluator(usize),
    Trampoline(bool),
    Allow(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..5_usize).prop_map(Step::Evaluator),
        any::<bool>().prop_map(Step::Trampoline),
        any::<bool>().prop_map(Step::Allow),
    ]
}

/// What the settings should be; 0 is none.
#[derive(Clone, Copy, Default, PartialEq)]
struct Model {
    evaluator: usize,
    trampoline: usize,
    allow: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_gate_agrees_with_a_model(steps in prop::collection::vec(step(), 0..60)) {
        let functions: [EvalFrameFunction; 5] =
            [None, Some(_PyEval_EvalFrameDefault), Some(first), Some(second), Some(trampoline)];
        let world = World::new();
        let (interp, tstate) = (world.interpreter(), world.tstate());
        let mut model = Model::default();
        for step in steps {
            let (before, changes) = (model, evaluator_changes());
            // SAFETY: a live interpreter that only this thread knows.
            let set = |function| unsafe { _PyInterpreterState_SetEvalFrameFunc(interp, function) };
            match step {
                Step::Evaluator(which) => {
                    set(functions[which]);
                    // The trampoline would call itself while it is active.
                    let is_none = which < 2 || which == 4;
                    if which == 4 && model.trampoline == 0 {
                        // Not ours to know then: take it away again.
                        set(None);
                        model.evaluator = 0;
                        continue;
                    }
                    model.evaluator = if is_none { 0 } else { which };
                }
                Step::Trampoline(active) => {
                    let function = if active { functions[4] } else { None };
                    // SAFETY: as for `set`.
                    unsafe { _PyRust_SetTrampoline(interp, function) };
                    model.trampoline = if active { 4 } else { 0 };
                }
                Step::Allow(allow) => {
                    let flag = c_int::from(allow);
                    // SAFETY: as for `set`.
                    unsafe { _PyInterpreterState_SetEvalFrameAllowSpecialization(interp, flag) };
                    model.allow = allow;
                }
            }
            prop_assert!(!is_world_stopped());
            prop_assert_eq!(evaluator_changes() - changes, usize::from(model != before));
            let runs = if model.trampoline != 0 { model.trampoline } else { model.evaluator };
            // SAFETY: as for `set`. The tests' evaluators read no frame.
            let (field, got, is_enabled, ran) = unsafe {(
                (*interp).eval_frame,
                _PyInterpreterState_GetEvalFrameFunc(interp),
                _PyInterpreterState_IsSpecializationEnabled(interp),
                _PyRust_EvalFrame(tstate, null_mut(), 0),
            )};
            prop_assert_eq!(number(field), runs);
            prop_assert_eq!(number(got), model.evaluator.max(1));
            prop_assert_eq!(is_enabled, c_int::from(runs == 0 || model.allow));
            prop_assert_eq!(ran.addr(), runs.max(1));
        }
    }
}
