//! The hooks on `fake_cpython`: what `support` calls is what C calls.

#[cfg(test)]
mod dispatch;
pub mod exchange;
#[cfg(test)]
mod model;
#[cfg(test)]
mod opt_out;
pub mod programs;
#[cfg(test)]
mod random_programs;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod replace;
mod support;
#[cfg(test)]
mod switch;
#[cfg(test)]
mod view;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod watchers;
