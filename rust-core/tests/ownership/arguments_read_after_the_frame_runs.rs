//! error: E0505
//! module: frame_hook/entry_frame.rs
//! without: pub fn look(&self) -> Look<'_> => pub fn look(&self) -> Look<'static>
use super::entry_frame::EntryFrame;
use crate::object::Owned;

pub fn misuse(entry: EntryFrame) -> Option<Owned> {
    let (look, next) = (entry.look(), entry.instruction());
    #[cfg(not(corrected))]
    entry.show(next);
    look.argument(0)
}
