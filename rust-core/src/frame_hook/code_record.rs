//! What compilers from outside have requested for one code object: a record in its extra slots.
//!
//! The record is made on the first request and is freed with the code object or the interpreter. Its address does not
//! change, so compiled code may read it.

use super::error::{Outcome, Raised};
use crate::code::Code;
use crate::code_extra::{value_in_use, Registry};
use crate::cpython as c;
use crate::cpython::PyInterpreterState;
use crate::in_cpython::FrameHookState;
use crate::sync::{AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::thread::Thread;
use core::ffi::c_void;
use core::ptr::{null_mut, NonNull};

/// A bit of a thread's `eval_breaker` that CPython never sets, so that a word with it equals none.
const NEVER: usize = 1 << (c::_PY_EVAL_EVENTS_BITS - 1);

/// The record of one code object.
#[repr(C)]
pub struct CodeRecord {
    /// The value of `eval_breaker` with which nothing observes calls of the code; or a word with [`NEVER`], which is
    /// another one after each [`forget`](Self::forget).
    unobserved: AtomicUsize,
    forgotten: AtomicUsize,
    /// The hook that watches the loops of the code; 0: none.
    loop_hook: AtomicU64,
    /// After how many turns a loop is hot.
    turns: AtomicU32,
    /// The cache entry that each JUMP_BACKWARD had.
    entry: AtomicU32,
}

/// Frees a record.
unsafe extern "C" fn free(record: *mut c_void) {
    // SAFETY: `code_extra` passes each record once, and nothing leads to it any more.
    unsafe { c::PyMem_RawFree(record) };
}

/// The field that holds the index of records, plus 1; 0: none yet.
///
/// # Safety
/// `interpreter` is live as long as the result is used.
unsafe fn index_place<'a>(interpreter: *mut PyInterpreterState) -> &'a AtomicIsize {
    // SAFETY: the caller says that the interpreter is live. The field is written as an atomic only.
    unsafe { AtomicIsize::from_ptr(&raw mut (*FrameHookState::of(interpreter)).record_index) }
}

/// The index of records, which is requested on first use.
fn index(thread: Thread) -> Result<isize, crate::code_extra::Error> {
    // SAFETY: the `Thread` is attached, so its interpreter is live.
    let (place, registry) =
        unsafe { (index_place(thread.interpreter()), Registry::of(thread.interpreter())) };
    let known = place.load(Ordering::Acquire);
    if known != 0 {
        return Ok(known - 1);
    }
    let index = registry.request(Some(free))?.raw();
    match place.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(index),
        Err(faster) => {
            // Another thread was faster; this index is unused.
            // SAFETY: the `Thread` is attached, and nothing has the index.
            unsafe { registry.release(index) }?;
            Ok(faster - 1)
        }
    }
}

/// The record of `code`, if there is one. Takes no lock.
///
/// # Safety
/// The calling thread is attached to `interpreter`. The code object outlives the result.
pub unsafe fn find<'a>(interpreter: *mut PyInterpreterState, code: Code) -> Option<&'a CodeRecord> {
    // SAFETY: the caller says that the thread is attached. The index was handed out, and values under it are records,
    // which live as long as the code.
    unsafe {
        let index = index_place(interpreter).load(Ordering::Acquire);
        if index == 0 {
            return None;
        }
        value_in_use(code, index - 1).cast::<CodeRecord>().as_ref()
    }
}

/// The record of `code`, which is made if there is none.
///
/// # Safety
/// The code object outlives the result.
pub unsafe fn get<'a>(thread: Thread, code: Code) -> Outcome<&'a CodeRecord> {
    let failed = |error| Raised::by_code_extra(thread, error);
    let index = index(thread).map_err(failed)?;
    // SAFETY: the thread is attached. The caller says that the code outlives the result.
    if let Some(record) = unsafe { find(thread.interpreter(), code) } {
        return Ok(record);
    }
    // SAFETY: the raw allocator takes any size at any time, and aligns for every type here.
    let fresh = unsafe { c::PyMem_RawMalloc(size_of::<CodeRecord>()).cast::<CodeRecord>() };
    let Some(room) = NonNull::new(fresh) else { return Err(Raised::no_memory(thread)) };
    // SAFETY: the block is ours until it is stored; the code is this interpreter's, or `update` refuses it. Records live
    // as long as the code.
    unsafe {
        room.write(CodeRecord::new());
        let stored = store(thread, code, index, fresh);
        if stored.as_ref().map_or(true, |stored| *stored != fresh) {
            c::PyMem_RawFree(fresh.cast());
        }
        stored.map(|stored| &*stored).map_err(failed)
    }
}

/// Stores `fresh` as the record of `code`, or finds the one that another thread has stored meanwhile.
///
/// # Safety
/// As for [`get`]; `fresh` is a record that nothing else knows of.
unsafe fn store(
    thread: Thread,
    code: Code,
    index: isize,
    fresh: *mut CodeRecord,
) -> Result<*mut CodeRecord, crate::code_extra::Error> {
    let mut stored = null_mut();
    // SAFETY: the thread is attached, and the code alive, says the caller.
    unsafe {
        Registry::of(thread.interpreter()).update(code, index, |before| {
            stored = if before.is_null() { fresh } else { before.cast() };
            stored.cast()
        })?;
    }
    Ok(stored)
}

impl CodeRecord {
    fn new() -> Self {
        CodeRecord {
            unobserved: AtomicUsize::new(NEVER),
            forgotten: AtomicUsize::new(1),
            loop_hook: AtomicU64::new(0),
            turns: AtomicU32::new(0),
            entry: AtomicU32::new(0),
        }
    }

    /// The word that compiled code compares with a thread's `eval_breaker`.
    pub fn unobserved(&self) -> &AtomicUsize {
        &self.unobserved
    }

    /// Calls may be observed of the code from now on, though its version stays.
    pub fn forget(&self) {
        let number = self.forgotten.fetch_add(1, Ordering::Relaxed);
        let word = number.wrapping_shl(c::_PY_EVAL_EVENTS_BITS) | NEVER;
        self.unobserved.store(word, Ordering::Release);
    }

    /// The hook that watches the loops of the code, after how many turns one is hot, and the cache entry that each
    /// JUMP_BACKWARD had.
    #[cfg_attr(any(test, fuzzing), allow(dead_code))]
    pub fn loops(&self) -> Option<(i64, u16, u16)> {
        let hook = self.loop_hook.load(Ordering::Acquire) as i64;
        let turns = self.turns.load(Ordering::Relaxed) as u16;
        (hook != 0).then_some((hook, turns, self.entry.load(Ordering::Relaxed) as u16))
    }

    /// Sets what [`loops`](Self::loops) returns. The world is stopped.
    #[cfg_attr(any(test, fuzzing), allow(dead_code))]
    pub fn set_loops(&self, hook: i64, turns: u16, entry: u16) {
        self.turns.store(u32::from(turns), Ordering::Relaxed);
        self.entry.store(u32::from(entry), Ordering::Relaxed);
        self.loop_hook.store(hook as u64, Ordering::Release);
    }
}
