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

use super::error::{Outcome, Raised};
use super::hook::{Hook, HookRef};
use super::list::{enter, leave, Links, Member, Next};
use super::scope::Scope;
use super::shim_code::{self, is_mark, RETURNS_TO, YIELDS_TO};
use super::verdict::Request;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame::{Frame, Owner, VisitFunction};
use crate::object::Owned;
use crate::reference_count::{decref, new_reference};
use crate::stack_ref::StackSlot;
use crate::thread::{NotStopped, Thread, ThreadState};
use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::{null_mut, NonNull};

/// Its shim is linked below the frame, which runs.
const LINKED: u32 = 1;
/// It is in the list of the thread whose frame it watches.
const LISTED: u32 = 64;
/// An event callback of it runs. The watch's hook and data are not released meanwhile.
const IN_CALLBACK: u32 = 128;
/// The frame makes a generator when it runs, and that is watched then.
const MAKES_GENERATOR: u32 = 2;
/// An object holds it, since it is a generator's: `watched`.
const HELD: u32 = 4;
/// Its request has a scope.
const HAS_SCOPE: u32 = 8;
/// It belongs to an unhooked call whose frame has not begun.
pub(super) const SPARES: u32 = 16;
/// It is in the list of unhooked calls without a frame below, whose own frame has not begun.
pub(super) const AT_ROOT: u32 = 32;

/// The state of a watch that is not linked yet.
#[inline(always)]
fn state_of_new(request: Request) -> u32 {
    if request.scope == 0 {
        0
    } else {
        HAS_SCOPE
    }
}

/// A watch, for everything but ending it, which takes an [`OwnedWatch`].
///
/// # Invariants
/// Begins with a frame that is the C stack's, with one slot; so a pointer to the shim is one to the watch. Of memory
/// that is not used, the slot and `watched` are as in zeros. A watch in the list of the thread whose frame it watches
/// has its scope in force there. The hook of a watch without a scope has a function to tell it by. The watch of a
/// unhooked call has no hook and is not linked; its user data is the function that runs, borrowed, and never
/// dereferenced.
///
/// The thread whose frame it watches works on it alone, or another one while this one does not run.
/// Any callback may change a watch, so all of it is in cells.
#[repr(C)]
pub struct Watch {
    mark: UnsafeCell<_PyInterpreterFrame>,
    /// `None` if no callback is to be called: an unhooked call, or the interpreter or thread has ended.
    hook: UnsafeCell<Option<HookRef>>,
    request: Cell<Request>,
    /// What is true of it, as bits: [`LINKED`], [`LISTED`], [`IN_CALLBACK`], [`MAKES_GENERATOR`],
    /// [`HELD`], [`HAS_SCOPE`], [`SPARES`], [`AT_ROOT`].
    state: Cell<u32>,
    /// The object that holds the watch of a generator; NULL: no generator is watched.
    watched: Cell<*mut PyObject>,
    /// The other watches of the same generator, in the order in which they are told. Of unused memory: the next piece.
    next_told: Cell<Next<Watch>>,
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

/// The right to end a watch. There is one of it for each watch. After [`link`](Self::link) the chain of frames that
/// leads to the shim has it, after [`into_raw`](Self::into_raw) a generator: it is taken back by
/// [`from_raw`](Self::from_raw) where something comes to the shim, or the generator is over.
///
/// # Invariants
/// The watch is live, and this is the only one of it.
#[must_use = "a watch that nobody ends leaks"]
#[repr(transparent)]
pub struct OwnedWatch(NonNull<Watch>);

impl Deref for OwnedWatch {
    type Target = Watch;

    #[inline(always)]
    fn deref(&self) -> &Watch {
        // SAFETY: live by the type's invariant: it is ended by what consumes this. All is in cells.
        unsafe { self.0.as_ref() }
    }
}

/// So much memory for further watches a thread keeps.
const KEPT: u32 = 64;

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
    pub fn mark(&self) -> Frame {
        // SAFETY: all its fields that have a meaning are set.
        unsafe { Frame::new((&raw const *self).cast_mut().cast()) }
    }

    /// The watch of a return shim.
    #[inline(always)]
    pub fn at(frame: Frame, _quiet: &NotStopped) -> Option<&Self> {
        // SAFETY: a watch begins with its shim. It is live: the frame is, and nothing comes back to
        // it, which alone ends the watch, before `_quiet` is over.
        is_mark(frame).then(|| unsafe { &*frame.as_ptr().cast::<Self>() })
    }

    /// Its hook, if there is one. Code of others may have it taken out, and freed: who calls it
    /// [enters](Hook::enter) it first.
    #[inline(always)]
    pub fn hook<'a>(&'a self, _quiet: &'a NotStopped) -> Option<&'a Hook> {
        // SAFETY: it is taken out by `OwnedWatch::end` and `forget` alone, and neither runs before `_quiet` is over:
        // this thread runs none, and another one forgets the watches of this one when it does not run any more.
        unsafe { (*self.hook.get()).as_ref() }.map(HookRef::get)
    }

    /// The hook's request.
    #[inline(always)]
    pub fn request(&self) -> Request {
        self.request.get()
    }

    /// The code that ran, borrowed.
    pub fn code(&self) -> *mut PyObject {
        // SAFETY: set while the watch is there.
        unsafe { (*self.mark().as_ptr()).f_executable }
    }

    /// Says what runs instead of what was known, and whether it makes a generator. What was known is the caller's to
    /// give up, and may have been a hook's alone, and then dies.
    #[must_use]
    pub fn set_code(&self, code: Code, makes_generator: bool) -> Owned {
        self.set_state(MAKES_GENERATOR, makes_generator);
        // SAFETY: live objects, and the shim is this thread's. The reference that it had is handed
        // out.
        unsafe {
            let before = Owned::from_new_reference(self.code());
            (*self.mark.get()).f_executable = new_reference(code.as_object());
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

    /// The other watches of the same generator.
    pub fn next_told(&self) -> Next<Watch> {
        self.next_told.get()
    }

    pub fn set_next_told(&self, next: Next<Watch>) {
        self.next_told.set(next);
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
            // SAFETY: *begun* in `begin_scope`. *alone*: who works on a watch works on the lists of its thread.
            unsafe { Scope::end(self.scope.get()) };
        }
    }

    /// Takes the watch out of the list of the thread that it is in; its scope ends. The shim stays
    /// where it was.
    ///
    /// # Safety
    /// - *listed*: it is in the list of a thread.
    /// - *alone*: that is the calling thread, or does not run: nobody else works on its watches.
    #[inline(always)]
    unsafe fn unlist(&self) {
        // SAFETY: *member* is *listed*; *alone*.
        unsafe { leave(self) };
        self.set_state(LISTED, false);
        self.end_scope();
    }

    /// Whether the watch is plain: ending it means calling its exit callback, and nothing else.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.state.get() == LINKED | LISTED
    }

    /// Begins a callback of a watch of the plain kind.
    #[inline(always)]
    pub fn enter_plainly(&self) {
        self.state.set(LINKED | LISTED | IN_CALLBACK);
    }

    /// The callback of [`enter_plainly`](Self::enter_plainly) is over, and the watch is to end. Whether it is still
    /// as it was: else its thread has ended meanwhile.
    #[inline(always)]
    pub fn leave_plainly(&self) -> bool {
        let as_before = self.state.get() == LINKED | LISTED | IN_CALLBACK;
        if !as_before {
            self.set_state(IN_CALLBACK, false);
        }
        as_before
    }

    /// Begins a callback: what the watch has is not given up before it is over. Whether one is under way
    /// already.
    pub fn enter(&self) -> bool {
        let before = self.has_state(IN_CALLBACK);
        self.set_state(IN_CALLBACK, true);
        before
    }

    /// The callback is over; `before` is what [`enter`](Self::enter) has returned.
    pub fn leave(&self, before: bool) {
        self.set_state(IN_CALLBACK, before);
    }

    /// Whether the shim was reached by the yield of a generator.
    #[inline(always)]
    pub fn was_yielded_to(&self) -> bool {
        // SAFETY: one of the three.
        self.mark().instruction() == unsafe { shim_code::first().add(YIELDS_TO) }
    }

    /// A frame that returns continues at the shim's second instruction.
    #[inline(always)]
    pub fn expect_return(&self) {
        // SAFETY: this thread's frame.
        unsafe { (*self.mark().as_ptr()).return_offset = RETURNS_TO };
    }

    /// The frame that was left to the shim runs again, and will return to it.
    pub fn wait_again(&self) {
        self.mark().set_instruction(shim_code::first());
    }

    /// The frame never runs again: moves the watch's hook and data out, for the drop callback. If a callback of it runs
    /// in a greenlet, that needs them: the watch only leaves the list, and continues as usual if the callback returns.
    ///
    /// The shim stays, since frames lead to it. They may still return to it, during the callback or later: a greenlet
    /// can be switched to. No event is delivered for that.
    ///
    /// # Safety
    /// - *listed*: the watch is in the list of a thread, which ends.
    /// - *alone*: that is the calling thread, or does not run: nobody else works on its watches.
    pub unsafe fn forget(&self) -> Option<ForgottenWatch> {
        // SAFETY: *listed* and *alone*.
        unsafe { self.unlist() };
        if self.has_state(IN_CALLBACK) {
            return None;
        }
        // SAFETY: zeros are valid for all fields but the owner, which is set next.
        let forgotten: Watch = unsafe { MaybeUninit::zeroed().assume_init() };
        forgotten.mark().set_owner(Owner::C_STACK);
        forgotten.request.set(self.request());
        forgotten.watched.set(self.watched.get());
        // SAFETY: the new one is ours, and *alone* on this one. What `hook` lends of it is over, since that lasts for a
        // stretch in which this does not run. The code is live, as the shim has it.
        unsafe {
            (*forgotten.mark.get()).f_executable = new_reference(self.code());
            *forgotten.hook.get() = (*self.hook.get()).take();
        }
        Some(ForgottenWatch(forgotten))
    }

    /// Whether it has a hook, removed or not.
    pub fn has_hook(&self) -> bool {
        // SAFETY: nothing runs before the reference is over; as in `hook`.
        unsafe { (*self.hook.get()).is_some() }
    }

    /// Shows the collector what the watch of a suspended generator holds; a number other than 0 ends it.
    ///
    /// # Safety
    /// *collector*: `visit` and `argument` are the collector's, which runs with every other thread stopped.
    pub unsafe fn traverse(&self, visit: VisitFunction, argument: *mut c_void) -> c_int {
        // SAFETY: the watch has a reference to its code. The hook is there, as in `hook`: *collector*, which runs no
        // code of others. The word is the watch's.
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
    /// *alone*: that is the calling thread, or does not run: nobody else works on its watches.
    #[inline(always)]
    pub unsafe fn first_of(thread: ThreadState, _quiet: &NotStopped) -> Option<&Watch> {
        // SAFETY: *alone*; what is in the list is live, and not ended before `_quiet` is over.
        unsafe { (*thread.own()).watches.cast::<Watch>().as_ref() }
    }
}

/// The hook and data of a watch whose frame never runs again, with a shim of its own, which is linked only during the
/// drop callback. Frames above it have ended by then. Other threads walk this one's frames while it is stopped, and
/// keep no pointer to a shim.
///
/// # Invariants
/// Has a reference to its code, and in its cell the hook that the watch had.
pub struct ForgottenWatch(Watch);

impl Deref for ForgottenWatch {
    type Target = Watch;

    #[inline]
    fn deref(&self) -> &Watch {
        &self.0
    }
}

impl Drop for ForgottenWatch {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: the reference to the code, the hook and the word are its own, and this is the end of them. What the
        // cell lends is over, as nothing else has this any more.
        unsafe {
            decref(self.0.code());
            give_up_hook(self.0.hook.get_mut().take(), self.0.request().data);
        }
    }
}

impl OwnedWatch {
    /// A watch of a frame that runs `code`. `MemoryError` without memory.
    #[inline(always)]
    pub fn new(
        thread: Thread,
        hook: Option<&Hook>,
        request: Request,
        code: *mut PyObject,
    ) -> Outcome<Self> {
        let own = thread.own();
        // SAFETY: the calling thread's own list, which no other thread reads.
        let kept = unsafe { NonNull::new((*own).unused_watches.cast::<Watch>()) };
        let room = match kept {
            // SAFETY: the calling thread's own list; each piece leads to the next.
            Some(kept) => unsafe {
                (*own).unused_watches = raw(kept.as_ref().next_told()).cast();
                (*own).unused_count -= 1;
                kept
            },
            None => allocate(thread)?,
        };
        // SAFETY: ours, and unused, so what was in its cells is over; a live object.
        unsafe {
            let room = room.as_ref();
            (*room.mark.get()).f_executable = new_reference(code);
            room.hook.get().write(hook.map(Hook::share));
            room.request.as_ptr().write(request);
            room.state.set(state_of_new(request));
        }
        // INVARIANT: nobody else knows of it.
        Ok(OwnedWatch(room))
    }

    /// Hands the right to end it to what leads to the watch.
    #[inline(always)]
    pub fn into_raw(self) -> NonNull<Watch> {
        self.0
    }

    /// Takes the right to end a watch from what leads to it.
    ///
    /// # Safety
    /// - *live*: `watch` was returned by [`into_raw`](Self::into_raw), or linked, and not ended since.
    /// - *only*: nothing else takes it from there: something has come to the shim, or the generator, which does not
    ///   run, gives it up.
    #[inline(always)]
    pub unsafe fn from_raw(watch: NonNull<Watch>) -> Self {
        // INVARIANT: *live* and *only*.
        OwnedWatch(watch)
    }

    /// Puts the shim between `frame` and the one that has called it. The scope begins.
    ///
    /// The chain of frames leads to the watch from now on, and ends it.
    #[inline(always)]
    pub fn link(self, thread: Thread, frame: Frame) {
        let state = self.state.get();
        self.link_with(thread, frame, state);
    }

    /// As [`link`](Self::link), for a watch that was made just now.
    #[inline(always)]
    pub fn link_first(self, thread: Thread, frame: Frame, request: Request) {
        self.link_with(thread, frame, state_of_new(request));
    }

    /// As [`link`](Self::link), where the state is known.
    #[inline(always)]
    fn link_with(self, thread: Thread, frame: Frame, state: u32) {
        let watch = self.into_raw();
        // SAFETY: live, says the invariant, and ended by nothing before the frame that was linked ends.
        let this = unsafe { watch.as_ref() };
        this.state.set(state | LINKED | LISTED);
        let mark = this.mark();
        mark.lead_where(frame);
        this.wait_again();
        this.expect_return();
        frame.set_previous(mark.as_ptr());
        // SAFETY: *alone*: the calling thread's own list. *stays*: it leaves in `unlist`, before it ends.
        unsafe { enter((&raw mut (*thread.own()).watches).cast(), watch) };
        if state & HAS_SCOPE != 0 {
            // SAFETY: *quiet*: the beginning of a scope runs no code of others, and does not wait.
            let quiet = unsafe { thread.not_stopped() };
            this.begin_scope(thread, this.hook(&quiet));
        }
    }

    /// The frame below the shim becomes the thread's current one. Nothing comes back to the shim, unless it is linked
    /// again.
    ///
    /// # Safety
    /// *current*: the shim is the thread's current frame.
    #[inline(always)]
    pub unsafe fn step_down(&self, thread: Thread) {
        if self.has_state(LISTED) {
            // SAFETY: *listed*, it says; *alone*: of a shim that is *current* the thread is the
            // calling one.
            unsafe { self.unlist() };
        }
        self.set_state(LINKED, false);
        // SAFETY: *current*; who is below is a frame that goes on.
        unsafe { thread.set_current_frame((*self.mark().as_ptr()).previous) };
        self.mark().unlink();
    }

    /// [`step_down`](Self::step_down) of a watch of the plain kind, which ends then: nobody reads its shim any more.
    ///
    /// # Safety
    /// *current*, as there; *plain*: it is of that kind, so it is listed.
    #[inline(always)]
    pub unsafe fn step_down_plainly(&self, thread: Thread) {
        // SAFETY: *member* is *plain*, *alone*: of a shim that is *current* the thread is the
        // calling one. Who is below is a frame that goes on.
        unsafe {
            leave(&**self);
            thread.set_current_frame((*self.mark().as_ptr()).previous);
        }
    }

    /// The value that the frame has left in the shim's slot.
    ///
    /// # Safety
    /// *set*: something has come to it, and was not taken yet.
    #[inline(always)]
    pub unsafe fn take_value(&self) -> Owned {
        // SAFETY: *set*, and its reference is handed out.
        unsafe {
            let value = StackSlot::leave(self.mark().first_slot()).unwrap_unchecked();
            Owned::from_new_reference(value.into_object().as_ptr())
        }
    }

    /// Ends the watch. Destructors may run.
    ///
    /// # Safety
    /// *out*: it is in no list, no generator's either, and its shim lies below no frame.
    #[inline] // or its symbol would be exported
    pub unsafe fn end(self, thread: Thread) {
        self.watched.set(null_mut());
        // SAFETY: *out*; no object holds it.
        unsafe { self.end_unheld(thread) };
    }

    /// As [`end`](Self::end), where no object holds the watch.
    ///
    /// # Safety
    /// *out*, as there.
    #[inline(always)]
    pub unsafe fn end_unheld(self, thread: Thread) {
        let (own, code, word) = (thread.own(), self.code(), self.request().data);
        // SAFETY: read before destructors run, and not read again: *out*, so nothing leads here but `self`.
        let hook = unsafe { self.hook.get().read() };
        let watch = self.into_raw().as_ptr();
        // SAFETY: the calling thread's own list, which no other thread reads. The memory is kept, or freed.
        unsafe {
            if (*own).unused_count < KEPT {
                (*watch).next_told.set(NonNull::new((*own).unused_watches.cast()));
                (*own).unused_watches = watch.cast();
                (*own).unused_count += 1;
            } else {
                c::PyMem_RawFree(watch.cast());
            }
        }
        // SAFETY: the references and the word were the watch's.
        unsafe {
            decref(code);
            give_up_hook(hook, word);
        }
    }
}

/// Frees the user data of a watch, and releases its hook.
///
/// # Safety
/// *once*: they are the watch's, and this is done once, without a lock.
#[inline(always)]
unsafe fn give_up_hook(hook: Option<HookRef>, word: *mut c_void) {
    if let Some(hook) = hook {
        // SAFETY: *once*; who ends a watch is attached.
        unsafe { hook.get().free_data(word) };
    }
}

/// As the lists have it.
fn raw(watch: Next<Watch>) -> *mut Watch {
    watch.map_or(null_mut(), NonNull::as_ptr)
}

/// Memory for a watch, with what is the same in each.
#[cold]
#[inline(never)]
fn allocate(thread: Thread) -> Outcome<NonNull<Watch>> {
    // SAFETY: the raw allocator takes any size at any time. Zeros are valid for all fields but the owner, which is set.
    unsafe {
        let room = NonNull::new(c::PyMem_RawCalloc(1, size_of::<Watch>()).cast::<Watch>())
            .ok_or_else(|| Raised::no_memory(thread))?;
        Frame::new(room.as_ptr().cast()).set_owner(Owner::C_STACK);
        Ok(room)
    }
}

/// Frees the memory that a thread keeps for watches, which keeps no more: it ends. Destructors that run later may watch
/// frames.
///
/// # Safety
/// *alone*: that is the calling thread, or does not run: nobody else works on its watches.
pub unsafe fn free_unused(thread: ThreadState) {
    let own = thread.own();
    // SAFETY: *alone*. Each piece of unused memory leads to the next.
    unsafe {
        (*own).watches = null_mut();
        (*own).scopes = null_mut();
        (*own).spared_at_roots = null_mut();
        while let Some(kept) = NonNull::new((*own).unused_watches.cast::<Watch>()) {
            (*own).unused_watches = raw(kept.as_ref().next_told()).cast();
            c::PyMem_RawFree(kept.as_ptr().cast());
        }
        (*own).unused_count = KEPT;
    }
}
