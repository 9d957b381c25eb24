//! The memory of a table.
//!
//! It is owned by a value here until the table is in place, so an early return frees it. It is
//! never asked for, nor given back, while the lock is held: an allocator may be hooked and run
//! anything.

use super::registry::Registry;
use super::table::TableRef;
use crate::code::Code;
use crate::cpython::{PyCodeObject, PyMem_Free, PyMem_Malloc};
use crate::in_cpython::{CodeExtraState, Table};
use core::ptr::{null_mut, NonNull};

/// A table that nobody else can see yet.
pub struct FreshTable(TableRef);

impl FreshTable {
    /// An empty table for the values of `code`, with room for `capacity` entries, which is a power
    /// of two. It will be in the list of `owner`. `None` without memory.
    pub fn allocate(owner: Registry, capacity: usize, code: Code) -> Option<Self> {
        FreshTable::allocate_for(owner, capacity, owner.state(), code.as_ptr())
    }

    /// What marks how far a walk over the list of tables has come: a table that belongs to nobody.
    /// `None` without memory.
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
