//! What callers do with values and indices, with errors as values.

use super::error::Error;
use super::fresh_segment::FreshSegment;
use super::fresh_table::FreshTable;
use super::index::{Index, Key};
use super::registry::{free_segments, Locked, Refused, Registry, SegmentSize, Standing};
use super::table::{capacity_for, extra_of, look_further, look_once, Elsewhere, TableRef};
use crate::check::check;
use crate::code::Code;
use crate::cpython::{free_delayed, PyErr_FormatUnraisable, PyInterpreterState};
use crate::exception::run_aside;
use crate::in_cpython::{CodeExtraState, FreeFunction};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// Calls a free function. The exception that is set, if any, stays as it is; one
/// that the function sets is reported and not passed on.
///
/// # Safety
/// `free` may be called with `value`; the calling thread is attached and holds
/// no lock of this module.
unsafe fn call_free_function(
    free: unsafe extern "C" fn(*mut c_void),
    value: *mut c_void,
    index: Index,
) {
    // SAFETY: attached by contract; the format fits its argument.
    unsafe {
        let text = c"Exception ignored in the free function of code extra index %zd".as_ptr();
        run_aside(|| free(value), || PyErr_FormatUnraisable(text, index.raw()));
    }
}

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

    /// Frees the table, then the value. Anything may have happened meanwhile.
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
            // SAFETY: the value was stored for this free function, and whoever
            // takes it out of its table frees it: this is the one time.
            unsafe { call_free_function(free, self.value, self.index) };
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
            // SAFETY: alive, as the table is in the list. Not touched again after this
            // store: it may be waiting for just that.
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
        spare: &mut Option<FreshTable>,
    ) -> Result<Leftover, Refused<TableSize>> {
        let index = self.index_in_use(raw).map_err(Refused::For)?;
        let state = self.registry().state();
        // SAFETY: live by contract.
        let extra = unsafe { extra_of(code) };
        // SAFETY: NULL or a table, which stays as long as its owner is locked,
        // or is another interpreter's, whose tables outlive the borrow of `code`.
        let old = unsafe { TableRef::from_raw(extra.load(Ordering::Acquire)) };
        if let Some(table) = old {
            if table.owner() != state {
                return Err(Refused::For(Error::ForeignCode));
            }
            if let Some(before) = table.replace(self, index, value) {
                return Ok(self.taken(Key::live(index), before, table));
            }
            if value.is_null() {
                return Ok(Leftover::nothing(index));
            }
            if table.has_room(self) {
                table.append(self, Key::live(index), value);
                return Ok(Leftover::nothing(index));
            }
        } else if value.is_null() {
            return Ok(Leftover::nothing(index));
        }
        let needed = capacity_for(1 + old.map_or(0, |old| old.live(self)));
        let Some(fresh) = spare.take_if(|spare| spare.capacity() >= needed) else {
            return Err(Refused::Needs(TableSize(needed)));
        };
        let table = fresh.table();
        if let Some(old) = old {
            table.copy_from(self, old);
        }
        table.append(self, Key::live(index), value);
        let expected = old.map_or(null_mut(), TableRef::as_ptr);
        // Under the lock nobody of this interpreter changes `co_extra`; another
        // interpreter may put its own table where none was.
        let published =
            extra.compare_exchange(expected, table.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        if published.is_err() {
            *spare = Some(fresh);
            return Err(Refused::For(Error::ForeignCode));
        }
        fresh.into_table();
        // INVARIANT: a table takes the place of the one before, so that a walk
        // that has not got there yet still meets its values.
        match old {
            Some(old) => {
                table.link_behind(self, old);
                old.unlink(self);
            }
            None => table.link_at_head(self),
        }
        Ok(Leftover { value: null_mut(), free: None, index, table: old })
    }

    /// The first table behind `marker` in whose code object `index`, which was
    /// released, still has a value: takes it out, and moves the marker there.
    fn take_next_gone(&mut self, marker: TableRef, index: Index) -> Option<Leftover> {
        while let Some(table) = marker.next(self) {
            marker.unlink(self);
            marker.link_behind(self, table);
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

/// A new table's capacity.
struct TableSize(usize);

/// The value of `code` under `raw` where [`look_once`] did not find it. NULL when
/// there is none, and an error for an index that was released. Takes no lock, and
/// asks for the registry only when the value is missing.
///
/// # Safety
/// The calling thread is attached to the
/// interpreter whose registry it is.
pub(super) unsafe fn get_further(
    code: Code,
    raw: isize,
    registry: impl FnOnce() -> Registry,
) -> Result<*mut c_void, Error> {
    // SAFETY: the caller's contract.
    match unsafe { look_further(code, raw) } {
        Some(value) => Ok(value),
        None if registry().standing(raw) == Standing::Released => Err(Error::Released),
        None => Ok(null_mut()),
    }
}

/// The value of `code` under an index that is in use: NULL when there is none. Takes
/// no lock.
///
/// # Safety
/// The calling thread is attached, and `index` was handed
/// out to the caller, who has not released it.
#[cfg_attr(test, allow(dead_code))] // for frame hooks, which the tests are built without
#[inline(always)]
pub unsafe fn value_in_use(code: Code, index: isize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe {
        match look_once(code, index) {
            Ok(value) => value,
            Err(Elsewhere::Nowhere) => null_mut(),
            Err(Elsewhere::MaybeFurther) => value_further(code, index),
        }
    }
}

/// [`value_in_use`] where the first look did not find the value. It is a cold function of
/// its own, so that a value found at the first look costs no jump and no stack frame.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
pub(super) unsafe fn value_further(code: Code, index: isize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { look_further(code, index) }.unwrap_or(null_mut())
}

/// `PyUnstable_Eval_RequestCodeExtraIndex` without a
/// free function, and with an error as a value.
///
/// # Safety
/// The calling thread is attached to the interpreter.
pub unsafe fn request(interpreter: *mut PyInterpreterState) -> Result<isize, Error> {
    // SAFETY: the caller's contract.
    unsafe { Registry::of(interpreter) }.request(None).map(Index::raw)
}

/// Gives an index back.
///
/// # Safety
/// The calling thread is attached to the interpreter.
pub unsafe fn release(interpreter: *mut PyInterpreterState, index: isize) -> Result<(), Error> {
    // SAFETY: the caller's contract.
    unsafe { Registry::of(interpreter).release(index) }
}

/// Stores what `edit` makes of the value of `code` under `index`, as one step. On failure nothing
/// has changed: another interpreter has values on it, there is no memory, or the interpreter ends.
///
/// `edit` runs with a lock held, and twice where memory is needed: it calls nothing of CPython.
///
/// # Safety
/// The calling thread is attached to the interpreter, and `index` was
/// handed out to the caller, who has not released it.
pub unsafe fn update(
    interpreter: *mut PyInterpreterState,
    code: Code,
    index: isize,
    edit: impl FnMut(*mut c_void) -> *mut c_void,
) -> Result<(), Error> {
    // SAFETY: the caller's contract.
    unsafe { Registry::of(interpreter).update(code, index, edit) }
}

/// Makes the lock of an interpreter's registry a free one.
///
/// # Safety
/// The calling thread is attached, and no other thread exists.
pub unsafe fn forget_lock(interpreter: *mut PyInterpreterState) {
    // SAFETY: the caller's contract.
    unsafe { Registry::of(interpreter).forget_lock() }
}

impl Registry {
    /// Hands out an index that nobody has. Memory grows with the number in use,
    /// 24 bytes each and at most twice that.
    pub(super) fn request(self, free: FreeFunction) -> Result<Index, Error> {
        let mut spare = None;
        loop {
            let handed_out = self.lock().hand_out(free, &mut spare);
            match handed_out {
                Ok(index) => return Ok(index),
                Err(Refused::For(error)) => return Err(error),
                Err(Refused::Needs(SegmentSize(count))) => {
                    // SAFETY: zeros are valid for every field of a slot.
                    let fresh = unsafe { FreshSegment::allocate(count) };
                    spare = Some(fresh.ok_or(Error::NoMemory)?);
                }
            }
        }
    }

    /// Stores `value` under the index `raw`, then frees the one before. On
    /// failure nothing has changed, and `value` stays the caller's.
    ///
    /// # Safety
    /// `code` is this interpreter's, and that is the calling thread's.
    pub(super) unsafe fn set(
        self,
        code: Code,
        raw: isize,
        value: *mut c_void,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.update(code, raw, |_| value) }
    }

    /// Stores what `edit` makes of the value under the index `raw`, as one step, and frees the one
    /// before. On failure nothing has changed.
    ///
    /// `edit` runs with the lock held, and twice where memory is needed: it calls nothing of
    /// CPython.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    unsafe fn update(
        self,
        code: Code,
        raw: isize,
        mut edit: impl FnMut(*mut c_void) -> *mut c_void,
    ) -> Result<(), Error> {
        let mut spare = None;
        loop {
            let stored = {
                let mut locked = self.lock();
                // SAFETY: the caller's contract. An index that is out of use has no value, and is
                // refused.
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
                Err(Refused::Needs(TableSize(capacity))) => {
                    let fresh = FreshTable::allocate(self, capacity, code);
                    spare = Some(fresh.ok_or(Error::NoMemory)?);
                }
            }
        }
    }

    /// Releases the index `raw`: nobody finds its values any more, then each is
    /// freed, and then the index's slot can be used again. Looks at every table
    /// of the interpreter twice.
    ///
    /// # Safety
    /// This is the interpreter of the calling thread.
    pub(super) unsafe fn release(self, raw: isize) -> Result<(), Error> {
        // On the heap: a thread that a free function ends at exit leaves it behind.
        let marker = FreshTable::marker(self).ok_or(Error::NoMemory)?;
        let index = {
            let mut locked = self.lock();
            let index = locked.index_in_use(raw)?;
            locked.retire(index);
            let mut next = locked.first_table();
            while let Some(table) = next {
                if !table.is_marker() {
                    table.mark_gone(&mut locked, index);
                }
                next = table.next(&locked);
            }
            marker.table().link_at_head(&mut locked);
            index
        };
        let marker = marker.into_table();
        loop {
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
    pub(super) unsafe fn forget(self, code: Code) {
        let mut from = 0;
        loop {
            // SAFETY: live until the caller frees it; tables as in `look_once`.
            let table = unsafe { TableRef::from_raw(extra_of(code).load(Ordering::Acquire)) };
            let Some(table) = table else {
                return;
            };
            if table.owner() != self.state() {
                // SAFETY: the owner is live, or its last act would have been to
                // take its table away from `code`.
                unsafe { leave_to_owner(code, table.owner(), self) };
                return;
            }
            let taken = {
                let mut locked = self.lock();
                // SAFETY: as above.
                let now = unsafe { TableRef::from_raw(extra_of(code).load(Ordering::Acquire)) };
                now.and_then(|table| {
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
    pub(super) unsafe fn finish(self) {
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
        // SAFETY: the last thread, by contract. The lock is given back in between.
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
    // SAFETY: live by contract. The tag is not used for what follows.
    let owner = unsafe { any.sibling(owner) };
    let mut locked = owner.lock();
    // SAFETY: `code` is live, and tables stay while the owner is locked.
    if let Some(table) = unsafe { TableRef::from_raw(extra_of(code).load(Ordering::Acquire)) } {
        table.forget_code(&mut locked);
    }
}
