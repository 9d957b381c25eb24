//! error: E0382
//! module: frame_hook/entry_frame.rs
//! without: pub struct EntryFrame( => #[derive(Clone, Copy)] pub struct EntryFrame(
use super::entry_frame::EntryFrame;
use crate::frame::Frame;

pub fn misuse(offered: EntryFrame) -> Frame {
    let next = offered.instruction();
    #[cfg(not(corrected))]
    offered.show(next);
    offered.show(next)
}
