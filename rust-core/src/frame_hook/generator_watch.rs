//! Watched generators, coroutines and asynchronous generators.
//!
//! A generator frame is linked only while it runs, and so are its return shims. Between two runs a [`Watched`] keeps
//! the watches. The frame holds this object in `f_locals`, a field that code with fast locals does not use. So it is
//! found in one read, costs nothing where there is none, and dies with the frame.
//!
//! The collector does not track the object, so that no list of it yields a reference. `frame::traverse` visits what it
//! refers to, as the frame's own.
//!
//! `RESUME` notices that a watched frame is resumed; `RESUME_CHECK` does not. While any generator is watched, no
//! `RESUME` is specialized, and the one at which a watched generator will be resumed is de-specialized.
//!
//! What a yield does is described in `docs/internals/frame-hooks.md`.

use super::error::{hand_back, Outcome, Raised};
use super::generator::{Generator, Resumption};
use super::list::{enter, take_out, Links, Member, Next};
use super::listening::{set_active, watched_changed};
use super::monitoring::{instrument, tell_of_throw};
use super::once_cell::keep;
use super::resume::{make_first_resume_slow, make_slow};
use super::verdict::Kind;
use super::watch::{OwnedWatch, Watch};
use super::world::locked;
use crate::check::check;
use crate::collector::next_garbage;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::exception::{drop_aside, run_aside};
use crate::frame::{Frame, Owner, VisitFunction};
use crate::mutex::Held;
use crate::object::{ForC, Owned};
use crate::reference_count::{decref, new_reference};
use crate::tables::{slot, specification, NOT_TO_BE_MADE, NO_SLOT};
use crate::thread::Thread;
use core::ffi::{c_int, c_void};
use core::iter::{successors, Successors};
use core::ptr::{null_mut, NonNull};

/// What a watched generator's frame holds.
///
/// # Invariants
/// Its watches are a list, in the order in which they are told. It has the right to end those that are not linked. Each
/// that is linked owns a reference
/// to it: without the GIL, an object that another thread gives up may live on for a while, and may
/// then be freed by the thread that has made it. `links` is guarded by
/// `FrameHookState.watched_lock`; all else belongs to the thread that works on the frame.
#[repr(C)]
pub struct Watched {
    base: PyObject,
    first: Next<Watch>,
    /// The frame that holds it.
    frame: *mut _PyInterpreterFrame,
    /// What was in `f_locals` before, or NULL.
    held: *mut PyObject,
    links: Links<Watched>,
}

// SAFETY: a field of its own, which only the list module writes.
unsafe impl Member for Watched {
    #[inline]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// Whether any generator of the interpreter is watched.
pub fn are_there_any(thread: Thread) -> bool {
    // SAFETY: the state is live. Where the answer is stale, a frame of this thread is not concerned.
    unsafe { !(*thread.state()).watched.is_null() }
}

impl Watched {
    /// What the frame holds, if it is watched.
    #[inline(always)]
    pub fn of(thread: Thread, frame: Frame) -> Option<NonNull<Watched>> {
        if frame.owner() != Owner::GENERATOR {
            return None;
        }
        let held = NonNull::new(frame.locals())?;
        // SAFETY: a live object; the state is live. An object of the type is a `Watched`.
        unsafe {
            let is_one = (*held.as_ptr()).ob_type.cast() == (*thread.state()).watched_type;
            is_one.then_some(held.cast())
        }
    }

    /// The watches of a `Watched`, each of which may go while it is looked at.
    ///
    /// The type is spelled out: rustc takes what `impl Iterator` leads to for public.
    ///
    /// # Safety
    /// - *live*: `this` is.
    /// - *works*: the calling thread works on the frame, or was the last to do so. What code of others may end is not
    ///   used after it.
    unsafe fn watches<'a>(this: NonNull<Watched>) -> Successors<&'a Watch, NextTold<'a>> {
        // SAFETY: *live*, and so is each watch in the list: it is taken out before it ends, by the thread that *works*.
        let next: NextTold<'a> = |watch| watch.next_told().map(|next| unsafe { next.as_ref() });
        // SAFETY: *live*, and so is the first watch: only the thread that *works* takes one out of
        // the list.
        successors(unsafe { this.as_ref().first.map(|first| first.as_ref()) }, next)
    }
}

type NextTold<'a> = fn(&&'a Watch) -> Option<&'a Watch>;

/// The frame of `watch` has come to `made`, the generator that its code makes, which is watched from
/// now on: it has the watch, and the frame below the shim is the current one. `Err`: it is not watched, and nothing was
/// done; with an exception, or without one.
///
/// Code whose locals are in a mapping needs the field itself: a module that awaits. Such a frame has
/// ended as it has made its coroutine.
///
/// # Safety
/// *current*: the shim is the thread's current frame.
pub unsafe fn attach(
    thread: Thread,
    watch: OwnedWatch,
    made: &Owned,
) -> Result<(), (OwnedWatch, Outcome<()>)> {
    let frame = Generator::if_made_of(watch.code(), made).map(Generator::frame);
    let Some(frame) = frame.filter(|it| it.code().flags() & c::CO_OPTIMIZED != 0) else {
        return Err((watch, Ok(())));
    };
    let watched = match Watched::of(thread, frame).map_or_else(|| make(thread, frame), Ok) {
        Ok(watched) => watched,
        Err(raised) => return Err((watch, Err(raised))),
    };
    watch.set_next_told(None);
    watch.set_watched(watched.as_ptr().cast());
    // SAFETY: *current*.
    unsafe { watch.step_down(thread) };
    let watch = Some(watch.into_raw());
    // SAFETY: *live*: the frame holds it; *works*: `made` is this thread's, and does not run.
    unsafe {
        match Watched::watches(watched).last() {
            Some(last) => last.set_next_told(watch),
            None => (*watched.as_ptr()).first = watch,
        }
    }
    Ok(())
}

/// A `Watched` for a generator's frame, which holds it.
fn make(thread: Thread, frame: Frame) -> Outcome<NonNull<Watched>> {
    let kind = watched_type(thread)?;
    // SAFETY: a type without special allocation.
    let new = unsafe { c::PyType_GenericAlloc(kind.cast(), 0) }.cast::<Watched>();
    let Some(new) = NonNull::new(new) else { return Err(Raised::by_cpython(thread)) };
    // SAFETY: ours, and zeros but for its base. The frame is this thread's.
    unsafe {
        (*new.as_ptr()).frame = frame.as_ptr();
        (*new.as_ptr()).held = frame.locals();
        (*frame.as_ptr()).f_locals = new.as_ptr().cast();
    }
    // SAFETY: *alone*: under the lock. *stays*: an object, which leaves the list as it goes.
    with_list(thread, |first| unsafe { enter(first, new) });
    make_first_resume_slow(thread, frame.code());
    activate(thread);
    Ok(new)
}

/// Makes the eval loop report resumed generators. It does so already while any hook is enabled, but the hook that began
/// the watch may have been disabled since.
#[inline(always)]
fn activate(thread: Thread) {
    // SAFETY: the state is live. The flag changes with the world stopped, and this thread runs.
    if unsafe { !(*thread.state()).active || (*thread.state()).some_listen_not } {
        activate_now(thread);
    }
}

#[cold]
#[inline(never)]
fn activate_now(thread: Thread) {
    // SAFETY: the world is stopped.
    locked(thread, || unsafe { set_active(thread) });
}

/// Does something to the interpreter's list under its lock, that neither waits nor runs Python code.
fn with_list<T>(thread: Thread, work: impl FnOnce(*mut Next<Watched>) -> T) -> T {
    let state = thread.state();
    // SAFETY: *attached*, says the `Thread`; nothing under the lock takes it. *live*: the interpreter's field.
    let _held = unsafe { Held::lock(&raw mut (*state).watched_lock) };
    // SAFETY: the state is live. No reference is made.
    work(unsafe { (&raw mut (*state).watched).cast() })
}

/// A generator is resumed: its return shims are linked below the frame, and resume callbacks are called.
///
/// # Safety
/// `frame` is the thread's current frame, its stack pointer is saved, and it executes nothing yet.
pub unsafe fn go_on(thread: Thread, frame: Frame) -> Outcome<()> {
    let Some(watched) = Watched::of(thread, frame) else { return Ok(()) };
    // SAFETY: the frame, which has not ended, holds what it is watched by.
    unsafe {
        let at = Resumption::of(frame);
        let told = lay_marks(thread, &at, watched);
        let ready = get_ready(thread, &at, told.is_err());
        told.and(ready)
    }
}

/// Links the shims of a resumed generator that are not linked yet. Returns the first and the last of these watches, in
/// the order of callbacks.
///
/// # Safety
/// - *current*: `frame` is the thread's current frame.
/// - *held*: `watched` is what the frame holds.
unsafe fn link_marks(
    thread: Thread,
    frame: Frame,
    watched: NonNull<Watched>,
) -> (Next<Watch>, Next<Watch>) {
    // The last one to be told first, as when they began to watch: so its scope is around those
    // of the others, which end before it.
    let (mut first, mut last) = (None, None);
    // SAFETY: *live*: *held*. *works*: *current*, and what is done here runs no code of others.
    while let Some(watch) = unsafe { Watched::watches(watched) }.filter(|it| !it.is_linked()).last()
    {
        let watch = NonNull::from(watch);
        // SAFETY: *live*, and *only*: the generator has it, as it is not linked. The linked one owns a reference.
        unsafe {
            new_reference(watched.as_ptr().cast());
            OwnedWatch::from_raw(watch).link(thread, frame);
        }
        last = last.or(Some(watch));
        first = Some(watch);
    }
    (first, last)
}

/// A generator is resumed, and an exception is set before any resume callback can be called: its shims are linked, so
/// that exit and yield callbacks of this run are called.
///
/// # Safety
/// *current*: `frame` is the thread's current frame.
#[cold]
pub unsafe fn go_on_untold(thread: Thread, frame: Frame) {
    if let Some(watched) = Watched::of(thread, frame) {
        // SAFETY: *current*, says the caller; *held*: it was just read.
        unsafe { link_marks(thread, frame, watched) };
    }
}

/// Links the shims of a resumed generator that are not linked yet, and calls resume callbacks. `Err`: a callback has
/// failed while no exception was set.
///
/// # Safety
/// As for [`go_on`]; `watched` is what the frame holds.
#[cold]
#[inline(never)]
unsafe fn lay_marks(thread: Thread, at: &Resumption, watched: NonNull<Watched>) -> Outcome<()> {
    let mut outcome = Ok(());
    // SAFETY: *current* and *held*, says the caller.
    let (first, last) = unsafe { link_marks(thread, at.frame, watched) };
    // All of them lie below the frame before the first is told.
    let mut next = first;
    while let Some(watch) = next {
        // SAFETY: linked, so it is not ended before its frame comes back to it, and that frame does
        // not run now: each callback leaves the thread's current frame as it was. The caller says
        // that the frame is current, and executes nothing yet.
        unsafe {
            next = if last == Some(watch) { None } else { watch.as_ref().next_told() };
            outcome = outcome.and(tell_resumed(thread, at, watch.as_ref()));
        }
    }
    outcome
}

/// Prepares a generator's frame to execute after the resume callbacks. With `is_thrown` the exception that is set is a
/// hook's, and tools do not know yet that it is thrown in.
///
/// # Safety
/// As for [`go_on`].
unsafe fn get_ready(thread: Thread, at: &Resumption, is_thrown: bool) -> Outcome<()> {
    let frame = at.frame;
    let outcome = instrument(thread, frame);
    if is_thrown {
        let thrown_at = frame.instruction();
        // SAFETY: the caller says that `frame` is the thread's current one, with its stack pointer
        // saved. So its generator is marked as executing. No lock is held, as callbacks have just
        // run.
        unsafe { at.before(|| tell_of_throw(thread, frame, thrown_at)) };
    }
    if thread.has_exception() && at.is_elsewhere() {
        // A debugger has sent it to another line, and its stack fits there. The eval loop takes a
        // frame for one behind the instruction that has raised, which is then the other line's first.
        // SAFETY: at most the end of its code.
        frame.set_instruction(unsafe { frame.instruction().add(1) });
    }
    outcome
}

/// Calls one hook's resume callback, also if an exception is thrown in. `Err`: it has failed while no exception was
/// set.
///
/// # Safety
/// As for [`go_on`]; `watch` is one of the frame's.
unsafe fn tell_resumed(thread: Thread, at: &Resumption, watch: &Watch) -> Outcome<()> {
    // SAFETY: the caller says that the frame is the thread's current one, and executes nothing yet.
    // Its generator is marked as executing, so a callback cannot resume or close it.
    unsafe {
        at.before(|| match Owned::new(c::PyErr_GetRaisedException()) {
            Some(raised) => {
                watch.tell_aside(thread, Kind::Resumed, raised);
                Ok(())
            }
            None => watch.tell(thread, Kind::Resumed, null_mut()),
        })
    }
}

/// Takes a `None` from the stack of a frame at rest, which is given up: it is immortal.
///
/// # Safety
/// It is on top.
unsafe fn pop_none(frame: Frame) {
    let top = frame.slots_at_rest();
    // SAFETY: the frame is this thread's; nothing is read of a slot beyond the top.
    unsafe { (*frame.as_ptr()).stacktop = top as i32 - 1 };
}

/// A generator has yielded `value` to the shim of `watch`. Calls the yield callback and unlinks the shim; the value is
/// to be handed on. `Err`: the callback has failed, its exception is to be raised at the yield, and the generator is
/// the thread's current frame again.
///
/// # Safety
/// The shim is the thread's current frame.
pub unsafe fn yielded(thread: Thread, watch: OwnedWatch, value: Owned) -> Outcome<Owned> {
    let Some(watched) = watch.watched().map(NonNull::cast::<Watched>) else {
        check!(false, "a frame has yielded that is no watched generator's");
        // SAFETY: the caller says that the shim is the thread's current frame. Nothing leads to the
        // watch any more.
        unsafe {
            watch.step_down(thread);
            watch.end(thread);
        }
        return Ok(value);
    };
    // SAFETY: live: the generator is suspended, so its frame has not ended.
    let frame = unsafe { Frame::new(watched.as_ref().frame) };
    // SAFETY: a generator's, as all that are watched so.
    let generator = unsafe { Generator::of_frame(frame) };
    let state = generator.state();
    // Meanwhile nobody can have it go on, or close it: all its hooks are to be told first.
    generator.set_state(c::FRAME_EXECUTING);
    // SAFETY: it has just yielded, to this shim, and stands where it goes on.
    let at = unsafe { Resumption::of(frame) };
    // SAFETY: it has just yielded to this shim, which is current, says the caller, and is marked as
    // executing since: callbacks cannot resume or close it.
    match unsafe { tell_yielded(thread, &at, &watch, value) } {
        Ok(value) => {
            generator.set_state(state);
            // SAFETY: where it goes on is an instruction of its code. *current*, says the caller:
            // the callback leaves the thread's current frame as it was.
            unsafe {
                make_slow(at.resumes_at);
                watch.step_down(thread);
            }
            if watch.has_hook() {
                let _ = watch.into_raw(); // the generator has it
                                          // SAFETY: the reference is that of the linked watch; the frame has another one.
                unsafe { decref(watched.as_ptr().cast()) };
            } else {
                // It was forgotten with its thread, and nobody is told of the next run.
                // SAFETY: the linked watch owns a reference to `watched`, which is given up here;
                // the frame has another one. *out*: nothing leads to the watch any more.
                unsafe {
                    detach_from(watched, &watch);
                    watch.end(thread);
                }
            }
            Ok(value)
        }
        Err(raised) => {
            // SAFETY: it has yielded to this shim, which is current, and its frame holds `watched`,
            // as it has not ended. Its stack fits where it stands.
            unsafe { throw_into(thread, &at, watched, watch) };
            Err(raised)
        }
    }
}

/// Calls one hook's yield callback, and returns the value. `Err`: the callback has failed, or the generator was sent to
/// another line. The stack is as before then, or as the other line needs it.
///
/// # Safety
/// The generator has just yielded, and is marked as one that executes.
unsafe fn tell_yielded(
    thread: Thread,
    at: &Resumption,
    watch: &Watch,
    value: Owned,
) -> Outcome<Owned> {
    // SAFETY: there is room where the value was, and until this returns it is taken by `None`.
    let told = unsafe {
        at.frame.push(Owned::none(thread));
        at.before(|| {
            let told = watch.tell(thread, Kind::Yielded, value.as_ptr());
            // A value that is given up may run any code: so here, where nobody can close it.
            hand_back(value, told)
        })
    };
    if !at.is_elsewhere() {
        // SAFETY: the one of above.
        unsafe { pop_none(at.frame) };
        return told;
    }
    // Who was told has sent it to another line, and that has taken from its stack what it has no use
    // for. What is sent to it later would come to a line that counts on no such value.
    drop(told?);
    let text =
        c"a generator cannot be sent to another line while frame hooks are told that it yields";
    Err(Raised::runtime_error(thread, text))
}

/// Re-enters a generator that has yielded to the shim of `watch`, with the exception that is set. Calls resume
/// callbacks: of the shims already passed, then of this one. A callback that fails replaces the exception.
///
/// # Safety
/// The generator has yielded to this shim, and `watched` is what its frame holds.
unsafe fn throw_into(
    thread: Thread,
    at: &Resumption,
    watched: NonNull<Watched>,
    watch: OwnedWatch,
) {
    // SAFETY: the caller says that the generator has yielded to this shim, and that its frame holds
    // `watched`. It is marked as executing, so nothing else resumes or closes it. Behind `go_on`
    // its frame is the thread's current one, and executes nothing yet.
    unsafe {
        watch.wait_again();
        Generator::of_frame(at.frame).go_on(thread);
        if !at.is_elsewhere() {
            // A generator that is thrown into has None for the yield's value, and handlers within
            // `yield from` count on that.
            at.frame.push(Owned::none(thread));
        }
        // What the generator handles is its context. Destructors may run.
        at.before(|| c::_PyErr_ChainStackItem());
        // An exception is set, so nothing is lost where one takes its place.
        let _ = lay_marks(thread, at, watched);
        let _ = tell_resumed(thread, at, &watch);
        let _ = get_ready(thread, at, true);
    }
    let _ = watch.into_raw(); // the frame, which goes on above the mark, leads to it
}

/// The frame of `watch` was left and its shim unlinked. Detaches the watch from its generator, if it has one.
/// Destructors may run.
#[inline(always)]
pub fn detach(watch: &Watch) {
    if let Some(watched) = watch.watched() {
        // SAFETY: live: the watch was linked, so it owns a reference.
        unsafe { detach_from(watched.cast(), watch) };
    }
}

/// # Safety
/// `watch` is one of those of `watched`, and gives up its reference to it.
#[cold]
#[inline(never)]
unsafe fn detach_from(watched: NonNull<Watched>, watch: &Watch) {
    // SAFETY: the caller says that `watch` is one of those of `watched` and owns a reference to it,
    // so it is live until `decref`. The thread *works*: the frame has run above the shim in it.
    unsafe {
        drop_from(watched, watch);
        decref(watched.as_ptr().cast());
    }
}

/// Takes a watch off the list of its generator.
///
/// # Safety
/// `watched` is live, and `watch` one of its own. The calling thread works on the frame, or was the
/// last to do so.
unsafe fn drop_from(watched: NonNull<Watched>, watch: &Watch) {
    let this = Some(NonNull::from(watch));
    // SAFETY: *live*, says the caller, and the thread *works* on the frame: no other one changes
    // the list.
    unsafe {
        match Watched::watches(watched).find(|before| before.next_told() == this) {
            Some(before) => before.set_next_told(watch.next_told()),
            None => (*watched.as_ptr()).first = watch.next_told(),
        }
    }
    watch.set_watched(null_mut());
}

/// The last reference is gone: the frame has ended, or its generator.
unsafe extern "C" fn deallocate(this: *mut PyObject) {
    // SAFETY: a `Watched` without references, so this thread's alone once it is out of the list. An
    // attached thread frees objects.
    unsafe {
        let (thread, watched) = (Thread::current(), this.cast::<Watched>());
        take_out_of_list(thread, watched);
        let kind = (*this).ob_type;
        run_aside(
            || {
                forget_watches(thread, NonNull::new_unchecked(watched));
                if let Some(held) = NonNull::new((*watched).held) {
                    c::Py_DecRef(held.as_ptr());
                }
            },
            || c::PyErr_Clear(),
        );
        c::PyObject_Free(this.cast());
        c::Py_DecRef(kind.cast());
    }
}

/// Visits what is owned between two runs of the generator: code, user data, and what the frame's field held before. A
/// linked watch belongs to its shim and is not visited, like the slots of a running frame. Called with the frame that
/// holds the object, which refers to nothing else through it.
unsafe extern "C" fn traverse(
    this: *mut PyObject,
    visit: VisitFunction,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a live `Watched`, which nobody works on meanwhile.
    unsafe {
        let watched = NonNull::new_unchecked(this.cast::<Watched>());
        let held = watched.as_ref().held;
        let mut status = if held.is_null() { 0 } else { visit(held, argument) };
        for watch in Watched::watches(watched).filter(|watch| !watch.is_linked()) {
            if status == 0 {
                status = watch.traverse(visit, argument);
            }
        }
        status
    }
}

/// # Safety
/// A live `Watched`, which no other thread takes out meanwhile.
unsafe fn take_out_of_list(thread: Thread, watched: *mut Watched) {
    // SAFETY: *alone*: under the lock.
    let is_last = with_list(thread, |first| unsafe {
        take_out(&*watched);
        (*first).is_none()
    });
    if is_last && !cfg!(ferrule_free_threaded) {
        // SAFETY: nothing waits, or runs Python code, before the flag is written; the GIL is held.
        // Without a GIL the flag stays as it is until hooks change next.
        unsafe { watched_changed(thread) };
    }
}

/// The suspended frame never runs again: drop callbacks are called.
///
/// Linked watches stay: their frames run, but return no more.
///
/// # Safety
/// `watched` is live, and this thread's.
unsafe fn forget_watches(thread: Thread, watched: NonNull<Watched>) {
    let waits = |watch: &&Watch| !watch.is_linked() && watch.has_hook();
    // SAFETY: *live*, says the caller, and this thread's, so it *works*. *only*: the generator has
    // those that are not linked, and gives it up. Each is out before it is told, as that runs any
    // code.
    unsafe {
        while let Some(watch) = Watched::watches(watched).find(waits) {
            drop_from(watched, watch);
            let watch = OwnedWatch::from_raw(watch.into());
            watch.tell_dropped(thread);
            watch.end(thread);
        }
    }
}

/// A generator was finalized and has not come to its end, or was closed before it has begun: its exit callbacks are
/// called. Where the collector finalizes it, nothing that a callback may need is cleared yet; when its frame goes, all
/// of that may be. A generator that is resurrected is not watched any more.
///
/// # Safety
/// `generator` is a live generator, coroutine or asynchronous generator; the calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_DropGenerator(generator: *mut PyObject) {
    // SAFETY: the caller says that the generator is live and the thread attached. The state is
    // there also where it is finished, and nothing else is read of it then. Who is told may give up
    // the frame's reference: so there is one more.
    unsafe {
        let thread = Thread::current();
        let generator = Generator::new(generator);
        if !are_there_any(thread)
            || [c::FRAME_CLEARED, c::FRAME_EXECUTING].contains(&generator.state())
        {
            return;
        }
        let Some(watched) = Watched::of(thread, generator.frame()) else { return };
        let kept = Owned::share(thread, watched.as_ptr().cast());
        run_aside(|| forget_watches(thread, watched), || c::PyErr_Clear());
        drop_aside(kept);
    }
}

/// Calls the drop callbacks of generators that are still watched, and that the collector is about to clear: asynchronous
/// ones whose finalizer hook did not keep them, or did not for long. Returns whether there were any; what callbacks have
/// resurrected is not to be cleared.
///
/// # Safety
/// `garbage` is the collector's list, as [`next_garbage`] takes it; the calling thread is the one that collects.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_DropGarbage(garbage: *mut PyObject) -> bool {
    // SAFETY: a thread that collects is attached.
    let thread = unsafe { Thread::current() };
    let (mut at, mut held) = (garbage, None::<Owned>);
    while are_there_any(thread) {
        // SAFETY: the caller's list. No code of others runs within the loop, and `at` is held, so it stays in the list.
        let next = unsafe {
            successors(next_garbage(garbage, at), |next| next_garbage(garbage, next.as_ptr()))
                .find(|next| is_watched(thread, next.as_ptr()))
        };
        let Some(next) = next else { break };
        at = next.as_ptr();
        // SAFETY: a live object. What is given up for it may run any code; that leaves `at` in the
        // list, as it is held.
        unsafe {
            drop(held.replace(Owned::share(thread, at)));
            _PyRust_DropGenerator(at);
        }
    }
    held.is_some()
}

/// Whether `object` is a generator, coroutine or asynchronous generator that is watched.
///
/// # Safety
/// `object` is live.
unsafe fn is_watched(thread: Thread, object: *mut PyObject) -> bool {
    // SAFETY: live, says the caller. A generator's state is there also where it is finished, and
    // nothing else is read of it then.
    unsafe {
        let Some(generator) = Generator::if_it_is_one(object) else { return false };
        generator.state() != c::FRAME_CLEARED
            && Watched::of(thread, generator.frame())
                .is_some_and(|watched| watched.as_ref().first.is_some())
    }
}

/// At the interpreter's end: drops all watched generators.
pub fn forget_all(thread: Thread) {
    loop {
        // SAFETY: under the lock.
        let first = with_list(thread, |first| unsafe { first.read() });
        let Some(watched) = first else { return };
        // SAFETY: live: no other thread runs any more, and this one has given nothing up since. Who is
        // told may give up the generator, and with it the frame's reference: so there is one more.
        unsafe {
            let kept = Owned::share(thread, watched.as_ptr().cast());
            take_out_of_list(thread, watched.as_ptr());
            forget_watches(thread, watched);
            drop(kept);
        }
    }
}

static SLOTS: ForC<[c::PyType_Slot; 3]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_traverse, traverse as *mut c_void),
    NO_SLOT,
]);

static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"framehook.Watched",
    size_of::<Watched>(),
    NOT_TO_BE_MADE,
    SLOTS.get().cast(),
));

/// The type of what a watched generator's frame holds. A borrowed reference.
pub fn watched_type(thread: Thread) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state; the specification lives for ever.
    unsafe {
        keep(thread, &raw mut (*thread.state()).watched_type, || c::PyType_FromSpec(TYPE.get()))
    }
}
