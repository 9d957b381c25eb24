//! What torch's callback says about a frame.

use crate::strategy::{Action, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a callback has returned.
pub struct Said<'py> {
    /// What is to be done with this frame, and those below.
    pub strategy: Strategy,
    /// And with all later frames of its code.
    pub applies_to_code: bool,
    /// Code with guards: torch's `GuardedCode`.
    pub guarded: Option<Bound<'py, PyAny>>,
}

/// What a callback of torch 2.6 may return in the place of code. Later ones return an object with a strategy.
struct Marks {
    skip_all: Py<PyAny>,
    limit_reached: Py<PyAny>,
}

static MARKS: Mutex<Option<Marks>> = Mutex::new(None);
/// Whether there are marks.
static IS_2_6: AtomicBool = AtomicBool::new(false);

/// The attribute of a callback that is the callback, or the backend, within it.
pub fn backend_name(py: Python<'_>) -> &Bound<'_, PyString> {
    if IS_2_6.load(Ordering::Relaxed) {
        pyo3::intern!(py, "_torchdynamo_orig_callable")
    } else {
        pyo3::intern!(py, "_torchdynamo_orig_backend")
    }
}

/// Remembers the marks that torch's extension has, if it has them.
pub fn remember(extension: &Bound<'_, PyAny>) -> PyResult<()> {
    let skip_all = extension.getattr_opt("skip_code_recursive_flag")?;
    let limit_reached = extension.getattr_opt("cache_limit_hit_flag")?;
    let new = skip_all.zip(limit_reached).map(|(skip_all, limit_reached)| Marks {
        skip_all: skip_all.unbind(),
        limit_reached: limit_reached.unbind(),
    });
    IS_2_6.store(new.is_some(), Ordering::Relaxed);
    let before = std::mem::replace(&mut *MARKS.lock().unwrap_or_else(PoisonError::into_inner), new);
    drop(before);
    Ok(())
}

impl<'py> Said<'py> {
    /// Reads what a callback has returned.
    pub fn of(object: Bound<'py, PyAny>) -> PyResult<Self> {
        let marked = {
            let marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
            marks.as_ref().map(|marks| Self::marked(&object, marks))
        };
        match marked {
            Some(Some(strategy)) => Ok(Self { strategy, applies_to_code: true, guarded: None }),
            Some(None) => Ok(Self {
                strategy: Strategy::default(),
                applies_to_code: false,
                guarded: Some(object),
            }),
            None => Self::with_strategy(&object),
        }
    }

    /// What torch 2.6 says with a mark, or with `None`; not where it has returned code.
    fn marked(object: &Bound<'_, PyAny>, marks: &Marks) -> Option<Strategy> {
        let (current, below) = if object.is_none() {
            (Action::Skip, Action::Default)
        } else if object.is(&marks.skip_all) {
            (Action::Skip, Action::Skip)
        } else if object.is(&marks.limit_reached) {
            (Action::RunOnly, Action::SkipUnlessFound)
        } else {
            return None;
        };
        Some(Strategy { current, below })
    }

    /// What later ones say. In torch's order, which an object shows that lacks something.
    fn with_strategy(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let strategy = Strategy::of(&object.getattr("frame_exec_strategy")?)?;
        let applies_to_code = object.getattr("apply_to_code")?.is_truthy()?;
        let guarded = object.getattr("guarded_code")?;
        Ok(Self { strategy, applies_to_code, guarded: (!guarded.is_none()).then_some(guarded) })
    }
}
