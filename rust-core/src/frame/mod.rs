//! Frames, from their first slot to their last.
//!
//! ```text
//!   initialize ──► slots          what a call begins with
//!   lifecycle ──► object ──► handle      cleared; what outlives its call moves into its object
//!   move_frame, traverse, hidden_locals, locals, getters ──► handle ──► slots
//! ```
//!
//! A frame lies on a thread's data stack, in a generator, in a frame object, or (a shim between two
//! eval loops, without code) on the C stack; its `owner` says where. It owns a reference to its
//! code, its function, its frame object and its locals mapping, and to what is in the slots below
//! `stacktop`; globals and builtins are its function's. While a frame executes, `stacktop` is -1
//! and the eval loop knows the rest.
//!
//! A destructor may run at every reference that is given up, and may look at frames. So each
//! function here leaves a frame as CPython leaves it at that very moment: what is emptied first,
//! and what is left as it was.

mod closing;
mod getters;
mod handle;
mod hidden_locals;
mod initialize;
mod lifecycle;
mod locals;
mod move_frame;
mod object;
mod slots;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod traverse;

pub use handle::{Frame, Frames, Owner};
pub use initialize::_PyFrame_Initialize;
pub use lifecycle::leave_object;
#[cfg(not(any(test, fuzzing)))]
pub use object::of_frame as object_of_frame;
pub use slots::slot_with;
pub use traverse::VisitFunction;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(unused_imports))] // what only unit tests use
pub use {
    lifecycle::{_PyFrame_ClearExceptCode, _PyRust_EndCall},
    move_frame::_PyRust_MoveFrame,
    object::_PyFrame_MakeAndSetFrameObject,
};
