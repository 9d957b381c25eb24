//! What lowering keeps of a function while it compiles a generator expression of it.

use super::joins::Joins;
use crate::code::Inner;
use crate::decode::{Code, Expression, Instruction};
use crate::kind::Val;
use crate::outer::Outside;
use crate::resolve::Literal;
use std::collections::HashSet;

/// Where the interpreter starts an expression again.
pub(super) struct Restart {
    pub instruction: Instruction,
    pub locals: Vec<Val>,
    pub stack: Vec<Val>,
    /// Whether anything was stored before it.
    pub stores: bool,
    /// The generator is being compiled, which has a frame of its own.
    pub inside: bool,
}

/// What the builtin does with the items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    Sum,
    Any,
    All,
    Extreme { greatest: bool },
}

/// The code around an expression whose items are being compiled.
pub(super) struct Around<'a> {
    pub code: &'a Code,
    pub constants: &'a [Literal],
    pub outside: &'a Outside,
    pub locals: Vec<Val>,
    pub stack: Vec<Val>,
    pub joins: Joins,
    pub targets: HashSet<u32>,
    pub outer_loops: HashSet<u32>,
    pub instruction: Instruction,
    pub expression: &'a Expression,
    pub inner: &'a Inner,
    pub reduction: Reduction,
}
