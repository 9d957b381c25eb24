//! Where edges of the control flow meet: which versions of a block there are.
//!
//! An edge goes to a block of its own first. Once all edges that can reach a code unit before it is compiled are there, those whose
//! values have the same types are joined in one version of the block; a back edge counts as one of the end of its loop. So a loop
//! has one version that knows the objects with which it starts, and one for its other turns.

use crate::kind::{Kind, Val};
use cranelift_codegen::ir::Block;
use std::collections::BTreeMap;

/// In a loop of `Joins::peeled`: whether it is the first turn, and of which version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// The block of the loop's head in the first turn.
    pub first: Block,
    pub later: bool,
}

/// An edge: the block that is to jump, and its values.
pub(super) struct Arrival {
    pub from: Block,
    /// If it does not leave that loop.
    pub turn: Option<Turn>,
    /// See `Lowering::is_rare`.
    pub is_rare: bool,
    pub locals: Vec<Val>,
    pub stack: Vec<Val>,
}

/// A block for values of certain kinds.
pub(super) struct Version {
    pub locals: Vec<Kind>,
    pub stack: Vec<Kind>,
    pub block: Block,
    pub turn: Option<Turn>,
}

/// Of one function.
#[derive(Default)]
pub(super) struct Joins {
    /// By code unit: the edges that wait, and the place in the code that they wait for.
    pub arrivals: BTreeMap<u32, (u32, Vec<Arrival>)>,
    pub versions: BTreeMap<u32, Vec<Version>>,
}

impl Joins {
    /// The code unit whose edges are all there.
    pub(super) fn first(&self) -> Option<u32> {
        self.arrivals.iter().min_by_key(|(_, (place, _))| *place).map(|(unit, _)| *unit)
    }
}

/// Whether a test holds for all kinds of two states.
pub(super) fn all(
    a: (&[Kind], &[Kind]),
    b: (&[Kind], &[Kind]),
    test: fn(&Kind, &Kind) -> bool,
) -> bool {
    a.1.len() == b.1.len()
        && a.0.iter().zip(b.0).all(|(a, b)| test(a, b))
        && a.1.iter().zip(b.1).all(|(a, b)| test(a, b))
}

pub(super) fn kinds(values: &[Val]) -> Vec<Kind> {
    values.iter().map(|value| value.kind.clone()).collect()
}

/// Makes the first kinds cover the second ones, which they can be joined with.
pub(super) fn widen(kinds: &mut [Kind], others: &[Kind]) {
    for (kind, other) in kinds.iter_mut().zip(others) {
        *kind = kind.join(other);
    }
}
