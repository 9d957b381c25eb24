//! Write a frame hook for Ferrule in an extension module that is made with PyO3.
//!
//! A hook is called before the first instruction of a Python frame. It may let the frame run other
//! code, give the call a result, or have events delivered when the frame is left, yields or is resumed.
//! Here it is a type with the trait [`FrameHook`]:
//!
//! ```no_run
//! #![forbid(unsafe_code)]
//! use framehook::{Answer, Builder, Frame, FrameHook, Installed};
//! use pyo3::prelude::*;
//!
//! /// Prints when a function of this name is called.
//! struct Announce(String);
//!
//! impl FrameHook for Announce {
//!     type Data = ();
//!     fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
//!         if frame.code()?.getattr("co_name")?.extract::<String>()? != self.0 {
//!             return Ok(Answer::disable()); // for this code object
//!         }
//!         println!("{} is called with {} arguments", self.0, frame.argument_count());
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
//! without them too; [`version`] returns which. [`raw`] has them for code that needs the C interface itself.
//!
//! Unsafe code is confined to this crate and PyO3. What makes the interface safe:
//!
//! - A [`Frame`] and an [`Event`] carry the lifetime of the call, so they cannot outlive it. They
//!   are neither `Send` nor `Sync`, so they cannot leave the thread.
//! - [`Installed`] removes its hook when dropped, or retires it where it cannot.
//! - Data that a hook gives with a frame is dropped when no further event of that frame is delivered.
//! - A panic stops at the border to C and becomes a Python exception, or ends the process.

mod c_recursion;
mod call;
mod continuation;
mod data;
mod frame;
mod hook;
mod hot_loop;
mod install;
pub mod raw;

pub use c_recursion::CRecursion;
pub use call::{incompatibility, reentrant, unhooked, Callee, Unhooked};
pub use continuation::{continue_frames, FrameRecord, Resume, Slot};
pub use frame::Frame;
pub use hook::{Also, Answer, Event, EventKind, FrameHook};
pub use hot_loop::{HotLoop, LoopAnswer};
pub use install::{clear, Builder, Installed, Position};
pub use raw::version;

/// The guide's example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/frame-hooks-rust.md")]
struct Guide;
