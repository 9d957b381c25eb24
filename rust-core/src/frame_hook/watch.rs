//! A watch: a hook is told what becomes of one frame.
//!
//! A watched frame comes back to a *mark*, and not to the frame that has called it. A mark is a
//! frame without code of its own, as the one at the bottom of each eval loop, and so nobody who
//! walks frames shows it. Its three instructions are there to be returned to: the second by a frame
//! that returns, the third by one that yields. The eval loop has Rust run both, and an exception
//! that comes to a mark too. Rust tells the hook, takes the mark out, and hands on what came to the
//! frame below. So frames that nobody watches pay nothing.
//!
//! ```text
//!   watched frame ──► mark of the last hook that asked ──► mark of the one before ──► caller
//! ```
//!
//! Several hooks have a mark each. The one that asked last is told first.

use super::error::{Outcome, Raised};
use super::hook::{Hook, HookRef};
use super::scope::Scope;
use super::verdict::{Request, FRAMEHOOK_NOT_BELOW};
use crate::check::check;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame::{Frame, Owner, VisitFunction};
use crate::object::{ForC, Owned};
use crate::reference_count::{decref, new_reference};
use crate::stack_ref::StackSlot;
use crate::thread::{Thread, ThreadState};
use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, NonNull};

/// An instruction without an argument, as the eval loop reads it.
#[repr(C, align(2))]
struct Unit {
    code: u8,
    argument: u8,
}

const fn unit(code: u32) -> Unit {
    Unit { code: code as u8, argument: 0 }
}

/// What a mark executes. The first instruction says what kind of frame it is, to whoever looks at
/// the instruction that has called.
static INSTRUCTIONS: ForC<[Unit; 3]> =
    ForC::new([unit(c::INTERPRETER_EXIT), unit(c::RESERVED), unit(c::RESERVED)]);
/// So many instructions behind the first one a frame returns to.
const RETURNS_TO: u16 = 1;
/// So many instructions behind the one that has called a generator it yields to.
pub const YIELDS_TO: usize = 1 + size_of::<c::_PySendCache>() / size_of::<c::_Py_CODEUNIT>();

fn instructions() -> *mut c::_Py_CODEUNIT {
    INSTRUCTIONS.get().cast()
}

/// Its mark lies below the frame, which runs.
const LINKED: u32 = 1;
/// It is in the list of the thread whose frame it watches.
const LISTED: u32 = 64;
/// A callback of it is under way. What the watch has is not given up meanwhile.
const IN_CALLBACK: u32 = 128;
/// The frame makes a generator when it runs, and that is watched then.
const MAKES_GENERATOR: u32 = 2;
/// An object holds it, since it is a generator's: `watched`.
const HELD: u32 = 4;
/// Its request has a scope.
const HAS_SCOPE: u32 = 8;
/// It is the watch of a spared call whose frame has not begun.
const SPARES: u32 = 16;
/// It is in the list of the spared calls that no frame has made, and whose own has not begun.
const AT_ROOT: u32 = 32;

/// The state of a watch that is not linked yet.
#[inline(always)]
fn state_of_new(request: Request) -> u32 {
    if request.extent == 0 {
        0
    } else {
        HAS_SCOPE
    }
}

/// What a watch consists of.
///
/// # Invariants
/// Begins with a frame that is the C stack's, with one slot; so a pointer to the mark is one to the
/// watch. Of memory that is not used, the slot and `watched` are as in zeros. A watch in
/// the list of the thread whose frame it watches has its scope in force there. The
/// hook of a watch without a scope has a function to tell it by. The watch of a spared call has no
/// hook and is not linked; its word is the function that runs, borrowed, and never read through.
#[repr(C)]
struct Body {
    mark: UnsafeCell<_PyInterpreterFrame>,
    /// `None` where nobody is told: a call is spared, or the interpreter or the thread is over.
    hook: UnsafeCell<Option<HookRef>>,
    request: Request,
    /// What is true of it, as bits: [`LINKED`], [`LISTED`], [`IN_CALLBACK`], [`MAKES_GENERATOR`],
    /// [`HELD`], [`HAS_SCOPE`], [`SPARES`], [`AT_ROOT`].
    state: Cell<u32>,
    /// The object that holds the watch of a generator; NULL: no generator is watched.
    watched: Cell<*mut PyObject>,
    /// The other watches of the same generator, in the order in which they are told. Of memory that
    /// is not used: the next piece of it.
    next_told: Cell<Option<Watch>>,
    next: Cell<Option<Watch>>,
    /// What leads to this one in the thread's list: the `next` of another, or the list's beginning.
    place: Cell<*mut Option<Watch>>,
    scope: UnsafeCell<Scope>,
}

/// A watch.
///
/// # Invariants
/// A `Body` that is live until [`Watch::end`], and on which the calling thread alone works.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub struct Watch(NonNull<Body>);

/// So much memory for further watches a thread keeps.
const KEPT: u32 = 64;

impl Watch {
    fn set_state(self, bit: u32, on: bool) {
        let others = self.body().state.get() & !bit;
        self.body().state.set(if on { others | bit } else { others });
    }

    fn body<'a>(self) -> &'a Body {
        // SAFETY: live by the type's invariant. What changes is in cells.
        unsafe { self.0.as_ref() }
    }

    /// The mark.
    #[inline(always)]
    pub fn mark(self) -> Frame {
        // SAFETY: all its fields that have a meaning are set.
        unsafe { Frame::new(self.0.as_ptr().cast()) }
    }

    /// The watch of a mark.
    #[inline(always)]
    pub fn at(frame: Frame) -> Option<Self> {
        let is_mark = frame.owner() == Owner::C_STACK
            && (frame.instruction() as usize).wrapping_sub(instructions() as usize)
                < size_of::<[Unit; 3]>();
        // SAFETY: no other frame executes these instructions.
        is_mark.then(|| Watch(unsafe { NonNull::new_unchecked(frame.as_ptr().cast()) }))
    }

    /// # Safety
    /// The mark of a watch.
    #[inline(always)]
    pub unsafe fn of_mark(mark: *mut _PyInterpreterFrame) -> Self {
        // SAFETY: not NULL, by contract.
        Watch(unsafe { NonNull::new_unchecked(mark.cast()) })
    }

    /// A watch of a frame that runs `code`. `MemoryError` without memory.
    #[inline(always)]
    pub fn new(
        thread: Thread,
        hook: Option<&Hook>,
        request: Request,
        code: *mut PyObject,
    ) -> Outcome<Self> {
        // SAFETY: the thread's own list.
        let kept = unsafe { NonNull::new((*thread.own()).unused_watches.cast::<Body>()) };
        let room = match kept {
            // SAFETY: as above; each piece leads to the next.
            Some(kept) => unsafe {
                (*thread.own()).unused_watches = raw(kept.as_ref().next_told.get()).cast();
                (*thread.own()).unused_count -= 1;
                kept
            },
            None => allocate(thread)?,
        };
        let body = room.as_ptr();
        // SAFETY: ours, and unused; a live object.
        unsafe {
            (*(*body).mark.get()).f_executable = new_reference(code);
            (&raw mut (*body).hook).write(UnsafeCell::new(hook.map(Hook::share)));
            (*body).request = request;
            (*body).state = Cell::new(state_of_new(request));
        }
        Ok(Watch(room))
    }

    /// Its hook. The reference is not used any more when code of others has run, which may have the watch
    /// forgotten: who calls the hook has a [`HookInUse`](super::hook::HookInUse) of its own.
    pub fn hook(&self) -> Option<&Hook> {
        // SAFETY: this thread's. It is taken out by `end` and `forget` alone: by this thread, in code of
        // others that runs in between, or with what was borrowed here given up.
        unsafe { (*self.body().hook.get()).as_ref() }.map(HookRef::get)
    }

    /// What the hook has asked for.
    #[inline(always)]
    pub fn request(self) -> Request {
        self.body().request
    }

    /// The code that ran, borrowed.
    pub fn code(self) -> *mut PyObject {
        // SAFETY: set while the watch is there.
        unsafe { (*self.mark().as_ptr()).f_executable }
    }

    /// Says what runs instead of what was known, and whether it makes a generator.
    pub fn set_code(self, code: Code, makes_generator: bool) {
        self.set_state(MAKES_GENERATOR, makes_generator);
        // SAFETY: live objects, and the mark is this thread's. It has its new code before the old one
        // is given up, which may have been a hook's alone, and then dies here.
        unsafe {
            let before = self.code();
            (*self.mark().as_ptr()).f_executable = new_reference(code.as_object());
            decref(before);
        }
    }

    /// Whether what comes back is a generator that is to be watched. Says so once.
    #[inline(always)]
    pub fn makes_generator(self) -> bool {
        let makes_generator = self.body().state.get() & MAKES_GENERATOR != 0;
        self.set_state(MAKES_GENERATOR, false);
        makes_generator
    }

    pub fn is_linked(self) -> bool {
        self.body().state.get() & LINKED != 0
    }

    /// The other watches of the same generator.
    pub fn next_told(self) -> Option<Watch> {
        self.body().next_told.get()
    }

    pub fn set_next_told(self, next: Option<Watch>) {
        self.body().next_told.set(next);
    }

    pub fn watched(self) -> Option<NonNull<PyObject>> {
        NonNull::new(self.body().watched.get())
    }

    pub fn set_watched(self, watched: *mut PyObject) {
        self.set_state(HELD, !watched.is_null());
        self.body().watched.set(watched);
    }

    /// Puts the mark between `frame` and the one that has called it. The scope begins.
    #[inline(always)]
    pub fn link(self, thread: Thread, frame: Frame) {
        self.link_with(thread, frame, self.body().state.get());
    }

    /// As [`link`](Self::link), for a watch that was made just now.
    #[inline(always)]
    pub fn link_first(self, thread: Thread, frame: Frame, request: Request) {
        self.link_with(thread, frame, state_of_new(request));
    }

    /// As [`link`](Self::link), where the state is known.
    #[inline(always)]
    fn link_with(self, thread: Thread, frame: Frame, state: u32) {
        let (body, own) = (self.body(), thread.own());
        body.state.set(state | LINKED | LISTED);
        // SAFETY: both frames and the list are this thread's.
        unsafe {
            let mark = self.mark().as_ptr();
            (*mark).previous = (*frame.as_ptr()).previous;
            (*mark).instr_ptr = instructions();
            self.expect_return();
            frame.set_previous(mark);
            self.enter_list((&raw mut (*own).watches).cast());
        }
        if state & HAS_SCOPE != 0 {
            self.begin_scope(thread);
        }
    }

    fn begin_scope(self, thread: Thread) {
        let kind = self.body().request.extent;
        // SAFETY: it stays where it is, and ends in `end_scope`.
        unsafe { Scope::begin(self.body().scope.get(), thread, self.hook(), kind) };
    }

    #[inline(always)]
    fn end_scope(self, thread: ThreadState) {
        if self.body().state.get() & HAS_SCOPE != 0 {
            // SAFETY: begun in `begin_scope`.
            unsafe { Scope::end(self.body().scope.get(), thread) };
        }
    }

    /// Takes the watch out of the list of the thread that it is in; its scope ends. The mark stays
    /// where it was.
    ///
    /// # Safety
    /// It is in the list of that thread, and nobody else works on that.
    #[inline(always)]
    pub unsafe fn unlist(self, thread: ThreadState) {
        // SAFETY: the caller's contract.
        unsafe { self.leave_list() };
        self.set_state(LISTED, false);
        self.end_scope(thread);
    }

    /// # Safety
    /// It is in no list, and nobody else works on this one, which begins at `place`.
    #[inline(always)]
    unsafe fn enter_list(self, place: *mut Option<Watch>) {
        let body = self.body();
        // SAFETY: the caller's contract.
        let first = unsafe { place.replace(Some(self)) };
        body.next.set(first);
        body.place.set(place);
        if let Some(first) = first {
            first.body().place.set(body.next.as_ptr());
        }
    }

    /// # Safety
    /// It is in a list, and nobody else works on that.
    #[inline(always)]
    pub unsafe fn leave_list(self) {
        let body = self.body();
        let (place, next) = (body.place.get(), body.next.get());
        // SAFETY: what leads here in the list is live as long as this is in there.
        unsafe { place.write(next) };
        if let Some(next) = next {
            next.body().place.set(place);
        }
    }

    /// Whether all there is to such a watch is that its hook is told.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.body().state.get() == LINKED | LISTED
    }

    /// Begins a callback of a watch of the plain kind.
    #[inline(always)]
    pub fn enter_plainly(self) {
        self.body().state.set(LINKED | LISTED | IN_CALLBACK);
    }

    /// The callback of [`enter_plainly`](Self::enter_plainly) is over, and the watch is to end. Whether it is still
    /// as it was: else its thread has ended meanwhile.
    #[inline(always)]
    pub fn leave_plainly(self) -> bool {
        let as_before = self.body().state.get() == LINKED | LISTED | IN_CALLBACK;
        if !as_before {
            self.set_state(IN_CALLBACK, false);
        }
        as_before
    }

    /// Begins a callback: what the watch has is not given up before it is over. Whether one is under way
    /// already.
    pub fn enter(self) -> bool {
        let before = self.body().state.get() & IN_CALLBACK != 0;
        self.set_state(IN_CALLBACK, true);
        before
    }

    /// The callback is over; `before` is what [`enter`](Self::enter) has returned.
    pub fn leave(self, before: bool) {
        self.set_state(IN_CALLBACK, before);
    }

    /// The frame below the mark becomes the thread's current one. Nothing comes back to the mark any
    /// more, unless it is linked again.
    ///
    /// # Safety
    /// The mark is the thread's current frame.
    #[inline(always)]
    pub unsafe fn step_down(self, thread: Thread) {
        // SAFETY: the caller's contract.
        unsafe {
            if self.body().state.get() & LISTED != 0 {
                self.unlist(thread.its_state());
            }
            self.set_state(LINKED, false);
            let mark = self.mark();
            thread.set_current_frame((*mark.as_ptr()).previous);
            mark.unlink();
        }
    }

    /// What has come to the mark: the value that is in its slot.
    ///
    /// # Safety
    /// Something has come to it.
    #[inline(always)]
    pub unsafe fn take_value(self) -> Owned {
        // SAFETY: the slot is set, by contract, and its reference is handed out.
        unsafe {
            let value = StackSlot::leave(self.mark().first_slot()).unwrap_unchecked();
            Owned::from_new_reference(value.into_object().as_ptr())
        }
    }

    /// Whether what came to the mark came from a generator that is suspended.
    #[inline(always)]
    pub fn was_yielded_to(self) -> bool {
        // SAFETY: one of the three.
        self.mark().instruction() == unsafe { instructions().add(YIELDS_TO) }
    }

    /// A frame that returns comes to the mark as one that has returned.
    #[inline(always)]
    pub fn expect_return(self) {
        // SAFETY: this thread's frame.
        unsafe { (*self.mark().as_ptr()).return_offset = RETURNS_TO };
    }

    /// The frame that came to the mark goes on, and will come to it again.
    pub fn wait_again(self) {
        self.mark().set_instruction(instructions());
    }

    /// Gives the watch up. Destructors may run.
    ///
    /// # Safety
    /// It is in no list, no generator's either, and its mark lies below no frame. No copy of this pointer is used
    /// any more.
    pub unsafe fn end(self, thread: Thread) {
        self.body().watched.set(null_mut());
        // SAFETY: the caller's contract.
        unsafe { self.end_unheld(thread) };
    }

    /// As [`end`](Self::end), where no object holds the watch.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn end_unheld(self, thread: Thread) {
        let (body, own) = (self.0.as_ptr(), thread.own());
        // SAFETY: by contract, nobody uses it any more. What it held is read before destructors run, and not read
        // again: the memory is kept or freed.
        unsafe {
            let (hook, code) = ((*body).hook.get().read(), self.code());
            let word = (*body).request.word;
            if (*own).unused_count < KEPT {
                let next = NonNull::new((*own).unused_watches.cast::<Body>()).map(Watch);
                self.body().next_told.set(next);
                (*own).unused_watches = body.cast();
                (*own).unused_count += 1;
            } else {
                c::PyMem_RawFree(body.cast());
            }
            decref(code);
            give_up_hook(hook, word);
        }
    }

    /// The frame is taken for one that never runs again: `tell` tells the hook, and what the watch has is
    /// given up. Where a callback of it is under way, in a greenlet, the callback needs all that: the watch
    /// only leaves the list, and goes on as ever if the callback returns.
    ///
    /// The mark stays as it was, since frames lead to it. They may come back to it after all, while the
    /// hook is told or later: a greenlet can still be switched to. Nobody is told of that any more.
    ///
    /// # Safety
    /// The watch is in the list of the thread `ending`, and nobody else works on that.
    pub unsafe fn forget(
        self,
        thread: Thread,
        ending: ThreadState,
        tell: impl FnOnce(Watch, Thread),
    ) {
        if self.body().state.get() & IN_CALLBACK != 0 {
            // SAFETY: the caller's contract.
            unsafe { self.unlist(ending) };
            return;
        }
        // Told at a mark of its own.
        let mut room = MaybeUninit::<Body>::zeroed();
        let body = room.as_mut_ptr();
        // SAFETY: the caller's contract. All that ends with the hook is moved out before destructors
        // run, as those may have the frame come back, which ends this watch. Zeros are valid for all
        // fields of the other one but the owner, which is set. It is ours alone, and nothing leads to it
        // once the hook was told: frames that began above its mark have ended. Other threads walk this
        // one's frames while it stands still, and keep no pointer to a mark.
        unsafe {
            self.unlist(ending);
            Frame::new(body.cast()).set_owner(Owner::C_STACK);
            let code = new_reference(self.code());
            (*(*body).mark.get()).f_executable = code;
            (*body).hook.get().write((*self.body().hook.get()).take());
            (*body).request = self.body().request;
            (*body).watched = Cell::new(self.body().watched.get());
            tell(Watch(NonNull::new_unchecked(body)), thread);
            let (hook, word) = ((*body).hook.get().read(), (*body).request.word);
            decref(code);
            give_up_hook(hook, word);
        }
    }

    /// Whether somebody is to be told, or was removed.
    pub fn has_hook(self) -> bool {
        self.hook().is_some()
    }

    /// Shows the collector what the watch of a suspended generator holds; a number other than 0 ends
    /// it.
    ///
    /// # Safety
    /// `visit` and `argument` are the collector's.
    pub unsafe fn traverse(self, visit: VisitFunction, argument: *mut c_void) -> c_int {
        // SAFETY: a live object; the word is the watch's. By contract.
        unsafe {
            match (visit(self.code(), argument), self.hook()) {
                (0, Some(hook)) => hook.traverse_word(self.request().word, visit, argument),
                (status, _) => status,
            }
        }
    }

    /// The last watch that `thread`, which need not be the calling one, has linked.
    ///
    /// # Safety
    /// Nobody else works on that thread's watches.
    #[inline(always)]
    pub unsafe fn first_of(thread: ThreadState) -> Option<Watch> {
        // SAFETY: by contract.
        NonNull::new(unsafe { (*thread.own()).watches }.cast()).map(Watch)
    }

    /// No hook is asked about the frame of the call that is made now, which runs `function`, if that is
    /// not NULL; nor about those below it, if `below`. It ends with [`Watch::spare_no_more`].
    ///
    /// The mark lies below the thread's current frame, which makes the call, and not above it: CPython
    /// has functions that look at whatever frame is the current one. Where no frame calls, the watch is
    /// in a list of the thread's until the call's frame begins, and has the root of the stack.
    pub fn spare(thread: Thread, function: *mut PyObject, below: bool) -> Outcome<Self> {
        let extent = if below { FRAMEHOOK_NOT_BELOW } else { 0 };
        let request = Request { word: function.cast(), tell: 0, extent };
        let watch = Watch::new(thread, None, request, &raw mut c::_Py_NoneStruct)?;
        watch.set_state(SPARES, !function.is_null());
        if let Some(calls) = thread.current_frame() {
            let mark = watch.mark();
            mark.lead_where(calls);
            watch.wait_again();
            watch.expect_return();
            calls.set_previous(mark.as_ptr());
        } else if watch.still_spares() {
            watch.set_state(AT_ROOT, true);
            // SAFETY: the watch is ours and in no list, and this one is the thread's own.
            unsafe {
                Scope::lies_here(watch.body().scope.get(), thread);
                watch.enter_list(at_roots(thread));
            }
        }
        if below {
            watch.begin_scope(thread);
        }
        Ok(watch)
    }

    /// Whether this is the mark of a call of `function` whose frame has not begun.
    pub fn spares(self, function: *mut PyObject) -> bool {
        self.still_spares() && self.request().word == function.cast()
    }

    /// The same of a call that no frame has made, on this stack.
    pub fn spared_at_root(thread: Thread, function: *mut PyObject) -> Option<Self> {
        // SAFETY: the thread's own list; those in it are live.
        let mut at = unsafe { *at_roots(thread) };
        while let Some(watch) = at {
            let scope = watch.body().scope.get();
            // SAFETY: live, and it knows its stack since the watch came into the list.
            if watch.spares(function) && unsafe { Scope::is_here(scope, thread) } {
                return Some(watch);
            }
            at = watch.body().next.get();
        }
        None
    }

    /// The frame has begun.
    pub fn has_spared(self) {
        self.set_state(SPARES, false);
        self.leave_roots();
    }

    /// Leaves the list of the calls that no frame has made, if it is in that.
    fn leave_roots(self) {
        if self.body().state.get() & AT_ROOT != 0 {
            self.set_state(AT_ROOT, false);
            // SAFETY: in the list of the calling thread, whose state is live: the call that ends here, or
            // runs, was made with it. Nobody else works on the list. Where the thread was cleared meanwhile,
            // nothing begins the list, and those in it still lead to each other.
            unsafe { self.leave_list() };
        }
    }

    /// Whether the frame of the call has not begun, if it is to have one.
    pub fn still_spares(self) -> bool {
        self.body().state.get() & SPARES != 0
    }

    /// The call is over.
    ///
    /// # Safety
    /// That of a spared call. The thread's current frame is the one that it was as the call began.
    pub unsafe fn spare_no_more(self, thread: Thread) {
        self.end_scope(thread.its_state());
        self.leave_roots();
        if let Some(calls) = thread.current_frame() {
            let mark = self.mark();
            check!(calls.previous() == Some(mark), "the mark of a spared call lies elsewhere");
            calls.lead_where(mark);
            mark.unlink();
        }
        // SAFETY: its mark was taken out, and the lists have been left. The caller has given up its own copy.
        unsafe { self.end(thread) };
    }
}

/// The watches of spared calls that no frame has made: greenlets and threads begin with them.
///
/// # Safety
/// The calling thread alone uses the list.
unsafe fn at_roots(thread: Thread) -> *mut Option<Watch> {
    // SAFETY: live, as the thread's own state is.
    unsafe { (&raw mut (*thread.own()).spared_at_roots).cast() }
}

/// Frees the word of a watch, and gives up its hook.
///
/// # Safety
/// They are the watch's, and this is done once.
#[inline(always)]
unsafe fn give_up_hook(hook: Option<HookRef>, word: *mut c_void) {
    if let Some(hook) = hook {
        // SAFETY: the caller's contract; nobody gives a watch up under a lock.
        unsafe { hook.get().free_word(word) };
    }
}

/// As the lists have it.
fn raw(watch: Option<Watch>) -> *mut Body {
    watch.map_or(null_mut(), |watch| watch.0.as_ptr())
}

/// Memory for a watch, with what is the same in each.
#[cold]
#[inline(never)]
fn allocate(thread: Thread) -> Outcome<NonNull<Body>> {
    // SAFETY: the raw allocator takes any size at any time. Zeros are valid for all fields but the
    // owner, which is set.
    unsafe {
        let room = NonNull::new(c::PyMem_RawCalloc(1, size_of::<Body>()).cast::<Body>())
            .ok_or_else(|| Raised::no_memory(thread))?;
        Frame::new(room.as_ptr().cast()).set_owner(Owner::C_STACK);
        Ok(room)
    }
}

/// Frees the memory that a thread keeps for watches, which keeps no more: it ends. Destructors that run
/// later may watch frames.
///
/// # Safety
/// Nobody else works on that thread's watches.
pub unsafe fn free_unused(thread: ThreadState) {
    let own = thread.own();
    // SAFETY: the thread's own lists, by contract.
    unsafe {
        (*own).watches = null_mut();
        (*own).scopes = null_mut();
        (*own).spared_at_roots = null_mut();
        while let Some(kept) = NonNull::new((*own).unused_watches.cast::<Body>()) {
            (*own).unused_watches = raw(kept.as_ref().next_told.get()).cast();
            c::PyMem_RawFree(kept.as_ptr().cast());
        }
        (*own).unused_count = KEPT;
    }
}
