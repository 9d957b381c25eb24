//! Functions that CPython calls at the end of the interpreter, and of a thread.

use crate::cpython as c;
use crate::cpython::PyThreadState;
use crate::frame_hook::listening::set_ends;
use crate::frame_hook::{disabled, generator_watch, notify, registry, suspended, watch};
use crate::thread::{Thread, ThreadState};
use core::ptr::null_mut;

/// Removes every hook, and refuses new ones: the interpreter ends.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_FiniFrameHooks(tstate: *mut PyThreadState) {
    // SAFETY: the caller says that `tstate` is the calling thread's own, attached one. Each field
    // is emptied before its object is given up, as that may run any code.
    unsafe {
        let thread = Thread::new(tstate);
        // First: who watches is told that what it watches is over. Were more watched meanwhile, there might
        // be no end.
        set_ends(thread, thread.its_state(), true);
        generator_watch::forget_all(thread);
        notify::forget_all(thread);
        set_ends(thread, thread.its_state(), false);
        registry::close(thread);
        suspended::forget(thread);
        for place in [
            &raw mut (*thread.state()).disable_answer,
            &raw mut (*thread.state()).view_type,
            &raw mut (*thread.state()).incompatible,
            &raw mut (*thread.state()).watched_type,
            &raw mut (*thread.state()).event_parts,
        ] {
            let object = place.replace(null_mut());
            if !object.is_null() {
                c::Py_DecRef(object);
            }
        }
    }
}

/// A thread ends, and with it the frames that it has left in the middle, in greenlets that never go
/// on. Frees what the thread keeps for hooks.
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
        notify::forget_those_of(thread, ending);
        registry::remove_those_of(thread, ending);
        watch::free_unused(ending);
        disabled::free(ending);
    }
}
