//! Delayed reclaim as CPython does it: a block is freed once every reader has been outside of all
//! reads since. Without readers, at once.

use super::memory::deallocation;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::thread::yield_now;

const READERS: usize = 4;
static NOW: AtomicU64 = AtomicU64::new(1);
/// The moment at which a reader was last outside; 0: it does not read.
static SEEN: [AtomicU64; READERS] = [const { AtomicU64::new(0) }; READERS];

thread_local! {
    /// The number of this thread among those that read without a lock.
    static READER: Cell<Option<usize>> = const { Cell::new(None) };
    static WAITING: RefCell<VecDeque<(u64, *mut c_void)>> = const { RefCell::new(VecDeque::new()) };
}

/// This thread reads from now on, as number `reader`.
pub fn attach(reader: usize) {
    READER.set(Some(reader));
    outside();
}

/// This thread holds nothing that it has read.
pub fn outside() {
    if let Some(reader) = READER.get() {
        SEEN[reader].store(NOW.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// Waits for the others, and reads no more.
pub fn detach() {
    if let Some(reader) = READER.take() {
        SEEN[reader].store(0, Ordering::SeqCst);
    }
    while WAITING.with_borrow(|waiting| !waiting.is_empty()) {
        free_what_can_be();
        yield_now();
    }
}

/// Frees the block when nothing reads it any more.
#[no_mangle]
extern "C" fn _PyMem_FreeDelayed(
    block: *mut c_void,
    #[cfg(ferrule_delayed_frees_have_sizes)] _bytes: usize,
) {
    if READER.get().is_none() {
        deallocation(block);
        return;
    }
    fence(Ordering::SeqCst);
    let goal = NOW.fetch_add(1, Ordering::SeqCst) + 1;
    WAITING.with_borrow_mut(|waiting| waiting.push_back((goal, block)));
    free_what_can_be();
}

fn free_what_can_be() {
    let oldest = (0..READERS)
        .map(|reader| SEEN[reader].load(Ordering::SeqCst))
        .filter(|seen| *seen != 0)
        .min()
        .unwrap_or(u64::MAX);
    WAITING.with_borrow_mut(|waiting| {
        while let Some((goal, block)) = waiting.front().copied() {
            if goal > oldest {
                break;
            }
            waiting.pop_front();
            deallocation(block);
        }
    });
}
