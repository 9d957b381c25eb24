//! Write a frame hook for Ferrule in an extension module that is made with PyO3.
//!
//! A hook is asked about a Python frame before its first instruction. It may let the frame run
//! other code, give the call's result, or be told when the frame ends. Here it is a type with the
//! trait [`FrameHook`]:
//!
//! ```no_run
//! #![forbid(unsafe_code)]
//! use framehook::{Answer, Builder, Frame, FrameHook, Installed};
//! use pyo3::prelude::*;
//!
//! /// Tells when a function of this name starts.
//! struct Announce(String);
//!
//! impl FrameHook for Announce {
//!     type Word = ();
//!     fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
//!         if frame.code()?.getattr("co_name")?.extract::<String>()? != self.0 {
//!             return Ok(Answer::settled()); // never ask about this code object again
//!         }
//!         println!("{} starts with {} arguments", self.0, frame.argument_count());
//!         Ok(Answer::pass())
//!     }
//! }
//!
//! /// The hook is there as long as this object.
//! #[pyclass(frozen)]
//! struct Announcing {
//!     _installed: Installed<Announce>,
//! }
//!
//! #[pyfunction]
//! fn announce(py: Python<'_>, name: String) -> PyResult<Announcing> {
//!     Ok(Announcing { _installed: Builder::new("announce").install(py, Announce(name))? })
//! }
//! ```
//!
//! The functions of frame hooks are looked up at run time, so the extension loads into a CPython
//! without them too; [`version`] tells. Some of them came with a second edition. Where there is the
//! first one only, they are a RuntimeError that says so.
//!
//! Unsafe code is confined to this crate and PyO3. What makes the face of this crate safe:
//!
//! - A [`Frame`] and an [`Event`] carry the lifetime of the call, so they cannot outlive it. They
//!   are neither `Send` nor `Sync`, so they cannot leave the thread.
//! - [`Installed`] removes its hook when dropped, or retires it where it cannot.
//! - A word that a hook gives with a frame is dropped when nothing more is told of that frame.
//! - A panic stops at the border to C and becomes a Python exception.

mod api;
mod c_recursion;
mod frame;
mod hook;
mod install;
mod original;
mod word;

pub use c_recursion::CRecursion;
pub use frame::Frame;
pub use hook::{Also, Answer, Event, EventKind, FrameHook};
pub use install::{clear, Builder, Installed, Place};
pub use original::{can_stand_in, original, outside, Callee, Original, Outside, Way};

/// The edition of frame hooks that this process's interpreter has: 0 in stock CPython, which has
/// none and where installing a hook raises RuntimeError.
pub fn version() -> u32 {
    api::version()
}

/// The guide's example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/frame-hooks-rust.md")]
struct Guide;
