//! Frame hooks: entry callbacks before a frame's first instruction, exit callbacks when it is left.
//!
//! ```text
//!   RESUME, RETURN_GENERATOR ──► eval_loop ──► dispatch ──► hook         in the order of the list
//!                                                │ └──────► opt_out      disabled for the code?
//!                                                └──► entry_callback ──► view      what it may read
//!                                                         │ └──────────► replace   other code to run
//!   a watched frame is left ──► return_shim ──► watch ◄───┘
//!                                  └──► notify    the event callback
//!   c_api, python ──► registry, switch, opt_out, view
//! ```
//!
//! A hook costs nothing in code for which it is disabled. `RESUME` dispatches hooks, and its specialized form
//! `RESUME_CHECK` does not. Adding a hook bumps the instrumentation version, as a monitoring tool does, so that each
//! code object executes `RESUME` once more. If all hooks are disabled for the code, it is specialized again; otherwise
//! it stays.
//!
//! The frame's prologue has run by then: cells exist and free variables are in place. Nothing has seen them, so `view`
//! looks through them and `replace` takes them back. A generator's frame moves into its object before `RESUME`, so
//! `RETURN_GENERATOR` dispatches it.
//!
//! Hooks are a linked list, which changes with the world stopped. A dispatch walks it and holds the hook that it calls.
//!
//! A call into CPython that releases a reference or allocates an object may run Python code, which may add and remove
//! hooks, or let another thread do so. What was found before such a call is looked up again after it.
//!
//! `docs/internals/frame-hooks.md` describes the mechanisms.

pub mod c_api;
mod c_types;
mod code_record;
mod counted;
mod description;
mod disabled;
mod dispatch;
mod dispatch_state;
mod entry_callback;
mod entry_frame;
mod error;
mod eval_loop;
mod generator;
mod generator_events;
mod generator_watch;
mod hook;
#[cfg(test)]
#[cfg(loom)]
mod interleavings;
mod list;
mod listening;
#[cfg(not(any(test, fuzzing)))]
mod loops;
mod monitoring;
mod notify;
mod observers;
mod once_cell;
mod opt_out;
mod parameter_map;
#[cfg(test)]
mod proofs;
#[cfg(not(any(test, fuzzing)))]
pub mod python;
mod reentrant;
mod registry;
mod replace;
mod resume;
mod return_offset;
mod return_shim;
mod scope;
mod set;
#[cfg(not(any(test, fuzzing)))]
mod set_vectorcall;
mod shim_code;
mod state;
mod suspended;
mod switch;
#[cfg(any(test, fuzzing))]
#[cfg(not(loom))]
#[cfg_attr(fuzzing, allow(dead_code))] // what only unit tests use
pub mod tests;
mod unhooked;
mod verdict;
mod view;
mod watch;
mod world;

pub use eval_loop::dispatch_before_evaluator;
pub use observers::evaluator_changed;
pub use return_shim::pass_through_shims;
#[cfg(not(any(test, fuzzing)))]
pub use state::in_callback;
