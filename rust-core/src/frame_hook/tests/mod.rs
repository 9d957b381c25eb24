//! The hooks on the stand-in for CPython: what `support` calls is what C calls.

#[cfg(test)]
mod dispatch;
pub mod exchange;
#[cfg(test)]
mod model;
pub mod programs;
#[cfg(test)]
mod random_programs;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod replace;
#[cfg(test)]
mod settled;
mod support;
#[cfg(test)]
mod switch;
#[cfg(test)]
mod view;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod watchers;
