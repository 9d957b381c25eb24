//! error: into_bits` that must be used
//! without: #[must_use = "the reference would leak"] =>
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: StackRef<Untagged>) {
    #[cfg(not(corrected))]
    reference.into_bits();
    #[cfg(corrected)]
    reference.close();
}
