//! A watched frame has been left to its return shim, by a return, a yield or an exception.
//!
//! Clauses that safety comments cite:
//! - *reached*: `mark` is the shim of a watch, and the frame linked to it has been left to it just
//!   now.
//! - *current*: the shim of `watch` is the thread's current frame. No other thread links or clears
//!   this one's frames. Others only read them: Python's frame walkers while this one is stopped;
//!   faulthandler and samplers at any time, as CPython's own frames. Python code that a callback or
//!   a destructor runs leaves the current frame as it was.

use super::error::{hand_back, Outcome, Raised};
use super::generator_watch;
use super::shim_code::YIELDS_TO;
use super::verdict::Kind;
use super::watch::OwnedWatch;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject, PyThreadState};
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
pub unsafe fn hand_on(thread: Thread, value: Owned, ahead: Option<Ahead>) -> Ahead {
    // SAFETY: the caller says that the frame has called, or has sent to a generator, so there is
    // room for the value; its stack pointer is saved.
    unsafe {
        let frame = Frame::new((*thread.tstate()).current_frame);
        frame.push(value);
        ahead.unwrap_or(Ahead::from((*frame.as_ptr()).return_offset))
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
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, and that its
    // current frame is a shim: *reached*, since the eval loop calls this once for each frame that
    // is left to one, and *current*. Unless an exception is set, the value is in its slot.
    unsafe {
        let thread = Thread::new(tstate);
        #[cfg(not(any(test, fuzzing)))]
        if is_entry((*tstate).current_frame) {
            return enter_chain(thread);
        }
        let watch = arrived((*tstate).current_frame);
        watch.mark().forget_slots();
        if thread.has_exception() {
            came_back_raised(thread, watch);
            return HERE;
        }
        let value = watch.take_value();
        if watch.was_yielded_to() {
            return yielded(thread, watch, value);
        }
        match came_back(thread, watch, value) {
            Ok(value) => hand_on(thread, value, None),
            Err(Raised { .. }) => HERE,
        }
    }
}

/// The watch whose shim has been reached.
///
/// # Safety
/// *reached*.
#[inline(always)]
unsafe fn arrived(mark: *mut _PyInterpreterFrame) -> OwnedWatch {
    // SAFETY: *live*: not ended before its shim is *reached*, which is now. *only*: it is reached
    // once.
    unsafe { OwnedWatch::from_raw(NonNull::new_unchecked(mark.cast())) }
}

/// A generator has yielded `value` to a shim. Calls the yield callback and hands the value on.
///
/// # Safety
/// *current*.
#[inline(never)]
unsafe fn yielded(thread: Thread, watch: OwnedWatch, value: Owned) -> Ahead {
    // SAFETY: *current*, says the caller. The frame that is current afterwards has sent to the
    // generator.
    unsafe {
        match generator_watch::yielded(thread, watch, value) {
            Ok(value) => hand_on(thread, value, Some(YIELDS_TO as Ahead)),
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
unsafe fn came_back(thread: Thread, watch: OwnedWatch, value: Owned) -> Outcome<Owned> {
    // SAFETY: *current*, says the caller; nothing has run since.
    let told = match unsafe { watch.end_plainly(thread, value.as_ptr()) } {
        Ok(told) => told,
        // SAFETY: *current* still: `end_plainly` has done nothing if it returns the watch.
        Err(watch) => return unsafe { came_back_otherwise(thread, watch, value) },
    };
    hand_back(value, told)
}

/// As [`came_back`], for any watch.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn came_back_otherwise(thread: Thread, watch: OwnedWatch, value: Owned) -> Outcome<Owned> {
    if watch.makes_generator() {
        // SAFETY: *current*, says the caller; nothing has run since.
        return unsafe { made_generator(thread, watch, value) };
    }
    let told = watch.tell(thread, Kind::Returned, value.as_ptr());
    // SAFETY: *current*, says the caller, and after the callback too.
    unsafe { watch.step_down(thread) };
    generator_watch::detach(&watch);
    // SAFETY: nothing leads to it any more: neither frame nor list nor generator.
    unsafe { watch.end(thread) };
    hand_back(value, told)
}

/// The exception that is set has reached a shim. Calls the exit callback. The frame below is current afterwards.
///
/// # Safety
/// *current*.
#[cold]
#[inline(never)]
unsafe fn came_back_raised(thread: Thread, watch: OwnedWatch) {
    // SAFETY: *current*, says the caller, and after the callback too. The exception is this
    // function's own meanwhile.
    unsafe {
        if let Some(raised) = Owned::new(c::PyErr_GetRaisedException()) {
            watch.tell_aside(thread, Kind::Raised, raised);
        }
        watch.step_down(thread);
    }
    generator_watch::detach(&watch);
    // SAFETY: nothing leads to it any more: neither frame nor list nor generator.
    unsafe { watch.end(thread) };
}

/// As [`came_back`], where the frame has made a generator, which is watched from now on.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn made_generator(thread: Thread, watch: OwnedWatch, generator: Owned) -> Outcome<Owned> {
    // SAFETY: *current*, says the caller.
    let (watch, refused) = match unsafe { generator_watch::attach(thread, watch, &generator) } {
        Ok(()) => return Ok(generator),
        Err(refused) => refused,
    };
    match refused {
        // What is told of such a frame is that it has returned.
        // SAFETY: *current* still: `attach` has done nothing if it returns the watch.
        Ok(()) => unsafe { came_back_otherwise(thread, watch, generator) },
        // SAFETY: *current* still, and after the destructors too; attached, and without a lock, as
        // Python code has just run.
        Err(raised) => unsafe {
            drop_aside(generator);
            came_back_raised(thread, watch);
            Err(raised)
        },
    }
}

/// Passes the result of a call that an evaluator has run, or that ended before, through the shims below it: a new
/// reference, or NULL with an exception. Returns the same for the caller.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state. `mark` is the first of the shims
/// upon its current frame, and the call is over.
#[cold]
#[inline(never)]
pub unsafe fn pass_marks(
    tstate: *mut PyThreadState,
    mark: Frame,
    came: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one, that the
    // shims from `mark` on lie upon its current frame, and that the call is over. So each is
    // *reached* in turn, and *current* once it is set so. What is below it is read before its watch
    // ends.
    unsafe {
        let (thread, caller) = (Thread::new(tstate), (*tstate).current_frame);
        let mut came = Owned::new(came);
        let mut at = mark.as_ptr();
        while at != caller {
            let watch = arrived(at);
            thread.set_current_frame(at);
            at = (*at).previous;
            came = match came {
                Some(value) => came_back(thread, watch, value).ok(),
                None => {
                    came_back_raised(thread, watch);
                    None
                }
            };
        }
        thread.set_current_frame(caller);
        came.map_or(null_mut(), Owned::into_raw)
    }
}
