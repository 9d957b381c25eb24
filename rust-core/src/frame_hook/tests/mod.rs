//! The hooks on the stand-in for CPython.

mod dispatch;
mod support;
