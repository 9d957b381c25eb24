//! error: E0505
//! module: frame_hook/watch/mod.rs
//! without: pub fn hook<'a>(&'a self, _quiet: &'a NotStopped) => pub fn hook<'a>(&'a self, _quiet: &NotStopped)
use super::watch::Watch;
use crate::thread::NotStopped;

pub fn misuse(watch: &Watch, quiet: NotStopped, other_code: fn(NotStopped)) {
    let hook = watch.hook(&quiet);
    #[cfg(not(corrected))]
    other_code(quiet);
    let _ = hook.map(|hook| hook.name());
}
