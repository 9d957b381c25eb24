//! Intrusive lists: a member is removed without a walk, and no operation allocates.
//!
//! ```text
//!   beginning ──► member ──► member ──► NULL        `next`
//!       ▲───────────┘ ▲────────┘                    `place`: what leads to a member
//! ```
//!
//! Such lists are the watches of a thread, its scopes, its unhooked calls without a frame below, and the watched
//! generators of an interpreter. The list of hooks is another kind: it is read without a lock, and a removed hook keeps
//! its `next` (`hook`).

use core::cell::Cell;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

/// What leads to the first member, or to the next one.
pub type Next<T> = Option<NonNull<T>>;

/// Whether a list has no member, without the right to use it: relaxed, and stale at once unless something else orders it.
///
/// # Safety
/// `beginning` is live.
#[inline(always)]
pub unsafe fn is_empty<T>(beginning: *mut Next<T>) -> bool {
    // SAFETY: `beginning` is live, says the caller. `lead_to` alone writes it meanwhile, as an atomic too.
    unsafe { AtomicPtr::<T>::from_ptr(beginning.cast()) }.load(Ordering::Relaxed).is_null()
}

/// Writes what leads to a member. Atomic, for [`is_empty`] in other threads.
///
/// # Safety
/// *alone*, as for [`enter`]; `place` is live.
#[inline(always)]
unsafe fn lead_to<T>(place: *mut Next<T>, member: Next<T>) {
    let member = member.map_or(null_mut(), NonNull::as_ptr);
    // SAFETY: `place` is live, says the caller. A `Next` is a pointer, or NULL for `None`.
    unsafe { AtomicPtr::<T>::from_ptr(place.cast()) }.store(member, Ordering::Relaxed);
}

/// What a member keeps of its list.
///
/// # Invariants
/// Of a member `next` is the member after it, and `place` points to what leads to it: the list's beginning, or the
/// `next` of the member before. Of what was never in a list, and of what was [taken out](take_out), `place` is NULL.
pub struct Links<T> {
    next: Cell<Next<T>>,
    place: Cell<*mut Next<T>>,
}

impl<T> Links<T> {
    /// Those of what is in no list.
    pub const fn none() -> Self {
        Links { next: Cell::new(None), place: Cell::new(null_mut()) }
    }
}

/// A type whose values can be in a list, each in one at a time.
///
/// # Safety
/// `links` returns the same field each time, which nothing else writes while `self` is in a list.
pub unsafe trait Member: Sized {
    /// Its links.
    fn links(&self) -> &Links<Self>;
}

/// Inserts `new` before all others into the list that begins at `beginning`.
///
/// # Safety
/// - *alone*: nothing else uses the list meanwhile: it is the calling thread's, or locked, or its thread is stopped.
/// - *stays*: `new` is in no list, is live, and stays where it is until it has left. So do the members, and `beginning`
///   is live as long as there is one.
#[inline(always)]
pub unsafe fn enter<T: Member>(beginning: *mut Next<T>, new: NonNull<T>) {
    // SAFETY: *alone*, and *stays* says that the beginning, `new` and the member after it are live.
    unsafe {
        let next = beginning.read();
        let links = new.as_ref().links();
        links.next.set(next);
        links.place.set(beginning);
        lead_to(beginning, Some(new));
        if let Some(next) = next {
            next.as_ref().links().place.set(links.next.as_ptr());
        }
    }
}

/// Takes a member out of its list. Its links are left as they are, and not used any more.
///
/// # Safety
/// *alone*, as for [`enter`]; *member*: `this` is in a list.
#[inline(always)]
pub unsafe fn leave<T: Member>(this: &T) {
    let (next, place) = (this.links().next.get(), this.links().place.get());
    // SAFETY: *alone*. By the invariant, and *stays* of `enter`, what leads to a *member* and what is after it are live.
    unsafe {
        lead_to(place, next);
        if let Some(next) = next {
            next.as_ref().links().place.set(place);
        }
    }
}

/// As [`leave`], if it is in a list, and remembers that it has left.
///
/// # Safety
/// *alone*, as for [`enter`].
pub unsafe fn take_out<T: Member>(this: &T) {
    if !this.links().place.get().is_null() {
        // SAFETY: *alone*; *member*, since its place is known.
        unsafe { leave(this) };
        this.links().place.set(null_mut());
    }
}

/// The member after one.
///
/// # Safety
/// *alone*, as for [`enter`]; *member*, as for [`leave`]. The result is not used once code runs that may take it out.
#[inline(always)]
pub unsafe fn behind<T: Member>(this: &T) -> Next<T> {
    this.links().next.get()
}
