//! The C stack: how much of it is left for compiling and for compiled code, and how deep evaluations are in each other on it.
//!
//! Both are greenlets' own: each runs at addresses of the thread's stack, and has its own count of C recursion in the thread state
//! while it runs.

use crate::python::ThreadState;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};

/// The largest stack frame of compiled code, in bytes.
pub const LARGEST_FRAME: u32 = 4096;
/// The C stack that is left alone, in bytes: compiling functions that call each other has taken 170 KiB.
const RESERVE: usize = 256 << 10;
/// How many evaluations may be in each other on the C stack before functions are given back: a call of a function with its own
/// vectorcall needs no C stack, and CPython's recursion of Python functions is not bounded by it.
const MOST_NESTED: i32 = 100;

/// `c_recursion_remaining` of a thread that has that many.
static LEAST: AtomicI32 = AtomicI32::new(0);

thread_local! {
    /// The lowest address of this thread's stack, and its size; 0 until it is looked for.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Takes the C recursion of now for none.
pub fn prepare(_py: Python<'_>) {
    // SAFETY: attached, as the token says; the state of this thread.
    let remaining = unsafe {
        let thread = ffi::PyThreadState_GetUnchecked().cast::<ThreadState>();
        (*thread).c_recursion_remaining
    };
    LEAST.store(remaining - MOST_NESTED, Ordering::Relaxed);
}

/// How many bytes are left, and of how many. None are if this is not the stack that the thread has begun with.
fn left() -> (usize, usize) {
    let (mut start, mut size) = STACK.get();
    if size == 0 {
        (start, size) = find();
        STACK.set((start, size));
    }
    let left = (std::ptr::from_ref(&size) as usize).wrapping_sub(start);
    (if left < size { left } else { 0 }, size)
}

/// The lowest address of this thread's stack, and its size.
fn find() -> (usize, usize) {
    // SAFETY: the attributes are filled by the first function, read by the second, and freed by the third.
    unsafe {
        let mut attributes = std::mem::zeroed();
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return (0, 1);
        }
        libc::pthread_attr_getstack(&attributes, &mut start, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        (start as usize, size)
    }
}

/// How many calls may be in each other: what the recursion limit allows, and the C stack. If none may, nothing is compiled either.
pub fn room(thread: *const ThreadState) -> i64 {
    // SAFETY: the state of the attached thread, which alone changes the field.
    let remaining = i64::from(unsafe { (*thread).py_recursion_remaining }) - 8;
    let stack = left().0.saturating_sub(RESERVE) / (2 * LARGEST_FRAME as usize);
    remaining.min(stack as i64)
}

/// Whether another evaluation on the C stack may be one too many.
pub fn is_deep(thread: *const ThreadState) -> bool {
    let (left, size) = left();
    // SAFETY: as above.
    left < size / 2 || unsafe { (*thread).c_recursion_remaining } < LEAST.load(Ordering::Relaxed)
}
