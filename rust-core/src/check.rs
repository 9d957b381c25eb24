//! Assertions of debug builds, without Rust's panic machinery.
//!
//! The object that goes into the interpreter links no part of `core` that can
//! panic, so `debug_assert!` is out of reach. `check!` aborts through CPython's
//! own fatal error instead, which prints the Python traceback too. It is
//! compiled in where the C side has its assertions (no `NDEBUG`).

/// Aborts with CPython's fatal error when `condition` is false, in builds with
/// assertions; compiles to nothing in others.
macro_rules! check {
    ($condition:expr, $message:literal) => {
        #[cfg(ferrule_checks)]
        if !$condition {
            $crate::check::fail(concat!($message, "\0").as_ptr().cast());
        }
    };
}
pub(crate) use check;

// `inline`: as a function that others inline a call of, it would have a symbol, and the interpreter would export it.
#[cfg(all(ferrule_checks, not(any(test, fuzzing))))]
#[cold]
#[inline]
pub(crate) fn fail(message: *const core::ffi::c_char) -> ! {
    // SAFETY: both arguments are NUL-terminated strings that live for ever.
    unsafe { crate::cpython::_Py_FatalErrorFunc(c"ferrule-core".as_ptr(), message) }
}

#[cfg(all(ferrule_checks, any(test, fuzzing)))]
#[cold]
pub(crate) fn fail(message: *const core::ffi::c_char) -> ! {
    // SAFETY: `check!` passes a NUL-terminated literal.
    panic!("{:?}", unsafe { core::ffi::CStr::from_ptr(message) })
}
