//! error: E0382
//! module: frame_hook/entry_frame.rs
//! without: pub struct NewFrame( => #[derive(Clone, Copy)] pub struct NewFrame(
use super::entry_frame::{EntryFrame, NewFrame};
use super::return_offset::Stage;

pub fn misuse(frame: NewFrame) -> (EntryFrame, Option<EntryFrame>) {
    let entry = frame.hide(Stage::Fresh);
    #[cfg(not(corrected))]
    let again = Some(frame.hide(Stage::Fresh));
    #[cfg(corrected)]
    let again = None;
    (entry, again)
}
