//! Where CPython keeps what no function returns.

use std::ptr;

/// The beginning of what CPython says of its structures to those who read them from outside.
#[repr(C)]
struct Offsets {
    cookie: [u8; 8],
    version: u64,
    before: [u64; 21],
    frame: u64,
    ident: u64,
}

extern "C" {
    #[link_name = "_PyRuntime"]
    static OFFSETS: Offsets;
}

/// Where in the state of a thread these are.
#[derive(Clone, Copy)]
pub struct InThreadState {
    /// The pointer to the frame that runs.
    pub frame: usize,
    /// The thread's identity, an `unsigned long`.
    pub ident: usize,
}

/// `None`: in another version than CPython 3.13.
pub fn of_thread_states() -> Option<InThreadState> {
    // SAFETY: every CPython that has this symbol has more than this after it. Of a version without
    // these offsets it is other numbers, which are compared first. They do not change.
    let found = unsafe { ptr::read(&raw const OFFSETS) };
    if &found.cookie != b"xdebugpy" || found.version >> 16 != 0x030d {
        return None;
    }
    let (frame, ident) = (usize::try_from(found.frame).ok()?, usize::try_from(found.ident).ok()?);
    Some(InThreadState { frame, ident })
}
