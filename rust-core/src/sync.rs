//! Atomics: those of `core`.
//!
//! What runs in several threads without a lock takes them from here. So loom can run the very code
//! that ships, in every order of its steps: under `cfg(loom)` `fake_cpython` gives types
//! with the same layout and methods (`ci/proofs`).

#[cfg(not(any(test, fuzzing)))]
pub use core::sync::atomic::AtomicU8;
#[cfg(not(all(test, loom)))]
pub use core::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

#[cfg(test)]
#[cfg(loom)]
pub use crate::fake_cpython::interleaved::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
