//! What callers do with values and indices, with errors as values.

use super::error::{Error, Refused};
use super::fresh::Fresh;
use super::index::{Index, Key};
use super::registry::{free_segments, new_segment, Locked, Registry};
use super::table::{capacity_for, extra_of, find, TableRef};
use crate::check::check;
use crate::code::Code;
use crate::cpython::{free_delayed, PyErr_FormatUnraisable};
use crate::exception::run_aside;
use crate::in_cpython::{CodeExtraState, FreeFunction, Table};
use crate::sync::Ordering;
use core::ffi::c_void;
use core::ptr::null_mut;

/// What one step under the lock leaves to be done without it.
#[must_use]
struct Leftover {
    /// A value that was taken out, or NULL.
    value: *mut c_void,
    free: FreeFunction,
    index: Index,
    /// A table that is in no list any more. Readers may still hold it.
    table: Option<TableRef>,
}

impl Leftover {
    fn nothing(index: Index) -> Self {
        Leftover { value: null_mut(), free: None, index, table: None }
    }

    /// Frees the table, then the value. Anything may have happened meanwhile. The exception that is
    /// set, if any, stays as it is; one that the free function sets is reported and not passed on.
    ///
    /// # Safety
    /// No lock is held, and the calling thread is attached.
    unsafe fn finish(self) {
        if let Some(table) = self.table {
            // SAFETY: nothing leads to the table any more, and this waits for
            // the readers that found it before.
            unsafe { free_delayed(table.as_ptr().cast(), table.bytes()) };
        }
        if let (Some(free), false) = (self.free, self.value.is_null()) {
            // SAFETY: the value was stored for this free function, and was taken out of its table for this
            // call: it is freed once. The caller is attached and holds no lock; the format fits.
            unsafe {
                let text = c"Exception ignored in the free function of code extra index %zd";
                run_aside(
                    || free(self.value),
                    || PyErr_FormatUnraisable(text.as_ptr(), self.index.raw()),
                );
            }
        }
    }
}

impl Locked {
    /// Takes a table that has no value left away from its code object.
    fn detach(&mut self, table: TableRef) -> Option<TableRef> {
        if table.live(self) != 0 {
            return None;
        }
        table.unlink(self);
        if let Some(code) = table.code(self) {
            // SAFETY: alive, as the table is in the list. Not touched again after this store: a
            // thread that frees the code object may wait for the field to become NULL.
            unsafe { extra_of(code) }.store(null_mut(), Ordering::Release);
        }
        Some(table)
    }

    /// What is to be done about a value that was just taken out of `table`.
    fn taken(&mut self, key: Key, value: *mut c_void, table: TableRef) -> Leftover {
        let index = key.index();
        let free = self.free_function(index);
        Leftover { value, free, index, table: self.detach(table) }
    }

    /// Stores `value`; needs memory where the table is missing or full.
    ///
    /// # Safety
    /// `spare` was allocated for `code` by this registry.
    unsafe fn store(
        &mut self,
        code: Code,
        raw: isize,
        value: *mut c_void,
        spare: &mut Option<Fresh<Table>>,
    ) -> Result<Leftover, Refused> {
        let index = self.usable(raw).map_err(Refused::For)?;
        // SAFETY: live by the invariant of `Code`. The table stays while its owner is locked. If it is
        // another interpreter's, that one has the same GIL and does not run now (CPython's rule).
        let (extra, old) = unsafe { (extra_of(code), TableRef::of(code)) };
        if let Some(table) = old {
            if table.owner() != self.registry().state() {
                return Err(Refused::For(Error::ForeignCode));
            }
            if let Some(before) = table.replace(self, index, value) {
                return Ok(self.taken(Key::live(index), before, table));
            }
        }
        if value.is_null() {
            return Ok(Leftover::nothing(index));
        }
        if let Some(table) = old.filter(|table| table.has_room(self)) {
            table.append(self, Key::live(index), value);
            return Ok(Leftover::nothing(index));
        }
        let needed = capacity_for(1 + old.map_or(0, |old| old.live(self)));
        let fits = |table: &TableRef| table.capacity() >= needed;
        let fresh = spare.as_ref().map(Fresh::table).filter(fits);
        let table = fresh.ok_or(Refused::Needs(needed))?;
        if let Some(old) = old {
            table.copy_from(self, old);
        }
        table.append(self, Key::live(index), value);
        let expected = old.map_or(null_mut(), TableRef::as_ptr);
        // Under the lock no thread of this interpreter changes `co_extra`; another
        // interpreter may put its own table where none was.
        extra
            .compare_exchange(expected, table.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| Refused::For(Error::ForeignCode))?;
        spare.take().map(Fresh::into_raw);
        // INVARIANT: a table takes the place of the one before, so that a walk
        // that has not got there yet still meets its values.
        table.link_behind(self, old);
        if let Some(old) = old {
            old.unlink(self);
        }
        Ok(Leftover { table: old, ..Leftover::nothing(index) })
    }

    /// The first table after `marker` in whose code object `index`, which was
    /// released, still has a value: takes it out, and moves the marker there.
    fn take_next_gone(&mut self, marker: TableRef, index: Index) -> Option<Leftover> {
        while let Some(table) = marker.next(self) {
            marker.unlink(self);
            marker.link_behind(self, Some(table));
            if table.is_marker() {
                continue;
            }
            let value = table.take_gone(self, index);
            if !value.is_null() {
                return Some(self.taken(Key::gone(index), value, table));
            }
        }
        None
    }

    /// The first table with values, from the head of the list.
    fn first_table(&mut self) -> Option<TableRef> {
        // SAFETY: the list holds live tables only, and the lock is held.
        unsafe { TableRef::from_raw(*self.tables()) }
    }
}

/// The value of `code` under an index that is in use: NULL when there is none. Takes no lock.
///
/// # Safety
/// The calling thread is attached, and `index` was handed out to the caller, who has not released
/// it.
#[inline(always)]
pub unsafe fn value_in_use(code: Code, index: isize) -> *mut c_void {
    // SAFETY: the caller says that the thread is attached.
    unsafe { find(code, index) }.unwrap_or(null_mut())
}

impl Registry {
    /// Hands out an index that is not in use. Memory grows with the number in use,
    /// 24 bytes each and at most twice that.
    pub(crate) fn request(self, free: FreeFunction) -> Result<Index, Error> {
        let mut spare = None;
        loop {
            let handed_out = self.lock().hand_out(free, &mut spare);
            match handed_out {
                Ok(index) => return Ok(index),
                Err(Refused::For(error)) => return Err(error),
                Err(Refused::Needs(count)) => {
                    spare = Some(new_segment(count).ok_or(Error::NoMemory)?);
                }
            }
        }
    }

    /// Stores what `edit` makes of the value under the index `raw`, as one step, and frees the one
    /// before. On failure nothing has changed, and what `edit` has made stays the caller's.
    ///
    /// `edit` runs with the lock held, and twice where memory is needed: it calls nothing of
    /// CPython.
    ///
    /// # Safety
    /// `code` is this interpreter's, and that is the calling thread's.
    pub(crate) unsafe fn update(
        self,
        code: Code,
        raw: isize,
        mut edit: impl FnMut(*mut c_void) -> *mut c_void,
    ) -> Result<(), Error> {
        let mut spare = None;
        loop {
            let stored = {
                let mut locked = self.lock();
                // SAFETY: attached by the type's invariant. An index that is out of use has no value, and
                // `store` refuses it; `spare` was allocated for `code` by this registry.
                unsafe {
                    let value = edit(value_in_use(code, raw));
                    locked.store(code, raw, value, &mut spare)
                }
            };
            match stored {
                Ok(leftover) => {
                    drop(spare);
                    // SAFETY: no lock is held.
                    unsafe { leftover.finish() };
                    return Ok(());
                }
                Err(Refused::For(error)) => return Err(error),
                Err(Refused::Needs(capacity)) => {
                    let fresh = TableRef::allocate(self, capacity, code);
                    spare = Some(fresh.ok_or(Error::NoMemory)?);
                }
            }
        }
    }

    /// Releases the index `raw`: its values can no longer be found, then each is
    /// freed, and then the index's slot can be used again. Looks at every table
    /// of the interpreter twice.
    ///
    /// # Safety
    /// This is the interpreter of the calling thread.
    pub(crate) unsafe fn release(self, raw: isize) -> Result<(), Error> {
        // On the heap: a thread that a free function ends at exit leaves it allocated.
        let fresh = TableRef::marker(self).ok_or(Error::NoMemory)?;
        let index = {
            let mut locked = self.lock();
            let index = locked.usable(raw)?;
            locked.retire(index);
            let mut next = locked.first_table();
            while let Some(table) = next {
                if !table.is_marker() {
                    table.mark_gone(&mut locked, index);
                }
                next = table.next(&locked);
            }
            fresh.table().link_behind(&mut locked, None);
            index
        };
        let marker = fresh.table();
        fresh.into_raw(); // the list's, from now on
        loop {
            // A value is taken out under the lock, which is given back before it is freed.
            let taken = self.lock().take_next_gone(marker, index);
            let Some(leftover) = taken else {
                break;
            };
            // SAFETY: no lock is held.
            unsafe { leftover.finish() };
        }
        {
            let mut locked = self.lock();
            marker.unlink(&mut locked);
            locked.free_slot(index);
        }
        // SAFETY: in no list any more, and no reader ever saw it.
        unsafe { free_delayed(marker.as_ptr().cast(), marker.bytes()) };
        Ok(())
    }

    /// Frees the values of a code object that dies, those too that free
    /// functions store meanwhile.
    ///
    /// # Safety
    /// `code` is a code object whose memory is freed next, and this is the
    /// interpreter of the calling thread. The thread is attached.
    pub(crate) unsafe fn forget(self, code: Code) {
        let mut from = 0;
        loop {
            // SAFETY: the caller says that the thread is attached.
            let Some(table) = (unsafe { TableRef::of(code) }) else { return };
            if table.owner() != self.state() {
                // SAFETY: the owner is live: its last act is to take its table away from `code`, and
                // it does not end between the look above and the lock. Interpreters with one GIL
                // take turns, and those that run at once share no object (CPython's rule).
                unsafe { leave_to_owner(code, table.owner(), self) };
                return;
            }
            let taken = {
                let mut locked = self.lock();
                // SAFETY: attached, and the table's owner, if it still is this interpreter, is locked.
                unsafe { TableRef::of(code) }.and_then(|table| {
                    let (key, value) = table.take_any(&mut locked, &mut from)?;
                    Some(locked.taken(key, value, table))
                })
            };
            if let Some(leftover) = taken {
                // SAFETY: no lock is held.
                unsafe { leftover.finish() };
            }
        }
    }

    /// The interpreter's end: frees every value that is still set, every table
    /// and the registry. Code objects that live on have no table any more.
    ///
    /// # Safety
    /// This is the interpreter of the calling thread, which is its last.
    pub(crate) unsafe fn finish(self) {
        self.lock().set_finished();
        loop {
            let mut from = 0;
            let leftover = {
                let mut locked = self.lock();
                let Some(table) = locked.first_table() else {
                    break;
                };
                match table.take_any(&mut locked, &mut from) {
                    Some((key, value)) => locked.taken(key, value, table),
                    None => {
                        // The marker of a walk whose thread was ended.
                        check!(table.is_marker(), "a table without values is in the list");
                        table.unlink(&mut locked);
                        Leftover { table: Some(table), ..Leftover::nothing(Key(0).index()) }
                    }
                }
            };
            // SAFETY: no lock is held.
            unsafe { leftover.finish() };
        }
        // SAFETY: the caller says that this is the interpreter's last thread, so nothing uses a slot. The
        // lock is given back in between.
        unsafe {
            let segments = self.lock().clear();
            free_segments(segments);
        }
    }
}

/// Leaves the table of a dying code object to the interpreter that owns it: that
/// one frees the values when it releases their index, or when it ends.
///
/// # Safety
/// `owner` is live, and was found as the owner of the table of `code`.
#[cold]
unsafe fn leave_to_owner(code: Code, owner: *mut CodeExtraState, any: Registry) {
    // SAFETY: the caller says that `owner` is live. The tag is not used for what follows.
    let owner = unsafe { any.sibling(owner) };
    let mut locked = owner.lock();
    // SAFETY: `code` is live, and tables stay while the owner is locked.
    if let Some(table) = unsafe { TableRef::of(code) } {
        table.forget_code(&mut locked);
    }
}
