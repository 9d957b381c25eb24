//! The data stack: where the frames of Python-to-Python calls live.
//!
//! ```text
//!   PyThreadState                      _PyStackChunk (arena allocator)
//!   datastack_chunk ───────────────►  ┌──────────┬──────┬─────┬───────────────────┐
//!   datastack_top   ──────────────┐   │ previous │ size │ top │ data: frame frame │
//!   datastack_limit ──────────┐   │   └────┬─────┴──────┴─────┴─────────▲─────────▲
//!                             │   └────────┼────────────────────────────┘         │
//!                             └────────────┼──────────────────────────────────────┘
//!                                          ▼ the chunk below (NULL: this is the root)
//! ```
//!
//! A frame is a run of pointer-sized slots. Pushing one moves `datastack_top`
//! up; a frame that does not fit starts the next chunk at its first slot, and
//! popping the frame at a chunk's first slot leaves that chunk. The root chunk's
//! first slot is never used, so the root is never left.
//!
//! What differs from stock CPython 3.13, where every call at a chunk's edge maps
//! memory and unmaps it:
//! - A thread keeps chunks that it has left (`cache`), so a call at an edge switches chunks, and
//!   a recursion that goes down again finds its memory mapped.
//! - "Has space" counts the front chunk of the cache, so calls at an edge stay specialized.
//! - Chunks grow: each is at least twice the one below, up to
//!   [`sizes::LARGEST_GROWN_CHUNK`], so edges are rare and so are trips to the kernel.
//!
//! # Invariants
//! - The three `datastack_*` fields and the chunk headers mean what they mean in
//!   stock CPython at every moment when foreign code can run: extensions swap
//!   these fields (greenlet), push chunks of their own (TorchDynamo), and set all
//!   three to NULL. Nothing here remembers a chunk that is in use.
//! - A chunk of the chunk cache leaves it before it is used.

mod cache;
mod chunk;
mod exports;
#[cfg(test)]
#[cfg(loom)]
mod interleavings;
#[cfg(any(test, fuzzing))]
#[cfg(not(loom))]
#[cfg_attr(fuzzing, allow(dead_code))] // what only unit tests use
pub mod model;
#[cfg(test)]
mod proofs;
mod sizes;
mod stack;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use exports::_PyThreadState_PopFrame;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(unused_imports))] // what only unit tests use
pub use exports::{_PyRust_ClearDataStack, _PyThreadState_HasStackSpace, _PyThreadState_PushFrame};
pub use stack::{DataStack, Slots};
