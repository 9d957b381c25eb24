//! error: unused `OwnedWatch` that must be used
//! module: frame_hook/watch/owned.rs
//! without: #[must_use = "a watch that is not ended leaks"] =>
use super::watch::owned::OwnedWatch;
use super::watch::Watch;
use crate::thread::Thread;
use core::ptr::NonNull;

pub unsafe fn misuse(thread: Thread, watch: NonNull<Watch>) {
    #[cfg(not(corrected))]
    OwnedWatch::from_raw(watch);
    #[cfg(corrected)]
    OwnedWatch::from_raw(watch).end(thread);
}
