//! Which parameter of one code object gets the argument of which parameter of another.
//!
//! Only the equality of names matters. So `proofs` tries every pattern of equal names.

/// Names of parameters, by slot.
pub trait Names {
    /// Whether a parameter of the old code has the name of one of the new code.
    fn is_same(&self, slot: usize, other: usize) -> bool;
    /// Whether two parameters of the old code have one name.
    fn is_alike(&self, slot: usize, other: usize) -> bool;
}

/// Parameters of two code objects that have the same number of each kind.
pub struct ParameterMap<N: Names> {
    /// How many come first, and are given by position.
    pub positional: usize,
    /// How many there are with the keyword-only ones after them. What follows has its place by its
    /// kind, whatever it is called: `*args` and `**kwargs`.
    pub named: usize,
    pub names: N,
}

impl<N: Names> ParameterMap<N> {
    /// Where the argument in `slot` goes; `None` if it has no place.
    #[inline]
    pub fn target(&self, slot: usize) -> Option<usize> {
        if slot >= self.named || self.names.is_same(slot, slot) {
            return Some(slot);
        }
        let (first, end) = if slot < self.positional {
            (0, self.positional)
        } else {
            (self.positional, self.named)
        };
        (first..end).find(|&other| self.names.is_same(slot, other))
    }

    /// Whether no parameter gets two arguments. Each argument has a place.
    ///
    /// No compiler makes two parameters of one name, but a code object can be made with them. Such
    /// parameters are accepted only where each keeps its slot: names cannot distinguish them.
    #[inline]
    pub fn is_one_to_one(&self) -> bool {
        let moves = |slot: usize| !self.names.is_same(slot, slot);
        // Two arguments with one place have the name of that place. So it is enough that those that
        // move have names that no other argument has.
        (0..self.named).filter(|&slot| moves(slot)).all(|slot| {
            !(0..self.named).any(|other| other != slot && self.names.is_alike(slot, other))
        })
    }
}
