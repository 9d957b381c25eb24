//! The time, in ticks of the cheapest clock that can be trusted.

use std::sync::OnceLock;
use std::time::Instant;

/// The kinds of clocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The processor's counter, at a constant rate.
    Counter,
    /// The kernel's monotonic clock; a tick is a nanosecond.
    Monotonic,
}

struct Base {
    kind: Kind,
    ticks: u64,
    moment: Instant,
}

/// The clock of a profile: which one it is was decided when the process began to use it.
#[derive(Clone, Copy)]
pub struct Clock(&'static Base);

static BASE: OnceLock<Base> = OnceLock::new();

impl Clock {
    /// The clock of this process.
    pub fn get() -> Self {
        Self(BASE.get_or_init(|| {
            let kind = if counter::is_steady() { Kind::Counter } else { Kind::Monotonic };
            let moment = Instant::now();
            let ticks = if kind == Kind::Counter { counter::read() } else { 0 };
            Base { kind, ticks, moment }
        }))
    }

    /// Now, in ticks.
    #[inline]
    pub fn now(self) -> u64 {
        match self.0.kind {
            Kind::Counter => counter::read(),
            Kind::Monotonic => self.0.moment.elapsed().as_nanos() as u64,
        }
    }

    /// How many nanoseconds a tick takes: the counter is compared with the monotonic clock over the
    /// whole time since the process began to use it.
    pub fn nanoseconds_per_tick(self) -> f64 {
        if self.0.kind == Kind::Monotonic {
            return 1.0;
        }
        // For a good rate some time must have passed.
        while self.0.moment.elapsed().as_millis() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let ticks = counter::read().saturating_sub(self.0.ticks).max(1);
        self.0.moment.elapsed().as_nanos() as f64 / ticks as f64
    }

    /// So many ticks in nanoseconds.
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanoseconds_per_tick()) as u64
    }

    /// What the clock is called in a report.
    pub fn name(self) -> &'static str {
        match self.0.kind {
            Kind::Counter => "time-stamp counter",
            Kind::Monotonic => "monotonic clock",
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    const ADVANCED_POWER: u32 = 0x8000_0007;
    const STEADY: u32 = 1 << 8;

    /// Whether the counter runs at one rate, whatever the processor does to save power.
    #[allow(unused_unsafe)] // newer compilers find the first of the functions safe
    pub fn is_steady() -> bool {
        // SAFETY: every processor of this architecture has the instruction, and it touches no
        // memory.
        unsafe {
            __cpuid(0x8000_0000).eax >= ADVANCED_POWER && __cpuid(ADVANCED_POWER).edx & STEADY != 0
        }
    }

    #[inline]
    pub fn read() -> u64 {
        // SAFETY: every processor of this architecture has the instruction, and it touches no
        // memory.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub fn is_steady() -> bool {
        false
    }

    pub fn read() -> u64 {
        0
    }
}
