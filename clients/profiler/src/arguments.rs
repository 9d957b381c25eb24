//! The arguments of a call as a short text, for the timeline.
//!
//! A hook runs no Python code. So only objects of the interpreter's own types are shown as they
//! are, and of others the name of the type.

use crate::entered::Entered;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PySlice, PyString, PyTuple,
};
use std::fmt::Write;
use std::sync::Arc;

/// So many arguments of a call are shown.
const MOST_ARGUMENTS: usize = 8;
/// So many characters of a text, or bytes.
const MOST_CHARACTERS: usize = 40;

/// Like `n=3, name='x', self=<Thing>`; `None`: there are no arguments.
pub fn described(frame: &dyn Entered<'_>) -> Option<Arc<str>> {
    let mut text = String::new();
    let count = frame.argument_count();
    for index in 0..count.min(MOST_ARGUMENTS) {
        let name = frame.argument_name(index).ok()?;
        let between = if text.is_empty() { "" } else { ", " };
        // No value: its cell is empty.
        let value = frame.argument(index).and_then(|value| shown(&value));
        let value = value.unwrap_or_else(|_| "?".to_owned());
        let _ = write!(text, "{between}{name}={value}");
    }
    if count > MOST_ARGUMENTS {
        text.push_str(", ...");
    }
    (!text.is_empty()).then(|| text.into())
}

fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let is_short = value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyFloat>();
    if is_short {
        return Ok(value.repr()?.to_string());
    }
    if value.is_exact_instance_of::<PyInt>() {
        // The text of a long number takes long to make.
        return Ok(value.extract::<i128>().map_or_else(|_| "<int>".to_owned(), |n| n.to_string()));
    }
    if value.is_exact_instance_of::<PyString>() || value.is_exact_instance_of::<PyBytes>() {
        let more = if value.len()? > MOST_CHARACTERS { "..." } else { "" };
        // Casting it to `PySequence` would ask `collections.abc.Sequence`, in Python.
        let beginning = value.get_item(PySlice::new(value.py(), 0, MOST_CHARACTERS as isize, 1))?;
        return Ok(format!("{}{more}", beginning.repr()?.to_string_lossy()));
    }
    let kind = value.get_type().name()?;
    let counted = value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyDict>()
        || value.is_exact_instance_of::<PySet>();
    Ok(if counted { format!("<{kind} of {}>", value.len()?) } else { format!("<{kind}>") })
}
