//! Counts with the GIL in builds that also count all references of the process: CPython's own
//! functions do both.

pub use super::gil::{has_deferred_count, is_immortal, is_shared};
pub use crate::cpython::{Py_DecRef as decref, Py_IncRef as incref};
