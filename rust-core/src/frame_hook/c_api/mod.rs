//! The functions of `Include/cpython/framehook.h`, which cbindgen makes from these files and `c_types`.

#[cfg(not(any(test, fuzzing)))]
pub mod compilers;
pub mod frames;
pub mod hooks;
