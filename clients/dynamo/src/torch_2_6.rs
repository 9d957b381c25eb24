//! What torch 2.6, which Debian 13 has, does in another way than later ones.
//!
//! In Python, `_patching.py` knows two functions that it lacks. To serve it no more, delete this
//! module, what names it, and `Action::SkipUnlessFound`.

use crate::call::call;
use crate::code_state::CodeState;
use crate::entry::CacheEntry;
use crate::extra;
use crate::strategy::{Action, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a callback may return in the place of code. Later ones return an object with a strategy.
struct Marks {
    skip_all: Py<PyAny>,
    limit_reached: Py<PyAny>,
}

static MARKS: Mutex<Option<Marks>> = Mutex::new(None);
/// Whether there are marks.
static IS_SERVED: AtomicBool = AtomicBool::new(false);

/// Remembers the marks that torch's extension has, if it has them.
pub fn remember(extension: &Bound<'_, PyAny>) -> PyResult<()> {
    let skip_all = extension.getattr_opt("skip_code_recursive_flag")?;
    let limit_reached = extension.getattr_opt("cache_limit_hit_flag")?;
    let new = skip_all.zip(limit_reached).map(|(skip_all, limit_reached)| Marks {
        skip_all: skip_all.unbind(),
        limit_reached: limit_reached.unbind(),
    });
    IS_SERVED.store(new.is_some(), Ordering::Relaxed);
    if new.is_some() {
        link_entries(extension.py())?;
    }
    let before = std::mem::replace(&mut *MARKS.lock().unwrap_or_else(PoisonError::into_inner), new);
    drop(before);
    Ok(())
}

/// Whether the hook serves this torch.
pub fn is_served() -> bool {
    IS_SERVED.load(Ordering::Relaxed)
}

/// The attribute of a callback that is the callback within it.
pub fn backend_name(py: Python<'_>) -> &Bound<'_, PyString> {
    pyo3::intern!(py, "_torchdynamo_orig_callable")
}

/// What a callback says with a mark, or with `None`; not where it has returned code.
pub fn strategy_of(object: &Bound<'_, PyAny>) -> Option<Strategy> {
    let marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    let marks = marks.as_ref()?;
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

/// Frames of a code object run as they are.
#[pyfunction]
pub fn skip_code(code: &Bound<'_, PyAny>) -> PyResult<()> {
    extra::set_strategy(extra::code_of(code)?, Strategy::skipped())
}

/// The entry that is looked at after this one: torch goes from one to the next.
#[pyfunction]
fn next(entry: &Bound<'_, CacheEntry>) -> PyResult<Option<Py<CacheEntry>>> {
    let state = entry.getattr("guard_manager")?.getattr("extra_state")?;
    let Ok(state) = state.cast::<CodeState>() else { return Ok(None) };
    let Some(entries) = state.get().entries(entry.get().region()) else { return Ok(None) };
    let mut rest = entries.iter().skip_while(|it| !it.is(entry)).skip(1);
    Ok(rest.next().map(|next| next.clone_ref(entry.py())))
}

/// Gives entries the property `next`.
fn link_entries(py: Python<'_>) -> PyResult<()> {
    let property = py.import("builtins")?.getattr("property")?;
    let next = pyo3::wrap_pyfunction!(next, py)?;
    py.get_type::<CacheEntry>().setattr("next", call(&property, [&*next])?)
}
