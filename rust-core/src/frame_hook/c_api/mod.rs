//! The C interface: `Include/cpython/framehook.h`, which cbindgen makes from these three files.

mod frames;
mod hooks;
mod types;

pub use hooks::*;
pub use types::*;
