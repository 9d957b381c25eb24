//! error: E0382
//! without: pub fn into_object(self) => pub fn into_object(&self)
//! without: forget(self); =>
//! without: let bits = self.bits; => let bits = self.bits; forget(self);
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: StackRef<Untagged>) {
    let _object = reference.into_object();
    #[cfg(not(corrected))]
    reference.close();
}
