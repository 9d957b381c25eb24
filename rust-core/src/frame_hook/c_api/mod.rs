//! The functions of `Include/cpython/framehook.h`, which cbindgen makes from these files and `c_types`.

pub mod frames;
pub mod hooks;
