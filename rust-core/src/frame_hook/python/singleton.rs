//! `framehook.DISABLE`, the answer that disables a hook for a code object.

use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::Outcome;
use crate::frame_hook::once_cell::keep;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::c_void;
use core::ptr::null_mut;

unsafe extern "C" fn repr(_: *mut PyObject) -> *mut PyObject {
    // SAFETY: a slot of a type: a thread state is attached.
    let thread = unsafe { Thread::current() };
    Owned::text(thread, c"framehook.DISABLE").for_python(thread)
}

static METHODS: ForC<[c::PyMethodDef; 2]> = ForC::new([
    // Copies and pickles of the one object are that object, found by its name.
    method!(
        none "__reduce__" "($self, /)",
        "Return the name of the one object of this type.",
        |thread, _| Owned::text(thread, c"DISABLE")
    ),
    NO_METHOD,
]);

static SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_repr, repr as *mut c_void),
    slot(c::Py_tp_methods, METHODS.get().cast()),
    doc(c"The type of framehook.DISABLE, the answer that disables a frame hook for a code object."),
    NO_SLOT,
]);

static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"framehook.Disable",
    size_of::<PyObject>(),
    IMMUTABLE | NOT_TO_BE_MADE,
    SLOTS.get().cast(),
));

/// Whether this is the one object, which may have been freed with the interpreter's hooks.
pub fn is_disable(thread: Thread, object: &Owned) -> bool {
    // SAFETY: a field of the state, which is set once, as an atomic, before a hook in Python is called.
    object.as_ptr() == unsafe { (*thread.state()).disable_answer }
}

/// The one object. A borrowed reference.
pub fn disable(thread: Thread) -> Outcome<*mut PyObject> {
    let make = || {
        // SAFETY: the specification lives for ever; a thread state is attached. The object keeps its type.
        unsafe {
            let Some(kind) = Owned::new(c::PyType_FromSpec(TYPE.get())) else { return null_mut() };
            c::PyType_GenericAlloc(kind.as_ptr().cast(), 0)
        }
    };
    // SAFETY: a field of the state; `make` returns a new reference or NULL with an exception.
    unsafe { keep(thread, &raw mut (*thread.state()).disable_answer, make) }
}
