//! A fake CPython: each C function that the crate calls, as simple as the tests allow. Unit
//! tests and fuzz targets are compiled with it.
//!
//! ```text
//!   locks     locks, and a world that stops
//!   memory    allocations that are counted and can be made to fail
//!   reclaim   memory that is freed when no thread reads it any more
//!   objects   counts of references, types, each with its deallocation, and str
//!   threads   thread states
//!   exceptions   the exception of the thread state, with its kind and its text
//!   types     types from a specification, and their objects
//!   values    tuple, bytes and cells
//!   code      code objects
//!   frames    frame objects, and frames at the top of a data stack
//!   generators  generators, whose frames are resumed and suspended
//!   interleaved  for `ci/proofs`: atomics, memory and locks that loom runs in every order; `reclaim_interleaved`
//!   claims    claims about arithmetic, which `ci/proofs` proves
//!   world     an interpreter for one test, and a check of what the test has not freed
//! ```
//!
//! All of it belongs to the thread that uses it, so tests run side by side. What CPython would take
//! for granted is asserted: a reference is given up once, nothing is allocated under a lock, no
//! exception is overwritten.

#[cfg(test)]
pub mod claims;
pub mod code;
pub mod exceptions;
pub mod frames;
pub mod generators;
#[cfg(loom)]
pub mod interleaved;
#[cfg(not(loom))]
pub mod locks;
pub mod memory;
pub mod objects;
#[cfg(not(loom))]
pub mod reclaim;
#[cfg(loom)]
pub mod reclaim_interleaved;
pub mod threads;
mod types;
pub mod values;
mod world;

pub use world::World;
