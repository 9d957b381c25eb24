//! Reference counts of what is no Python object.

use crate::sync::{AtomicU64, Ordering};

/// Adds to a counter, and returns what it was. With the GIL that needs no atomic instruction.
#[inline(always)]
pub fn add_to(counter: &AtomicU64, amount: u64) -> u64 {
    if cfg!(any(ferrule_free_threaded, loom)) {
        counter.fetch_add(amount, Ordering::AcqRel)
    } else {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        before
    }
}

/// Counts one more.
#[inline(always)]
pub fn count_one(counter: &AtomicU64) {
    add_to(counter, 1);
}

/// How many references there are.
pub struct References(AtomicU64);

impl References {
    pub fn one() -> Self {
        References(AtomicU64::new(1))
    }

    /// One more. The caller has one, or knows of one that stays for the moment.
    #[inline(always)]
    pub fn share(&self) {
        count_one(&self.0);
    }

    /// One less. `true`: it was the last one, and the caller alone knows what was referred to.
    #[inline(always)]
    #[must_use]
    pub fn give_up(&self) -> bool {
        add_to(&self.0, u64::MAX) == 1
    }
}
