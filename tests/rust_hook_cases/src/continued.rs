//! Frames that continue. A function of its own: it is as unsafe as what Python gives it.

use framehook::{continue_frames, FrameRecord, Resume, Slot};
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyList};

type Given<'py> = (Bound<'py, PyFunction>, usize, Vec<Slot<'py>>, Vec<Slot<'py>>);

/// Continues frames of (function, instruction, variables, stack), with None for NULL, and the innermost one with a value or
/// an exception: `[value]`, an exception, or None.
#[pyfunction]
#[allow(unsafe_code)]
pub fn continue_all<'py>(
    py: Python<'py>,
    frames: Vec<Given<'py>>,
    resume: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let records = frames
        .into_iter()
        .map(|(function, at, variables, stack)| FrameRecord::new(function, at, variables, stack));
    let resume = match resume {
        None => Resume::Next,
        Some(value) if value.is_instance_of::<PyList>() => Resume::With(value.get_item(0)?),
        Some(error) => Resume::Raise(PyErr::from_value(error)),
    };
    // SAFETY: the tests give what the code of each function expects at the instruction.
    unsafe { continue_frames(py, records.collect(), resume) }
}
