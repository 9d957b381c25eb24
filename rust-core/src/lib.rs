//! Ferrule's frame core: the parts of CPython that keep frames, in Rust.
//!
//! A `no_std` static library without a path to a panic. There is no panic handler
//! and `core` is not linked, so a panic that can be reached does not link. CPython's
//! Makefile links its one object like any of its own.
//!
//! C calls the `extern "C"` functions, which cbindgen lists in `include/ferrule_core.h`.
//! Everything else is private. A table in `ARCHITECTURE.md` says which module may use
//! which, and a test holds the modules to it.
#![cfg_attr(not(any(test, fuzzing)), no_std)]

mod abandoned_locks;
mod check;
mod code;
mod code_extra;
mod collector;
mod cpython;
mod data_stack;
mod eval_frame;
mod exception;
mod frame;
#[cfg(not(any(test, fuzzing)))]
mod frame_continue;
// Unit tests are compiled without the Python API of hooks, and so without the only user of some
// functions.
#[cfg_attr(any(test, fuzzing), allow(dead_code))]
mod frame_hook;
mod in_cpython;
mod layout;
mod memory;
mod mutex;
#[cfg_attr(any(test, fuzzing), allow(dead_code))]
mod object;
#[cfg(not(any(test, fuzzing)))]
mod python_api;
// The files have the same functions, and not every build uses all of them.
#[allow(dead_code)]
mod reference_count;
#[cfg(not(any(test, fuzzing)))]
mod remote;
// There are four representations, and a build uses one.
/// cbindgen:ignore
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code))] // what only unit tests use
mod fake_cpython;
#[allow(dead_code)]
mod stack_ref;
mod sync;
#[cfg_attr(any(test, fuzzing), allow(dead_code, unused_imports, unused_macros))]
// for what Python sees
mod tables;
mod thread;

/// What the fuzz targets run (`rust-core/fuzz`).
///
/// cbindgen:ignore
#[cfg(fuzzing)]
pub mod fuzzing {
    pub mod code_extra {
        pub use crate::code_extra::model::{run, Step};
    }
    pub mod data_stack {
        pub use crate::data_stack::model::{run, Step};
    }
    pub mod frame_hooks {
        pub use crate::frame_hook::tests::programs::{run, Program};
    }
    pub mod replacement {
        pub use crate::frame_hook::tests::exchange::{run, Input};
    }

    /// Runs `work` in a thread of its own: what `fake_cpython` keeps is the thread's, and is dropped with it.
    /// A panic ends the process there too.
    pub fn apart(work: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(1 << 26).spawn(work);
        thread.expect("a thread").join().expect("no panic comes so far");
    }
}
