//! error: E0382
//! module: frame_hook/watch/owned.rs
//! without: pub struct OwnedWatch( => #[derive(Clone, Copy)] pub struct OwnedWatch(
use super::watch::owned::OwnedWatch;
use crate::thread::Thread;

pub unsafe fn misuse(thread: Thread, watch: OwnedWatch) {
    watch.end(thread);
    #[cfg(not(corrected))]
    watch.end(thread);
}
