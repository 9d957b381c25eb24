//! A stand-in for CPython: each C function that the crate calls, as simple as the tests allow. Unit
//! tests and fuzz targets are compiled with it.
//!
//! ```text
//!   memory    allocations that are counted and can be made to fail
//!   reclaim   memory that is freed when no thread reads it any more
//!   objects   counts of references, types, what an object gives up when it dies
//!   values    str, tuple, bytes and cells
//!   exceptions   the exception of the thread state, with its kind and its text
//!   threads   thread states
//!   locks     locks, and a world that stops
//!   code      code objects
//!   frames    frame objects, and frames at the top of a data stack
//!   generators  generators, whose frames go on and stop
//!   interleaved  for `ci/proofs`: atomics, memory and locks that loom runs in every order
//!   claims    claims about arithmetic, which `ci/proofs` proves
//!   world     an interpreter for one test, and a look at what the test leaves behind
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
pub mod threads;
pub mod values;
mod world;

pub use world::World;
