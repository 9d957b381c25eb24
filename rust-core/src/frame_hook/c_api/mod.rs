//! The C interface: `Include/cpython/framehook.h`, which cbindgen makes from these three files.

pub mod frames;
pub mod hooks;
mod types;

pub use types::*;
