//! error: E0505
//! module: frame_hook/hook/list.rs
//! without: pub fn leave_ordinary(self, _quiet: &NotStopped) -> Result<Hooks<'_>, Self> => pub fn leave_ordinary<'a>(&self, _quiet: &'a NotStopped) -> Result<Hooks<'a>, HookInUse>
//! without: return Err(self); => return Err(HookInUse(self.0));
use super::hook::references::HookInUse;
use crate::thread::NotStopped;

pub fn misuse(in_use: HookInUse, quiet: &NotStopped) {
    let hook = in_use.get();
    #[cfg(corrected)]
    let _ = hook.name();
    let _ = in_use.leave_ordinary(quiet);
    #[cfg(not(corrected))]
    let _ = hook.name();
}
