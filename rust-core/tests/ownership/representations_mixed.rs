//! error: E0308
//! without: pub enum Deferred {} => pub type Deferred = TaggedDeferred;
//! without: unsafe impl Representation for Deferred { => #[cfg(any())] unsafe impl Representation for Deferred {
use crate::stack_ref::{Deferred, StackRef, StackSlot, TaggedDeferred};

#[cfg(not(corrected))]
pub type Theirs = Deferred;
#[cfg(corrected)]
pub type Theirs = TaggedDeferred;

pub fn misuse(slot: &mut StackSlot<TaggedDeferred>, reference: StackRef<Theirs>) {
    slot.set(reference);
}
