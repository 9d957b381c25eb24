//! Counts of the unit tests' objects.

pub use crate::fake_cpython::objects::{
    decref, decref_within, has_deferred_count, incref, is_immortal, is_shared,
};
