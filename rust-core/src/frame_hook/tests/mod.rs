//! The hooks on the stand-in for CPython: what `support` calls is what C calls.

mod dispatch;
mod model;
mod registry;
mod replace;
mod support;
mod switch;
mod settled;
mod view;
