//! The structures that compiled code shares with its callers.

use crate::slot::Exit;
use std::cell::OnceCell;
use std::mem::MaybeUninit;

/// Where compiled code finds a field of `PyThreadState` and of [`Context`].
pub const THREAD: i32 = 0;
pub const TURNS: i32 = 8;
pub const EXIT: i32 = 16;
pub const WORDS: i32 = 24;

/// The most words that an exit stores.
pub const MOST_WORDS: usize = 256;

/// The first result if frames were left in the log, the innermost first. It is no object.
pub const LEFT: i64 = 1;
/// How many words of the arguments are passed in registers. The others are in memory.
pub const IN_REGISTERS: usize = 3;

/// One entry into compiled code, on the caller's C stack.
#[repr(C)]
pub struct Context {
    /// The attached thread's state.
    pub thread: *mut crate::python::ThreadState,
    /// Compiled code counts its back edges and calls down in it, and is left where it polls and none are left.
    pub turns: i64,
    /// Which exit a frame is left by.
    pub exit: u64,
    /// Where compiled code stores the words of the frame that it leaves.
    pub words: [MaybeUninit<u64>; MOST_WORDS],
    /// The frames that were left.
    pub log: Vec<Left>,
}

impl Context {
    /// For an entry.
    pub fn new(thread: *mut crate::python::ThreadState) -> Self {
        let words = [MaybeUninit::uninit(); MOST_WORDS];
        Self { thread, turns: i64::MAX, exit: 0, words, log: Vec::new() }
    }

    /// Releases what the frames in the log own, which are forgotten. That may run code of the program.
    ///
    /// # Safety
    /// Attached; the code that has left is alive, and compiled code is not running.
    pub unsafe fn release(&mut self) {
        for left in std::mem::take(&mut self.log) {
            // SAFETY: the code is alive, by contract.
            let exits = unsafe { (*left.table).exits.get() };
            let Some(exit) = exits.and_then(|exits| exits.get(left.exit)) else { continue };
            let owned = exit.owned.iter().filter_map(|place| left.words.get(usize::from(*place)));
            for word in owned {
                // SAFETY: attached, by contract; the reference is the frame's.
                unsafe { pyo3::ffi::Py_DECREF(*word as usize as *mut pyo3::ffi::PyObject) };
            }
        }
    }
}

const _: () = {
    assert!(std::mem::offset_of!(Context, thread) == THREAD as usize);
    assert!(std::mem::offset_of!(Context, turns) == TURNS as usize);
    assert!(std::mem::offset_of!(Context, exit) == EXIT as usize);
    assert!(std::mem::offset_of!(Context, words) == WORDS as usize);
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

/// What compiled code is: of the context, how many further calls may be in each other, the words of its arguments, and the first of
/// them once more.
pub type Entry = unsafe extern "C" fn(*mut Context, i64, *const u64, u64, u64, u64) -> Outcome;

/// The results of compiled code.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Outcome {
    /// The object that a returned number was read from, borrowed, or 0; or [`LEFT`].
    pub object: i64,
    pub value: u64,
}

/// Called by compiled code where it leaves a frame.
///
/// # Safety
/// `context` is that of the entry in progress, `table` that of the code that calls, and the context has one of its exits and all
/// words that this exit stores.
pub unsafe extern "C" fn leave(context: *mut Context, table: *const Table) {
    // SAFETY: by contract. The caller of the entry does not look at the context before the entry returns.
    let (context, exits) = unsafe { (&mut *context, (*table).exits.get()) };
    let exit = context.exit as usize;
    let count = exits.and_then(|exits| exits.get(exit)).map_or(0, |exit| exit.words);
    // SAFETY: compiled code has stored that many words, by contract.
    let word = |word: &MaybeUninit<u64>| unsafe { word.assume_init() };
    let words = context.words.iter().take(count).map(word).collect();
    context.log.push(Left { table, exit, words });
}
