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
//!   counts, the list and `code` belong to the thread that holds the owner's lock.
//! - At least one key is `EMPTY` from a capacity of four on.
//! - *Table while attached*: a table that an attached thread has found in `co_extra` is not freed before
//!   that thread detaches. With the GIL no other thread of the interpreter runs meanwhile; without it
//!   an old table waits for the interpreter's threads (`free_delayed`). Interpreters that run at the same
//!   time share no code object (CPython's rule).
//! - *Under the lock*: a method that takes the owner's lock as a proof is the only one to access
//!   `used`, `live`, `code`, `next` and `previous`.

use super::fresh::Fresh;
use super::index::{Index, Key};
use super::registry::{Locked, Registry};
use crate::check::check;
use crate::code::Code;
use crate::cpython::{PyCodeObject, PyMem_Free, PyMem_Malloc};
use crate::in_cpython::{CodeExtraState, Table};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use core::ffi::c_void;
use core::ptr::{null_mut, NonNull};

/// A key and its value, after the header.
#[repr(C)]
struct Entry {
    key: AtomicUsize,
    value: AtomicPtr<c_void>,
}

pub(super) const WORDS_PER_ENTRY: usize = size_of::<Entry>() / size_of::<usize>();

/// How many keys a table of `capacity` entries takes.
pub const fn limit(capacity: usize) -> usize {
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

/// `Table::mask` of a table of `capacity` entries, which is a power of two.
pub fn mask_of(capacity: usize) -> usize {
    (capacity - 1) * WORDS_PER_ENTRY
}

/// The capacity that has this mask.
pub fn capacity_of(mask: usize) -> usize {
    mask / WORDS_PER_ENTRY + 1
}

/// The offset from the header, in words, of the entry where `index` belongs.
#[inline(always)]
pub fn words_to_home(index: usize, mask: usize) -> usize {
    index.wrapping_mul(WORDS_PER_ENTRY) & mask
}

/// The entry that is looked at in the `step`th step, for what belongs at `home`. `last` is the
/// capacity less one.
#[inline(always)]
pub fn position_of(home: usize, step: usize, last: usize) -> usize {
    home.wrapping_add(step) & last
}

impl Table {
    /// The bytes of a table with `capacity` entries.
    pub(super) const fn bytes(capacity: usize) -> usize {
        size_of::<Table>() + capacity * size_of::<Entry>()
    }
}

/// `co_extra` of a code object.
///
/// # Safety
/// `code` lives as long as the reference is used.
#[inline(always)]
pub(super) unsafe fn extra_of<'a>(code: Code) -> &'a AtomicPtr<Table> {
    // SAFETY: a pointer-sized field of a live object, used atomically by all of
    // this crate; C only compares it with NULL.
    unsafe { AtomicPtr::from_ptr((&raw mut (*code.as_ptr()).co_extra).cast()) }
}

/// The value of `code` under `index`; `None`: it has none. Takes no lock.
///
/// # Safety
/// The calling thread is attached.
#[inline(always)]
pub(super) unsafe fn find(code: Code, index: isize) -> Option<*mut c_void> {
    // SAFETY: `code` is live (the invariant of `Code`), and the reference is used up here.
    let table = unsafe { extra_of(code) }.load(Ordering::Acquire);
    if table.is_null() {
        return None;
    }
    // SAFETY: *table while attached*. `mask` never changes, and keeps the entry inside.
    let entry = unsafe {
        let words = words_to_home(index as usize, (*table).mask);
        &*table.add(1).cast::<usize>().add(words).cast::<Entry>()
    };
    let key = entry.key.load(Ordering::Acquire);
    if key == index as usize {
        return Some(entry.value.load(Ordering::Acquire));
    }
    // Volatile only so that it is read once more: each of the two is then part of the
    // instruction that uses it, and the value that is found costs an instruction less.
    // SAFETY: *table while attached*; `mask` never changes.
    let has_one_place = unsafe { (&raw const (*table).mask).read_volatile() } == 0;
    if has_one_place {
        return None;
    }
    // SAFETY: the caller says that the thread is attached.
    unsafe { find_further(code, index) }
}

/// [`find`] where the first probe was not enough. A cold function of its own, so that a value
/// found at the first look costs no jump and no stack frame.
///
/// # Safety
/// The calling thread is attached.
#[cold]
#[inline(never)]
unsafe fn find_further(code: Code, index: isize) -> Option<*mut c_void> {
    let index = Index::from_raw(index)?;
    // SAFETY: *table while attached*; the caller says that the thread is.
    let table = unsafe { TableRef::of(code) }?;
    table.entry_of(Key::live(index)).map(|entry| entry.value.load(Ordering::Acquire))
}

/// Leads to a table, and may be copied. The owner of the list that the table is in frees it.
///
/// # Invariants
/// Points to a live, initialized table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TableRef(NonNull<Table>);

impl Fresh<Table> {
    /// The table, which nothing else can see yet.
    pub(super) fn table(&self) -> TableRef {
        // INVARIANT: initialized by `TableRef::allocate_for`, which alone makes one.
        TableRef(self.get())
    }
}

impl TableRef {
    /// A new table without values, for those of `code`, with room for `capacity` entries, which is
    /// a power of two. It will be in the list of `owner`. `None` without memory.
    pub(super) fn allocate(owner: Registry, capacity: usize, code: Code) -> Option<Fresh<Table>> {
        TableRef::allocate_for(owner.state(), capacity, code.as_ptr())
    }

    /// What marks how far a walk over the list of tables has come: a table without an owner.
    /// `None` without memory.
    pub(super) fn marker(_registry: Registry) -> Option<Fresh<Table>> {
        TableRef::allocate_for(null_mut(), 1, null_mut())
    }

    /// The caller has a registry, so its thread is attached.
    fn allocate_for(
        owner: *mut CodeExtraState,
        capacity: usize,
        code: *mut PyCodeObject,
    ) -> Option<Fresh<Table>> {
        let mask = mask_of(capacity);
        let (next, previous) = (null_mut(), null_mut());
        // SAFETY: the function takes any size, in an attached thread. What it returns is ours.
        let fresh: Fresh<Table> =
            unsafe { Fresh::new(PyMem_Malloc(Table::bytes(capacity)), PyMem_Free)? };
        // SAFETY: there is room for the header and the entries, and nothing else has seen the block.
        unsafe {
            fresh.get().write(Table { mask, next, previous, owner, code, used: 0, live: 0 });
            let entries = fresh.get().add(1).cast::<Entry>();
            for position in 0..capacity {
                let key = AtomicUsize::new(Key::EMPTY.0);
                entries.add(position).write(Entry { key, value: AtomicPtr::new(null_mut()) });
            }
        }
        Some(fresh)
    }

    /// # Safety
    /// `table` is NULL or a live table.
    pub(super) unsafe fn from_raw(table: *mut Table) -> Option<Self> {
        NonNull::new(table).map(TableRef)
    }

    /// The table of `code`. Takes no lock.
    ///
    /// # Safety
    /// It is not freed while the result is used: the calling thread is attached.
    pub(super) unsafe fn of(code: Code) -> Option<Self> {
        // SAFETY: `co_extra` is NULL or a table. The caller says that it is not freed while it is used.
        unsafe { TableRef::from_raw(extra_of(code).load(Ordering::Acquire)) }
    }

    pub(super) fn as_ptr(self) -> *mut Table {
        self.0.as_ptr()
    }

    pub(super) fn capacity(self) -> usize {
        // SAFETY: live by the type's invariant, and the field never changes.
        capacity_of(unsafe { (*self.as_ptr()).mask })
    }

    pub(super) fn bytes(self) -> usize {
        Table::bytes(self.capacity())
    }

    pub(super) fn owner(self) -> *mut CodeExtraState {
        // SAFETY: live by the type's invariant, and the field never changes.
        unsafe { (*self.as_ptr()).owner }
    }

    pub(super) fn is_marker(self) -> bool {
        self.owner().is_null()
    }

    /// The entries in the order in which a key that belongs at `home` is looked for.
    fn entries_from(&self, home: usize) -> impl Iterator<Item = (usize, &Entry)> {
        let last = self.capacity() - 1;
        (0..=last).map(move |step| {
            let position = position_of(home, step, last);
            // SAFETY: below the capacity, which is a power of two.
            (position, unsafe { &*self.as_ptr().add(1).cast::<Entry>().add(position) })
        })
    }

    /// Where `key` is.
    fn entry_of(&self, key: Key) -> Option<&Entry> {
        let is = |entry: &Entry, key: Key| entry.key.load(Ordering::Acquire) == key.0;
        let found =
            self.entries_from(key.0).find(|(_, entry)| is(entry, key) || is(entry, Key::EMPTY))?.1;
        is(found, key).then_some(found)
    }
}

/// What only the holder of the owner's lock may do. Each method takes that lock as a proof. A
/// marker has no owner, and is used under the lock of the registry whose list it is in.
impl TableRef {
    /// The header, for the holder of the lock.
    #[inline(always)]
    #[cfg_attr(not(ferrule_checks), allow(unused_variables))]
    fn header(self, lock: &Locked) -> *mut Table {
        // Two registries can be in play, so the lock may be the wrong one.
        check!(
            self.is_marker() || self.owner() == lock.registry().state(),
            "a table is used under the lock of another registry"
        );
        self.as_ptr()
    }

    /// How many values there are.
    pub(super) fn live(self, lock: &Locked) -> usize {
        // SAFETY: live by the type's invariant. *Under the lock*.
        unsafe { (*self.header(lock)).live as usize }
    }

    pub(super) fn has_room(self, lock: &Locked) -> bool {
        // SAFETY: live by the type's invariant. *Under the lock*.
        unsafe { ((*self.header(lock)).used as usize) < limit(self.capacity()) }
    }

    /// The code object whose table this is; `None`: it has died, or this is a marker.
    pub(super) fn code(self, lock: &Locked) -> Option<Code> {
        // SAFETY: live by the type's invariant. *Under the lock*. A code object takes its table out of the
        // list, or itself out of the table, before it dies, and needs this lock for either.
        unsafe {
            let code = (*self.header(lock)).code;
            (!code.is_null()).then(|| Code::new(code))
        }
    }

    /// The code object dies, and the table stays.
    pub(super) fn forget_code(self, lock: &mut Locked) {
        // SAFETY: live by the type's invariant. *Under the lock*.
        unsafe { (*self.header(lock)).code = null_mut() };
    }

    /// Puts `value` into an entry of this table; returns the one before.
    fn swap(self, lock: &mut Locked, entry: &Entry, value: *mut c_void) -> *mut c_void {
        let old = entry.value.swap(value, Ordering::AcqRel);
        // SAFETY: live by the type's invariant. *Under the lock*. A table has at most 2^21 entries, so
        // `live` does not overflow.
        unsafe {
            let live = &raw mut (*self.header(lock)).live;
            *live = (*live).wrapping_add(u32::from(!value.is_null()));
            *live = (*live).wrapping_sub(u32::from(!old.is_null()));
        }
        old
    }

    /// Puts `value` in the place of the one under `index`, which is returned;
    /// `None`, and nothing changed, when the index has no entry.
    pub(super) fn replace(
        self,
        lock: &mut Locked,
        index: Index,
        value: *mut c_void,
    ) -> Option<*mut c_void> {
        self.entry_of(Key::live(index)).map(|entry| self.swap(lock, entry, value))
    }

    /// Adds a key that is not here. There must be room; `value` is not NULL.
    pub(super) fn append(self, lock: &mut Locked, key: Key, value: *mut c_void) {
        let is_empty = |entry: &Entry| entry.key.load(Ordering::Relaxed) == Key::EMPTY.0;
        if let Some((_, entry)) = self.entries_from(key.0).find(|(_, entry)| is_empty(entry)) {
            entry.key.store(key.0, Ordering::Relaxed);
            self.swap(lock, entry, value);
            // SAFETY: live by the type's invariant; the lock is held.
            unsafe { (*self.header(lock)).used += 1 };
        }
    }

    /// Copies what has a value into this new table, released indices too.
    pub(super) fn copy_from(self, lock: &mut Locked, old: TableRef) {
        old.header(lock);
        for (_, entry) in old.entries_from(0) {
            let value = entry.value.load(Ordering::Acquire);
            if !value.is_null() {
                self.append(lock, Key(entry.key.load(Ordering::Relaxed)), value);
            }
        }
    }

    /// From now on `index` is not found here; its value waits for [`take_gone`](Self::take_gone).
    pub(super) fn mark_gone(self, lock: &mut Locked, index: Index) {
        self.header(lock);
        if let Some(entry) = self.entry_of(Key::live(index)) {
            entry.key.store(Key::gone(index).0, Ordering::Release);
        }
    }

    /// Takes the value of a released index out; NULL when there is none.
    pub(super) fn take_gone(self, lock: &mut Locked, index: Index) -> *mut c_void {
        let entry = self.entry_of(Key::gone(index));
        entry.map_or(null_mut(), |entry| self.swap(lock, entry, null_mut()))
    }

    /// Takes any value out, looking from position `from` on, which moves after
    /// the one found.
    pub(super) fn take_any(
        self,
        lock: &mut Locked,
        from: &mut usize,
    ) -> Option<(Key, *mut c_void)> {
        self.entries_from(*from).find_map(|(position, entry)| {
            let value = self.swap(lock, entry, null_mut());
            (!value.is_null()).then(|| {
                *from = position + 1;
                (Key(entry.key.load(Ordering::Relaxed)), value)
            })
        })
    }

    pub(super) fn next(self, lock: &Locked) -> Option<TableRef> {
        // SAFETY: live by the type's invariant, the lock is held, and a list holds live tables.
        unsafe { TableRef::from_raw((*self.header(lock)).next) }
    }

    /// The field that leads to the table after `before`. Without `before` that is the list's head.
    fn link(lock: &mut Locked, before: Option<TableRef>) -> *mut *mut Table {
        match before {
            // SAFETY: live, and the lock is held.
            Some(before) => unsafe { &raw mut (*before.header(lock)).next },
            None => lock.tables(),
        }
    }

    /// Puts this table, which is in no list, after `before`, or at the head of the list.
    pub(super) fn link_behind(self, lock: &mut Locked, before: Option<TableRef>) {
        let link = TableRef::link(lock, before);
        // SAFETY: all are live, and the lock is held.
        unsafe {
            let next = link.replace(self.as_ptr());
            (*self.header(lock)).next = next;
            (*self.header(lock)).previous = before.map_or(null_mut(), TableRef::as_ptr);
            if !next.is_null() {
                (*next).previous = self.as_ptr();
            }
        }
    }

    /// Takes this table out of the list.
    pub(super) fn unlink(self, lock: &mut Locked) {
        // SAFETY: the neighbours are live, and the lock is held.
        unsafe {
            let Table { next, previous, .. } = *self.header(lock);
            TableRef::link(lock, TableRef::from_raw(previous)).write(next);
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }
}
