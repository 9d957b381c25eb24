//! What compiling has taken in this process.

use std::sync::atomic::{AtomicU64, Ordering};

static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// An attempt to compile a function and its callees has taken so many microseconds.
pub fn attempted(microseconds: f64, failed: bool) {
    ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    FAILED.fetch_add(failed.into(), Ordering::Relaxed);
    NANOSECONDS.fetch_add((microseconds * 1e3) as u64, Ordering::Relaxed);
}

/// All attempts, those that failed, and the seconds of processor time that they took.
pub fn totals() -> (u64, u64, f64) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    (read(&ATTEMPTS), read(&FAILED), read(&NANOSECONDS) as f64 / 1e9)
}
