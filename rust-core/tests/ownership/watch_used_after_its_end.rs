//! error: E0505
//! module: frame_hook/watch/owned.rs
//! without: pub unsafe fn end(self, => pub unsafe fn end(&self,
//! without: unsafe { self.end_unheld(thread) } => unsafe { OwnedWatch(self.0).end_unheld(thread) }
use super::watch::owned::OwnedWatch;
use super::watch::Watch;
use crate::thread::Thread;

pub unsafe fn misuse(thread: Thread, owned: OwnedWatch) {
    let watch: &Watch = &owned;
    #[cfg(corrected)]
    let _ = watch.code();
    owned.end(thread);
    #[cfg(not(corrected))]
    let _ = watch.code();
}
