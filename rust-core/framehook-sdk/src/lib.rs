//! Write a frame hook for Ferrule in Rust, without `unsafe`.
//!
//! A hook looks at a Python frame before its first instruction, and lets it run
//! other code if it likes. Here it is a type with the trait [`FrameHook`]:
//!
//! ```
//! #![forbid(unsafe_code)]
//! use framehook::{Arguments, Frame, FrameHook, Object, Python, Result, Verdict};
//!
//! /// Tells when a function of this name starts.
//! struct Announce(String);
//!
//! impl FrameHook for Announce {
//!     fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
//!         if frame.code()?.name()? != self.0 {
//!             return Ok(Verdict::Settled); // this code object is never asked about again
//!         }
//!         println!("{} starts with {} arguments", self.0, frame.argument_count());
//!         Ok(Verdict::Pass)
//!     }
//! }
//!
//! /// announce(name): the hook is there as long as what this returns.
//! fn announce<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
//!     let [name] = arguments.exactly()?;
//!     let hook = Announce(name.as_str()?.to_owned());
//!     py.capsule(py.interpreter().install("announce", hook)?)
//! }
//!
//! framehook::module! {
//!     name: "announcer",
//!     init: PyInit_announcer,
//!     doc: "Announces functions.",
//!     functions: { announce: "announce(name, /)" }
//! }
//! # fn main() {}
//! ```
//!
//! Everything of CPython is looked up at run time, so the extension loads into a
//! CPython without frame hooks too; [`available`] tells.
//!
//! Unsafe code is confined to this crate. What makes its safe face safe:
//!
//! - [`Python`] proves that the thread is attached; a [`Frame`] and an [`Object`]
//!   carry its lifetime and are neither `Send` nor `Sync`, so they cannot outlive
//!   the call nor leave the thread.
//! - A [`Stored`] outlives the call and gives its object out only in the interpreter
//!   that the object belongs to.
//! - [`Installed`] removes its hook when dropped, or retires it where it cannot.
//! - A panic stops at the border to C and becomes a Python exception.

mod api;
mod capsule;
mod error;
mod frame;
mod hook;
#[cfg(test)]
mod mock;
mod module;
mod object;
mod python;
mod stored;
#[cfg(test)]
mod tests;

pub use error::{Error, Exception, Result};
pub use frame::Frame;
pub use hook::{FrameHook, Installed, Verdict};
pub use module::Arguments;
pub use object::{Code, Object};
pub use python::{Interpreter, Python};
pub use stored::Stored;

/// For what [`module!`] expands to.
#[doc(hidden)]
pub mod __private {
    pub use crate::module::{call, define, is_init_of, Definition, Function, RawModule};
}

/// Whether this process's interpreter has frame hooks: stock CPython has not, and
/// installing a hook there raises RuntimeError.
pub fn available() -> bool {
    api::Api::get().is_ok_and(|api| api.hooks.is_ok())
}

/// The guide's example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/frame-hooks-rust.md")]
struct Guide;
