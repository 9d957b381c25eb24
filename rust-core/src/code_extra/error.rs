//! What can go wrong.

/// Why a call did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// An allocation failed.
    NoMemory,
    /// The index was released.
    Released,
    /// The interpreter never handed the index out. `in_use` is how many indices it has in use.
    Unknown { in_use: usize },
    /// All indices are in use. `in_use` is how many that is.
    Exhausted { in_use: usize },
    /// The code object holds values of another interpreter.
    ForeignCode,
    /// The interpreter is at its end.
    Finished,
}

/// Why nothing was handed out, or stored, at this try.
pub enum Refused {
    /// Memory is needed. The next try brings memory for this number of slots, or of entries.
    Needs(usize),
    /// Another try would fail too, with this error.
    For(Error),
}
