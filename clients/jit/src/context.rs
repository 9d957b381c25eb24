//! The structures that compiled code shares with its callers.

use crate::slot::Exit;
use std::cell::OnceCell;

/// Where compiled code finds a field of `PyThreadState` and of [`Context`].
pub const THREAD: i32 = 0;
pub const DEPTH: i32 = 8;
pub const OBJECT: i32 = 16;
pub const TURNS: i32 = 24;

/// The value is in the second result.
pub const RETURNED: i64 = 0;
/// Frames were left in the log, the innermost first.
pub const LEFT: i64 = 1;

/// One entry into compiled code, on the caller's C stack.
#[repr(C)]
pub struct Context {
    /// The attached thread's state.
    pub thread: *mut crate::python::ThreadState,
    /// How many further calls may be in progress.
    pub depth: i64,
    /// The object that a returned number was read from, borrowed, or 0.
    pub object: usize,
    /// After so many back edges and calls it is left.
    pub turns: i64,
    /// The frames that were left.
    pub log: Vec<Left>,
}

const _: () = {
    assert!(std::mem::offset_of!(Context, thread) == THREAD as usize);
    assert!(std::mem::offset_of!(Context, depth) == DEPTH as usize);
    assert!(std::mem::offset_of!(Context, object) == OBJECT as usize);
    assert!(std::mem::offset_of!(Context, turns) == TURNS as usize);
};

/// A frame that was left: which exit, and its words.
pub struct Left {
    pub table: *const Table,
    pub exit: usize,
    pub words: Vec<u64>,
}

/// A compiled function's exits, and the Python functions that its calls in progress call.
#[derive(Default)]
pub struct Table {
    pub exits: OnceCell<Vec<Exit>>,
    /// Where the code starts, once it is executable: calls are made through it.
    pub address: std::cell::Cell<usize>,
}

/// What compiled code is: status and value.
pub type Entry = unsafe extern "C" fn(*mut Context, *const u64) -> Outcome;

/// The results of compiled code.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Outcome {
    pub status: i64,
    pub value: u64,
}

/// Called by compiled code where it leaves a frame.
///
/// # Safety
/// `context` is that of the entry in progress, `table` that of the code that calls, `exit` one of its exits, and `words` has as
/// many words as that exit stores.
pub unsafe extern "C" fn leave(
    context: *mut Context,
    table: *const Table,
    exit: u64,
    words: *const u64,
) {
    // SAFETY: by contract. The caller of the entry does not look at the context before the entry returns.
    let (context, exits) = unsafe { (&mut *context, (*table).exits.get()) };
    let exit = exit as usize;
    let count = exits.and_then(|exits| exits.get(exit)).map_or(0, |exit| exit.words);
    // SAFETY: compiled code has stored that many words, by contract.
    let words = unsafe { std::slice::from_raw_parts(words, count) }.to_vec();
    context.log.push(Left { table, exit, words });
}
