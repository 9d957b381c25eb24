//! error: E0382
//! without: pub struct StackRef< => #[derive(Clone, Copy)] pub struct StackRef<
//! without: impl<R: Representation> Drop for StackRef<R> { => impl<R: Representation> StackRef<R> {
//! without: pub enum Untagged {} => #[derive(Clone, Copy)] pub enum Untagged {}
//! without: drop(self) => ()
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: StackRef<Untagged>) -> (usize, usize) {
    #[cfg(not(corrected))]
    let second = reference;
    #[cfg(corrected)]
    let second = reference.dup();
    (reference.into_bits(), second.into_bits())
}
