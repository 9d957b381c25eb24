//! Frames that were left elsewhere, as in compiled code, continue in the eval loop.
//!
//! ```text
//!   c_api ──► continuation ──► record ──► instruction    what may continue, and where
//!                  ├─────────► counts                    how many references each record gives away
//!                  ├─────────► chain                     memory for all frames, then their contents
//!                  └─────────► entry                     the eval loop enters the innermost frame
//! ```
//!
//! The frames of a call chain are pushed and filled before any of them is linked, so a failure needs no unwinding. The
//! eval loop is entered with a shim, and makes the innermost frame current there: the outermost one is linked to the
//! loop's own entry frame. So the C stack does not grow with the chain, and results, exceptions and tracebacks pass
//! from frame to frame as after any call.

pub mod c_api;
mod chain;
mod continuation;
mod counts;
mod entry;
mod instruction;
mod record;

pub use entry::{enter_chain, is_entry};
