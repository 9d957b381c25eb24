//! error: E0277
//! without: pub struct StackRef< => #[derive(Clone)] pub struct StackRef<
//! without: pub enum Untagged {} => #[derive(Clone)] pub enum Untagged {}
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: &StackRef<Untagged>) -> StackRef<Untagged> {
    #[cfg(not(corrected))]
    return StackRef::<Untagged>::clone(reference);
    #[cfg(corrected)]
    reference.dup()
}
