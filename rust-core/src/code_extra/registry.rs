//! Which indices an interpreter has handed out, and what frees their values.
//!
//! A slot is one place of the registry; it gives one index after another, each
//! released before the next. Slots lie in segments that never move and that
//! double in size, so a slot is found without a lock.
//!
//! # Invariants
//! - The first `count` slots have been used; the segments that hold them are there.
//! - A slot's key is the index that it gave last, and is "gone" from the moment
//!   that index is released.
//! - A slot on the list of free slots has no value left in any table of the
//!   interpreter: so its free function may be overwritten.

use super::error::{Error, Refused};
use super::fresh::Fresh;
use super::index::{Index, Key, Tag, MOST_INDICES, NO_INDEX};
use crate::cpython::{
    PyCode_Type, PyInterpreterState, PyMem_RawCalloc, PyMem_RawFree, PyObject, PyTypeObject,
};
use crate::in_cpython::{CodeExtraState, FreeFunction, Slot, Table};
use crate::mutex::Held;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use core::ptr::{null_mut, NonNull};

pub(super) const FIRST_SEGMENT: usize = 16;
// The struct in `in_cpython` has the number itself, since cbindgen does not look a name up.
pub(super) const SEGMENTS: usize = 17;
static_assertions::const_assert_eq!(FIRST_SEGMENT << 16, MOST_INDICES);

/// The segment of a slot, the slot's place in it, and the segment's size.
pub fn place_of(slot: usize) -> (usize, usize, usize) {
    if slot < FIRST_SEGMENT {
        return (0, slot, FIRST_SEGMENT);
    }
    let size = 1 << slot.ilog2();
    (slot.ilog2() as usize - 3, slot - size, size)
}

/// The key of a slot.
///
/// # Safety
/// The slot is in a segment, which stays while the reference is used.
unsafe fn key_of<'a>(slot: *mut Slot) -> &'a AtomicUsize {
    // SAFETY: the caller says that the segment stays. The field is only accessed as an atomic.
    unsafe { AtomicUsize::from_ptr(&raw mut (*slot).key) }
}

/// The code type as long as no index of any interpreter was ever released, NULL from
/// then on.
///
/// Before the first release no index can be out of use. So a reader who finds no value
/// need not look in the registry whether the index was released. Comparing an object's type
/// with this proves two things at once: it is a code object, and nothing was released.
pub(crate) static CODE_TYPE_UNTIL_RELEASE: AtomicPtr<PyTypeObject> =
    AtomicPtr::new(&raw mut PyCode_Type);

/// Whether `object` is a code object and no index of any interpreter was ever
/// released. No type derives from the code type.
///
/// # Safety
/// The object is live.
#[inline(always)]
pub unsafe fn is_code_before_any_release(object: *mut PyObject) -> bool {
    // SAFETY: the caller passes a live object; its type never changes while others may read it so.
    unsafe { (*object).ob_type == CODE_TYPE_UNTIL_RELEASE.load(Ordering::Relaxed) }
}

/// Why an index is not in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// This interpreter has handed it out, and it was released.
    Released,
    /// This interpreter never handed it out.
    Unknown,
}

/// One interpreter's registry.
///
/// # Invariants
/// The state is live: it is part of an interpreter that has not been deleted. The calling thread is
/// attached, if not to that interpreter.
///
/// *Under the lock*: `in_use`, `finished`, `first_free`, `tables` and each slot's `free` and `next_free`
/// are read and written only by the holder of the lock, or by the last thread of the interpreter.
#[derive(Clone, Copy)]
pub(crate) struct Registry {
    state: NonNull<CodeExtraState>,
    tag: Tag,
}

impl Registry {
    /// The registry of an interpreter.
    ///
    /// # Safety
    /// `interpreter` is live, and the calling thread is attached while it has the registry.
    pub unsafe fn of(interpreter: *mut PyInterpreterState) -> Self {
        // SAFETY: the caller passes a live interpreter, and is attached. The id never changes.
        unsafe {
            let state = CodeExtraState::of(interpreter);
            Registry::new(state, Tag::of_interpreter((*interpreter).id))
        }
    }

    /// # Safety
    /// `state` is the field of a live interpreter whose tag is `tag`; not NULL. The calling thread
    /// is attached while it has the registry.
    pub unsafe fn new(state: *mut CodeExtraState, tag: Tag) -> Self {
        // SAFETY: the caller passes a field of an interpreter, which is not NULL.
        Registry { state: unsafe { NonNull::new_unchecked(state) }, tag }
    }

    /// Another interpreter's registry, for what needs no tag: its lock and its list.
    ///
    /// # Safety
    /// `state` is the field of a live interpreter; not NULL.
    pub unsafe fn sibling(self, state: *mut CodeExtraState) -> Self {
        // SAFETY: the caller passes the field of a live interpreter; attached by the type's invariant.
        unsafe { Registry::new(state, self.tag) }
    }

    pub fn state(self) -> *mut CodeExtraState {
        self.state.as_ptr()
    }

    fn count(&self) -> &AtomicUsize {
        // SAFETY: live by the type's invariant, and shared only as an atomic.
        unsafe { AtomicUsize::from_ptr(&raw mut (*self.state()).count) }
    }

    fn segment(&self, number: usize) -> &AtomicPtr<Slot> {
        // SAFETY: live by the type's invariant. `place_of` gives 0 to 16.
        unsafe {
            AtomicPtr::from_ptr((&raw mut (*self.state()).segments).cast::<*mut Slot>().add(number))
        }
    }

    /// A slot that was used before.
    ///
    /// # Safety
    /// `slot` is below `count`, or its segment is there.
    unsafe fn slot(&self, slot: usize) -> *mut Slot {
        let (segment, offset, _) = place_of(slot);
        // SAFETY: the caller says that the segment is there; it is never moved or freed before the
        // interpreter's end. `offset` is within it.
        unsafe { self.segment(segment).load(Ordering::Acquire).add(offset) }
    }

    /// # Safety
    /// As for [`slot`](Self::slot).
    unsafe fn key(&self, slot: usize) -> &AtomicUsize {
        // SAFETY: the caller says that the segment is there, and it stays.
        unsafe { key_of(self.slot(slot)) }
    }

    /// The index `raw`, if it is in use; else why it is not. Takes no lock.
    pub fn index_in_use(&self, raw: isize) -> Result<Index, Unusable> {
        let own = |index: &Index| {
            index.tag() == self.tag && index.slot() < self.count().load(Ordering::Acquire)
        };
        let index = Index::from_raw(raw).filter(own).ok_or(Unusable::Unknown)?;
        // SAFETY: `own` has found the slot below `count`.
        let key = Key(unsafe { self.key(index.slot()) }.load(Ordering::Acquire));
        if key == Key::live(index) {
            Ok(index)
        } else if index.generation() <= key.index().generation() {
            Err(Unusable::Released)
        } else {
            Err(Unusable::Unknown)
        }
    }

    /// Its lock.
    pub fn lock_place(self) -> *mut u8 {
        // SAFETY: live by the type's invariant. No reference is made.
        unsafe { &raw mut (*self.state()).lock }
    }

    /// Keeps every other writer of this interpreter out.
    pub fn lock(self) -> Locked {
        // SAFETY: *attached* and *live* by the type's invariant. Nothing here locks it twice.
        Locked(self, unsafe { Held::lock(self.lock_place()) })
    }
}

/// The registry while its lock is held. What needs the lock is a method of this, or takes it as a
/// proof.
///
/// # Invariants
/// This thread holds the lock.
pub(crate) struct Locked(Registry, #[allow(dead_code)] Held); // unlocks as it is dropped

impl Locked {
    pub fn registry(&self) -> Registry {
        self.0
    }

    /// The head of the list of tables.
    pub fn tables(&mut self) -> &mut *mut Table {
        // SAFETY: *under the lock*. The borrow of the guard keeps other references away.
        unsafe { &mut (*self.0.state()).tables }
    }

    pub fn in_use(&self) -> usize {
        // SAFETY: *under the lock*.
        unsafe { (*self.0.state()).in_use }
    }

    pub fn finished(&self) -> bool {
        // SAFETY: *under the lock*.
        unsafe { (*self.0.state()).finished }
    }

    /// From now on nothing is handed out, and no index is in use.
    pub fn set_finished(&mut self) {
        // SAFETY: *under the lock*.
        unsafe { (*self.0.state()).finished = true };
    }

    /// The index `raw`, if values can be stored under it.
    pub fn usable(&self, raw: isize) -> Result<Index, Error> {
        if self.finished() {
            return Err(Error::Finished);
        }
        self.0.index_in_use(raw).map_err(|why| match why {
            Unusable::Released => Error::Released,
            Unusable::Unknown => Error::Unknown { in_use: self.in_use() },
        })
    }

    /// What frees the values under `index`, which this interpreter handed out.
    pub fn free_function(&self, index: Index) -> FreeFunction {
        // SAFETY: the index was handed out, so its slot is below `count`. *Under the lock*.
        unsafe { (*self.0.slot(index.slot())).free }
    }

    /// Hands an index out; needs memory where a segment is missing.
    pub(super) fn hand_out(
        &mut self,
        free: FreeFunction,
        spare: &mut Option<Fresh<Slot>>,
    ) -> Result<Index, Refused> {
        if self.finished() {
            return Err(Refused::For(Error::Finished));
        }
        let state = self.0.state();
        let exhausted = Error::Exhausted { in_use: self.in_use() };
        // SAFETY: *under the lock*.
        let first_free = unsafe { (*state).first_free };
        let count = self.0.count().load(Ordering::Relaxed);
        let index = if !first_free.is_null() {
            // The slot's last index has a successor: a slot without one is not put on this list.
            // SAFETY: the list has slots that were used before.
            let before = Key(unsafe { key_of(first_free) }.load(Ordering::Relaxed)).index();
            let index = before.successor().ok_or(Refused::For(exhausted))?;
            // SAFETY: a slot of that list, so its segment is there. *Under the lock*.
            unsafe { (*state).first_free = (*first_free).next_free };
            index
        } else if count < MOST_INDICES {
            let (segment, _, size) = place_of(count);
            if self.0.segment(segment).load(Ordering::Relaxed).is_null() {
                let fresh = spare.take().ok_or(Refused::Needs(size))?;
                self.0.segment(segment).store(fresh.into_raw(), Ordering::Release);
            }
            Index::first(self.0.tag, count)
        } else {
            return Err(Refused::For(exhausted));
        };
        // SAFETY: the slot was used before, or its segment was put into its place above. *Under the lock*.
        let key = unsafe {
            (*self.0.slot(index.slot())).free = free;
            (*state).in_use += 1;
            self.0.key(index.slot())
        };
        // INVARIANT: the key comes before the count that lets readers see it.
        key.store(Key::live(index).0, Ordering::Release);
        if index.slot() == count {
            self.0.count().store(count + 1, Ordering::Release);
        }
        Ok(index)
    }

    /// Retires `index`, which is in use. Its
    /// slot is not free yet.
    pub fn retire(&mut self, index: Index) {
        CODE_TYPE_UNTIL_RELEASE.store(null_mut(), Ordering::Release);
        // SAFETY: the index was handed out, so its slot is below `count`. *Under the lock*.
        unsafe {
            self.0.key(index.slot()).store(Key::gone(index).0, Ordering::Release);
            (*self.0.state()).in_use -= 1;
        }
    }

    /// Lets the slot of a retired index be used again. No table has a value
    /// under it any more.
    pub fn free_slot(&mut self, index: Index) {
        if index.successor().is_none() {
            return;
        }
        let state = self.0.state();
        // SAFETY: the index was handed out, so its slot is below `count`. *Under the lock*.
        unsafe {
            let slot = self.0.slot(index.slot());
            (*slot).free = None;
            (*slot).next_free = (*state).first_free;
            (*state).first_free = slot;
        }
    }

    /// Forgets every slot, and takes the segments out, for
    /// [`free_segments`] when the lock was given back.
    ///
    /// # Safety
    /// No other thread of this interpreter runs any more.
    pub unsafe fn clear(&mut self) -> [*mut Slot; SEGMENTS] {
        let state = self.0.state();
        self.0.count().store(0, Ordering::Relaxed);
        // SAFETY: *under the lock*. The caller says that no other thread runs, so nothing reads the
        // segments without it either.
        unsafe {
            (*state).in_use = 0;
            (*state).first_free = null_mut();
            (*state).perf_trampoline_index = NO_INDEX;
            core::mem::replace(&mut (*state).segments, [null_mut(); SEGMENTS])
        }
    }
}

/// A segment of so many slots; `None` without memory.
pub(super) fn new_segment(count: usize) -> Option<Fresh<Slot>> {
    // SAFETY: the functions take any size and need no thread state; zeros are valid for a slot.
    unsafe { Fresh::new(PyMem_RawCalloc(count, size_of::<Slot>()), PyMem_RawFree) }
}

/// Frees what [`Locked::clear`] took out.
///
/// # Safety
/// No slot is used any more, and no lock is held.
pub unsafe fn free_segments(segments: [*mut Slot; SEGMENTS]) {
    for segment in segments {
        // SAFETY: NULL, or a segment that `hand_out` put in its place.
        unsafe { PyMem_RawFree(segment.cast()) };
    }
}
