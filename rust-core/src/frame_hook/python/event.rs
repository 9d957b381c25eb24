//! The events that hooks in Python receive: `framehook.FrameEvent`.
//!
//! The data of a watch is a tuple: the callback, its data, and the arguments and the caller of the frame
//! if they were requested, otherwise None.

use super::converted::made;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::VisitFunction;
use crate::frame_hook::c_types::FrameHookEvent;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::once_cell::keep;
use crate::object::{ForC, Owned};
use crate::thread::Thread;
use core::ffi::{c_int, c_void, CStr};
use core::ptr::null_mut;

/// The kinds of events, in the order of `Kind`.
const KINDS: [&CStr; 5] = [c"returned", c"raised", c"yielded", c"resumed", c"dropped"];

/// The event callback of hooks in Python.
pub unsafe extern "C" fn on_event(event: *const FrameHookEvent, _: *mut c_void) -> c_int {
    // SAFETY: called with an event of a watch, whose data `watch_data` has made.
    unsafe { call(Thread::current(), &*event) }.map_or(-1, |_| 0)
}

/// # Safety
/// The event's data was made by [`watch_data`].
unsafe fn call(thread: Thread, event: &FrameHookEvent) -> Outcome<Owned> {
    let none = &raw mut c::_Py_NoneStruct;
    let or_none = |object: *mut PyObject| if object.is_null() { none } else { object };
    // SAFETY: the watch keeps the tuple, and that its items, for the time of the call.
    let of_watch = |at| unsafe { c::PyTuple_GetItem(event.data.cast(), at) };
    let callback = of_watch(0);
    let kind = event_type(thread)?;
    // SAFETY: a type of struct sequences.
    let object = made(thread, unsafe { Owned::new(c::PyStructSequence_New(kind.cast())) })?;
    let kind = part(thread, 1 + event.kind as usize)?;
    let (value, code) = (or_none(event.value), or_none(event.code));
    let parts = [kind, value, code, of_watch(1), of_watch(2), of_watch(3)];
    for (i, part) in parts.into_iter().enumerate() {
        // SAFETY: live for the time of the call; the new object takes a reference to each.
        unsafe {
            let part = Owned::share(thread, part).into_raw();
            c::PyStructSequence_SetItem(object.as_ptr(), i as isize, part);
        }
    }
    // CPython does not track a struct sequence, and an exception that leads to its own event would never be freed.
    // SAFETY: complete, and not tracked yet. The callback is live for the time of the call.
    unsafe {
        c::PyObject_GC_Track(object.as_ptr().cast());
        made(thread, Owned::new(c::PyObject_CallOneArg(callback, object.as_ptr())))
    }
}

/// The data of a watch. The collector does not know the tuple: nothing but the watch refers to it, and
/// [`traverse_data`] visits its items.
///
/// # Safety
/// The objects are live.
pub unsafe fn watch_data(thread: Thread, items: [*mut PyObject; 4]) -> Outcome<Owned> {
    let [callback, data, arguments, caller] = items;
    // SAFETY: the caller says that the objects are live; then a tuple, which is tracked.
    unsafe {
        let tuple =
            made(thread, Owned::new(c::PyTuple_Pack(4, callback, data, arguments, caller)))?;
        c::PyObject_GC_UnTrack(tuple.as_ptr().cast());
        Ok(tuple)
    }
}

/// `traverse_data` of hooks in Python.
pub unsafe extern "C" fn traverse_data(
    data: *mut c_void,
    visit: VisitFunction,
    argument: *mut c_void,
) -> c_int {
    if data.is_null() {
        return 0;
    }
    for at in 0..4 {
        // SAFETY: called by the collector, with what `watch_data` has made.
        let stop = unsafe {
            let item = c::PyTuple_GetItem(data.cast(), at);
            // None is immortal, and no generator without a hook would refer to it.
            if item == &raw mut c::_Py_NoneStruct {
                continue;
            }
            visit(item, argument)
        };
        if stop != 0 {
            return stop;
        }
    }
    0
}

/// `free_data` of hooks in Python.
pub unsafe extern "C" fn free_data(data: *mut c_void) {
    // SAFETY: NULL, or the watch's reference.
    drop(unsafe { Owned::new(data.cast()) });
}

const fn field(name: &'static CStr, doc: &'static CStr) -> c::PyStructSequence_Field {
    c::PyStructSequence_Field { name: name.as_ptr(), doc: doc.as_ptr() }
}

static FIELDS: ForC<[c::PyStructSequence_Field; 7]> = ForC::new([
    field(c"kind", c"'returned', 'raised', 'yielded', 'resumed' or 'dropped'"),
    field(c"value", c"the value returned or yielded, or the exception; otherwise None"),
    field(c"code", c"the code object that ran"),
    field(c"data", c"the data given to watch()"),
    field(
        c"arguments",
        c"with watch(arguments=True): a dict of the arguments as they were on entry",
    ),
    field(c"caller", c"with watch(caller=True): code and line of the caller, as FrameView.caller"),
    c::PyStructSequence_Field { name: null_mut(), doc: null_mut() },
]);

static DESCRIPTION: ForC<c::PyStructSequence_Desc> = ForC::new(c::PyStructSequence_Desc {
    name: c"framehook.FrameEvent".as_ptr(),
    doc: c"An event of a frame that a hook watches.".as_ptr(),
    fields: FIELDS.get().cast(),
    n_in_sequence: 4,
});

/// The type of events. A borrowed reference.
pub fn event_type(thread: Thread) -> Outcome<*mut PyObject> {
    part(thread, 0)
}

/// A part of events, by its number: their type, then the strings of `KINDS`. A borrowed reference.
///
/// All are kept. CPython's table of interned strings does not count down when a string leaves it: a
/// string that is interned again with each event would make it grow again and again.
fn part(thread: Thread, number: usize) -> Outcome<*mut PyObject> {
    let make = || make_parts(thread).map_or(null_mut(), Owned::into_raw);
    // SAFETY: a field of the state. The tuple lives as long as the interpreter has hooks.
    let part = unsafe {
        let parts = keep(thread, &raw mut (*thread.state()).event_parts, make)?;
        c::PyTuple_GetItem(parts, number as isize)
    };
    if part.is_null() {
        Err(Raised::by_cpython(thread))
    } else {
        Ok(part)
    }
}

/// `None`, mostly with an exception, without memory.
fn make_parts(thread: Thread) -> Option<Owned> {
    let kind_name = |text| Owned::interned(thread, text);
    let [returned, raised, yielded, resumed, dropped] = KINDS;
    // SAFETY: the description lives for ever; a thread state is attached.
    let kind = unsafe { Owned::new(c::PyStructSequence_NewType(DESCRIPTION.get()).cast()) }?;
    let parts = [
        kind,
        kind_name(returned)?,
        kind_name(raised)?,
        kind_name(yielded)?,
        kind_name(resumed)?,
        kind_name(dropped)?,
    ];
    let [kind, returned, raised, yielded, resumed, dropped] = parts.each_ref().map(Owned::as_ptr);
    // SAFETY: live, and so many; a thread state is attached.
    unsafe { Owned::new(c::PyTuple_Pack(6, kind, returned, raised, yielded, resumed, dropped)) }
}
