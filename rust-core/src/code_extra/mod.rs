//! `co_extra`: values that extensions attach to code objects (PEP 523).
//!
//! ```text
//!   PyInterpreterState                          PyCodeObject
//!   code_extra ──► registry: index, free fn     co_extra ──► table: index, value
//!       │                                                     ▲        │
//!       └── tables ───────────────────────────────────────────┘ ◄──────┘ owner
//! ```
//!
//! An interpreter owns the indices that it hands out and every value under them;
//! it knows all tables of its code objects, so that an index can be released. A
//! value is freed exactly once: by the thread that takes it out of its table, under the
//! lock, and after the lock was given back.
//!
//! `index` says what an index is made of, `registry` which ones are in use, and
//! `table` holds a code object's values; `fresh` is memory that is not in its place yet.
//! `values` is what callers do with them, with errors as values; `api` is the same
//! for C, with exceptions.
//!
//! # Invariants
//! - No free function and no allocator runs while a lock is held. So a free
//!   function may call anything here, on the same code object too.
//! - Nothing of a table, or of a code object, is touched after a free function
//!   ran, without looking it up again: either may be gone.

mod api;
mod error;
mod fresh;
mod index;
#[cfg(test)]
#[cfg(loom)]
mod interleavings;
#[cfg(any(test, fuzzing))]
#[cfg(not(loom))]
#[cfg_attr(fuzzing, allow(dead_code))] // what only unit tests use
pub mod model;
#[cfg(test)]
mod proofs;
mod registry;
mod table;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod values;

#[cfg(any(test, fuzzing))]
pub use api::{_PyRust_ClearCodeExtra, _PyRust_FiniCodeExtra};
pub use error::Error;
#[cfg(any(test, fuzzing))]
pub use index::NO_INDEX;
// Not `pub`: rustc would take its methods for reachable, and their symbols would be exported.
pub(crate) use registry::Registry;
#[cfg(test)]
#[cfg(loom)]
pub(crate) use registry::CODE_TYPE_UNTIL_RELEASE;
pub use values::value_in_use;
