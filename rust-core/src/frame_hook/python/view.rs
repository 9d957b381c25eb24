//! The view of a frame that a hook in Python gets.

use super::converted::made;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::kept::keep;
use crate::frame_hook::view::View;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::c_void;
use core::ptr::null_mut;

/// Python's view of a frame that is being offered.
#[repr(C)]
struct FrameView {
    base: PyObject,
    /// `Thread::number` of the one thread that the view serves; never changes once Python has the
    /// view.
    thread: u64,
    /// The frame, or NULL once the hook has returned. That thread alone reads and writes it.
    frame: *mut _PyInterpreterFrame,
}

/// Calls `callable` with a view of `frame` that expires when that returns. `None`: it has failed.
///
/// # Safety
/// `frame` is being offered in this thread, and `callable` is live.
pub unsafe fn call_with_view(
    thread: Thread,
    callable: *mut PyObject,
    frame: *mut _PyInterpreterFrame,
) -> Outcome<Owned> {
    let kind = view_type(thread)?;
    // SAFETY: a type without special allocation; then a view, which is ours.
    let answer = unsafe {
        let view = made(thread, Owned::new(c::PyType_GenericAlloc(kind.cast(), 0)))?;
        let expiring = view.as_ptr().cast::<FrameView>();
        (*expiring).thread = thread.number();
        (*expiring).frame = frame;
        let answer = Owned::new(c::PyObject_CallOneArg(callable, view.as_ptr()));
        (*expiring).frame = null_mut();
        answer
    };
    made(thread, answer)
}

/// The view behind `self`, for the thread that was given it, until its hook returns. Nothing that
/// may run Python code comes between this and the use of the result.
///
/// # Safety
/// `this` is a `FrameView`.
unsafe fn view(thread: Thread, this: *mut PyObject) -> Outcome<View> {
    let this = this.cast::<FrameView>();
    // SAFETY: live, by contract.
    if unsafe { (*this).thread } != thread.number() {
        return Err(Raised::runtime_error(
            thread,
            c"this view of a frame belongs to another thread: the one whose hook was given it",
        ));
    }
    // SAFETY: live, and this thread's.
    let frame = unsafe { (*this).frame };
    if frame.is_null() {
        return Err(Raised::runtime_error(
            thread,
            c"this view of a frame has expired: a hook may use it until it returns, no longer",
        ));
    }
    // SAFETY: the hook has not returned, so the frame is there.
    unsafe { View::new(frame) }
}

fn names(thread: Thread, view: View) -> Outcome<Owned> {
    let list = made(thread, Owned::list(thread))?;
    for index in 0..view.argument_count() {
        made(thread, list.append(thread, &view.argument_name(index as isize)?))?;
    }
    // SAFETY: a list.
    made(thread, unsafe { Owned::new(c::PyList_AsTuple(list.as_ptr())) })
}

/// # Safety
/// `this` is a `FrameView`, and `key` is live.
unsafe fn argument(thread: Thread, this: *mut PyObject, key: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: live, by contract.
    unsafe {
        if c::PyIndex_Check(key) == 0 {
            return view(thread, this)?.argument_by_name(key);
        }
        // First: this may run Python code, which may outlast the hook.
        let index = c::PyNumber_AsSsize_t(key, c::PyExc_IndexError);
        if index == -1 && !c::PyErr_Occurred().is_null() {
            return Err(Raised::by_cpython(thread));
        }
        view(thread, this)?.argument(index)
    }
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn arguments(thread: Thread, this: *mut PyObject) -> Outcome<Owned> {
    let dict = made(thread, Owned::dict(thread))?;
    // SAFETY: the caller's contract. Storing under a str in a new dict runs no Python code.
    let view = unsafe { view(thread, this) }?;
    for index in 0..view.argument_count() as isize {
        let Some(value) = view.argument_if_any(index)? else { continue };
        let name = view.argument_name(index)?;
        // SAFETY: a dict and two live objects.
        if unsafe { c::PyDict_SetItem(dict.as_ptr(), name.as_ptr(), value.as_ptr()) } != 0 {
            return Err(Raised::by_cpython(thread));
        }
    }
    Ok(dict)
}

static GETTERS: ForC<[c::PyGetSetDef; 6]> = ForC::new([
    getter!(
        "code",
        "The code that is to run, as the hooks before have left it.",
        |thread, this| view(thread, this).map(View::code_object)
    ),
    getter!("function", "The function that was called.", |thread, this| {
        view(thread, this).map(View::function)
    }),
    getter!("globals", "The frame's globals.", |thread, this| {
        view(thread, this).map(View::globals)
    }),
    getter!("builtins", "The frame's builtins.", |thread, this| {
        view(thread, this).map(View::builtins)
    }),
    getter!(
        "argument_names",
        "The names of the parameters, in the order of argument().",
        |thread, this| view(thread, this).and_then(|view| names(thread, view))
    ),
    NO_GETTER,
]);

static METHODS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    method!(
        one "argument" "($self, key, /)",
        "Return the argument of that number or parameter name.",
        argument
    ),
    method!(
        none "arguments" "($self, /)",
        "Return a new dict of all arguments by parameter name.",
        arguments
    ),
    NO_METHOD,
]);

static SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_getset, GETTERS.get().cast()),
    slot(c::Py_tp_methods, METHODS.get().cast()),
    doc(c"A frame that is about to run, as a frame hook sees it."),
    NO_SLOT,
]);

static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"framehook.FrameView",
    size_of::<FrameView>(),
    IMMUTABLE | NOT_TO_BE_MADE,
    SLOTS.get().cast(),
));

/// The type of views. A borrowed reference.
pub fn view_type(thread: Thread) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state; the specification lives for ever.
    unsafe { keep(thread, &raw mut (*thread.state()).view_type, || c::PyType_FromSpec(TYPE.get())) }
}
