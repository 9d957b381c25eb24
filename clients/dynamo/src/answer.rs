//! What torch's callback says about a frame.

use crate::strategy::Strategy;
use crate::torch_2_6;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// What a callback has returned.
pub struct Said<'py> {
    /// What is to be done with this frame, and those below.
    pub strategy: Strategy,
    /// And with all later frames of its code.
    pub applies_to_code: bool,
    /// Code with guards: torch's `GuardedCode`.
    pub guarded: Option<Bound<'py, PyAny>>,
}

/// The attribute of a callback that is the callback, or the backend, within it.
pub fn backend_name(py: Python<'_>) -> &Bound<'_, PyString> {
    if torch_2_6::is_served() {
        torch_2_6::backend_name(py)
    } else {
        pyo3::intern!(py, "_torchdynamo_orig_backend")
    }
}

impl<'py> Said<'py> {
    /// Reads what a callback has returned.
    pub fn of(object: Bound<'py, PyAny>) -> PyResult<Self> {
        if torch_2_6::is_served() {
            let strategy = torch_2_6::strategy_of(&object);
            return Ok(Self {
                strategy: strategy.unwrap_or_default(),
                applies_to_code: strategy.is_some(),
                guarded: strategy.is_none().then_some(object),
            });
        }
        Self::with_strategy(&object)
    }

    /// In torch's order, which an object shows that lacks something.
    fn with_strategy(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let strategy = Strategy::of(&object.getattr("frame_exec_strategy")?)?;
        let applies_to_code = object.getattr("apply_to_code")?.is_truthy()?;
        let guarded = object.getattr("guarded_code")?;
        Ok(Self { strategy, applies_to_code, guarded: (!guarded.is_none()).then_some(guarded) })
    }
}
