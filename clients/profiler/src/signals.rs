//! Signals that end the process, for while the main thread runs C code.
//!
//! Python runs handlers between instructions of the main thread, so a long call of a C function
//! delays them. Here the handler in C posts a semaphore too, and a thread of the profiler's own,
//! which is not attached until then, calls a function. It can do so where that C function has
//! released the GIL.

use pyo3::prelude::*;
use std::ffi::c_int;
use std::io::Error;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

const SIGNALS: usize = 65;
const NONE: c_int = 0;
const STOP: c_int = -1;

/// The handlers that were there before, CPython's.
static BEFORE: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// The signal that has come last.
static CAME: AtomicI32 = AtomicI32::new(NONE);
/// Whether a thread waits for the semaphore.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// The thread, where there is one. What this points to is never freed, as others may wait for it.
static THREAD: AtomicPtr<Watcher> = AtomicPtr::new(null_mut());

type Watcher = Mutex<Option<JoinHandle<()>>>;

/// Taken by detached threads alone: who holds it waits for the watcher, which attaches itself before it ends.
fn lock() -> MutexGuard<'static, Option<JoinHandle<()>>> {
    static FIRST: Watcher = Mutex::new(None);
    let known = THREAD.load(Ordering::Acquire);
    // SAFETY: what is stored there is a box that was leaked.
    let watcher = if known.is_null() { &FIRST } else { unsafe { &*known } };
    watcher.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of a semaphore of this process. It is never freed.
static SEMAPHORE: OnceLock<usize> = OnceLock::new();

fn semaphore() -> usize {
    *SEMAPHORE.get_or_init(|| {
        // SAFETY: it is a structure in C, and is initialized before it is used.
        let place = Box::into_raw(Box::new(unsafe { zeroed::<libc::sem_t>() }));
        // SAFETY: the allocation of a whole `sem_t`; no other thread has its address before this returns.
        unsafe { libc::sem_init(place, 0, 0) };
        place as usize
    })
}

/// Wakes the thread, unless something else has.
fn post(signal: c_int) -> bool {
    if CAME.compare_exchange(NONE, signal, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return false;
    }
    if let Some(place) = SEMAPHORE.get() {
        // SAFETY: it was initialized. The function may be called from signal handlers.
        unsafe { libc::sem_post(*place as *mut libc::sem_t) };
    }
    true
}

extern "C" fn handler(signal: c_int) {
    // SAFETY: each thread has an `errno`.
    let errno = unsafe { *libc::__errno_location() };
    let before = BEFORE.get(signal as usize).map_or(0, |before| before.load(Ordering::Acquire));
    if before > libc::SIG_IGN {
        // SAFETY: it is neither SIG_DFL nor SIG_IGN, so it is a handler without SA_SIGINFO.
        let before: extern "C" fn(c_int) = unsafe { std::mem::transmute(before) };
        before(signal);
    }
    if WATCHED.load(Ordering::Acquire) {
        let _heeded = post(signal);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Puts our handler before that of each signal.
fn set_handlers(signals: &[c_int]) {
    for signal in signals {
        let Some(before) = BEFORE.get(*signal as usize) else { continue };
        // SAFETY: an action of zeros is valid, and the pointers are good for the calls.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            let known = libc::sigaction(*signal, null_mut(), &raw mut action) == 0;
            let ours = handler as extern "C" fn(c_int) as usize;
            if known && action.sa_flags & libc::SA_SIGINFO == 0 && action.sa_sigaction != ours {
                before.store(action.sa_sigaction, Ordering::Release);
                action.sa_sigaction = ours;
                libc::sigaction(*signal, &raw const action, null_mut());
            }
        }
    }
}

/// Has `function` called, in another thread, with the number of one of these signals when it has come.
/// `leave_out` is called first: it keeps that thread out of the profile.
pub fn watch(
    py: Python<'_>,
    signals: &[c_int],
    function: Py<PyAny>,
    leave_out: Py<PyAny>,
) -> PyResult<()> {
    let waiting = semaphore();
    let run = move || {
        let signal = wait(waiting as *mut libc::sem_t);
        if signal == STOP {
            return Python::attach(|_| drop((function, leave_out)));
        }
        Python::attach(|py| {
            let called = leave_out.call0(py).and_then(|_| function.call1(py, (signal,)));
            if let Err(error) = called {
                error.write_unraisable(py, None);
            }
        });
    };
    py.detach(|| {
        let mut place = lock();
        if place.is_none() {
            CAME.store(NONE, Ordering::Release);
            set_handlers(signals);
            let thread = std::thread::Builder::new().name("ferrule_profiler".to_owned());
            *place = Some(all_blocked(|| thread.spawn(run))?);
            WATCHED.store(true, Ordering::Release);
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}

fn wait(semaphore: *mut libc::sem_t) -> c_int {
    loop {
        // SAFETY: it was initialized, and is never destroyed.
        let woken = unsafe { libc::sem_wait(semaphore) } == 0;
        let came = CAME.load(Ordering::Acquire);
        if woken && came != NONE {
            return came;
        }
    }
}

/// Runs `body` while this thread gets no signals, nor will threads that it starts.
fn all_blocked<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: sets of zeros are valid, and the pointers are good for the calls.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let found = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        found
    }
}

/// Ends the thread that watches, unless a signal has come. Handlers stay.
pub fn stop(py: Python<'_>) {
    py.detach(|| {
        let mut place = lock();
        WATCHED.store(false, Ordering::Release);
        let Some(thread) = place.take() else { return };
        if post(STOP) {
            drop(thread.join());
        }
    });
}

/// In a forked child: the thread is not there.
pub fn after_fork() {
    WATCHED.store(false, Ordering::Release);
    // The lock may be held by a thread that is not there either.
    THREAD.store(Box::into_raw(Box::default()), Ordering::Release);
}

/// Ends the process by a signal, as though it had no handler.
pub fn end_by(signal: c_int) -> PyResult<()> {
    // SAFETY: an action of zeros has no handler, SIG_DFL; the pointers are good for the calls.
    unsafe {
        let action: libc::sigaction = zeroed();
        let mut set: libc::sigset_t = zeroed();
        if libc::sigaction(signal, &raw const action, null_mut()) != 0 {
            return Err(Error::last_os_error().into());
        }
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
        libc::raise(signal);
    }
    Ok(())
}

/// Calls a function until no exception leaves it, at most ten times: what a handler of a signal raises
/// before the function has put other handlers in their places.
pub fn to_the_end(function: &Bound<'_, PyAny>) -> PyResult<()> {
    for _ in 0..9 {
        if function.call0().is_ok() {
            return Ok(());
        }
    }
    function.call0().map(|_| ())
}
