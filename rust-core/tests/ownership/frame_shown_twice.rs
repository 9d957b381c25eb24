//! error: E0382
//! module: frame_hook/offered.rs
//! without: pub struct Offered( => #[derive(Clone, Copy)] pub struct Offered(
use super::offered::Offered;
use crate::frame::Frame;

pub fn misuse(offered: Offered) -> Frame {
    let next = offered.instruction();
    #[cfg(not(corrected))]
    offered.show(next);
    offered.show(next)
}
