//! error: E0505
//! module: frame_hook/state.rs
//! without: pub(super) fn hooks(&self) -> Hooks<'_> => pub(super) fn hooks(&self) -> Hooks<'static>
//! module: frame_hook/hook/list.rs
//! without: pub unsafe fn from(first: *mut c_void, _quiet: &'a NotStopped) => pub unsafe fn from(first: *mut c_void, _quiet: &NotStopped)
use crate::thread::NotStopped;

pub fn misuse(quiet: NotStopped, other_code: fn(NotStopped)) {
    let mut hooks = quiet.hooks();
    #[cfg(not(corrected))]
    other_code(quiet);
    let _ = hooks.next();
}
