//! Where a thread keeps its part of a profile.

use crate::attached::Attached;
use crate::cpu::CpuTime;
use std::cell::{Cell, RefCell};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::LocalKey;

/// A thread of a profile.
pub struct Slot<T> {
    pub tally: Attached<T>,
    /// The thread's number, or 0 for threads that are added up.
    pub serial: u64,
    /// `threading.get_ident()`, or 0 for threads that are added up.
    pub ident: u64,
    pub name: Mutex<String>,
    pub cpu: CpuTime,
    ended: AtomicBool,
}

impl<T> Slot<T> {
    pub fn new(tally: T, serial: u64, ident: u64, name: String, cpu: CpuTime) -> Self {
        let (tally, name) = (Attached::new(tally), Mutex::new(name));
        Self { tally, serial, ident, name, cpu, ended: AtomicBool::new(false) }
    }

    /// The thread has ended.
    pub fn end(&self) {
        self.cpu.stop();
        self.ended.store(true, Ordering::Release);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// Which profile the thread has met last, and its part of that one; 0: none.
///
/// # Invariants
/// Where it is not 0, the slot is the one of this thread's [`Owner`]. Nothing but this module
/// writes it.
pub struct Quick<T>(Cell<(u64, *const Slot<T>)>);

impl<T> Quick<T> {
    pub const fn new() -> Self {
        Self(Cell::new((0, null())))
    }
}

/// Keeps the thread's part. It goes when the thread ends.
pub struct Owner<T: 'static> {
    slot: Arc<Slot<T>>,
    quick: &'static LocalKey<Quick<T>>,
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        // It has no destructor, so it is there to the end.
        self.quick.with(|quick| quick.0.set((0, null())));
        self.slot.end();
    }
}

/// Two variables of each thread: one that is read quickly, and one that has a destructor.
pub struct Place<T: 'static> {
    pub quick: &'static LocalKey<Quick<T>>,
    pub owner: &'static LocalKey<RefCell<Option<Owner<T>>>>,
}

impl<T> Place<T> {
    /// Runs `body` with the thread's part of the profile with this number. It must not call into
    /// Python, nor [`keep`](Self::keep).
    #[inline(always)]
    pub fn with<R>(&self, session: u64, body: impl FnOnce(&Slot<T>) -> R) -> Option<R> {
        self.quick.with(|quick| {
            let (known, slot) = quick.0.get();
            if known != session {
                return None;
            }
            // SAFETY: it is not 0, so by the invariant this thread's owner holds the slot. `body`
            // does not replace the owner, and the thread does not end meanwhile. Only shared
            // references to a slot are made.
            Some(body(unsafe { &*slot }))
        })
    }

    /// Keeps this for the thread. What was kept before, of an older profile, is let go.
    pub fn keep(&self, session: u64, slot: Arc<Slot<T>>) {
        let pointer = Arc::as_ptr(&slot);
        let owner = Owner { slot, quick: self.quick };
        let kept = self.owner.try_with(|place| {
            drop(place.take());
            place.replace(Some(owner));
        });
        if kept.is_ok() {
            self.quick.with(|quick| quick.0.set((session, pointer)));
        }
    }

    /// The thread's part.
    pub fn kept(&self) -> Option<Arc<Slot<T>>> {
        let slot = |place: &RefCell<Option<Owner<T>>>| {
            place.borrow().as_ref().map(|owner| owner.slot.clone())
        };
        self.owner.try_with(slot).ok().flatten()
    }
}
