//! error: E0505
//! module: frame_hook/watch/mod.rs
//! without: pub fn at(frame: Frame, _quiet: &NotStopped) -> Option<&Self> => pub fn at<'a>(frame: Frame, _quiet: &NotStopped) -> Option<&'a Self>
use super::watch::Watch;
use crate::frame::Frame;
use crate::thread::NotStopped;

pub fn misuse(frame: Frame, quiet: NotStopped, other_code: fn(NotStopped)) {
    let watch = Watch::at(frame, &quiet);
    #[cfg(not(corrected))]
    other_code(quiet);
    let _ = watch.map(Watch::code);
}
