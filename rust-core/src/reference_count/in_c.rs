//! Counts with the GIL in builds that also count all references of the process: CPython's own
//! functions do both.

pub use super::called::{decref, decref_within, incref};
pub use super::gil::{has_deferred_count, is_immortal, is_shared};
