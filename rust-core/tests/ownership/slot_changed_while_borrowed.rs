//! error: E0502
//! without: pub fn get(&self) -> Option<StackRefBorrow<'_, R>> => pub fn get(&self) -> Option<StackRefBorrow<'static, R>>
use crate::stack_ref::{StackSlot, Untagged};

pub fn misuse(slot: &mut StackSlot<Untagged>) {
    let borrow = slot.get();
    #[cfg(not(corrected))]
    slot.clear();
    let _object = borrow.map(|reference| reference.object());
}
