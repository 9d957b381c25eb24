//! How many references the slots of each record hold.
//!
//! They are counted before any code runs. A destructor may give a function other code, with another number of variables.

use super::record::FrameRecord;
use crate::cpython as c;
use core::ptr::null_mut;
use core::slice;

/// So many records need no memory.
const FEW: usize = 8;

/// One count for each record.
///
/// # Invariants
/// `many` is NULL, or memory of this type's for `length` counts, all of which are set. It is not NULL if `length` is above
/// [`FEW`].
pub struct Counts {
    few: [usize; FEW],
    many: *mut usize,
    length: usize,
}

impl Counts {
    /// `None`: there is no memory.
    ///
    /// # Safety
    /// The functions and code objects of the records are live or NULL.
    pub unsafe fn of(records: &[FrameRecord]) -> Option<Self> {
        let length = records.len();
        let mut counts = Counts { few: [0; FEW], many: null_mut(), length };
        if length > FEW {
            let bytes = length.checked_mul(size_of::<usize>())?;
            // SAFETY: the raw allocator takes any size at any time, and aligns for every type here.
            counts.many = unsafe { c::PyMem_RawMalloc(bytes).cast() };
            if counts.many.is_null() {
                return None;
            }
        }
        let first = counts.first();
        for (index, record) in records.iter().enumerate() {
            // SAFETY: there is room for as many counts as records. The caller says that the objects are live.
            unsafe { first.add(index).write(record.references()) };
        }
        Some(counts)
    }

    fn first(&mut self) -> *mut usize {
        if self.many.is_null() {
            self.few.as_mut_ptr()
        } else {
            self.many
        }
    }

    /// In the order of the records.
    pub fn as_slice(&mut self) -> &[usize] {
        // SAFETY: the type's invariant: `length` counts, which are set.
        unsafe { slice::from_raw_parts(self.first(), self.length) }
    }
}

impl Drop for Counts {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: NULL, or memory of this type's, says the invariant.
        unsafe { c::PyMem_RawFree(self.many.cast()) };
    }
}
