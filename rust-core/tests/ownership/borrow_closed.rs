//! error: E0599
//! without: impl<R: Representation> StackRefBorrow<'_, R> { => impl<R: Representation> StackRefBorrow<'_, R> { pub fn close(self) {}
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: &StackRef<Untagged>) {
    #[cfg(not(corrected))]
    reference.borrow().close();
    #[cfg(corrected)]
    reference.borrow().dup().close();
}
