//! Functions that CPython calls at the end of the interpreter, and of a thread.

use crate::cpython as c;
use crate::cpython::PyThreadState;
use crate::frame_hook::listening::set_ends;
use crate::frame_hook::watch::memory;
use crate::frame_hook::{disabled, generator_watch, notify, registry, suspended};
use crate::thread::{Thread, ThreadState};
use core::ptr::null_mut;

/// Removes every hook, and refuses new ones: the interpreter ends.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_FiniFrameHooks(tstate: *mut PyThreadState) {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one.
    let thread = unsafe { Thread::new(tstate) };
    let (own, state) = (thread.its_state(), thread.state());
    // Drop callbacks first. Were more frames watched meanwhile, there might be no end.
    // SAFETY: the calling thread, so nothing else works on what is that thread's.
    unsafe { set_ends(thread, own, true) };
    generator_watch::drop_all_generators(thread);
    notify::drop_all_watches(thread);
    // SAFETY: the calling thread still, so nothing else works on what is its.
    unsafe { set_ends(thread, own, false) };
    registry::close(thread);
    suspended::forget(thread);
    // SAFETY: the state is live. No reference is made.
    let fields = unsafe {
        [
            &raw mut (*state).disable_answer,
            &raw mut (*state).view_type,
            &raw mut (*state).incompatible,
            &raw mut (*state).watched_type,
            &raw mut (*state).event_parts,
        ]
    };
    for field in fields {
        // SAFETY: NULL, or the field's reference. The field is emptied before that is released, as any code may run.
        unsafe { c::Py_DecRef(field.replace(null_mut())) };
    }
}

/// A thread ends, and with it the frames that it has left unfinished, in greenlets that are never resumed. Frees the
/// thread's memory for hooks.
///
/// # Safety
/// An attached thread calls this; `tstate` belongs to its interpreter and runs nothing any more.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_FiniFrameHooksOfThread(tstate: *mut PyThreadState) {
    // SAFETY: the caller says that this thread is attached, and that `tstate` belongs to its
    // interpreter and runs nothing any more. So nothing else works on what is that thread's.
    unsafe {
        let (thread, ending) = (Thread::current(), ThreadState::new(tstate));
        set_ends(thread, ending, true);
        notify::drop_watches_of(thread, ending);
        registry::remove_those_of(thread, ending);
        memory::free_unused(ending);
        disabled::free(ending);
    }
}
