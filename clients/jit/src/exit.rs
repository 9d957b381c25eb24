//! The way back into the interpreter: the frames that were left are continued there.

use crate::containers::kind_of;
use crate::context::{Context, Left};
use crate::continuation::{Continuation, Frames};
use crate::instances;
use crate::iterators;
use crate::kind::Kind;
use crate::python::PyCell_New;
use crate::record;
use crate::slot::{Cause, Exit, Slot};
use pyo3::ffi::{self, PyFunctionObject, PyObject};
use pyo3::prelude::*;
use std::collections::HashMap;

/// Objects for the slots of one frame. Equal slots share one: a value in two variables is one object.
struct Boxes<'a> {
    words: &'a [u64],
    made: HashMap<&'a Slot, *mut PyObject>,
}

impl<'a> Boxes<'a> {
    fn word(&self, place: u16) -> u64 {
        self.words.get(usize::from(place)).copied().unwrap_or(0)
    }

    /// Whether there is no object in the slot.
    fn is_empty(&self, slot: &Slot) -> bool {
        match slot {
            Slot::Maybe(bound, _) => self.word(*bound) == 0,
            slot => *slot == Slot::Empty,
        }
    }

    /// A new reference; NULL for what is unbound, and with an exception if there is no memory.
    ///
    /// # Safety
    /// The thread is attached, no exception is set, and objects among the words are alive.
    unsafe fn object(&mut self, slot: &'a Slot) -> *mut PyObject {
        if let Slot::Maybe(_, value) = slot {
            if self.is_empty(slot) {
                return std::ptr::null_mut();
            }
            // SAFETY: as for this function.
            return unsafe { self.object(value) };
        }
        if let Some(known) = self.made.get(slot) {
            // SAFETY: an object that this frame has a reference to, or NULL.
            return unsafe { ffi::Py_XNewRef(*known) };
        }
        // SAFETY: attached, and the slot's objects are alive: what this function asks of its caller too.
        let object = unsafe { self.make(slot) };
        if !slot.has_state() {
            self.made.insert(slot, object);
        }
        object
    }

    /// # Safety
    /// As for `object`.
    unsafe fn make(&mut self, slot: &'a Slot) -> *mut PyObject {
        let known = match slot {
            Slot::Int(_, Some(object)) | Slot::Float(_, Some(object)) | Slot::Object(object) => {
                self.word(*object) as usize
            }
            Slot::Constant(address) => *address,
            _ => 0,
        };
        if known != 0 {
            // SAFETY: objects among the words are alive, says the caller; constants are kept by the code, or were found by a
            // dependency, and no code of the program has run since.
            return unsafe { ffi::Py_NewRef(known as *mut PyObject) };
        }
        // SAFETY: the caller says that the thread is attached, which is all that making new objects needs.
        unsafe { self.make_new(slot) }
    }

    /// # Safety
    /// As for `object`.
    unsafe fn make_new(&mut self, slot: &'a Slot) -> *mut PyObject {
        let int = |place: &u16| self.word(*place) as i64;
        // SAFETY: attached, says the caller; a bool and None are immortal, and the rest are new objects.
        unsafe {
            match slot {
                Slot::Int(value, _) => ffi::PyLong_FromLongLong(int(value)),
                Slot::Float(value, _) => ffi::PyFloat_FromDouble(f64::from_bits(self.word(*value))),
                Slot::Bool(value) => ffi::PyBool_FromLong(int(value)),
                Slot::None => ffi::Py_NewRef(ffi::Py_None()),
                _ => self.make_compound(slot),
            }
        }
    }

    /// # Safety
    /// As for `object`.
    unsafe fn make_compound(&mut self, slot: &'a Slot) -> *mut PyObject {
        let int = |place: &u16| self.word(*place) as i64;
        match slot {
            // SAFETY: attached, says the caller.
            Slot::Range([start, stop, step]) => unsafe {
                iterators::range(int(start), int(stop).into(), int(step))
            },
            Slot::RangeIterator([next, left, step], descending) => {
                // SAFETY: attached, says the caller.
                unsafe { iterators::of_range(int(next), int(left), int(step), *descending) }
            }
            Slot::Counter([next, end]) => {
                let left = int(end).max(int(next)).wrapping_sub(int(next));
                // SAFETY: attached, says the caller.
                unsafe { iterators::of_range(int(next), left, 1, false) }
            }
            Slot::Iterator(object, index, backwards) => {
                let object = self.word(*object) as usize as *mut PyObject;
                // SAFETY: attached, says the caller; the container is alive as an object among the words.
                unsafe { iterators::of_container(object, int(index), *backwards) }
            }
            // SAFETY: as for a tuple.
            Slot::Cell(content) => unsafe { self.cell(content) },
            // SAFETY: attached, says the caller; the items' objects are alive as the slot's.
            Slot::Tuple(items) => unsafe { self.tuple(items) },
            Slot::Enumerate(number, iterator) => {
                // SAFETY: as for a tuple.
                unsafe { iterators::enumerate(self.object(iterator), self.word(*number) as i64) }
            }
            // SAFETY: as for a tuple.
            Slot::Zip(items) => unsafe { iterators::zip(self.tuple(items)) },
            _ => std::ptr::null_mut(),
        }
    }

    /// # Safety
    /// As for `object`.
    unsafe fn cell(&mut self, content: &'a Slot) -> *mut PyObject {
        // SAFETY: by contract; the cell has a reference of its own.
        unsafe {
            let object = self.object(content);
            if object.is_null() && !self.is_empty(content) {
                return object;
            }
            let cell = PyCell_New(object);
            ffi::Py_XDECREF(object);
            cell
        }
    }

    /// # Safety
    /// As for `object`.
    unsafe fn tuple(&mut self, items: &'a [Slot]) -> *mut PyObject {
        // SAFETY: attached.
        let tuple = unsafe { ffi::PyTuple_New(items.len() as ffi::Py_ssize_t) };
        if tuple.is_null() {
            return tuple;
        }
        for (index, item) in items.iter().enumerate() {
            // SAFETY: the caller says that the thread is attached, and the code and the objects that were left are alive.
            let object = unsafe { self.object(item) };
            if object.is_null() {
                // SAFETY: made above.
                unsafe { ffi::Py_DECREF(tuple) };
                return std::ptr::null_mut();
            }
            // SAFETY: a new tuple with room for the item, whose reference it takes.
            unsafe { ffi::PyTuple_SET_ITEM(tuple, index as ffi::Py_ssize_t, object) };
        }
        tuple
    }
}

/// Fills the slots of a frame. On failure an exception is set; what was made is in `slots` all the same.
///
/// # Safety
/// As for `Boxes::object`; `words` are those of the exit.
pub unsafe fn fill(exit: &Exit, words: &[u64], slots: &mut Vec<*mut PyObject>) -> bool {
    let mut boxes = Boxes { words, made: HashMap::new() };
    for slot in exit.locals.iter().chain(&exit.stack) {
        // SAFETY: the caller says that the thread is attached, and the code and the objects that were left are alive.
        let object = unsafe { boxes.object(slot) };
        slots.push(object);
        if object.is_null() && !boxes.is_empty(slot) {
            return false;
        }
    }
    true
}

/// A word of a frame that was left.
fn word(left: &Left, place: u16) -> u64 {
    left.words.get(usize::from(place)).copied().unwrap_or(0)
}

/// The exit of a frame that was left.
///
/// # Safety
/// The code that has left is alive as long as the result is used.
pub unsafe fn exit_of<'a>(left: &Left) -> Option<&'a Exit> {
    // SAFETY: its table lives as long as the code, by contract, and its exits never change.
    unsafe { (*left.table).exits.get() }?.get(left.exit)
}

/// Continues the frames that compiled code has left, and returns the result of the outermost one.
///
/// # Safety
/// The thread is attached and no exception is set. The context's log is that of one entry, made of code that is alive; the objects
/// among its words are alive, and `function` is the function that was entered.
pub unsafe fn continue_frames(context: &mut Context, function: *mut PyObject) -> *mut PyObject {
    // SAFETY: by contract; the frames have references of their own when those of compiled code are released.
    unsafe {
        let frames = frames_of(&context.log, function);
        context.release();
        frames.run()
    }
}

/// The function that a frame that was left has called.
fn callee_of(left: &Left, exit: &Exit) -> *mut PyObject {
    let address = match exit.callee {
        Slot::Constant(address) => address,
        Slot::Object(place) => word(left, place) as usize,
        _ => 0,
    };
    address as *mut PyObject
}

/// Looks at the instance again whose attribute the innermost frame was left at. Whether the attribute may be `None` or something else, for
/// which the code was not compiled: then that of all frames but the outermost one is to be compiled anew.
///
/// # Safety
/// Attached; the code that was left is alive, and so are the objects among its words.
pub unsafe fn learn(log: &[Left]) -> bool {
    // SAFETY: by contract.
    let exit = |left: &Left| unsafe { exit_of(left) };
    let innermost = log.first().and_then(|left| Some((left, exit(left)?)));
    let Some((left, innermost)) = innermost else { return false };
    let (Some(Slot::Object(place)), Some(attribute)) =
        (innermost.stack.last(), innermost.attribute)
    else {
        return false;
    };
    let object = word(left, *place) as usize as *mut PyObject;
    // SAFETY: attached, and an object that is alive. PyO3 lets go at once of an error that is dropped.
    let kind =
        unsafe { Python::attach_unchecked(|py| kind_of(&Bound::from_borrowed_ptr(py, object))) };
    let Some(Kind::Instance(class)) = kind else { return false };
    let learned = instances::may_be_none(class, attribute);
    let outer = log.iter().skip(1).filter_map(|left| Some(callee_of(left, exit(left)?)));
    for callee in outer.filter(|callee| learned && !callee.is_null()) {
        // SAFETY: attached; the function that the frame has called: its code keeps it, or it is one of its words.
        let record = unsafe { record::find((*callee.cast::<PyFunctionObject>()).func_code) };
        if let Some(record) = record {
            record.renew.set(true);
        }
    }
    learned
}

/// What continues the call that a frame is in, as an object to which the interpreter makes it again. `inner` is the log of the call. NULL
/// with an exception if there is no memory.
///
/// # Safety
/// As for `continue_frames`.
pub unsafe fn resume(left: &Left, exit: &Exit, inner: &[Left]) -> *mut PyObject {
    // SAFETY: by contract.
    let (py, mut frames) =
        unsafe { (Python::assume_attached(), frames_of(inner, callee_of(left, exit))) };
    if let Slot::Object(place) = exit.instance {
        let instance = word(left, place) as usize as *mut PyObject;
        // SAFETY: attached, and an object that is alive, says the caller.
        frames.instance = Some(unsafe { Bound::from_borrowed_ptr(py, instance) }.unbind());
    }
    frames.special = exit.special;
    match Bound::new(py, Continuation::of(frames)) {
        Ok(made) => made.into_ptr(),
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    }
}

/// The frames of a call of `function`, whose log this is.
///
/// # Safety
/// As for `continue_frames`.
unsafe fn frames_of(log: &[Left], function: *mut PyObject) -> Frames {
    // SAFETY: the caller says that the code that was left is alive.
    let exit = |left: &Left| unsafe { exit_of(left) };
    // Callees that are called again are forgotten.
    let is_repeated = |left: &Left| exit(left).is_some_and(|exit| exit.cause == Cause::Repeat);
    let log = &log[log.iter().rposition(is_repeated).unwrap_or(0)..];
    let is_resumed = |left: &Left| exit(left).is_some_and(|exit| exit.resumes.is_some());
    let (inner, mut frames) = log.split_at(log.iter().rposition(is_resumed).unwrap_or(0));
    let mut made = Frames::none();
    let innermost = frames.first().and_then(|left| Some((left, exit(left)?)));
    if let Some((left, exit)) = innermost.filter(|(_, exit)| exit.cause == Cause::Return) {
        let mut returned = Vec::new();
        // SAFETY: the caller says that the thread is attached, and the code and the objects that were left are alive.
        made.lacks_memory = unsafe { !fill(exit, &left.words, &mut returned) };
        made.value = returned.first().copied().unwrap_or(std::ptr::null_mut());
        frames = &frames[1..];
    }
    let mut callee = function;
    for (depth, left) in frames.iter().enumerate().rev() {
        let Some(exit) = exit(left) else { break };
        let mut own = Vec::new();
        // SAFETY: the caller says that the thread is attached, and the code and the objects that were left are alive.
        unsafe {
            made.lacks_memory = made.lacks_memory || !fill(exit, &left.words, &mut own);
            if let (Some(place), false) = (exit.resumes, made.lacks_memory) {
                let continuation = resume(left, exit, inner);
                made.lacks_memory = continuation.is_null();
                ffi::Py_XDECREF(replace(&mut own, exit.locals.len() + place, continuation));
            }
        }
        // The innermost one is behind the call if that has a result.
        let unit = if depth == 0 && !made.value.is_null() { exit.after } else { exit.unit };
        // SAFETY: attached, and the function is alive now.
        unsafe { made.push(callee, unit, exit.stack.len(), own) };
        callee = callee_of(left, exit);
    }
    made
}

/// Puts an object into a slot, and returns what was there.
pub fn replace(slots: &mut [*mut PyObject], index: usize, object: *mut PyObject) -> *mut PyObject {
    slots.get_mut(index).map_or(object, |slot| std::mem::replace(slot, object))
}
