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
//! `generator_events` delivers its yields and resumptions.
//!
//! Clauses that safety comments cite:
//! - *live*: the `Watched` is; the caller knows of a reference to it.
//! - *works*: the calling thread works on the generator's frame, or was the last to do so. No other thread changes the
//!   list of its watches.

use super::error::{Outcome, Raised};
use super::generator::Generator;
use super::list::{enter, take_out, Links, Member, Next};
use super::listening::{set_active, watched_changed};
use super::once_cell::keep;
use super::resume::despecialize_first_resume;
use super::state::any_watched;
use super::watch::owned::OwnedWatch;
use super::watch::Watch;
use super::world::with_world_stopped;
use crate::collector::next_garbage;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::exception::{drop_aside, run_aside};
use crate::frame::{Frame, Owner, VisitFunction};
use crate::mutex::Held;
use crate::object::{ForC, Owned};
use crate::reference_count::decref;
use crate::tables::{slot, specification, NOT_TO_BE_MADE, NO_SLOT};
use crate::thread::Thread;
use core::ffi::{c_int, c_void};
use core::iter::{successors, Successors};
use core::ptr::{null_mut, NonNull};

/// What a watched generator's frame holds.
///
/// # Invariants
/// Its watches are a list, in the order of exit callbacks. It has the right to end those that are not linked. Each
/// that is linked owns a reference to it: without the GIL, an object that another thread releases may live on for a
/// while, and may then be freed by the thread that has created it. `links` is guarded by
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
pub fn is_any_watched(thread: Thread) -> bool {
    // SAFETY: the state is live. A stale answer does not concern a frame of this thread.
    unsafe { any_watched(thread.state()) }
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

    /// The watches of a `Watched`. The list may change while it is walked.
    ///
    /// The type is spelled out: rustc takes what `impl Iterator` leads to for public.
    ///
    /// # Safety
    /// *live* and *works*; watches that foreign code may end are not used after it.
    pub(super) unsafe fn watches<'a>(this: NonNull<Watched>) -> Successors<&'a Watch, NextOf<'a>> {
        // SAFETY: *live*, and so is each watch in the list: it is taken out before it ends, by the thread that *works*.
        let next: NextOf<'a> = |watch| watch.next_watch().map(|next| unsafe { next.as_ref() });
        // SAFETY: *live*, and so is the first watch: only the thread that *works* takes one out of the list.
        successors(unsafe { this.as_ref().first.map(|first| first.as_ref()) }, next)
    }

    /// Its watch, if it has one alone.
    ///
    /// # Safety
    /// As for [`watches`](Self::watches).
    #[inline(always)]
    pub(super) unsafe fn only_watch<'a>(this: NonNull<Watched>) -> Option<&'a Watch> {
        // SAFETY: *live*, and so is the first watch: only the thread that *works* takes one out of the list.
        let first = unsafe { this.as_ref().first.map(|first| first.as_ref()) };
        first.filter(|first| first.next_watch().is_none())
    }

    /// The frame that holds it.
    ///
    /// # Safety
    /// *live*, and the frame has not ended.
    pub(super) unsafe fn frame(this: NonNull<Watched>) -> Frame {
        // SAFETY: *live*, and the frame has not ended, says the caller.
        unsafe { Frame::new(this.as_ref().frame) }
    }
}

type NextOf<'a> = fn(&&'a Watch) -> Option<&'a Watch>;

/// The frame of `watch` has returned `made`, the generator that its code makes, which is watched from now on: it has the
/// watch, and the frame below the shim is the current one. `Err`: it is not watched, and nothing was done; with an
/// exception, or without one.
///
/// Code whose locals are in a mapping needs the field itself: a module that awaits. For a hook such a frame has ended
/// when it has made its coroutine.
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
    watch.set_next_watch(None);
    watch.set_watched(watched.as_ptr().cast());
    // SAFETY: *current*.
    unsafe { watch.unlink(thread) };
    let watch = Some(watch.into_raw());
    // SAFETY: *live*: the frame holds it; *works*: `made` is this thread's, and does not run.
    unsafe {
        match Watched::watches(watched).last() {
            Some(last) => last.set_next_watch(watch),
            None => (*watched.as_ptr()).first = watch,
        }
    }
    Ok(())
}

/// Makes a `Watched` for a generator's frame, which holds it.
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
    // SAFETY: *alone*: under the lock. *stays*: an object, which leaves the list when it is deallocated.
    with_list(thread, |first| unsafe { enter(first, new) });
    despecialize_first_resume(thread, frame.code());
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
    // SAFETY: the world is stopped. *quiet*: fields are written.
    unsafe { with_world_stopped(thread, |_| set_active(thread)) };
}

/// Runs `work` with the interpreter's list under its lock. `work` neither waits nor runs Python code.
fn with_list<T>(thread: Thread, work: impl FnOnce(*mut Next<Watched>) -> T) -> T {
    let state = thread.state();
    // SAFETY: *attached*, says the `Thread`; nothing under the lock takes it. *live*: the interpreter's field.
    let _held = unsafe { Held::lock(&raw mut (*state).watched_lock) };
    // SAFETY: the state is live. No reference is made.
    work(unsafe { (&raw mut (*state).watched).cast() })
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
/// `watch` is one of those of `watched`, and its reference to that is released here.
#[cold]
#[inline(never)]
pub(super) unsafe fn detach_from(watched: NonNull<Watched>, watch: &Watch) {
    // SAFETY: the caller says that `watch` is one of those of `watched` and owns a reference to it,
    // so it is live until `decref`. The thread *works*: the frame has run above the shim in it.
    unsafe {
        remove_from(watched, watch);
        decref(watched.as_ptr().cast());
    }
}

/// Takes a watch off the list of its generator.
///
/// # Safety
/// *live* and *works*; `watch` is one of those of `watched`.
unsafe fn remove_from(watched: NonNull<Watched>, watch: &Watch) {
    let this = Some(NonNull::from(watch));
    // SAFETY: *live* and *works*, says the caller.
    unsafe {
        match Watched::watches(watched).find(|before| before.next_watch() == this) {
            Some(before) => before.set_next_watch(watch.next_watch()),
            None => (*watched.as_ptr()).first = watch.next_watch(),
        }
    }
    watch.set_watched(null_mut());
}

/// The last reference is gone: the frame has ended, or its generator.
unsafe extern "C" fn deallocate(this: *mut PyObject) {
    // SAFETY: an attached thread frees objects. A `Watched` without references, so *works*.
    let thread = unsafe { Thread::current() };
    let watched = this.cast::<Watched>();
    // SAFETY: *live*: freed below.
    let (kind, held) = unsafe {
        take_out_of_list(thread, watched);
        ((*this).ob_type, NonNull::new((*watched).held))
    };
    let release = || {
        // SAFETY: *live* and *works*. Its references are released once, without a lock.
        unsafe {
            drop_watches(thread, NonNull::new_unchecked(watched));
            if let Some(held) = held {
                c::Py_DecRef(held.as_ptr());
            }
        }
    };
    // SAFETY: attached. Nothing refers to the object any more; its type had a reference from it.
    unsafe {
        run_aside(release, || c::PyErr_Clear());
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
    // SAFETY: called by the collector with a live `Watched`, on which no thread works meanwhile.
    unsafe {
        let watched = NonNull::new_unchecked(this.cast::<Watched>());
        let held = watched.as_ref().held;
        let of_held = if held.is_null() { 0 } else { visit(held, argument) };
        Watched::watches(watched).filter(|watch| !watch.is_linked()).fold(
            of_held,
            |status, watch| if status == 0 { watch.traverse(visit, argument) } else { status },
        )
    }
}

/// # Safety
/// *live*, and no other thread takes it out meanwhile.
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
/// *live* and *works*.
unsafe fn drop_watches(thread: Thread, watched: NonNull<Watched>) {
    let is_waiting = |watch: &&Watch| !watch.is_linked() && watch.has_hook();
    // SAFETY: *live* and *works*, says the caller. *only*: the generator has those that are not linked, and gives each
    // up. It is out before its callback is called, as that runs any code.
    unsafe {
        while let Some(watch) = Watched::watches(watched).find(is_waiting) {
            remove_from(watched, watch);
            let watch = OwnedWatch::from_raw(watch.into());
            watch.notify_dropped(thread);
            watch.end(thread);
        }
    }
}

/// A generator was finalized before its end, or was closed before it has started: drop callbacks are called. When the
/// collector finalizes it, nothing that a callback may need is cleared yet; when its frame is freed, all of that may be.
/// A generator that is resurrected is not watched any more.
///
/// # Safety
/// `generator` is a live generator, coroutine or asynchronous generator; the calling thread is attached.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_DropGenerator(generator: *mut PyObject) {
    // SAFETY: the caller says that the generator is live and the thread attached. The state is there also if it is
    // finished, and nothing else is read of it then.
    let (thread, generator) = unsafe { (Thread::current(), Generator::new(generator)) };
    let has_frame = ![c::FRAME_CLEARED, c::FRAME_EXECUTING].contains(&generator.state());
    if !is_any_watched(thread) || !has_frame {
        return;
    }
    let Some(watched) = Watched::of(thread, generator.frame()) else { return };
    // SAFETY: *live*: a callback may release the frame's reference, so there is one more. *works*: the generator is
    // suspended, and its last user finalizes it. No lock is held.
    unsafe {
        let reference = Owned::share(thread, watched.as_ptr().cast());
        run_aside(|| drop_watches(thread, watched), || c::PyErr_Clear());
        drop_aside(reference);
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
    while is_any_watched(thread) {
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
pub fn drop_all_generators(thread: Thread) {
    loop {
        // SAFETY: under the lock.
        let first = with_list(thread, |first| unsafe { first.read() });
        let Some(watched) = first else { return };
        // SAFETY: *live*: no other thread runs any more, and this one has released nothing since. A callback may release
        // the generator, and with it the frame's reference, so there is one more.
        unsafe {
            let reference = Owned::share(thread, watched.as_ptr().cast());
            take_out_of_list(thread, watched.as_ptr());
            drop_watches(thread, watched);
            drop(reference);
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
