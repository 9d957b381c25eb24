//! error: E0505
//! module: frame_hook/offered.rs
//! without: pub fn look(&self) -> Look<'_> => pub fn look(&self) -> Look<'static>
use super::offered::Offered;
use crate::object::Owned;

pub fn misuse(offered: Offered) -> Option<Owned> {
    let (look, next) = (offered.look(), offered.instruction());
    #[cfg(not(corrected))]
    offered.show(next);
    look.argument(0)
}
