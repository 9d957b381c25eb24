//! Stack references: what a slot of a frame holds.
//!
//! A slot is a word: the address of an object, and in some builds a tag that says that this
//! reference is not counted. What the word looks like is the [`Representation`]; there is one for
//! each kind of build, chosen at compile time:
//!
//! | build | NULL | tagged (not counted) |
//! |---|---|---|
//! | 3.13, GIL | 0 | never: [`Untagged`] |
//! | 3.13, free-threaded | 0 | objects with a deferred count: [`Deferred`] |
//! | 3.14, GIL | 1 | immortal objects: [`TaggedImmortal`] |
//! | 3.14, free-threaded | 1 | deferred counts, and the known immortal: [`TaggedDeferred`] |
//!
//! Who owns what is in the types: a [`StackRef`] owns its reference, a [`StackRefBorrow`] lives no
//! longer than what it was borrowed from, a [`StackSlot`] is a place that holds one or none. This
//! module never looks into an object beyond its count.
//!
//! Rust has no type whose values *must* be used up. So an owned reference that goes out of scope is
//! closed: an early return can leak nothing and can close nothing twice. A destructor that must run
//! at a certain point is made to by `close`. (A `drop` that calls a function that does not exist
//! would be a link error where a reference is not closed, but only in optimized builds; others
//! would not link at all.)

pub mod exports;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::check::check;
use crate::cpython::PyObject;
use crate::reference_count::{decref, decref_within, has_deferred_count, incref, is_immortal};
use core::marker::PhantomData;
use core::mem::forget;
use core::ptr::NonNull;

/// How a word refers to an object.
///
/// # Safety
/// `TAG` is a part of `TAGS`; objects are aligned to more than `TAGS`; `NULL` is 0 or `TAG`. An
/// object for which `tags_new` or `tags_stolen` is true stays alive without the reference.
pub unsafe trait Representation {
    /// The bits of a word that are no part of the address.
    const TAGS: usize;
    /// The tag of a reference that is not counted.
    const TAG: usize;
    /// The word that refers to nothing.
    const NULL: usize;
    /// Whether a reference to an object that the caller knows to be immortal is tagged.
    const TAGS_IMMORTAL: bool;

    /// Whether a new reference to `object` is tagged instead of counted.
    ///
    /// # Safety
    /// `object` is alive, and the calling thread is attached.
    unsafe fn tags_new(object: *mut PyObject) -> bool;

    /// Whether a reference that is taken over is tagged; only where it does not count anyway.
    ///
    /// # Safety
    /// `object` is alive, and the calling thread is attached.
    unsafe fn tags_stolen(object: *mut PyObject) -> bool;
}

/// 3.13 with the GIL: plain pointers.
pub enum Untagged {}

/// 3.13, free-threaded: the lowest bit says that the count is deferred.
pub enum Deferred {}

/// 3.14 with the GIL: references to immortal objects are tagged, and NULL is a tag without an
/// address.
pub enum TaggedImmortal {}

/// 3.14, free-threaded: as [`Deferred`], and NULL is a tag without an address.
pub enum TaggedDeferred {}

// SAFETY: no tags.
unsafe impl Representation for Untagged {
    const TAGS: usize = 0;
    const TAG: usize = 0;
    const NULL: usize = 0;
    const TAGS_IMMORTAL: bool = false;

    #[inline(always)]
    unsafe fn tags_new(_object: *mut PyObject) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn tags_stolen(_object: *mut PyObject) -> bool {
        false
    }
}

// SAFETY: one bit, and objects with a deferred count are freed by the collector alone, which sees
// frames.
unsafe impl Representation for Deferred {
    const TAGS: usize = 1;
    const TAG: usize = 1;
    const NULL: usize = 0;
    // 3.13 asserts that what is tagged has a deferred count.
    const TAGS_IMMORTAL: bool = false;

    #[inline(always)]
    unsafe fn tags_new(object: *mut PyObject) -> bool {
        // SAFETY: the caller passes a live object, attached.
        unsafe { has_deferred_count(object) }
    }

    #[inline(always)]
    unsafe fn tags_stolen(_object: *mut PyObject) -> bool {
        false
    }
}

// SAFETY: two bits, the lower of which is the tag; what is tagged is immortal.
unsafe impl Representation for TaggedImmortal {
    const TAGS: usize = 3;
    const TAG: usize = 1;
    const NULL: usize = 1;
    const TAGS_IMMORTAL: bool = true;

    #[inline(always)]
    unsafe fn tags_new(object: *mut PyObject) -> bool {
        // SAFETY: the caller passes a live object, attached.
        unsafe { is_immortal(object) }
    }

    #[inline(always)]
    unsafe fn tags_stolen(object: *mut PyObject) -> bool {
        // SAFETY: the caller passes a live object, attached.
        unsafe { is_immortal(object) }
    }
}

// SAFETY: one bit; what is tagged has a deferred count or is immortal.
unsafe impl Representation for TaggedDeferred {
    const TAGS: usize = 1;
    const TAG: usize = 1;
    const NULL: usize = 1;
    const TAGS_IMMORTAL: bool = true;

    #[inline(always)]
    unsafe fn tags_new(object: *mut PyObject) -> bool {
        // SAFETY: the caller passes a live object, attached.
        unsafe { has_deferred_count(object) }
    }

    #[inline(always)]
    unsafe fn tags_stolen(_object: *mut PyObject) -> bool {
        false
    }
}

/// What `_PyStackRef` is in this build.
#[cfg(all(not(ferrule_py314), not(ferrule_free_threaded)))]
pub type Native = Untagged;
/// What `_PyStackRef` is in this build.
#[cfg(all(not(ferrule_py314), ferrule_free_threaded))]
pub type Native = Deferred;
/// What `_PyStackRef` is in this build.
#[cfg(all(ferrule_py314, not(ferrule_free_threaded)))]
pub type Native = TaggedImmortal;
/// What `_PyStackRef` is in this build.
#[cfg(all(ferrule_py314, ferrule_free_threaded))]
pub type Native = TaggedDeferred;

/// What the slots of this build's frames hold. On 3.13 those are plain pointers, on the
/// free-threaded build too: its eval loop does not use `_PyStackRef` yet.
#[cfg(not(ferrule_py314))]
pub type InFrame = Untagged;
/// What the slots of this build's frames hold.
#[cfg(ferrule_py314)]
pub type InFrame = Native;

/// Whether the reference in this word counts.
#[inline(always)]
const fn is_counted<R: Representation>(bits: usize) -> bool {
    bits & R::TAGS == 0
}

#[inline(always)]
const fn address<R: Representation>(bits: usize) -> *mut PyObject {
    (bits & !R::TAGS) as *mut PyObject
}

/// A reference that its holder owns. Not NULL; see [`StackSlot`] for what may be.
///
/// It is as large as a word, is neither copied nor cloned, and closes itself when it goes out of
/// scope.
///
/// # Invariants
/// `bits` is a word of representation `R` that refers to a live object; unless it is tagged, one
/// reference of the object's count is this one's.
#[must_use = "a reference that is not used is closed at once"]
#[repr(transparent)]
pub struct StackRef<R: Representation = InFrame> {
    bits: usize,
    // Closing needs the thread state of the thread that works on the frame, so it is neither Send
    // nor Sync.
    _of: PhantomData<(*mut PyObject, R)>,
}

impl<R: Representation> StackRef<R> {
    /// # Safety
    /// `bits` is a word of representation `R`, not NULL, whose object is alive; unless it is tagged, the
    /// caller gives up a reference.
    #[inline(always)]
    unsafe fn of_bits(bits: usize) -> Self {
        // INVARIANT: the caller says so.
        StackRef { bits, _of: PhantomData }
    }

    /// Takes over a reference that the caller owns.
    ///
    /// # Safety
    /// `object` is alive, and one reference to it is the caller's to give. The calling thread is
    /// attached.
    #[inline(always)]
    pub unsafe fn steal(object: NonNull<PyObject>) -> Self {
        let object = object.as_ptr();
        check!(object as usize & R::TAGS == 0, "a tagged word is taken for an object");
        // SAFETY: the caller passes a live object, attached.
        let tag = if unsafe { R::tags_stolen(object) } { R::TAG } else { 0 };
        // SAFETY: the caller's reference is ours now; where it is tagged, it counted for nothing.
        unsafe { Self::of_bits(object as usize | tag) }
    }

    /// Makes a new reference. Costs a count, or nothing where the object needs none.
    ///
    /// # Safety
    /// `object` is alive, and the calling thread is attached.
    #[inline(always)]
    pub unsafe fn new(object: NonNull<PyObject>) -> Self {
        let object = object.as_ptr();
        check!(object as usize & R::TAGS == 0, "a tagged word is taken for an object");
        // SAFETY: the caller passes a live object, attached.
        if unsafe { R::tags_new(object) } {
            // SAFETY: alive, and tagged.
            return unsafe { Self::of_bits(object as usize | R::TAG) };
        }
        // SAFETY: the caller passes a live object, attached. The reference counted here is the new one.
        unsafe {
            incref(object);
            Self::of_bits(object as usize)
        }
    }

    /// Makes a reference to an object that is known to be immortal. Costs nothing.
    ///
    /// # Safety
    /// `object` is immortal.
    #[inline(always)]
    pub unsafe fn immortal(object: NonNull<PyObject>) -> Self {
        let object = object.as_ptr();
        check!(object as usize & R::TAGS == 0, "a tagged word is taken for an object");
        // SAFETY: an immortal object is alive.
        check!(unsafe { is_immortal(object) }, "a mortal object is taken for an immortal one");
        let tag = if R::TAGS_IMMORTAL { R::TAG } else { 0 };
        // SAFETY: alive, and an immortal object's count does not matter.
        unsafe { Self::of_bits(object as usize | tag) }
    }

    /// A second reference to the same object. Costs a count, or nothing where this one is tagged.
    #[inline(always)]
    pub fn dup(&self) -> Self {
        if is_counted::<R>(self.bits) {
            // SAFETY: alive by the invariant, and a thread that holds a reference holds a thread state.
            unsafe { incref(address::<R>(self.bits)) };
        }
        // SAFETY: counted above, or tagged as this one is.
        unsafe { Self::of_bits(self.bits) }
    }

    /// Gives the reference up, here and now; the object's destructor may run any code.
    #[inline(always)]
    pub fn close(self) {
        drop(self);
    }

    /// Lends the reference out.
    #[inline(always)]
    pub fn borrow(&self) -> StackRefBorrow<'_, R> {
        // INVARIANT: alive while `self` is.
        StackRefBorrow { bits: self.bits, _of: PhantomData }
    }

    /// The object, for as long as this reference lives.
    #[inline(always)]
    pub fn object(&self) -> NonNull<PyObject> {
        // SAFETY: never NULL, by the invariant.
        unsafe { NonNull::new_unchecked(address::<R>(self.bits)) }
    }

    /// Hands the reference over as a counted one; the caller gives it up.
    #[inline(always)]
    #[must_use = "the reference would leak"]
    pub fn into_object(self) -> NonNull<PyObject> {
        let object = self.object();
        if !is_counted::<R>(self.bits) {
            // SAFETY: alive by the invariant, and a thread that holds a reference holds a thread state.
            unsafe { incref(object.as_ptr()) };
        }
        forget(self);
        object
    }

    /// Closes the reference. If the object dies, what `enter` returns lives as long as its
    /// destructor runs.
    #[inline(always)]
    pub fn close_within<T>(self, enter: impl FnOnce() -> T) {
        let bits = self.into_bits();
        if is_counted::<R>(bits) {
            // SAFETY: the reference was ours, and a thread that holds one holds a thread state.
            unsafe { decref_within(address::<R>(bits), enter) };
        }
    }

    /// Hands the reference over as a word of this representation; the caller gives it up.
    #[inline(always)]
    #[must_use = "the reference would leak"]
    pub fn into_bits(self) -> usize {
        let bits = self.bits;
        forget(self);
        bits
    }

    /// Takes over the reference in a word; `None` of NULL.
    ///
    /// # Safety
    /// `bits` is a word of this representation, and its reference is the caller's to give.
    #[inline(always)]
    pub unsafe fn from_bits(bits: usize) -> Option<Self> {
        if bits == R::NULL {
            None
        } else {
            // SAFETY: not NULL. The caller gives up the reference in this word.
            Some(unsafe { Self::of_bits(bits) })
        }
    }
}

impl<R: Representation> Drop for StackRef<R> {
    // Inlined, or its symbol would be exported from the interpreter.
    #[inline(always)]
    fn drop(&mut self) {
        if is_counted::<R>(self.bits) {
            // SAFETY: the reference is ours, by the invariant, and a thread that holds one holds a thread
            // state.
            unsafe { decref(address::<R>(self.bits)) };
        }
    }
}

/// A reference that another owner holds and that lives at least as long as `'a`.
///
/// # Invariants
/// `bits` is a word of representation `R`, not NULL, whose object is alive for `'a`.
#[repr(transparent)]
pub struct StackRefBorrow<'a, R: Representation = InFrame> {
    bits: usize,
    _of: PhantomData<(&'a StackRef<R>, *mut PyObject)>,
}

impl<R: Representation> Clone for StackRefBorrow<'_, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Representation> Copy for StackRefBorrow<'_, R> {}

impl<R: Representation> StackRefBorrow<'_, R> {
    /// The object, for as long as the borrow lives.
    #[inline(always)]
    pub fn object(self) -> NonNull<PyObject> {
        // SAFETY: never NULL, by the invariant.
        unsafe { NonNull::new_unchecked(address::<R>(self.bits)) }
    }

    /// A reference of the caller's own.
    #[inline(always)]
    pub fn dup(self) -> StackRef<R> {
        if is_counted::<R>(self.bits) {
            // SAFETY: alive by the invariant, and a thread that holds a reference holds a thread state.
            unsafe { incref(self.object().as_ptr()) };
        }
        // SAFETY: counted above, or tagged.
        unsafe { StackRef::of_bits(self.bits) }
    }
}

/// A place for a reference: a slot of a frame. Exactly one word, in memory that C shares.
///
/// A slot is never dropped: the code that clears a frame closes its slots. Where it lies in a frame it is
/// read and written by pointer, with [`peek`](Self::peek) and [`leave`](Self::leave): a frame has
/// more readers than its thread.
///
/// # Invariants
/// The word is NULL, or refers to a live object and owns the reference as a [`StackRef`] does.
#[repr(transparent)]
pub struct StackSlot<R: Representation = InFrame> {
    bits: usize,
    _of: PhantomData<(*mut PyObject, R)>,
}

impl<R: Representation> StackSlot<R> {
    /// An empty slot.
    pub const EMPTY: Self = StackSlot { bits: R::NULL, _of: PhantomData };

    /// What is in the slot at `place`. No reference is made to the slot, which others may look at:
    /// collectors and profilers do.
    ///
    /// # Safety
    /// `place` points to an initialized slot that nothing writes just now, and what it refers to
    /// stays alive for `'a`.
    #[inline(always)]
    pub unsafe fn peek<'a>(place: *const StackSlot<R>) -> Option<StackRefBorrow<'a, R>> {
        // SAFETY: the caller passes an initialized slot that nothing writes now.
        let bits = unsafe { (*place).bits };
        // INVARIANT: not NULL, and the caller says that the object stays alive for `'a`.
        (bits != R::NULL).then_some(StackRefBorrow { bits, _of: PhantomData })
    }

    /// Takes the reference out of the slot at `place` and leaves its word there: saves the write
    /// where a frame ends and nothing reads the slot any more.
    ///
    /// # Safety
    /// `place` points to an initialized slot, which from now on is not used as one: it is memory
    /// to be given up, or written anew.
    #[inline(always)]
    pub unsafe fn leave(place: *mut StackSlot<R>) -> Option<StackRef<R>> {
        // SAFETY: the slot owned the reference (its invariant). The caller says that nothing reads the
        // place as a slot any more, so the reference has one owner.
        unsafe { StackRef::from_bits((*place).bits) }
    }

    /// Whether there is no reference in it.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.bits == R::NULL
    }

    /// What is in it.
    #[inline(always)]
    pub fn get(&self) -> Option<StackRefBorrow<'_, R>> {
        // INVARIANT: not NULL, and the slot owns the reference while it is borrowed.
        (!self.is_empty()).then_some(StackRefBorrow { bits: self.bits, _of: PhantomData })
    }

    /// Takes the reference out; the slot is empty.
    #[inline(always)]
    pub fn take(&mut self) -> Option<StackRef<R>> {
        self.replace(None)
    }

    /// Puts a reference in, or none, and hands out what was there. Nothing is closed, so no code
    /// runs.
    #[inline(always)]
    pub fn replace(&mut self, new: Option<StackRef<R>>) -> Option<StackRef<R>> {
        let old = self.bits;
        // INVARIANT: the slot owns the new reference.
        self.bits = match new {
            Some(new) => new.into_bits(),
            None => R::NULL,
        };
        // SAFETY: by the invariant the slot owned it, and holds it no longer.
        unsafe { StackRef::from_bits(old) }
    }

    /// Puts a reference in, then closes what was there: a destructor finds the new one.
    #[inline(always)]
    pub fn set(&mut self, new: StackRef<R>) {
        drop(self.replace(Some(new)));
    }

    /// Empties the slot, then closes what was there: a destructor finds it empty.
    #[inline(always)]
    pub fn clear(&mut self) {
        drop(self.take());
    }
}
