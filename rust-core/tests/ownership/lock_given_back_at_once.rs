//! error: unused `Held` that must be used
//! module: mutex.rs
//! without: #[must_use = "the lock would be given back at once"] =>
use crate::mutex::Held;

pub unsafe fn misuse(lock: *mut u8) {
    #[cfg(not(corrected))]
    Held::lock(lock);
    #[cfg(corrected)]
    let _held = Held::lock(lock);
}
