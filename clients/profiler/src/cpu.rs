//! CPU time of a thread or of the process.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const RUNNING: u64 = u64::MAX;

/// The time of one of the system's clocks, in nanoseconds. `None`: there is no such clock, or the
/// thread whose it was has ended.
pub fn time_of(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is good for the call; any number is allowed.
    let known = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    known.then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn clock_of_this_thread() -> libc::clockid_t {
    let mut clock = libc::CLOCK_THREAD_CPUTIME_ID;
    // SAFETY: the thread is alive, and the pointer is good for the call.
    unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    clock
}

/// CPU time since a moment, until it is stopped.
pub struct CpuTime {
    clock: AtomicI32,
    began: AtomicU64,
    took: AtomicU64,
}

impl CpuTime {
    fn of(clock: libc::clockid_t) -> Self {
        let began = AtomicU64::new(time_of(clock).unwrap_or(0));
        Self { clock: AtomicI32::new(clock), began, took: AtomicU64::new(RUNNING) }
    }

    /// That of the process, from now on.
    pub fn of_process() -> Self {
        Self::of(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// That of the calling thread, from now on.
    pub fn of_this_thread() -> Self {
        Self::of(clock_of_this_thread())
    }

    /// So many nanoseconds, for good.
    pub fn fixed(took: u64) -> Self {
        let made = Self::of(libc::CLOCK_PROCESS_CPUTIME_ID);
        made.took.store(took, Ordering::Release);
        made
    }

    /// In the child of a fork: clocks begin anew there. It is the calling thread's unless it is the
    /// process's.
    pub fn restart(&self) {
        let of_process = self.clock.load(Ordering::Acquire) == libc::CLOCK_PROCESS_CPUTIME_ID;
        let clock =
            if of_process { libc::CLOCK_PROCESS_CPUTIME_ID } else { clock_of_this_thread() };
        self.clock.store(clock, Ordering::Release);
        self.began.store(time_of(clock).unwrap_or(0), Ordering::Release);
    }

    /// It counts no further.
    pub fn stop(&self) {
        let took = self.nanoseconds();
        let _was_stopped =
            self.took.compare_exchange(RUNNING, took, Ordering::AcqRel, Ordering::Acquire);
    }

    pub fn nanoseconds(&self) -> u64 {
        let took = self.took.load(Ordering::Acquire);
        if took != RUNNING {
            return took;
        }
        let now = time_of(self.clock.load(Ordering::Acquire)).unwrap_or(0);
        now.saturating_sub(self.began.load(Ordering::Acquire))
    }
}
