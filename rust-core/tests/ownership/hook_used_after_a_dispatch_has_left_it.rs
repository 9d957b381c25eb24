//! error: E0505
//! module: frame_hook/hook/list.rs
//! without: pub fn leave_ordinary<'a>(self, quiet: &'a NotStopped) -> Result<Hooks<'a>, Self> => pub fn leave_ordinary<'a>(&self, quiet: &'a NotStopped) -> Result<Hooks<'a>, HookInUse>
//! without: self.leave_if_ordinary(quiet)?; => HookInUse(hook).leave_if_ordinary(quiet)?;
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
