//! Having torch compile a frame.

use crate::answer::{self, Said};
use crate::cache::Found;
use crate::code_state::CodeState;
use crate::entry::CacheEntry;
use crate::frame_view::Frame;
use crate::settings::limit_c_recursion;
use crate::strategy::Strategy;
use pyo3::prelude::*;

/// What torch has said about a frame.
pub struct Compiled<'py> {
    /// What is to be done with this frame, and those below.
    pub strategy: Strategy,
    /// Code to run instead.
    pub found: Option<Found<'py>>,
}

/// The state of Python's random numbers, which compiling must not change.
struct RandomState<'py> {
    module: Bound<'py, PyModule>,
    state: Bound<'py, PyAny>,
}

impl<'py> RandomState<'py> {
    fn save(py: Python<'py>) -> PyResult<Self> {
        let module = py.import("random")?;
        let state = module.call_method0("getstate")?;
        Ok(Self { module, state })
    }

    fn restore(self) -> PyResult<()> {
        self.module.call_method1("setstate", (self.state,)).map(drop)
    }
}

/// The backend of a callback, which says whose compiled code may run.
pub fn backend<'py>(callback: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let name = answer::backend_name(callback.py());
    let mut backend = callback.clone();
    while let Some(inner) = backend.getattr_opt(name)? {
        backend = inner;
    }
    Ok(backend)
}

/// Calls the callback about a frame, and keeps what it has made.
pub fn compile<'py>(
    frame: &framehook::Frame<'py>,
    state: &Bound<'py, CodeState>,
    callback: &Bound<'py, PyAny>,
    region: i64,
) -> PyResult<Compiled<'py>> {
    let py = frame.py();
    let frame = Frame::of(frame, state.get())?.into_pyobject(py)?;
    let entry = first_entry(py, state, region);
    let random = RandomState::save(py)?;
    let limit = limit_c_recursion(py)?;
    // What torch runs while it compiles may come to compiled functions itself.
    let answer =
        framehook::reentrant(callback).call1((frame, entry, state.get().frame_state.bind(py)));
    drop(limit);
    random.restore()?;
    let Said { strategy, applies_to_code, guarded } = Said::of(answer?)?;
    if applies_to_code {
        state.get().set_strategy(region, strategy);
    }
    let Some(guarded) = guarded else { return Ok(Compiled { strategy, found: None }) };
    let made_by = backend(callback)?.unbind();
    let entry = Py::new(py, CacheEntry::of(&guarded, made_by, region)?)?;
    state.get().add(py, entry.clone_ref(py));
    let manager = guarded.getattr("guard_manager")?;
    manager.setattr("cache_entry", &entry)?;
    manager.setattr("extra_state", state)?;
    py.import("ferrule_dynamo._patching")?.call_method0("leave_torch_alone")?;
    Ok(Compiled { strategy, found: Found::of(py, &entry) })
}

/// The entry that torch is shown: the first one of the region, or of the default one.
fn first_entry(
    py: Python<'_>,
    state: &Bound<'_, CodeState>,
    region: i64,
) -> Option<Py<CacheEntry>> {
    [region, crate::callback::DEFAULT_REGION]
        .into_iter()
        .find_map(|region| state.get().entries(region)?.first().map(|entry| entry.clone_ref(py)))
}
