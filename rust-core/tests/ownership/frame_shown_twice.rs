//! error: E0382
//! module: frame_hook/entry_frame.rs
//! without: pub struct EntryFrame( => #[derive(Clone, Copy)] pub struct EntryFrame(
use super::entry_frame::EntryFrame;
use crate::frame::Frame;

pub fn misuse(entry: EntryFrame) -> Frame {
    let next = entry.instruction();
    #[cfg(not(corrected))]
    entry.show(next);
    entry.show(next)
}
