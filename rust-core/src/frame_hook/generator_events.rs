//! Yields and resumptions of a watched generator.
//!
//! A yield unlinks the return shims below the generator's frame, from the top down, and calls yield callbacks. A
//! resumption links them again, and calls resume callbacks. `docs/internals/frame-hooks.md` has the path of a yield.
//!
//! Clauses that safety comments cite, beside those of `generator_watch`:
//! - *resumed*: `frame` is the thread's current frame, its stack pointer is saved, and it executes nothing yet.
//! - *yielded*: the generator has yielded to the shim of `watch`, which is the thread's current frame. Its state is
//!   FRAME_EXECUTING meanwhile, so that no callback can resume or close it.

use super::error::{value_unless, Outcome, Raised};
use super::generator::{Generator, Resumption};
use super::generator_watch::{detach_from, Watched};
use super::list::Next;
use super::monitoring::{instrument, report_throw};
use super::resume::despecialize;
use super::verdict::Kind;
use super::watch::owned::OwnedWatch;
use super::watch::Watch;
use crate::check::check;
use crate::cpython as c;
use crate::frame::Frame;
use crate::object::Owned;
use crate::reference_count::{decref, new_reference};
use crate::thread::Thread;
use core::ptr::{null_mut, NonNull};

/// A generator has yielded `value` to the shim of `watch`. Calls the yield callback and unlinks the shim; the value is
/// for the frame below. `Err`: the callback has failed, its exception is to be raised at the yield, and the generator is
/// the thread's current frame again.
///
/// # Safety
/// *current*: the shim is the thread's current frame, and was yielded to just now.
pub unsafe fn deliver_yield(thread: Thread, watch: OwnedWatch, value: Owned) -> Outcome<Owned> {
    let Some(watched) = watch.watched().map(NonNull::cast::<Watched>) else {
        check!(false, "a frame has yielded that is no watched generator's");
        // SAFETY: *current*, says the caller. *out*: nothing leads to the watch any more.
        unsafe {
            watch.unlink(thread);
            watch.end(thread);
        }
        return Ok(value);
    };
    // SAFETY: *live*: the generator is suspended, so its frame has not ended. All watched frames of this kind are
    // generators'. `instr_ptr` is where it is resumed.
    let (generator, at) = unsafe {
        let frame = Watched::frame(watched);
        (Generator::of_frame(frame), Resumption::of(frame))
    };
    let state = generator.state();
    // No callback can resume or close it: yield callbacks of the other hooks are to be called first.
    generator.set_state(c::FRAME_EXECUTING);
    // SAFETY: *yielded*.
    let value = match unsafe { notify_yield(thread, &at, &watch, value) } {
        Ok(value) => value,
        Err(raised) => {
            // SAFETY: *yielded*. The frame holds `watched`, as it has not ended.
            unsafe { throw_into(thread, &at, watched, watch) };
            return Err(raised);
        }
    };
    generator.set_state(state);
    // SAFETY: `resumes_at` is an instruction of its code. *current*, says the caller: the callback leaves the thread's
    // current frame as it was.
    unsafe {
        despecialize(at.resumes_at);
        watch.unlink(thread);
    }
    // SAFETY: the linked watch owns a reference to `watched`, which is released here; the frame has another one. A watch
    // without a hook was dropped with its thread, and gets no further event: *out*, once it is detached.
    unsafe {
        if watch.has_hook() {
            let _ = watch.into_raw(); // the generator has it
            decref(watched.as_ptr().cast());
        } else {
            detach_from(watched, &watch);
            watch.end(thread);
        }
    }
    Ok(value)
}

/// Calls one hook's yield callback, and returns the value. `Err`: the callback has failed, or the generator was sent to
/// another line. The stack is as before then, or as the other line needs it.
///
/// # Safety
/// *yielded*.
unsafe fn notify_yield(
    thread: Thread,
    at: &Resumption,
    watch: &Watch,
    value: Owned,
) -> Outcome<Owned> {
    // SAFETY: *yielded*. There is room where the value was, and `None` takes it until this returns.
    let outcome = unsafe {
        at.frame.push(Owned::none(thread));
        at.at_yield(|| {
            let outcome = watch.notify(thread, Kind::Yielded, value.as_ptr());
            // The destructor of a value that is released may run any code: so here, where nothing can close the generator.
            value_unless(value, outcome)
        })
    };
    if !at.was_moved() {
        // SAFETY: the one of above.
        unsafe { pop_none(at.frame) };
        return outcome;
    }
    // The callback has sent it to another line, and the jump has taken from its stack what that line has no use for. The
    // line does not expect the value that would be sent later.
    drop(outcome?);
    let text = c"a yield callback of a frame hook cannot send the generator to another line";
    Err(Raised::runtime_error(thread, text))
}

/// Takes a `None` from the stack of a frame at rest. It is immortal, so its reference needs no release.
///
/// # Safety
/// It is on top.
unsafe fn pop_none(frame: Frame) {
    let top = frame.slots_at_rest();
    // SAFETY: the frame is this thread's; nothing is read of a slot beyond the top.
    unsafe { (*frame.as_ptr()).stacktop = top as i32 - 1 };
}

/// Re-enters a generator that has yielded to the shim of `watch`, with the exception that is set. Calls resume
/// callbacks: of the shims already passed, then of this one. A callback that fails replaces the exception.
///
/// # Safety
/// *yielded*; `watched` is what the frame holds.
unsafe fn throw_into(
    thread: Thread,
    at: &Resumption,
    watched: NonNull<Watched>,
    watch: OwnedWatch,
) {
    watch.rewind();
    // SAFETY: *yielded*. There is room where the value was; a generator that is thrown into has None for the yield's
    // value, and handlers within `yield from` rely on it. What the generator handles becomes the exception's context,
    // which may run destructors.
    unsafe {
        Generator::of_frame(at.frame).reenter(thread);
        if !at.was_moved() {
            at.frame.push(Owned::none(thread));
        }
        at.at_yield(|| c::_PyErr_ChainStackItem());
    }
    // SAFETY: *resumed*: the frame is current since `reenter`. An exception is set, and one that replaces it is set too.
    unsafe {
        let _ = link_shims(thread, at, watched);
        let _ = notify_resume(thread, at, &watch);
        let _ = prepare(thread, at, true);
    }
    let _ = watch.into_raw(); // the frame, which continues above the shim, leads to it
}

/// A generator is resumed: links the shim of its watch, if it has one watch whose hook has requested no callback for that.
/// Returns whether it has. No foreign code runs, so there is nothing else to do.
///
/// # Safety
/// *resumed*; `watched` is what the frame holds.
#[inline(always)]
pub unsafe fn link_silently(thread: Thread, frame: Frame, watched: NonNull<Watched>) -> bool {
    // SAFETY: *live*: the frame holds `watched`, says the caller. *works*: the frame is the thread's, and no foreign code
    // runs here.
    let only = unsafe { Watched::only_watch(watched) };
    let is_silent = |watch: &&Watch| watch.is_suspended() && !watch.requests(Kind::Resumed);
    let Some(watch) = only.filter(is_silent) else { return false };
    // SAFETY: *live*, and *only*: the generator has it, as it is not linked. The linked one owns a reference.
    unsafe {
        new_reference(watched.as_ptr().cast());
        OwnedWatch::from_raw(watch.into()).link_suspended(thread, frame);
    }
    true
}

/// A generator has yielded to the shim of `watch`: unlinks that, if the watch's hook has requested no callback for that.
/// Returns the linked watch's reference, which is not the last one. `Err`: the hook has, or there is more to do; nothing
/// was done.
///
/// # Safety
/// *current*: the shim is the thread's current frame, and was yielded to just now.
#[inline(always)]
pub unsafe fn unlink_silently(thread: Thread, watch: OwnedWatch) -> Result<Owned, OwnedWatch> {
    if !watch.is_resumed() || watch.requests(Kind::Yielded) {
        return Err(watch);
    }
    // SAFETY: a generator's watch has it, and while linked a reference to it, which is returned; the frame, which has
    // not ended, has another one, and is suspended at an instruction of its code. *current*, says the caller.
    unsafe {
        let watched = watch.watched().unwrap_unchecked();
        despecialize(Watched::frame(watched.cast()).instruction());
        watch.unlink_resumed(thread);
        let _ = watch.into_raw(); // the generator has it
        Ok(Owned::from_new_reference(watched.as_ptr()))
    }
}

/// A generator is resumed: its return shims are linked below the frame, and resume callbacks are called.
///
/// # Safety
/// *resumed*.
pub unsafe fn deliver_resume(thread: Thread, frame: Frame) -> Outcome<()> {
    let Some(watched) = Watched::of(thread, frame) else { return Ok(()) };
    // SAFETY: *resumed*, says the caller. The frame, which has not ended, holds `watched`.
    unsafe {
        let at = Resumption::of(frame);
        let linked = link_shims(thread, &at, watched);
        let ready = prepare(thread, &at, linked.is_err());
        linked.and(ready)
    }
}

/// Links the shims of a resumed generator that are not linked yet. Returns the first and the last of these watches, in
/// the order of callbacks.
///
/// # Safety
/// *current*: `frame` is the thread's current frame; `watched` is what it holds.
unsafe fn link_unlinked(
    thread: Thread,
    frame: Frame,
    watched: NonNull<Watched>,
) -> (Next<Watch>, Next<Watch>) {
    // The last one first, as when they began to watch: so its scope is around those of the others, which end before it.
    let (mut first, mut last) = (None, None);
    // SAFETY: *live*: the frame holds `watched`, says the caller. *works*: the frame is the thread's, and no foreign code
    // runs here.
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
pub unsafe fn link_without_callbacks(thread: Thread, frame: Frame) {
    if let Some(watched) = Watched::of(thread, frame) {
        // SAFETY: *current*, says the caller. The frame holds `watched`: it was just read.
        unsafe { link_unlinked(thread, frame, watched) };
    }
}

/// Links the shims of a resumed generator that are not linked yet, and calls resume callbacks. `Err`: a callback has
/// failed while no exception was set.
///
/// # Safety
/// *resumed*; `watched` is what the frame holds.
#[cold]
#[inline(never)]
unsafe fn link_shims(thread: Thread, at: &Resumption, watched: NonNull<Watched>) -> Outcome<()> {
    let mut outcome = Ok(());
    // SAFETY: *current*: *resumed*, says the caller, and that the frame holds `watched`.
    let (first, last) = unsafe { link_unlinked(thread, at.frame, watched) };
    // All of them lie below the frame before the first callback.
    let mut next = first;
    while let Some(watch) = next {
        // SAFETY: linked, so it is not ended before its frame is left to it, and that frame does not run now: each
        // callback leaves the thread's current frame as it was. *resumed*, says the caller.
        unsafe {
            next = if last == Some(watch) { None } else { watch.as_ref().next_watch() };
            outcome = outcome.and(notify_resume(thread, at, watch.as_ref()));
        }
    }
    outcome
}

/// Calls one hook's resume callback, also if an exception is thrown in. `Err`: it has failed while no exception was
/// set.
///
/// # Safety
/// *resumed*; `watch` is one of the frame's.
unsafe fn notify_resume(thread: Thread, at: &Resumption, watch: &Watch) -> Outcome<()> {
    let notify = || {
        // SAFETY: attached. The exception is this closure's own meanwhile.
        match unsafe { Owned::new(c::PyErr_GetRaisedException()) } {
            Some(raised) => {
                watch.notify_during_exception(thread, Kind::Resumed, raised);
                Ok(())
            }
            None => watch.notify(thread, Kind::Resumed, null_mut()),
        }
    };
    // SAFETY: *resumed*, says the caller: a generator that is resumed has the state FRAME_EXECUTING.
    unsafe { at.at_yield(notify) }
}

/// Prepares a generator's frame to execute after the resume callbacks. With `is_thrown` the exception that is set is a
/// callback's, and was not reported as thrown in yet.
///
/// # Safety
/// *resumed*.
unsafe fn prepare(thread: Thread, at: &Resumption, is_thrown: bool) -> Outcome<()> {
    let frame = at.frame;
    let outcome = instrument(thread, frame);
    if is_thrown {
        let thrown_at = frame.instruction();
        // SAFETY: *resumed*, says the caller. No lock is held, as callbacks have just run.
        unsafe { at.at_yield(|| report_throw(thread, frame, thrown_at)) };
    }
    if thread.has_exception() && at.was_moved() {
        // A debugger has sent it to another line, and its stack fits there. The eval loop expects `instr_ptr` after the
        // instruction that has raised, which is then the other line's first.
        // SAFETY: at most the end of its code.
        frame.set_instruction(unsafe { frame.instruction().add(1) });
    }
    outcome
}
