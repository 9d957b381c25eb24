//! Defaults that compiled code passes where a call leaves arguments out.

use crate::bind::{default_count, default_of, Origin};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};

/// The most items of a tuple that compiled code keeps alive.
const MOST_ITEMS: usize = 1024;

/// Defaults of one function, as they were when its caller was compiled.
#[derive(Default)]
pub struct Defaults {
    count: usize,
    /// Kept alive, so that an equal address is the same object. They refer to no code.
    used: Vec<(Origin, Py<PyAny>)>,
}

/// Whether an object refers to no others, so that keeping it keeps no function alive.
fn is_leaf(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.cast_exact::<PyBool>().is_ok()
        || object.cast_exact::<PyInt>().is_ok()
        || object.cast_exact::<PyFloat>().is_ok()
        || object.cast_exact::<PyString>().is_ok()
        || object.cast_exact::<PyBytes>().is_ok()
}

/// Whether a tuple has items that refer to no others, and such tuples down to a depth.
pub fn is_plain(tuple: &Bound<'_, PyTuple>, depth: u32) -> bool {
    let plain = |item: &Bound<'_, PyAny>| {
        is_leaf(item)
            || depth > 0
                && item.cast_exact::<PyTuple>().is_ok_and(|inner| is_plain(inner, depth - 1))
    };
    tuple.len() <= MOST_ITEMS && tuple.iter().all(|item| plain(&item))
}

impl Defaults {
    /// Remembers a default, which is a number, a str, bytes or None; whether it is.
    ///
    /// # Safety
    /// The origin was found with the function's count of defaults, which is also that of those that were remembered before.
    pub unsafe fn add(&mut self, function: &Bound<'_, PyAny>, origin: Origin) -> Option<Py<PyAny>> {
        let known = self.used.iter().find(|(other, _)| *other == origin);
        if let Some((_, value)) = known {
            return Some(value.clone_ref(function.py()));
        }
        // SAFETY: attached, as the binding says, and a function; the origin is right by contract. NULL, or a borrowed reference.
        let value = unsafe {
            self.count = default_count(function.as_ptr());
            let value = default_of(function.as_ptr(), origin);
            Bound::from_borrowed_ptr_or_opt(function.py(), value)
        };
        let value = value.filter(is_leaf)?.unbind();
        self.used.push((origin, value.clone_ref(function.py())));
        Some(value)
    }

    /// Whether the function still has them.
    ///
    /// # Safety
    /// A function that is alive, and the thread is attached.
    pub unsafe fn hold(&self, function: *mut PyObject) -> bool {
        // SAFETY: by contract; nothing is looked up before the count is that with which the origins were found.
        unsafe {
            default_count(function) == self.count
                && self
                    .used
                    .iter()
                    .all(|(origin, value)| default_of(function, *origin) == value.as_ptr())
        }
    }
}
