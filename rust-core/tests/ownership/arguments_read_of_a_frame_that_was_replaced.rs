//! error: E0502
//! module: frame_hook/entry_frame.rs
//! without: pub fn look(&self) -> Look<'_> => pub fn look(&self) -> Look<'static>
use super::entry_frame::EntryFrame;
use super::replace::replace;
use crate::code::Code;
use crate::object::Owned;
use crate::thread::Thread;

pub unsafe fn misuse(thread: Thread, entry: &mut EntryFrame, new: Code) -> Option<Owned> {
    let look = entry.look();
    #[cfg(not(corrected))]
    let _ = replace(thread, entry, new, c"".as_ptr());
    look.argument(0)
}
