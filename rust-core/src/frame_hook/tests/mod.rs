//! The hooks on the stand-in for CPython: what `support` calls is what C calls.

mod dispatch;
mod model;
mod registry;
mod replace;
mod settled;
mod support;
mod switch;
mod view;
mod watch;
mod watchers;
