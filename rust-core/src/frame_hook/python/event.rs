//! What a hook in Python is told of a frame that it watches.
//!
//! The word of such a watch is a tuple: the callable that is told, and what comes back to it.

use super::converted::made;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::VisitFunction;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::kept::keep;
use crate::frame_hook::verdict::HookEvent;
use crate::object::{ForC, Owned};
use crate::thread::Thread;
use core::ffi::{c_int, c_void, CStr};
use core::ptr::null_mut;

/// What has happened, in the order of `Happened`.
const KINDS: [&CStr; 5] = [c"returned", c"raised", c"yielded", c"resumed", c"dropped"];

/// Calls what is told, with an event.
pub unsafe extern "C" fn tell_python(event: *const HookEvent, _: *mut c_void) -> c_int {
    // SAFETY: called where a hook is told, with an event whose word `word` has made.
    unsafe { tell(Thread::current(), &*event) }.map_or(-1, |_| 0)
}

/// # Safety
/// The event's word was made by [`word`].
unsafe fn tell(thread: Thread, event: &HookEvent) -> Outcome<Owned> {
    let none = &raw mut c::_Py_NoneStruct;
    let or_none = |object: *mut PyObject| if object.is_null() { none } else { object };
    // SAFETY: the word's tuple and all else here are live for the time of the call.
    unsafe {
        let callback = c::PyTuple_GetItem(event.word.cast(), 0);
        if is_cleared(callback) {
            return Ok(Owned::none(thread));
        }
        let told = made(thread, Owned::new(c::PyStructSequence_New(event_type(thread)?.cast())))?;
        let kind = part(thread, 1 + event.kind as usize)?;
        let word = c::PyTuple_GetItem(event.word.cast(), 1);
        let parts = [kind, or_none(event.value), or_none(event.code), word];
        for (i, part) in parts.into_iter().enumerate() {
            let part = Owned::share(thread, part).into_raw();
            c::PyStructSequence_SetItem(told.as_ptr(), i as isize, part);
        }
        // Nobody else does: an exception that leads to its own event would never be freed.
        c::PyObject_GC_Track(told.as_ptr().cast());
        made(thread, Owned::new(c::PyObject_CallOneArg(callback, told.as_ptr())))
    }
}

/// Whether the collector has cleared a function, which CPython cannot call then: a generator that was resurrected as it was
/// finalized, and goes in a cycle, is dropped while the rest of that is cleared.
///
/// # Safety
/// `callback` is live.
unsafe fn is_cleared(callback: *mut PyObject) -> bool {
    // SAFETY: live, by contract. Who is of these types has their layout.
    unsafe {
        let is_method = (*callback).ob_type == &raw mut c::PyMethod_Type;
        let function =
            if is_method { (*callback.cast::<c::PyMethodObject>()).im_func } else { callback };
        (*function).ob_type == &raw mut c::PyFunction_Type
            && (*function.cast::<c::PyFunctionObject>()).func_globals.is_null()
    }
}

/// The word for a watch that tells `callback`, with `own` coming back to it. The collector does not know the
/// tuple: it is the engine's, and what it refers to is shown by [`traverse_word`].
///
/// # Safety
/// Both are live.
pub unsafe fn word(thread: Thread, callback: *mut PyObject, own: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: live, by contract; then a tuple, which is tracked.
    unsafe {
        let word = made(thread, Owned::new(c::PyTuple_Pack(2, callback, own)))?;
        c::PyObject_GC_UnTrack(word.as_ptr().cast());
        Ok(word)
    }
}

/// Shows the collector what a word refers to.
pub unsafe extern "C" fn traverse_word(
    word: *mut c_void,
    visit: VisitFunction,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector, with the word of a watch, which is NULL or was made by `word`.
    unsafe {
        if word.is_null() {
            return 0;
        }
        match visit(c::PyTuple_GetItem(word.cast(), 0), argument) {
            0 => visit(c::PyTuple_GetItem(word.cast(), 1), argument),
            stop => stop,
        }
    }
}

pub unsafe extern "C" fn drop_word(word: *mut c_void) {
    // SAFETY: NULL, or a reference that was the watch's.
    drop(unsafe { Owned::new(word.cast()) });
}

const fn field(name: &'static CStr, doc: &'static CStr) -> c::PyStructSequence_Field {
    c::PyStructSequence_Field { name: name.as_ptr(), doc: doc.as_ptr() }
}

static FIELDS: ForC<[c::PyStructSequence_Field; 5]> = ForC::new([
    field(c"kind", c"'returned', 'raised', 'yielded', 'resumed' or 'dropped'"),
    field(c"value", c"what it has returned or yielded, or the exception; else None"),
    field(c"code", c"the code that ran"),
    field(c"word", c"as watch() was given it"),
    c::PyStructSequence_Field { name: null_mut(), doc: null_mut() },
]);

static DESCRIPTION: ForC<c::PyStructSequence_Desc> = ForC::new(c::PyStructSequence_Desc {
    name: c"framehook.FrameEvent".as_ptr(),
    doc: c"What has happened to a frame that a hook watches.".as_ptr(),
    fields: FIELDS.get().cast(),
    n_in_sequence: 4,
});

/// The type of events. A borrowed reference.
pub fn event_type(thread: Thread) -> Outcome<*mut PyObject> {
    part(thread, 0)
}

/// A part of events, by its number: their type, then the words of `KINDS`. A borrowed reference.
///
/// All are kept. CPython's table of interned strings does not count down where a string leaves it: a
/// word that comes and goes with each event would make it room for more again and again.
fn part(thread: Thread, number: usize) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state. The tuple lives as long as the interpreter has hooks.
    unsafe {
        let parts = keep(thread, &raw mut (*thread.state()).event_parts, || {
            make_parts(thread).map_or(null_mut(), Owned::into_raw)
        })?;
        let part = c::PyTuple_GetItem(parts, number as isize);
        if part.is_null() {
            Err(Raised::by_cpython(thread))
        } else {
            Ok(part)
        }
    }
}

/// `None`, mostly with an exception, where there is no memory.
fn make_parts(thread: Thread) -> Option<Owned> {
    let word = |text| Owned::interned(thread, text);
    let [returned, raised, yielded, resumed, dropped] = KINDS;
    // SAFETY: the description lives for ever; a thread state is attached.
    let kind = unsafe { Owned::new(c::PyStructSequence_NewType(DESCRIPTION.get()).cast()) }?;
    let parts =
        [kind, word(returned)?, word(raised)?, word(yielded)?, word(resumed)?, word(dropped)?];
    let [kind, returned, raised, yielded, resumed, dropped] = parts.each_ref().map(Owned::as_ptr);
    // SAFETY: live, and so many; a thread state is attached.
    unsafe { Owned::new(c::PyTuple_Pack(6, kind, returned, raised, yielded, resumed, dropped)) }
}
