//! What can go wrong.

/// Why a call did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// An allocation failed.
    NoMemory,
    /// The index was released.
    Released,
    /// The interpreter never handed the index out. So many it has in use.
    Unknown { in_use: usize },
    /// No more indices. So many are in use: all.
    Exhausted { in_use: usize },
    /// The code object holds values of another interpreter.
    ForeignCode,
    /// The interpreter is at its end.
    Finished,
}

/// Why nothing was handed out, or stored, at this try.
pub enum Refused {
    /// Memory is needed: try again with that of so many slots, or entries.
    Needs(usize),
    /// It cannot be.
    For(Error),
}
