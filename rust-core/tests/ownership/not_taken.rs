//! error: unused `StackRef` that must be used
//! without: #[must_use = "a reference that is not used is closed at once"] =>
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: &StackRef<Untagged>) {
    #[cfg(not(corrected))]
    reference.dup();
    #[cfg(corrected)]
    reference.dup().close();
}
