//! The table behind `PyCodeObject.co_extra`: the values of one code object.
//!
//! ```text
//!   co_extra ──► ┌──────────────────────────────┬─────┬───────┬─────┬───────┬── ─ ─
//!                │ mask, list, owner, code, used│ key │ value │ key │ value │
//!                └──────────────────────────────┴─────┴───────┴─────┴───────┴── ─ ─
//! ```
//!
//! A hash table with open addressing: an index belongs at its slot's number
//! modulo the capacity, so small indices never collide, and a single value of
//! any index is found at the first look. A table has room for what is in it and
//! little more; large indices cost no more than small ones.
//!
//! Readers take no lock. What makes that right:
//! - A table's size never changes; a larger one takes its place in `co_extra`,
//!   and the old one is freed when no reader can hold it any more.
//! - A key is written once. It may then become "gone", but never another index.
//!   So a reader who finds the key of an index may read the value beside it: no
//!   other index ever has its value there.
//! - The value is stored after the key, and with release order.
//!
//! # Invariants
//! - A table that `co_extra` leads to is in its owner's list, and holds at least
//!   one value: `live` counts those that are not NULL, `used` the keys. Both
//!   counts, the list and `code` belong to whoever holds the owner's lock.
//! - At least one key is `EMPTY` from a capacity of four on.

use super::index::{Index, Key};
use super::registry::Locked;
use crate::check::check;
use crate::code::Code;
use crate::cpython::PyCodeObject;
use crate::in_cpython::{CodeExtraState, Table};
use core::ffi::c_void;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A key and its value, behind the header.
#[repr(C)]
struct Entry {
    key: AtomicUsize,
    value: AtomicPtr<c_void>,
}

const WORDS_PER_ENTRY: usize = size_of::<Entry>() / size_of::<usize>();

/// How many keys a table of `capacity` entries takes.
const fn limit(capacity: usize) -> usize {
    capacity - capacity / 4
}

/// The smallest capacity that takes `count` keys.
pub fn capacity_for(count: usize) -> usize {
    let mut capacity = 1;
    while limit(capacity) < count {
        capacity *= 2;
    }
    capacity
}

impl Table {
    /// The bytes of a table with `capacity` entries.
    pub const fn bytes(capacity: usize) -> usize {
        size_of::<Table>() + capacity * size_of::<Entry>()
    }
}

/// `co_extra` of a code object.
///
/// # Safety
/// `code` lives as long as the reference is used.
#[inline(always)]
pub unsafe fn extra_of<'a>(code: Code) -> &'a AtomicPtr<Table> {
    // SAFETY: a pointer-sized field of a live object, used atomically by all of
    // this crate; C only asks whether it is NULL.
    unsafe { AtomicPtr::from_ptr((&raw mut (*code.as_ptr()).co_extra).cast()) }
}

/// The value where `index` belongs in the table of `code`, if that is where it
/// is; `Err` says whether it may be elsewhere. Takes no lock.
///
/// # Safety
/// The calling thread is attached.
#[inline(always)]
pub unsafe fn look_once(code: Code, index: isize) -> Result<*mut c_void, Elsewhere> {
    // SAFETY: the caller's contract.
    let table = unsafe { extra_of(code) }.load(Ordering::Acquire);
    if table.is_null() {
        return Err(Elsewhere::Nowhere);
    }
    // SAFETY: a table that was found in `co_extra` is not freed while this
    // thread is attached; `mask` never changes, and keeps the entry inside.
    let entry = unsafe {
        let words = (index as usize).wrapping_mul(WORDS_PER_ENTRY) & (*table).mask;
        &*table.add(1).cast::<usize>().add(words).cast::<Entry>()
    };
    let key = entry.key.load(Ordering::Acquire);
    if key == index as usize {
        return Ok(entry.value.load(Ordering::Acquire));
    }
    // Volatile only so that it is read once more: each of the two is then part of the
    // instruction that uses it, and the value that is found costs an instruction less.
    // SAFETY: as above.
    let has_one_place = unsafe { (&raw const (*table).mask).read_volatile() } == 0;
    Err(if has_one_place { Elsewhere::Nowhere } else { Elsewhere::MaybeFurther })
}

/// The value under `raw` anywhere in the table of `code`. Takes no lock.
///
/// # Safety
/// As for [`look_once`].
pub unsafe fn look_further(code: Code, raw: isize) -> Option<*mut c_void> {
    let index = Index::from_raw(raw)?;
    // SAFETY: NULL, or a table that is not freed while this thread is attached.
    let table = unsafe { TableRef::from_raw(extra_of(code).load(Ordering::Acquire)) }?;
    table.entry_of(Key::live(index)).map(|entry| entry.value.load(Ordering::Acquire))
}

/// Why [`look_once`] found nothing.
pub enum Elsewhere {
    /// There is no table, or it has one place, which is another index's.
    Nowhere,
    /// The table has more places: [`look_further`].
    MaybeFurther,
}

/// A table; may be copied. Who frees it is said by the list it is in.
///
/// # Invariants
/// Points to a live, initialized table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TableRef(NonNull<Table>);

impl TableRef {
    /// Makes a block an empty table that is in no list.
    ///
    /// # Safety
    /// `block` has [`Table::bytes`] of `capacity` bytes, and is the caller's.
    pub unsafe fn initialize(
        block: NonNull<Table>,
        capacity: usize,
        owner: *mut CodeExtraState,
        code: *mut PyCodeObject,
    ) -> Self {
        let header = Table {
            mask: (capacity - 1) * WORDS_PER_ENTRY,
            next: null_mut(),
            previous: null_mut(),
            owner,
            code,
            used: 0,
            live: 0,
        };
        // SAFETY: the block is large enough by contract.
        unsafe { block.write(header) };
        let mut position = 0;
        while position < capacity {
            let entry =
                Entry { key: AtomicUsize::new(Key::EMPTY.0), value: AtomicPtr::new(null_mut()) };
            // SAFETY: as above; position is below the capacity.
            unsafe { block.add(1).cast::<Entry>().add(position).write(entry) };
            position += 1;
        }
        // INVARIANT: initialized just now.
        TableRef(block)
    }

    /// # Safety
    /// `table` is NULL or a live table.
    pub unsafe fn from_raw(table: *mut Table) -> Option<Self> {
        NonNull::new(table).map(TableRef)
    }

    pub fn as_ptr(self) -> *mut Table {
        self.0.as_ptr()
    }

    pub fn capacity(self) -> usize {
        // SAFETY: live by the type's invariant, and the field never changes.
        unsafe { (*self.as_ptr()).mask / WORDS_PER_ENTRY + 1 }
    }

    pub fn bytes(self) -> usize {
        Table::bytes(self.capacity())
    }

    pub fn owner(self) -> *mut CodeExtraState {
        // SAFETY: live by the type's invariant, and the field never changes.
        unsafe { (*self.as_ptr()).owner }
    }

    pub fn is_marker(self) -> bool {
        self.owner().is_null()
    }

    fn entry(&self, position: usize) -> &Entry {
        let position = position & (self.capacity() - 1);
        // SAFETY: below the capacity, which is a power of two.
        unsafe { &*self.as_ptr().add(1).cast::<Entry>().add(position) }
    }

    /// Where `key` is.
    fn entry_of(&self, key: Key) -> Option<&Entry> {
        let home = key.0;
        let mut step = 0;
        while step < self.capacity() {
            let entry = self.entry(home.wrapping_add(step));
            let found = Key(entry.key.load(Ordering::Acquire));
            if found == key {
                return Some(entry);
            }
            if found == Key::EMPTY {
                return None;
            }
            step += 1;
        }
        None
    }
}

/// What only the holder of the owner's lock may do. Each method takes that lock as a proof. A
/// marker has no owner, and is used under the lock of the registry whose list it is in.
impl TableRef {
    /// Two registries can be in play, so the lock may be the wrong one.
    #[inline(always)]
    #[cfg_attr(not(ferrule_checks), allow(unused_variables))]
    fn check_lock(self, lock: &Locked) {
        check!(
            self.is_marker() || self.owner() == lock.registry().state(),
            "a table is used under the lock of another registry"
        );
    }

    pub fn live(self, lock: &Locked) -> usize {
        self.check_lock(lock);
        // SAFETY: live by the type's invariant; the lock is held.
        unsafe { (*self.as_ptr()).live as usize }
    }

    pub fn has_room(self, lock: &Locked) -> bool {
        self.check_lock(lock);
        // SAFETY: as above.
        unsafe { ((*self.as_ptr()).used as usize) < limit(self.capacity()) }
    }

    fn count(self, lock: &mut Locked, appeared: bool, vanished: bool) {
        self.check_lock(lock);
        // SAFETY: as above. A table has at most 2^21 entries, and `live` counts
        // those whose value vanishes.
        unsafe {
            (*self.as_ptr()).live =
                (*self.as_ptr()).live.wrapping_add(appeared as u32).wrapping_sub(vanished as u32);
        }
    }

    /// Puts `value` in the place of the one under `index`, which is returned;
    /// `None`, and nothing changed, when the index has no entry.
    pub fn replace(
        self,
        lock: &mut Locked,
        index: Index,
        value: *mut c_void,
    ) -> Option<*mut c_void> {
        let entry = self.entry_of(Key::live(index))?;
        let old = entry.value.swap(value, Ordering::AcqRel);
        self.count(lock, old.is_null() && !value.is_null(), !old.is_null() && value.is_null());
        Some(old)
    }

    /// Adds a key that is not here. There must be room; `value` is not NULL.
    pub fn append(self, lock: &mut Locked, key: Key, value: *mut c_void) {
        let home = key.0;
        let mut step = 0;
        while step < self.capacity() {
            let entry = self.entry(home.wrapping_add(step));
            if entry.key.load(Ordering::Relaxed) == Key::EMPTY.0 {
                entry.key.store(key.0, Ordering::Relaxed);
                entry.value.store(value, Ordering::Release);
                // SAFETY: live by the type's invariant; the lock is held.
                unsafe { (*self.as_ptr()).used += 1 };
                self.count(lock, true, false);
                return;
            }
            step += 1;
        }
    }

    /// Copies what has a value into this new table, released indices too.
    pub fn copy_from(self, lock: &mut Locked, old: TableRef) {
        old.check_lock(lock);
        let mut position = 0;
        while position < old.capacity() {
            let entry = old.entry(position);
            let value = entry.value.load(Ordering::Acquire);
            if !value.is_null() {
                self.append(lock, Key(entry.key.load(Ordering::Relaxed)), value);
            }
            position += 1;
        }
    }

    /// From now on nobody finds `index` here; its value waits for [`take_gone`](Self::take_gone).
    pub fn mark_gone(self, lock: &mut Locked, index: Index) {
        self.check_lock(lock);
        if let Some(entry) = self.entry_of(Key::live(index)) {
            entry.key.store(Key::gone(index).0, Ordering::Release);
        }
    }

    /// Takes the value of a released index out; NULL when there is none.
    pub fn take_gone(self, lock: &mut Locked, index: Index) -> *mut c_void {
        let Some(entry) = self.entry_of(Key::gone(index)) else {
            return null_mut();
        };
        let value = entry.value.swap(null_mut(), Ordering::AcqRel);
        self.count(lock, false, !value.is_null());
        value
    }

    /// Takes any value out, looking from position `from` on, which moves behind
    /// the one found.
    pub fn take_any(self, lock: &mut Locked, from: &mut usize) -> Option<(Key, *mut c_void)> {
        let mut step = 0;
        while step < self.capacity() {
            let position = from.wrapping_add(step) & (self.capacity() - 1);
            let entry = self.entry(position);
            let value = entry.value.swap(null_mut(), Ordering::AcqRel);
            if !value.is_null() {
                *from = position + 1;
                self.count(lock, false, true);
                return Some((Key(entry.key.load(Ordering::Relaxed)), value));
            }
            step += 1;
        }
        None
    }

    /// The code object whose table this is; `None`: it has died, or this is a marker.
    pub fn code(self, lock: &Locked) -> Option<Code> {
        self.check_lock(lock);
        // SAFETY: live by the type's invariant; the lock is held. A code object takes its table out
        // of the list, or takes itself out of the table, before it dies.
        unsafe {
            let code = (*self.as_ptr()).code;
            (!code.is_null()).then(|| Code::new(code))
        }
    }

    /// The code object dies, and the table stays.
    pub fn forget_code(self, lock: &mut Locked) {
        self.check_lock(lock);
        // SAFETY: as above.
        unsafe { (*self.as_ptr()).code = null_mut() };
    }

    pub fn next(self, lock: &Locked) -> Option<TableRef> {
        self.check_lock(lock);
        // SAFETY: as above, and a list holds live tables only.
        unsafe { TableRef::from_raw((*self.as_ptr()).next) }
    }

    /// Puts this table, which is in no list, at the head of the list.
    pub fn link_at_head(self, lock: &mut Locked) {
        self.check_lock(lock);
        let list = lock.tables();
        let head = *list;
        // SAFETY: both are live, and the lock is held.
        unsafe {
            (*self.as_ptr()).next = head;
            (*self.as_ptr()).previous = null_mut();
            if !head.is_null() {
                (*head).previous = self.as_ptr();
            }
        }
        *list = self.as_ptr();
    }

    /// Puts this table, which is in no list, behind `before`.
    pub fn link_behind(self, lock: &mut Locked, before: TableRef) {
        self.check_lock(lock);
        before.check_lock(lock);
        // SAFETY: all are live, and the lock is held.
        unsafe {
            let next = (*before.as_ptr()).next;
            (*self.as_ptr()).next = next;
            (*self.as_ptr()).previous = before.as_ptr();
            (*before.as_ptr()).next = self.as_ptr();
            if !next.is_null() {
                (*next).previous = self.as_ptr();
            }
        }
    }

    /// Takes this table out of the list.
    pub fn unlink(self, lock: &mut Locked) {
        self.check_lock(lock);
        // SAFETY: the neighbours are live, and the lock is held.
        unsafe {
            let (previous, next) = ((*self.as_ptr()).previous, (*self.as_ptr()).next);
            if previous.is_null() {
                *lock.tables() = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }
}
