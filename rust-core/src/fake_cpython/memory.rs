//! CPython's allocators, which count what they gave out and can be made to fail.

#[cfg(loom)]
use super::interleaved::locks_held;
#[cfg(not(loom))]
use super::locks::locks_held;
use std::alloc::{alloc, dealloc, Layout};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;

#[cfg(not(loom))]
extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn calloc(count: usize, bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

/// Blocks that loom watches, under the names of the functions above.
#[cfg(loom)]
use super::interleaved::{allocation as malloc, died as free};
#[cfg(loom)]
unsafe fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: any size will do.
    unsafe { malloc(count * bytes) }
}

thread_local! {
    /// Allocations that still succeed in this thread; `None`: all do.
    static ALLOWED: Cell<Option<usize>> = const { Cell::new(None) };
    /// Blocks allocated less blocks freed by this thread.
    static BLOCKS: Cell<isize> = const { Cell::new(0) };
    /// What the arena allocator has given out: addresses and sizes.
    static ARENA: RefCell<HashMap<usize, usize>> = RefCell::default();
}

/// A box of zeros. `Box::new_zeroed` does the same from Rust 1.92 on.
///
/// # Safety
/// All zeros are a value of `T`.
pub unsafe fn zeroed<T>() -> Box<T> {
    // SAFETY: the caller says that all zeros are a value of `T`.
    Box::new(unsafe { std::mem::zeroed() })
}

// --- Failure. ---

/// This thread's next allocations of any kind fail after so many; `None`: none does.
pub fn allow(allocations: Option<usize>) {
    ALLOWED.set(allocations);
}

/// How many still succeed.
pub fn allowed() -> Option<usize> {
    ALLOWED.get()
}

/// Whether the requested allocation may succeed.
pub fn is_allowed() -> bool {
    match ALLOWED.get() {
        Some(0) => return false,
        Some(left) => ALLOWED.set(Some(left - 1)),
        None => {}
    }
    true
}

/// Runs `body` again and again, each time with one allocation more before the first that fails,
/// until it returns true.
pub fn with_each_allocation_failing(mut body: impl FnMut() -> bool) {
    for allowed in 0.. {
        allow(Some(allowed));
        let done = body();
        allow(None);
        if done {
            assert!(allowed > 0, "nothing was allocated");
            return;
        }
    }
}

// --- The raw allocator, and that of objects' memory. ---

/// Blocks that this thread has allocated, less those that it has freed.
pub fn blocks() -> isize {
    BLOCKS.get()
}

fn allocation(make: impl FnOnce() -> *mut c_void) -> *mut c_void {
    assert_eq!(locks_held(), 0, "an allocation while a lock is held");
    if !is_allowed() {
        return null_mut();
    }
    BLOCKS.set(BLOCKS.get() + 1);
    make()
}

pub fn deallocation(block: *mut c_void) {
    assert_eq!(locks_held(), 0, "memory is freed while a lock is held");
    if !block.is_null() {
        BLOCKS.set(BLOCKS.get() - 1);
        // SAFETY: from `allocation`, and not freed before, or a sanitizer reports it.
        unsafe { free(block) };
    }
}

#[no_mangle]
extern "C" fn PyMem_Malloc(bytes: usize) -> *mut c_void {
    // SAFETY: any size will do.
    allocation(|| unsafe { malloc(bytes) })
}

#[no_mangle]
extern "C" fn PyMem_Free(block: *mut c_void) {
    deallocation(block);
}

#[no_mangle]
extern "C" fn PyMem_RawMalloc(bytes: usize) -> *mut c_void {
    // SAFETY: any size will do.
    allocation(|| unsafe { malloc(bytes) })
}

#[no_mangle]
extern "C" fn PyMem_RawCalloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: any size will do.
    allocation(|| unsafe { calloc(count, bytes) })
}

#[no_mangle]
extern "C" fn PyMem_RawFree(block: *mut c_void) {
    deallocation(block);
}

// --- The arena allocator. ---

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 4096).expect("a size that fits")
}

/// Bytes that the arena allocator has given out in this thread.
pub fn arena_bytes() -> usize {
    ARENA.with_borrow(|arena| arena.values().sum())
}

#[no_mangle]
pub extern "C" fn _PyObject_VirtualAlloc(bytes: usize) -> *mut c_void {
    if !is_allowed() {
        return null_mut();
    }
    // SAFETY: chunks are never empty.
    let block = unsafe { alloc(layout(bytes)) };
    ARENA.with_borrow_mut(|arena| arena.insert(block as usize, bytes));
    block.cast()
}

#[no_mangle]
pub extern "C" fn _PyObject_VirtualFree(block: *mut c_void, bytes: usize) {
    let known = ARENA.with_borrow_mut(|arena| arena.remove(&(block as usize)));
    assert_eq!(known, Some(bytes), "freed with another size than allocated, or twice");
    // SAFETY: allocated above with this size, and not freed before.
    unsafe { dealloc(block.cast(), layout(bytes)) };
}
