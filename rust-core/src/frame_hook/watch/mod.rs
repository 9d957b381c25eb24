//! A watch delivers exit callbacks for one frame.
//!
//! A watched frame returns to a *return shim* instead of its caller. A shim is a frame without code of its own, like
//! the one at the bottom of each eval loop, which frame walkers skip. A frame that returns continues at its second
//! instruction, and one that yields at its third. The eval loop calls Rust for both, and for an exception that reaches
//! a shim. Rust calls the hook's event callback, unlinks the shim, and hands the value or exception on to the frame
//! below. Frames that are not watched pay nothing.
//!
//! ```text
//!   watched frame ──► shim of the hook called last ──► shim of the one before ──► caller
//! ```
//!
//! Each hook has a shim of its own. Exit callbacks run in the reverse order of entry callbacks.
//!
//! `owned` links and ends watches, `memory` allocates them, and `dropped` is what remains of one whose frame never runs
//! again.

pub mod dropped;
pub mod memory;
pub mod owned;

use super::hook::references::HookRef;
use super::hook::Hook;
use super::list::{leave, Links, Member, Next};
use super::return_offset::ResumeOffset;
use super::scope::Scope;
use super::shim_code::{self, is_return_shim};
use super::verdict::Request;
use crate::code::Code;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame::{Frame, VisitFunction};
use crate::object::Owned;
use crate::reference_count::new_reference;
use crate::thread::{NotStopped, Thread, ThreadState};
use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

/// The shim is linked below the frame, which runs.
const LINKED: u32 = 1;
/// The frame makes a generator when it runs, which is watched then.
const MAKES_GENERATOR: u32 = 2;
/// A `generator_watch::Watched` holds it.
const HELD: u32 = 4;
/// Its request has a scope.
const HAS_SCOPE: u32 = 8;
/// It belongs to an unhooked call whose frame has not started.
pub(super) const UNHOOKED: u32 = 16;
/// It is in the list of unhooked calls that no frame has made.
pub(super) const AT_ROOT: u32 = 32;
/// It is in the list of the thread whose frame it watches.
const LISTED: u32 = 64;
/// An event callback of it runs. The watch's hook and data are not released meanwhile.
const IN_CALLBACK: u32 = 128;

/// A watch, for everything but ending it, which takes an [`OwnedWatch`](owned::OwnedWatch).
///
/// # Invariants
/// Begins with a frame of owner C stack, with one slot; so a pointer to the shim is one to the watch. In unused memory
/// the slot and `watched` are zeros. A watch in the list of the thread whose frame it watches has its scope in force
/// there. The hook of a watch without a scope has an event callback. The watch of an unhooked call has no hook and is
/// not linked; its user data is the function that is called, borrowed, and never dereferenced.
///
/// The thread whose frame it watches works on it alone, or another one while that one does not run.
/// Any callback may change a watch, so all of it is in cells.
#[repr(C)]
pub struct Watch {
    shim: UnsafeCell<_PyInterpreterFrame>,
    /// `None` if no callback is to be called: an unhooked call, or the interpreter or thread has ended.
    hook: UnsafeCell<Option<HookRef>>,
    request: Cell<Request>,
    /// Bits: [`LINKED`], [`LISTED`] and so on.
    state: Cell<u32>,
    /// The object that holds the watch of a generator; NULL: no generator is watched.
    watched: Cell<*mut PyObject>,
    /// The next watch of the same generator, in the order of exit callbacks. In unused memory: the next block.
    next_watch: Cell<Next<Watch>>,
    links: Links<Watch>,
    pub(super) scope: UnsafeCell<Scope>,
}

// SAFETY: a field of its own, which this module does not write while the watch is in use.
unsafe impl Member for Watch {
    #[inline(always)]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Watch {
    pub(super) fn set_state(&self, bit: u32, on: bool) {
        let others = self.state.get() & !bit;
        self.state.set(if on { others | bit } else { others });
    }

    pub(super) fn has_state(&self, bit: u32) -> bool {
        self.state.get() & bit != 0
    }

    /// The return shim.
    #[inline(always)]
    pub fn shim(&self) -> Frame {
        // SAFETY: all its fields that have a meaning are set.
        unsafe { Frame::new((&raw const *self).cast_mut().cast()) }
    }

    /// The watch of a return shim.
    #[inline(always)]
    pub fn at(frame: Frame, _quiet: &NotStopped) -> Option<&Self> {
        // SAFETY: a watch begins with its shim. It is live: the frame is, and no frame is left to it, which alone ends
        // the watch, before `_quiet` is over.
        is_return_shim(frame).then(|| unsafe { &*frame.as_ptr().cast::<Self>() })
    }

    /// Its hook, if there is one. Foreign code may remove and free it, so it is [entered](Hook::enter) before it is
    /// called.
    #[inline(always)]
    pub fn hook<'a>(&'a self, _quiet: &'a NotStopped) -> Option<&'a Hook> {
        // SAFETY: it is taken out by `OwnedWatch::end` and `take_for_drop` alone, and neither runs before `_quiet` is
        // over: this thread runs none, and another one drops the watches of this one when it does not run any more.
        unsafe { (*self.hook.get()).as_ref() }.map(HookRef::get)
    }

    /// Whether it has a hook, removed or not.
    pub fn has_hook(&self) -> bool {
        // SAFETY: nothing runs before the reference is over; as in `hook`.
        unsafe { (*self.hook.get()).is_some() }
    }

    /// The hook's request.
    #[inline(always)]
    pub fn request(&self) -> Request {
        self.request.get()
    }

    /// The code that ran, borrowed.
    pub fn code(&self) -> *mut PyObject {
        // SAFETY: set while the watch is there.
        unsafe { (*self.shim().as_ptr()).f_executable }
    }

    /// Sets the code that runs, and whether it makes a generator. Returns the code before: the caller releases it, and
    /// that may run a destructor, as a hook may have owned the only other reference.
    #[must_use]
    pub fn set_code(&self, code: Code, makes_generator: bool) -> Owned {
        self.set_state(MAKES_GENERATOR, makes_generator);
        // SAFETY: live objects, and the shim is this thread's. Its reference is returned.
        unsafe {
            let before = Owned::from_new_reference(self.code());
            (*self.shim.get()).f_executable = new_reference(code.as_object());
            before
        }
    }

    /// Whether the frame returns a generator that is to be watched. Resets that.
    #[inline(always)]
    pub fn makes_generator(&self) -> bool {
        let makes_generator = self.has_state(MAKES_GENERATOR);
        self.set_state(MAKES_GENERATOR, false);
        makes_generator
    }

    pub fn is_linked(&self) -> bool {
        self.has_state(LINKED)
    }

    /// The next watch of the same generator.
    pub fn next_watch(&self) -> Next<Watch> {
        self.next_watch.get()
    }

    pub fn set_next_watch(&self, next: Next<Watch>) {
        self.next_watch.set(next);
    }

    pub fn watched(&self) -> Option<NonNull<PyObject>> {
        NonNull::new(self.watched.get())
    }

    pub fn set_watched(&self, watched: *mut PyObject) {
        self.set_state(HELD, !watched.is_null());
        self.watched.set(watched);
    }

    pub(super) fn begin_scope(&self, thread: Thread, hook: Option<&Hook>) {
        // SAFETY: *stays*: it lies in the watch, which has the hook, and both stay until `end_scope`.
        unsafe { Scope::begin(self.scope.get(), thread, hook, self.request().scope) };
    }

    #[inline(always)]
    pub(super) fn end_scope(&self) {
        if self.has_state(HAS_SCOPE) {
            // SAFETY: *begun* in `begin_scope`. *alone*: a thread that works on a watch works on the lists of its thread.
            unsafe { Scope::end(self.scope.get()) };
        }
    }

    /// Takes the watch out of the list of its thread, and ends its scope. The shim stays linked.
    ///
    /// # Safety
    /// - *listed*: it is in the list of a thread.
    /// - *alone*: that is the calling thread, or does not run: no other one works on its watches.
    #[inline(always)]
    unsafe fn unlist(&self) {
        // SAFETY: *member* is *listed*; *alone*.
        unsafe { leave(self) };
        self.set_state(LISTED, false);
        self.end_scope();
    }

    /// Whether the watch is plain: to end it is to call its exit callback, and nothing else.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.state.get() == LINKED | LISTED
    }

    /// Whether the watch is a suspended generator's, and nothing but its shim is to be linked: it has no scope, and no
    /// callback of it runs.
    #[inline(always)]
    pub fn is_suspended(&self) -> bool {
        self.state.get() == HELD
    }

    /// Whether the watch is a running generator's, and nothing but its shim is to be unlinked. It has a hook then: it
    /// would have left the list with it.
    #[inline(always)]
    pub fn is_resumed(&self) -> bool {
        self.state.get() == LINKED | LISTED | HELD
    }

    /// Begins a callback of a plain watch.
    #[inline(always)]
    pub fn begin_plain_callback(&self) {
        self.state.set(LINKED | LISTED | IN_CALLBACK);
    }

    /// Whether the watch is as [`begin_plain_callback`](Self::begin_plain_callback) has left it. If not, its thread has
    /// ended meanwhile.
    #[inline(always)]
    pub fn is_in_plain_callback(&self) -> bool {
        self.state.get() == LINKED | LISTED | IN_CALLBACK
    }

    /// Begins a callback: the watch's hook and data stay until it ends. Returns whether one runs already.
    pub fn begin_callback(&self) -> bool {
        let before = self.has_state(IN_CALLBACK);
        self.set_state(IN_CALLBACK, true);
        before
    }

    /// Ends the callback; `before` is what [`begin_callback`](Self::begin_callback) has returned.
    pub fn end_callback(&self, before: bool) {
        self.set_state(IN_CALLBACK, before);
    }

    /// Prepares the shim for a frame that will return to it: that continues at the second instruction.
    #[inline(always)]
    pub fn expect_return(&self) {
        ResumeOffset::RETURN_SHIM.write_to(self.shim());
    }

    /// Puts the shim back to its first instruction: the frame above runs, and will be left to it.
    pub fn rewind(&self) {
        self.shim().set_instruction(shim_code::first());
    }

    /// Shows the collector what the watch of a suspended generator holds; a number other than 0 ends it.
    ///
    /// # Safety
    /// *collector*: `visit` and `argument` are the collector's, which runs with every other thread stopped.
    pub unsafe fn traverse(&self, visit: VisitFunction, argument: *mut c_void) -> c_int {
        // SAFETY: the watch has a reference to its code. The hook is there, as in `hook`: *collector*, which runs no
        // foreign code. The user data is the watch's.
        unsafe {
            match (visit(self.code(), argument), &*self.hook.get()) {
                (0, Some(hook)) => hook.get().traverse_data(self.request().data, visit, argument),
                (status, _) => status,
            }
        }
    }

    /// The last watch that `thread`, which need not be the calling one, has linked.
    ///
    /// # Safety
    /// *alone*: that is the calling thread, or does not run: no other one works on its watches.
    #[inline(always)]
    pub unsafe fn first_of(thread: ThreadState, _quiet: &NotStopped) -> Option<&Watch> {
        // SAFETY: *alone*; what is in the list is live, and not ended before `_quiet` is over.
        unsafe { (*thread.own()).watches.cast::<Watch>().as_ref() }
    }
}

/// Frees the user data of a watch, and releases its hook.
///
/// # Safety
/// *once*: they are the watch's, and this is done once, without a lock.
#[inline(always)]
unsafe fn release_hook(hook: Option<HookRef>, data: *mut c_void) {
    if let Some(hook) = hook {
        // SAFETY: *once*; a thread that ends a watch is attached.
        unsafe { hook.get().free_data(data) };
    }
}
