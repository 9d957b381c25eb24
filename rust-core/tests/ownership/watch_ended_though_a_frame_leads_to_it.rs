//! error: E0382
//! module: frame_hook/watch/owned.rs
//! without: pub struct OwnedWatch( => #[derive(Clone, Copy)] pub struct OwnedWatch(
use super::watch::owned::OwnedWatch;
use crate::frame::Frame;
use crate::thread::Thread;

pub unsafe fn misuse(thread: Thread, watch: OwnedWatch, frame: Frame) {
    #[cfg(not(corrected))]
    watch.link(thread, frame);
    watch.end(thread);
}
