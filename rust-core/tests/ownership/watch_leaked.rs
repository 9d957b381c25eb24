//! error: unused `OwnedWatch` that must be used
//! module: frame_hook/watch.rs
//! without: #[must_use = "a watch that nobody ends leaks"] =>
use super::watch::{OwnedWatch, Watch};
use crate::thread::Thread;
use core::ptr::NonNull;

pub unsafe fn misuse(thread: Thread, watch: NonNull<Watch>) {
    #[cfg(not(corrected))]
    OwnedWatch::from_raw(watch);
    #[cfg(corrected)]
    OwnedWatch::from_raw(watch).end(thread);
}
