//! What all threads may keep together, in every order of their steps, by loom (`ci/proofs`).
//!
//! What must hold, whatever the order: what the threads have claimed and what is left to claim is
//! one number; no thread keeps more than it has claimed; what is given up can be claimed again.
//! (That no chunk is both in use and remembered concerns one thread, and is the matter of `tests`.)

use super::cache::with_left_to_claim;
use super::chunk::Chunk;
use super::sizes::LARGEST_GROWN_CHUNK;
use crate::fake_cpython::interleaved::{explore, share};
use crate::fake_cpython::memory::zeroed;
use crate::in_cpython::DataStackState;
use crate::sync::Ordering;
use loom::thread::spawn;

/// What the threads of a model may claim: so little that they soon compete.
const ENOUGH: usize = 2 * LARGEST_GROWN_CHUNK;

fn begin() {
    with_left_to_claim(|left| {
        share(std::ptr::from_ref(left).cast_mut());
        left.store(ENOUGH, Ordering::Relaxed);
    });
}

fn left() -> usize {
    with_left_to_claim(|left| left.load(Ordering::Relaxed))
}

/// A thread leaves so many of the largest chunks. Returns what it keeps.
fn leave_chunks(count: usize) -> Box<DataStackState> {
    // SAFETY: zeros are the first state.
    let mut state: Box<DataStackState> = unsafe { zeroed() };
    for _ in 0..count {
        let chunk = Chunk::allocate(LARGEST_GROWN_CHUNK).expect("memory");
        // SAFETY: in no list, and without a frame.
        unsafe { state.keep(chunk) };
        assert!(state.rest_bytes <= state.claimed, "kept without a claim");
    }
    state
}

struct Kept(Box<DataStackState>);
// SAFETY: handed from one thread to another.
unsafe impl Send for Kept {}

#[test]
fn interleaved_threads_keep_no_more_than_is_there() {
    explore(|| {
        begin();
        let threads = [3, 4].map(|count| spawn(move || Kept(leave_chunks(count))));
        let mut kept = threads.map(|it| it.join().expect("a thread").0);
        let claimed: usize = kept.iter().map(|it| it.claimed).sum();
        assert_eq!(claimed + left(), ENOUGH);
        assert_eq!(left(), 0, "less was kept than could be");
        kept.iter_mut().for_each(|it| assert!(it.clear_cache()));
        assert_eq!(left(), ENOUGH);
    });
}

#[test]
fn interleaved_what_threads_give_up_can_be_claimed_again() {
    explore(|| {
        begin();
        let gives_up = || {
            let mut state = leave_chunks(2);
            state.keep_first_only();
            Kept(state)
        };
        let threads = [spawn(gives_up), spawn(gives_up)];
        let mut kept = Vec::from(threads.map(|it| it.join().expect("a thread").0));
        assert_eq!(left(), ENOUGH);
        kept.push(leave_chunks(3));
        assert_eq!(left(), 0, "less was kept than could be");
        let claimed: usize = kept.iter().map(|it| it.claimed).sum();
        assert_eq!(claimed + left(), ENOUGH);
        kept.iter_mut().for_each(|it| assert!(it.clear_cache()));
        assert_eq!(left(), ENOUGH);
    });
}
