//! Ferrule's frame core: the parts of CPython that keep frames, in Rust.
//!
//! A `no_std` static library without a path to a panic. There is no panic handler
//! and `core` is not linked, so a panic that can be reached does not link. CPython's
//! Makefile links its one object like any of its own.
//!
//! C calls the `extern "C"` functions, which cbindgen lists in `include/ferrule_core.h`.
//! Everything else is private. A table in `ARCHITECTURE.md` says which module may use
//! which, and a test holds the modules to it.
#![cfg_attr(not(test), no_std)]

mod check;
mod code;
mod code_extra;
mod collector;
mod copied_locks;
mod cpython;
mod data_stack;
mod eval_frame;
mod exception;
mod frame;
// Unit tests are compiled without Python's face of the hooks, and so without the only user of some
// functions.
#[cfg_attr(test, allow(dead_code))]
mod frame_hook;
mod in_cpython;
mod layout;
mod memory;
#[cfg_attr(test, allow(dead_code))]
mod object;
#[cfg(not(test))]
mod python_api;
// The files have the same functions, and not every build uses all of them.
#[allow(dead_code)]
mod reference_count;
// There are four representations, and a build uses one.
#[allow(dead_code)]
mod stack_ref;
#[cfg(test)]
mod stand_in;
mod sync;
#[cfg_attr(test, allow(dead_code, unused_imports, unused_macros))] // for what Python sees
mod tables;
mod thread;
