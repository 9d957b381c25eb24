//! What can go wrong.

/// Why a call did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// An allocation failed.
    NoMemory,
    /// The index was released.
    Released,
    /// The interpreter never handed the index out.
    Unknown {
        /// How many it has in use.
        in_use: usize,
    },
    /// No more indices.
    Exhausted {
        /// How many are in use: all.
        in_use: usize,
    },
    /// The code object holds values of another interpreter.
    ForeignCode,
    /// The interpreter is at its end.
    Finished,
}
