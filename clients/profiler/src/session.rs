//! A profile that is being made: its clock, its functions, its threads.

use crate::clock::Clock;
use crate::codes::{identify, Codes, Known, Named};
use crate::cpu::{time_of, CpuTime};
use crate::entered::Entered;
use crate::place::{Place, Slot};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashMap;
use std::ffi::c_ulong;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the hook, and of the tool of `sys.monitoring`.
pub const NAME: &str = "ferrule_profiler";
/// So many threads have a result of their own after their end. What others have done is added up.
const MOST_ENDED: usize = 64;

/// A lock that is held for a moment, and never while Python is called.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread counts.
pub trait Tally: Send + Sized + 'static {
    /// For a new thread; `serial` is no other thread's. There is room for so many events. With `cpu`
    /// functions have CPU time too.
    fn new(serial: u64, room: usize, cpu: bool) -> Self;
    /// Adds what a thread has counted that has ended.
    fn absorb(&mut self, other: &Self);
}

/// Reports the lines that begin in some code.
pub trait Lines: Send + Sync {
    /// From now on in this code too.
    fn watch(&self, code: &Bound<'_, PyCode>);
    /// No more, in none.
    fn remove(&self, py: Python<'_>);
}

/// A profile that is being made.
pub struct Session<T: Tally> {
    pub serial: u64,
    room: usize,
    with_cpu: bool,
    pub clock: Clock,
    /// When it was made, in ticks.
    pub began: u64,
    /// The same in nanoseconds of the monotonic clock, which all processes share.
    pub began_at: u64,
    /// The same in nanoseconds since 1970.
    pub date: u64,
    /// When it was started in this process, in ticks.
    pub since: AtomicU64,
    pub cpu: CpuTime,
    pub codes: Mutex<Codes>,
    /// What reports the lines of chosen functions.
    pub lines: Mutex<Option<Arc<dyn Lines>>>,
    pub threads: Mutex<Vec<Arc<Slot<T>>>>,
    /// Calls of generators that another thread has run than the one whose numbers they have: the number
    /// of the thread that knows of them.
    pub moved: Mutex<FxHashMap<u64, u64>>,
}

/// The frame by which a thread was seen, with its code.
type First<'a, 'py> = Option<(&'a Bound<'py, PyCode>, &'a dyn Entered<'py>)>;

static SERIALS: AtomicU64 = AtomicU64::new(1);

impl<T: Tally> Session<T> {
    /// `room` is how many events each thread keeps; see [`Tally::new`].
    pub fn new(ignored: Option<String>, room: usize, with_cpu: bool, lined: Vec<Named>) -> Self {
        let clock = Clock::get();
        Self {
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            room,
            with_cpu,
            clock,
            began: clock.now(),
            began_at: time_of(libc::CLOCK_MONOTONIC).unwrap_or(0),
            date: time_of(libc::CLOCK_REALTIME).unwrap_or(0),
            since: AtomicU64::new(clock.now()),
            cpu: CpuTime::of_process(),
            codes: Mutex::new(Codes::new(ignored, lined)),
            lines: Mutex::default(),
            threads: Mutex::default(),
            moved: Mutex::default(),
        }
    }

    /// Runs `body` with the thread's tally, if it has one. It must not call into Python.
    #[inline(always)]
    pub fn with<R>(
        &self,
        py: Python<'_>,
        place: &'static Place<T>,
        body: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        place.with(self.serial, |slot| slot.tally.with(py, body))?
    }

    /// Makes the thread known, if it is not yet. `first` is what made it seen.
    #[cold]
    pub fn register(&self, py: Python<'_>, place: &'static Place<T>, first: First<'_, '_>) {
        if self.with(py, place, |_| ()).is_some() {
            return;
        }
        let ident = thread_ident();
        let name = first.and_then(started_by).or_else(|| known_name(py, ident));
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        let name = name.unwrap_or_else(|| format!("thread {ident}"));
        let cpu = CpuTime::of_this_thread();
        let tally = T::new(serial, self.room, self.with_cpu);
        let slot = Arc::new(Slot::new(tally, serial, ident, name, cpu));
        {
            // A result has each thread once, however many are added up meanwhile.
            let mut threads = lock(&self.threads);
            Self::reap(py, &mut threads);
            threads.push(slot.clone());
        }
        place.keep(self.serial, slot);
    }

    /// The thread with this number, or those that are added up if it is one of them.
    pub fn thread(&self, serial: u64) -> Option<Arc<Slot<T>>> {
        let threads = lock(&self.threads);
        let find = |serial| threads.iter().find(|slot| slot.serial == serial);
        find(serial).or_else(|| find(0)).cloned()
    }

    /// Adds up threads that have ended where there are many.
    fn reap(py: Python<'_>, threads: &mut Vec<Arc<Slot<T>>>) {
        if threads.iter().filter(|slot| slot.has_ended()).count() <= MOST_ENDED {
            return;
        }
        let (ended, left): (Vec<_>, Vec<_>) =
            std::mem::take(threads).into_iter().partition(|slot| slot.has_ended());
        *threads = left;
        let (mut sum, mut cpu) = (T::new(0, 0, false), 0);
        for slot in ended {
            slot.tally.with(py, |tally| sum.absorb(tally));
            cpu += slot.cpu.nanoseconds();
        }
        let name = "threads that have ended".to_owned();
        let ended = Slot::new(sum, 0, 0, name, CpuTime::fixed(cpu));
        ended.end();
        threads.push(Arc::new(ended));
    }

    /// What is known of a code object; it is taken down if need be.
    #[cold]
    pub fn know(&self, code: &Bound<'_, PyCode>) -> Known {
        let address = code.as_ptr() as usize;
        if let Some(known) = lock(&self.codes).at(address) {
            return known;
        }
        let identity = identify(code);
        let object = code.clone().into_any().unbind();
        let known = lock(&self.codes).add(address, object, identity);
        if known.lined {
            // No lock is held while the interpreter is called.
            let tool = lock(&self.lines).clone();
            if let Some(tool) = tool {
                tool.watch(code);
            }
        }
        known
    }

    /// From now on it counts, in this process.
    pub fn begin(&self) {
        self.since.store(self.clock.now(), Ordering::Relaxed);
        self.cpu.restart();
    }

    /// In a forked child: the other threads are not there any more.
    pub fn forget_others(&self, place: &'static Place<T>) {
        let mine = place.kept();
        self.begin();
        if let Some(mine) = &mine {
            mine.cpu.restart();
        }
        lock(&self.threads)
            .retain(|slot| mine.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, slot)));
    }
}

extern "C" {
    fn PyThread_get_thread_ident() -> c_ulong;
}

/// As `threading.get_ident()`. No `import` here runs what the program makes of it.
pub fn thread_ident() -> u64 {
    // SAFETY: it may be called anywhere.
    unsafe { PyThread_get_thread_ident() }
}

/// `sys.modules`.
pub fn modules(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: attached. The reference is borrowed from `sys`, and another one is made of it.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PySys_GetObject(c"modules".as_ptr())) }
}

/// The name of a thread whose first frame is that of `threading.Thread`.
fn started_by((code, frame): (&Bound<'_, PyCode>, &dyn Entered<'_>)) -> Option<String> {
    if code.getattr("co_qualname").ok()?.extract::<String>().ok()? != "Thread._bootstrap" {
        return None;
    }
    frame.argument(0).ok()?.getattr("_name").ok()?.extract().ok()
}

/// The name of a thread that `threading` knows, or would know: the main one. None is made for others.
/// What is called is not its public interface, which is Python code that trace functions would see.
fn known_name(py: Python<'_>, ident: u64) -> Option<String> {
    let named = || {
        let threads = modules(py)?.get_item("threading").ok()?.getattr("_active").ok()?;
        threads.get_item(ident).ok()?.getattr("_name").ok()?.extract().ok()
    };
    // SAFETY: both only answer.
    let is_main = || unsafe { libc::gettid() == libc::getpid() };
    named().or_else(|| is_main().then(|| "MainThread".to_owned()))
}
