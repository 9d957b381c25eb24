//! error: E0505
//! without: pub fn borrow(&self) -> StackRefBorrow<'_, R> => pub fn borrow(&self) -> StackRefBorrow<'static, R>
use crate::stack_ref::{StackRef, Untagged};

pub fn misuse(reference: StackRef<Untagged>) {
    let borrow = reference.borrow();
    #[cfg(not(corrected))]
    reference.close();
    let _object = borrow.object();
}
