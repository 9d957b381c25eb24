//! The end of a frame: it is cleared, or moves into its object.
//!
//! # Invariants
//! - *Ending frame*: the caller says that no thread state or frame links to the frame, that it does not
//!   execute, and that it is the calling thread's. So no sampler or debugger finds it by walking, and
//!   no other thread works on it. Without a frame object the collector does not find it either.
//!   Destructors may run any code: what they call is pushed above the frame, whose memory stays.
//! - *Owned by the frame*: an ending frame owns one reference each to its code, its function, its
//!   object, its locals, and what its slots in use refer to.

use super::closing::EndOfCall;
use super::handle::{Frame, Owner};
use super::object::{self, FrameObject};
use super::slots::close_slots;
use crate::check::check;
use crate::collector::is_tracked;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyThreadState};
use crate::data_stack::_PyThreadState_PopFrame;
use crate::reference_count::{incref, is_shared, new_reference};
use crate::stack_ref::{StackRef, StackSlot, Untagged};
use core::mem::offset_of;

/// `_PyFrame_ClearLocals`: gives up what the slots hold, from the first to the last, and then the
/// locals mapping. From the beginning on, the frame has no slot in use. Destructors may run.
///
/// # Safety
/// `frame` is a live frame that does not execute, and no other thread works on it. The calling thread
/// is attached.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyFrame_ClearLocals(frame: *mut _PyInterpreterFrame) {
    // SAFETY: the caller passes a live frame that no other thread works on.
    let frame = unsafe { Frame::new(frame) };
    #[cfg(ferrule_checks)]
    // SAFETY: live by the invariant of `Frame`, and no other thread writes the field.
    let at_rest = unsafe { (*frame.as_ptr()).stacktop >= 0 };
    check!(at_rest, "the locals of a frame that executes are cleared");
    let count = frame.slots_in_use();
    frame.forget_slots();
    // SAFETY: the slots below `stacktop` were set, and are out of use before the first destructor runs:
    // a destructor or the collector that looks at the frame finds none. *Owned by the frame*.
    unsafe {
        close_slots(frame.first_slot(), count, drop);
        // Out of the frame first, so that a destructor does not find it.
        drop(frame.take_locals());
    }
}

/// `_PyFrame_ClearExceptCode`: a frame's call is over. Gives up all that the frame owns, but for
/// its code: the caller does that. If the frame's object has other references, the frame
/// moves into that object instead, and nothing but the reference to the object is given up.
/// Destructors may run. Never fails.
///
/// # Safety
/// `frame` is linked from nowhere any more, does not execute, and is the calling thread's; a
/// generator that owns it is marked as cleared. The calling thread is attached.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyFrame_ClearExceptCode(frame: *mut _PyInterpreterFrame) {
    // SAFETY: the caller passes an *ending frame*, which has an object where `let_go_of_object` is called.
    // The function is *owned by the frame*, and `_PyFrame_ClearLocals` runs before it is given up.
    unsafe {
        let this = Frame::new(frame);
        #[cfg(all(ferrule_checks, not(any(test, fuzzing))))]
        check_that_it_is_over(this);
        if this.object().is_null() || !let_go_of_object(this) {
            _PyFrame_ClearLocals(frame);
            drop(this.leave_function());
        }
    }
}

/// The end of a call: gives up all that its frame owns, the code included, and takes it off the
/// data stack. A frame whose object has other references moves into that object. Destructors may
/// run. Never fails.
///
/// # Safety
/// `tstate` is the calling thread's own. `frame` is its topmost frame on the data stack, is linked
/// from nowhere any more and does not execute. The calling thread is attached.
#[no_mangle]
#[allow(unused_attributes)] // rustc ignores it for an exported function, LLVM does not
#[inline(always)]
pub unsafe extern "C" fn _PyRust_EndCall(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
) {
    // SAFETY: the caller passes the calling thread's own state, and an *ending frame*.
    let (closing, this) = unsafe { (EndOfCall::new(tstate), Frame::new(frame)) };
    #[cfg(all(ferrule_checks, not(any(test, fuzzing))))]
    // SAFETY: live, as the caller says.
    unsafe {
        check_that_it_is_over(this);
    }
    let moved = !this.object().is_null() && {
        let _deeper = closing.deeper();
        // SAFETY: an *ending frame* with an object.
        unsafe { let_go_of_object(this) }
    };
    if !moved {
        // SAFETY: an *ending frame*, now without an object: nothing finds it, so its fields keep their
        // words. *Owned by the frame*.
        unsafe { close_fields(this, closing) };
    }
    // SAFETY: *owned by the frame*, also after a move. The frame is the topmost one, as the caller says:
    // what destructors pushed is popped again.
    unsafe {
        closing.close(this.leave_code());
        _PyThreadState_PopFrame(tstate, frame);
    }
}

/// Gives up all that the frame owns but its code.
///
/// # Safety
/// `frame` is an *ending frame* without an object, and nothing reads its fields as references any more.
#[inline(always)]
unsafe fn close_fields(frame: Frame, closing: EndOfCall) {
    // SAFETY: the slots below `stacktop` are set. *Owned by the frame*; the caller says that nothing
    // reads a field whose reference is given up.
    unsafe {
        close_slots(frame.first_slot(), frame.slots_at_rest(), |held| closing.close(held));
        if let Some(locals) = frame.leave_locals() {
            closing.close(locals);
        }
        closing.close(frame.leave_function());
    }
}

/// Gives up the frame's reference to its object. If that was not the only one, the frame has moved
/// into the object.
///
/// # Safety
/// As for [`_PyFrame_ClearExceptCode`], and the frame has an object.
#[inline(always)]
unsafe fn let_go_of_object(frame: Frame) -> bool {
    // SAFETY: the caller says that there is an object. The field is NULL before the object may die, so
    // the frame never leads to an object that is gone.
    let object = unsafe { frame.take_object() };
    // SAFETY: alive, as `object` is a reference to it. It is the object of this *ending frame*.
    unsafe {
        if is_shared(object.object().as_ptr()) {
            take_ownership(FrameObject::new(object.object().cast()), frame);
            object.close();
            true
        } else {
            object.close();
            false
        }
    }
}

/// Moves the frame into its object, which is tracked by the collector from then on. The frame that
/// called it, as far as there is one that may be seen, gets an object too and is held by this one.
///
/// What is left at `frame` owns the code alone.
///
/// # Safety
/// As for [`_PyFrame_ClearExceptCode`]; `object` is the frame's.
// Apart, so that an object that dies with its call does not pay for the registers that this needs.
#[inline(never)]
unsafe fn take_ownership(object: FrameObject, frame: Frame) {
    check!(
        frame.belongs_to_a_call(),
        "a frame that is already its object's, or on the C stack, ends"
    );
    if frame.owner() == Owner::GENERATOR && frame.code().flags() & c::CO_OPTIMIZED != 0 {
        // Locals that are in slots need no mapping. What is there instead goes with the generator.
        // SAFETY: *owned by the frame*.
        drop(unsafe { frame.take_locals() });
    }
    const BEFORE_SLOTS: usize = offset_of!(_PyInterpreterFrame, localsplus);
    let bytes = BEFORE_SLOTS + frame.slots_at_rest() * size_of::<StackSlot>();
    // SAFETY: an object has room for its frame's fields and all its slots. The references move, but
    // for that to the code, which the caller keeps: the object gets one of its own.
    let own = unsafe {
        incref(frame.code().as_object());
        let own = object.own_frame();
        own.cast::<u8>().copy_from_nonoverlapping(frame.as_ptr().cast(), bytes);
        // INVARIANT: a copy of a frame, in memory that lives as long as the object.
        Frame::new(own)
    };
    object.set_frame(own);
    own.set_owner(Owner::FRAME_OBJECT);
    if own.is_incomplete() {
        // A generator or coroutine that never started. It never will now.
        own.pretend_it_resumed();
    }
    let caller = own.previous().and_then(Frame::first_complete);
    own.unlink();
    if let Some(caller) = caller {
        check!(caller.owner() != Owner::C_STACK, "a frame on the C stack is complete");
        // SAFETY: complete, and linked, so in a call; a thread that releases references holds a thread
        // state.
        // Without memory the chain of frames ends here. The exception that may be on its way
        // through the two continues.
        if let Some(back) = unsafe { object::of_frame(caller) } {
            // SAFETY: alive, as the frame of a call in progress holds it.
            unsafe { object.set_back(new_reference(back.as_object())) };
        }
    }
    // SAFETY: a live object of a kind that the collector knows.
    unsafe {
        if !is_tracked(object.as_object()) {
            c::PyObject_GC_Track(object.as_object().cast());
        }
    }
}

/// Separates a frame that continues, or is to be replaced, from its object, if it has one. If the
/// object has other references, it keeps a copy of the frame, as if the call were over.
///
/// # Safety
/// `frame` is the calling thread's, at rest: its slots in use are set. Destructors may run.
#[inline]
pub unsafe fn leave_object(frame: Frame) {
    if !frame.object().is_null() {
        // SAFETY: the caller passes a frame at rest that is the calling thread's, and it has an object.
        unsafe { part_from_object(frame) };
    }
}

/// # Safety
/// As for [`leave_object`], and the frame has an object.
#[cold]
#[inline(never)]
unsafe fn part_from_object(frame: Frame) {
    // SAFETY: the caller says that there is an object.
    let object = unsafe { frame.take_object() };
    // SAFETY: alive, as `object` is a reference to it. The object takes the frame's words over, with
    // references of its own for each, and no code runs between counting and moving.
    unsafe {
        if is_shared(object.object().as_ptr()) {
            count_again(frame);
            take_ownership(FrameObject::new(object.object().cast()), frame);
        }
    }
    object.close();
}

/// Takes a second reference to all that the frame owns but its code and its object.
///
/// # Safety
/// `frame` is the calling thread's, at rest: its slots in use are set.
unsafe fn count_again(frame: Frame) {
    for held in [frame.function(), frame.locals()] {
        if !held.is_null() {
            // SAFETY: alive, as the frame owns a reference.
            unsafe { incref(held) };
        }
    }
    for i in 0..frame.slots_in_use() {
        // SAFETY: the caller says that slots in use are set; nothing runs that changes them.
        if let Some(held) = unsafe { frame.held(i) } {
            core::mem::forget(held.dup());
        }
    }
}

/// What must hold when a frame ends.
///
/// # Safety
/// `frame` is live, and the calling thread is attached.
#[cfg(all(ferrule_checks, not(any(test, fuzzing))))]
unsafe fn check_that_it_is_over(frame: Frame) {
    // SAFETY: a frame with this owner lies in a generator, which is alive as the frame is.
    let generator_is_over = || unsafe {
        let within = offset_of!(c::PyGenObject, gi_iframe);
        let generator: *mut c::PyGenObject = frame.as_ptr().byte_sub(within).cast();
        (*generator).gi_frame_state == c::FRAME_CLEARED
    };
    check!(
        frame.owner() != Owner::GENERATOR || generator_is_over(),
        "the frame of a generator ends before the generator"
    );
    // SAFETY: the calling thread is attached, so it has a state, whose current frame is its own.
    let current = unsafe { (*c::PyThreadState_Get()).current_frame };
    check!(current != frame.as_ptr(), "a frame ends that destructors can still see");
}

// A plain reference is what `frame_obj` holds.
const _: () = assert!(size_of::<StackRef<Untagged>>() == size_of::<*mut c::PyFrameObject>());
