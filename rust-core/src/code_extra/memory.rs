//! Memory for tables and for the registry's segments.
//!
//! Both are owned by a value here until they are in place, so an early return
//! frees them. Never asked for, nor given back, while the lock is held: an
//! allocator may be hooked and run anything.

use super::registry::Registry;
use super::table::{Table, TableRef};
use super::CodeExtraState;
use crate::cpython::{PyCodeObject, PyMem_Free, PyMem_Malloc, PyMem_RawCalloc, PyMem_RawFree};
use core::ptr::{null_mut, NonNull};

/// A table that nobody else can see yet.
pub struct FreshTable(TableRef);

impl FreshTable {
    /// An empty table for the values of `code`, with room for `capacity` entries, which is a power of two.
    /// It will be in the list of `owner`. `None` without memory.
    pub fn allocate(owner: Registry, capacity: usize, code: *mut PyCodeObject) -> Option<Self> {
        FreshTable::allocate_for(owner, capacity, owner.state(), code)
    }

    /// What marks how far a walk over the list of tables has come: a table that belongs to nobody. `None`
    /// without memory.
    pub fn marker(registry: Registry) -> Option<Self> {
        FreshTable::allocate_for(registry, 1, null_mut(), null_mut())
    }

    fn allocate_for(
        _registry: Registry,
        capacity: usize,
        owner: *mut CodeExtraState,
        code: *mut PyCodeObject,
    ) -> Option<Self> {
        // SAFETY: the function takes any size; who has a registry is attached.
        let block = unsafe { PyMem_Malloc(Table::bytes(capacity)) };
        let block: NonNull<Table> = NonNull::new(block.cast())?;
        // SAFETY: the block is ours and has that many bytes.
        Some(FreshTable(unsafe { TableRef::initialize(block, capacity, owner, code) }))
    }

    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub fn table(&self) -> TableRef {
        self.0
    }

    /// Hands the memory over to the list of tables.
    pub fn into_table(self) -> TableRef {
        let table = self.0;
        core::mem::forget(self);
        table
    }
}

impl Drop for FreshTable {
    // Inlined, or its symbol would be exported from the interpreter.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated above by a thread that is attached, and nobody else has seen it.
        unsafe { PyMem_Free(self.0.as_ptr().cast()) };
    }
}

/// Zeroed memory for `count` values of `T`, for which zeros are valid.
pub struct FreshSegment<T>(NonNull<T>);

impl<T> FreshSegment<T> {
    /// `None` without memory.
    ///
    /// # Safety
    /// All zeros is a valid `T`.
    pub unsafe fn allocate(count: usize) -> Option<Self> {
        // SAFETY: the function takes any size and needs no thread state.
        let block = unsafe { PyMem_RawCalloc(count, size_of::<T>()) };
        NonNull::new(block.cast()).map(FreshSegment)
    }

    pub fn into_raw(self) -> *mut T {
        let block = self.0.as_ptr();
        core::mem::forget(self);
        block
    }
}

impl<T> Drop for FreshSegment<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated above, and nobody else has seen it.
        unsafe { free_segment(self.0.as_ptr()) };
    }
}

/// # Safety
/// `segment` is NULL, or came from [`FreshSegment::into_raw`] and is not used any more.
pub unsafe fn free_segment<T>(segment: *mut T) {
    // SAFETY: the caller's contract.
    unsafe { PyMem_RawFree(segment.cast()) };
}
