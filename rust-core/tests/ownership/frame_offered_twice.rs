//! error: E0382
//! module: frame_hook/offered.rs
//! without: pub struct Starting( => #[derive(Clone, Copy)] pub struct Starting(
use super::offered::{Offered, Stage, Starting};

pub fn misuse(frame: Starting) -> (Offered, Option<Offered>) {
    let offered = frame.hide(Stage::Fresh);
    #[cfg(not(corrected))]
    let again = Some(frame.hide(Stage::Fresh));
    #[cfg(corrected)]
    let again = None;
    (offered, again)
}
