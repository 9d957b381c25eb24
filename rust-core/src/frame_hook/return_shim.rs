//! A watched frame has been left to its return shim, by a return, a yield or an exception.
//!
//! Clauses that safety comments cite:
//! - *reached*: the frame is the shim of a watch, and the frame linked to it has been left to it just
//!   now.
//! - *current*: the shim of `watch` is the thread's current frame. No other thread links or clears
//!   this one's frames. Others only read them: Python's frame walkers while this one is stopped;
//!   faulthandler and samplers at any time, as CPython's own frames. Python code that a callback or
//!   a destructor runs leaves the current frame as it was.

use super::error::{value_unless, Outcome, Raised};
use super::generator_events::{deliver_yield, unlink_silently};
use super::generator_watch;
use super::return_offset::ResumeOffset;
use super::shim_code::{is_returned_to, is_yielded_to, YIELDS_TO};
use super::verdict::Kind;
use super::watch::owned::OwnedWatch;
use crate::cpython as c;
use crate::cpython::{PyObject, PyThreadState};
use crate::exception::drop_aside;
use crate::frame::Frame;
#[cfg(not(any(test, fuzzing)))]
use crate::frame_continue::{enter_chain, is_entry};
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::c_uint;
use core::ptr::{null_mut, NonNull};

/// How far ahead of `instr_ptr` the thread's current frame continues, in code units. `instr_ptr` stays at the CALL
/// until the next instruction starts, so that LINE events are right.
pub type Ahead = c_uint;

/// Offset 0. With an exception set: it is raised at the instruction at which the frame waits.
pub(super) const HERE: Ahead = 0;

/// Pushes a value onto the stack of the thread's current frame, which continues `ahead` of its call, or at its
/// `return_offset`. Returns that offset.
///
/// # Safety
/// That frame has called, or has sent to a generator; its stack pointer is saved.
#[inline(always)]
pub unsafe fn push_result(thread: Thread, value: Owned, ahead: Option<Ahead>) -> Ahead {
    // SAFETY: the caller says that the frame has called, or has sent to a generator, so there is
    // room for the value; its stack pointer is saved.
    unsafe {
        let frame = Frame::new((*thread.tstate()).current_frame);
        frame.push(value);
        ahead.unwrap_or(ResumeOffset::of(frame).units().into())
    }
}

/// A frame has been left to the return shim below it, which is current: with a value in the shim's slot, or with the
/// exception that is set. Calls the event callback. Returns the offset at which the then current frame continues.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state; its current frame is a shim of this
/// crate, of a watch or of a chain.
#[no_mangle]
#[inline(never)] // the eval loop is large enough
pub unsafe extern "C" fn _PyRust_ReturnToShim(tstate: *mut PyThreadState) -> Ahead {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and that its current frame is a
    // shim.
    let (thread, shim) = unsafe { (Thread::new(tstate), Frame::new((*tstate).current_frame)) };
    // Calls in tail position: each takes only the registers that it needs.
    // SAFETY: of a chain's shim neither holds. So it is *reached*, since the eval loop calls this once for each frame that
    // is left to one; and it is the current frame.
    unsafe {
        match thread.has_exception() {
            false if is_returned_to(shim) => continue_after_return(thread, watch_of(shim)),
            false if is_yielded_to(shim) => continue_after_yield(thread, watch_of(shim)),
            _ => continue_otherwise(thread, shim),
        }
    }
}

/// A frame has returned to a shim. Calls the exit callback and passes the value to the frame below.
///
/// # Safety
/// *current*, and no exception is set.
#[inline(never)]
unsafe fn continue_after_return(thread: Thread, watch: OwnedWatch) -> Ahead {
    watch.shim().forget_slots();
    // SAFETY: *set*: no exception is set, so the value is in the slot. *current*, says the caller. The frame that is
    // current afterwards has called.
    unsafe {
        let value = watch.take_value();
        let outcome = match watch.end_plain(thread, value.as_ptr()) {
            Ok(Ok(())) => return push_result(thread, value, None),
            Ok(failed) => value_unless(value, failed),
            Err(watch) => end_any_by_return(thread, watch, value),
        };
        outcome.map_or(HERE, |value| push_result(thread, value, None))
    }
}

/// The eval loop has begun at the shim of a chain, or an exception has reached the shim of a watch.
///
/// # Safety
/// `shim` is the thread's current frame: the shim of a chain, or *reached*, with an exception set.
#[cold]
#[inline(never)]
unsafe fn continue_otherwise(thread: Thread, shim: Frame) -> Ahead {
    // SAFETY: the current frame, as the caller says. *reached*, if it is no chain's, and *current*.
    unsafe {
        #[cfg(not(any(test, fuzzing)))]
        if is_entry(shim.as_ptr()) {
            return enter_chain(thread);
        }
        let watch = watch_of(shim);
        watch.shim().forget_slots();
        end_by_exception(thread, watch);
    }
    HERE
}

/// The watch whose shim has been reached.
///
/// # Safety
/// *reached*.
#[inline(always)]
unsafe fn watch_of(shim: Frame) -> OwnedWatch {
    // SAFETY: *live*: not ended before its shim is *reached*, which is now. *only*: it is reached
    // once.
    unsafe { OwnedWatch::from_raw(NonNull::new_unchecked(shim.as_ptr().cast())) }
}

/// A generator has yielded `value` to a shim. Calls the yield callback and passes the value to the frame below.
///
/// # Safety
/// *current*, and no exception is set.
#[inline(never)]
unsafe fn continue_after_yield(thread: Thread, watch: OwnedWatch) -> Ahead {
    watch.shim().forget_slots();
    // SAFETY: *set*: no exception is set, so the value is in the slot. *current*, says the caller. The frame that is
    // current afterwards has sent to the generator.
    unsafe {
        let value = watch.take_value();
        match unlink_silently(thread, watch) {
            Ok(_reference) => push_result(thread, value, Some(YIELDS_TO as Ahead)),
            Err(watch) => continue_after_callback(thread, watch, value),
        }
    }
}

/// As [`continue_after_yield`], with a yield callback.
///
/// # Safety
/// As there; `value` is what was yielded.
#[inline(never)]
unsafe fn continue_after_callback(thread: Thread, watch: OwnedWatch, value: Owned) -> Ahead {
    // SAFETY: *current*, says the caller. The frame that is current afterwards has sent to the generator.
    unsafe {
        match deliver_yield(thread, watch, value) {
            Ok(value) => push_result(thread, value, Some(YIELDS_TO as Ahead)),
            Err(Raised { .. }) => HERE,
        }
    }
}

/// A frame has returned `value` to a shim. Calls the exit callback. The frame below is current afterwards; returns the
/// value for it, or an exception.
///
/// # Safety
/// *current*.
#[inline(always)]
unsafe fn end_by_return(thread: Thread, watch: OwnedWatch, value: Owned) -> Outcome<Owned> {
    // SAFETY: *current*, says the caller; nothing has run since.
    let outcome = match unsafe { watch.end_plain(thread, value.as_ptr()) } {
        Ok(outcome) => outcome,
        // SAFETY: *current* still: `end_plain` has done nothing if it returns the watch.
        Err(watch) => return unsafe { end_any_by_return(thread, watch, value) },
    };
    value_unless(value, outcome)
}

/// As [`end_by_return`], for any watch.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn end_any_by_return(thread: Thread, watch: OwnedWatch, value: Owned) -> Outcome<Owned> {
    if watch.makes_generator() {
        // SAFETY: *current*, says the caller; nothing has run since.
        return unsafe { continue_with_generator(thread, watch, value) };
    }
    let outcome = watch.notify(thread, Kind::Returned, value.as_ptr());
    // SAFETY: *current*, says the caller, and after the callback too.
    unsafe { end(thread, watch) };
    value_unless(value, outcome)
}

/// The exception that is set has reached a shim. Calls the exit callback. The frame below is current afterwards.
///
/// # Safety
/// *current*.
#[cold]
#[inline(never)]
unsafe fn end_by_exception(thread: Thread, watch: OwnedWatch) {
    // SAFETY: attached. The exception is this function's own meanwhile.
    if let Some(raised) = unsafe { Owned::new(c::PyErr_GetRaisedException()) } {
        watch.notify_during_exception(thread, Kind::Raised, raised);
    }
    // SAFETY: *current*, says the caller, and after the callback too.
    unsafe { end(thread, watch) };
}

/// Ends a watch whose exit callback was called. The frame below is current afterwards.
///
/// # Safety
/// *current*.
#[inline(always)]
unsafe fn end(thread: Thread, watch: OwnedWatch) {
    // SAFETY: *current*, says the caller.
    unsafe { watch.unlink(thread) };
    generator_watch::detach(&watch);
    // SAFETY: *out*: no frame, list or generator leads to it any more.
    unsafe { watch.end(thread) };
}

/// As [`end_by_return`], of a frame that has made a generator, which is watched from now on.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn continue_with_generator(
    thread: Thread,
    watch: OwnedWatch,
    generator: Owned,
) -> Outcome<Owned> {
    // SAFETY: *current*, says the caller.
    let (watch, refused) = match unsafe { generator_watch::attach(thread, watch, &generator) } {
        Ok(()) => return Ok(generator),
        Err(refused) => refused,
    };
    match refused {
        // Such a frame has returned.
        // SAFETY: *current* still: `attach` has done nothing if it returns the watch.
        Ok(()) => unsafe { end_any_by_return(thread, watch, generator) },
        // SAFETY: *current* still, and after the destructors too; attached, and without a lock, as
        // Python code has just run.
        Err(raised) => unsafe {
            drop_aside(generator);
            end_by_exception(thread, watch);
            Err(raised)
        },
    }
}

/// Passes the result of a call that an evaluator has run, or that ended before, through the shims below it: a new
/// reference, or NULL with an exception. Returns the same for the caller.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state. `shim` is the first of the shims
/// upon its current frame, and the call is over.
#[cold]
#[inline(never)]
pub unsafe fn pass_through_shims(
    tstate: *mut PyThreadState,
    shim: Frame,
    result: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and that the result is a new
    // reference, or NULL.
    let (thread, caller, mut result) =
        unsafe { (Thread::new(tstate), (*tstate).current_frame, Owned::new(result)) };
    let mut at = shim.as_ptr();
    while at != caller {
        // SAFETY: the caller says that the shims lie upon the current frame, and that the call is over: each is *reached*
        // in turn, and *current* once it is set so. The one below is read before its watch ends.
        unsafe {
            let watch = watch_of(Frame::new(at));
            thread.set_current_frame(at);
            at = (*at).previous;
            match result.take() {
                Some(value) => result = end_by_return(thread, watch, value).ok(),
                None => end_by_exception(thread, watch),
            }
        }
    }
    // SAFETY: the frame that was current, which has called.
    unsafe { thread.set_current_frame(caller) };
    result.map_or(null_mut(), Owned::into_raw)
}
