//! Frame hooks: tools that look at a frame before its first instruction.
//!
//! ```text
//!   RESUME, RETURN_GENERATOR ──► dispatch ──► round ──► hook       who is asked, in which order
//!                                               │ └───► settled    who has settled which code
//!                                               └───► asking ──► view      what a hook may read
//!                                                        │ └───► replace   other code to run
//!   a watched frame ends ──► came_back ──► watch ◄───────┘
//!   c_api, python ──► registry, switch, settled, view
//! ```
//!
//! Where a hook is asked costs nothing to those who have none: the eval loop's
//! `RESUME` asks, and its quick form `RESUME_CHECK` does not. Adding a hook raises
//! the instrumentation version, as a monitoring tool does, so that every code
//! object meets `RESUME` once more. Where all hooks have settled, `RESUME` becomes
//! quick again; where one wants to be asked each time, it stays.
//!
//! At that point the frame's prologue has run: cells are made, free variables are
//! in place. Nobody has seen them, so `view` looks through them and `replace`
//! takes them back. A generator's frame moves into its object before `RESUME`,
//! so there `RETURN_GENERATOR` asks.
//!
//! Any call into CPython that gives up a reference or makes an object may run Python
//! code, and that code may add and remove hooks, or let another thread do so. So what
//! was found before such a call is looked up again after it.

pub mod c_api;
mod c_types;
mod counted;
mod description;
mod disabled;
mod dispatch;
mod entry_callback;
mod entry_frame;
mod error;
mod eval_loop;
mod generator;
mod generator_watch;
mod hook;
#[cfg(test)]
#[cfg(loom)]
mod interleavings;
mod list;
mod listening;
mod monitoring;
mod notify;
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
mod return_shim;
mod scope;
mod set;
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

pub use eval_loop::{offer_before_evaluator, Before};
pub use return_shim::pass_marks;
