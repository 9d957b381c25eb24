//! The calling thread, as a proof that it may use Python; and other threads, of which only the state can
//! be reached.

use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, _PyThreadStateImpl, PyInterpreterState, PyThreadState};
use core::ptr::NonNull;
use core::sync::atomic::{compiler_fence, AtomicUsize, Ordering};

/// The calling thread's state. It is passed down by value, as a proof that a
/// thread state is attached.
///
/// No reference is made to the structure behind it: other threads write some of
/// its fields. Each field is read or written by itself.
///
/// # Invariants
/// The calling thread's own, attached thread state. A pointer makes the type neither `Send` nor
/// `Sync`. It is `Copy` without a lifetime: each value is made in a function that CPython calls with the thread state
/// attached, and is passed down the C stack only, so it is gone when that function returns. CPython calls that detach
/// attach the same thread state again before they return. Methods lend nothing, but for atomics.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub struct Thread(NonNull<_PyThreadStateImpl>);

impl Thread {
    /// # Safety
    /// `tstate` is the calling thread's own, attached thread state.
    #[inline(always)]
    pub unsafe fn new(tstate: *mut PyThreadState) -> Self {
        // SAFETY: the caller passes a thread state, which is not NULL and begins a `_PyThreadStateImpl`.
        Thread(unsafe { NonNull::new_unchecked(tstate.cast()) })
    }

    /// # Safety
    /// The calling thread has an attached thread state.
    #[inline] // or its symbol would be exported
    pub unsafe fn current() -> Self {
        // SAFETY: the caller says that a thread state is attached: this is it.
        unsafe { Thread::new(c::PyThreadState_Get()) }
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut _PyThreadStateImpl {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn tstate(self) -> *mut PyThreadState {
        self.as_ptr().cast()
    }

    #[inline(always)]
    pub fn interpreter(self) -> *mut PyInterpreterState {
        // SAFETY: live by the type's invariant; the field never changes.
        unsafe { (*self.tstate()).interp }
    }

    /// A number that no other thread of the interpreter ever has.
    pub fn number(self) -> u64 {
        self.its_state().number()
    }

    /// A stretch of code in which the thread is not stopped begins.
    ///
    /// # Safety
    /// *quiet*: until the result is gone, this thread calls nothing that may wait, or run code of others: Python code,
    /// destructors of objects, callbacks.
    #[inline(always)]
    pub unsafe fn not_stopped(self) -> NotStopped {
        NotStopped(self)
    }

    /// What can be reached of this thread as of any.
    #[inline(always)]
    pub fn its_state(self) -> ThreadState {
        ThreadState(self.0)
    }

    /// Makes `frame` the thread's current one; NULL: none. What was written to frames before is in
    /// memory first, and what is written to them afterwards comes later: a signal's handler may walk
    /// them between any two instructions, as that of `faulthandler` does.
    ///
    /// # Safety
    /// `frame` and those that it leads to are whole and alive.
    #[inline(always)]
    pub unsafe fn set_current_frame(self, frame: *mut _PyInterpreterFrame) {
        compiler_fence(Ordering::Release);
        // SAFETY: live by the type's invariant; the field is the thread's own.
        unsafe { (*self.tstate()).current_frame = frame };
        compiler_fence(Ordering::Release);
    }

    /// What the eval loop looks at: the version that code is to have, for monitoring, and below
    /// that, in `_PY_EVAL_EVENTS_BITS` bits, what is pending.
    #[inline(always)]
    pub fn eval_breaker(self) -> usize {
        self.eval_breaker_word().load(Ordering::Relaxed)
    }

    /// The word itself.
    #[inline(always)]
    pub fn eval_breaker_word(&self) -> &AtomicUsize {
        // SAFETY: live while `self` is used, by the type's invariant. Other threads write the field too, but
        // atomically.
        unsafe { AtomicUsize::from_ptr(&raw mut (*self.tstate()).eval_breaker) }
    }

    /// Whether an exception is set.
    #[inline(always)]
    pub fn has_exception(self) -> bool {
        // SAFETY: live by the type's invariant; the field is the thread's own.
        unsafe { !(*self.tstate()).current_exception.is_null() }
    }
}

/// A stretch of code in which the calling thread is not stopped, and runs no code of others. What changes with the
/// world stopped, or by such code, stays as it is meanwhile. So what is found there is borrowed from this, and the
/// stretch ends where it is dropped, or moved to what runs other code.
///
/// # Invariants
/// As long as this is there the thread calls nothing that may wait, or run code of others.
#[must_use = "what is found stays only as long as this"]
pub struct NotStopped(Thread);

impl NotStopped {
    /// The thread.
    #[inline(always)]
    pub fn thread(&self) -> Thread {
        self.0
    }
}

/// A thread state of the calling thread's interpreter, which may be another thread's: nothing can be
/// called with it. What it keeps is that thread's, so each use says why that thread does not use it now.
///
/// # Invariants
/// The thread state is live.
#[derive(Clone, Copy, PartialEq)]
pub struct ThreadState(NonNull<_PyThreadStateImpl>);

impl ThreadState {
    /// # Safety
    /// `tstate` is live as long as the result is used.
    pub unsafe fn new(tstate: *mut PyThreadState) -> Self {
        // SAFETY: the caller passes a thread state, which is not NULL and begins a `_PyThreadStateImpl`.
        ThreadState(unsafe { NonNull::new_unchecked(tstate.cast()) })
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut _PyThreadStateImpl {
        self.0.as_ptr()
    }

    /// A number that no other thread of the interpreter ever has.
    pub fn number(self) -> u64 {
        // SAFETY: live by the type's invariant; the field never changes.
        unsafe { (*self.as_ptr().cast::<PyThreadState>()).id }
    }

    /// All of the interpreter's, the calling thread's included.
    ///
    /// # Safety
    /// The world is stopped, or the interpreter ends and has no other thread that runs. So none of
    /// them goes; one that comes meanwhile may be missing.
    pub unsafe fn all(thread: Thread) -> ThreadStates {
        // SAFETY: the interpreter is live.
        ThreadStates(unsafe { c::PyInterpreterState_ThreadHead(thread.interpreter()) })
    }
}

/// The thread states of an interpreter.
///
/// # Invariants
/// NULL, or live as long as this is used.
pub struct ThreadStates(*mut PyThreadState);

impl Iterator for ThreadStates {
    type Item = ThreadState;

    #[inline] // or its symbol would be exported
    fn next(&mut self) -> Option<ThreadState> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: live, by the invariant.
        unsafe {
            let state = ThreadState::new(self.0);
            self.0 = c::PyThreadState_Next(self.0);
            Some(state)
        }
    }
}
