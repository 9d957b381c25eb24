//! Counts of the unit tests' objects.

pub use crate::stand_in::objects::{
    decref, decref_within, has_deferred_count, incref, is_immortal, is_shared,
};
