//! The `with` blocks in which a hook is disabled.
//!
//! Both ends are Rust, for the reason given in `block`.

use super::converted::{code_of, exactly, id_number, is_a, made, truth};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{PyObject, PyTypeObject};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::switch;
use crate::frame_hook::world::with_world_stopped;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::{NotStopped, Thread};
use core::ffi::{c_longlong, c_void};
use core::ptr::null_mut;

/// Blocks in which a hook is disabled.
///
/// # Invariants
/// Nothing but `began_in` and what belongs to it changes once Python has the object. It owns a reference to `codes`,
/// which are code objects. These are not the collector's, so no cycle of references leads through here.
#[repr(C)]
struct Suspension {
    base: PyObject,
    id: c_longlong,
    /// In the calling thread only.
    in_thread: bool,
    /// For the code objects of this tuple only; NULL: for all.
    codes: *mut PyObject,
    /// The `Thread::number` of the threads in which blocks in progress have begun, the last one last. So many,
    /// in a block of memory with room for so many. They change with the world stopped.
    began_in: *mut u64,
    count: usize,
    room: usize,
}

unsafe extern "C" fn new(
    kind: *mut PyTypeObject,
    arguments: *mut PyObject,
    _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the maker of a type: a thread state is attached, and the arguments are a tuple.
    unsafe {
        let thread = Thread::current();
        make(thread, kind, arguments).for_python(thread)
    }
}

/// # Safety
/// `kind` is the type of [`Suspension`], and `arguments` is a tuple.
unsafe fn make(
    thread: Thread,
    kind: *mut PyTypeObject,
    arguments: *mut PyObject,
) -> Outcome<Owned> {
    // SAFETY: the caller says that `arguments` is a tuple.
    if unsafe { c::PyTuple_Size(arguments) } != 3 {
        let text = c"Suspension() takes an id, in_thread and codes";
        return Err(Raised::type_error(thread, text));
    }
    // SAFETY: a tuple of three, which keeps them.
    let argument = |at| unsafe { c::PyTuple_GetItem(arguments, at) };
    // SAFETY: live, as they are arguments.
    let (id, in_thread) = unsafe { (id_number(thread, argument(0))?, truth(thread, argument(1))?) };
    let codes = argument(2);
    let every_code = codes == &raw mut c::_Py_NoneStruct;
    // SAFETY: live, as they are arguments, or items of one.
    unsafe {
        for at in 0..if every_code { 0 } else { count_of(thread, codes)? } {
            code_of(thread, c::PyTuple_GetItem(codes, at))?;
        }
    }
    // SAFETY: the caller says that `kind` is the type. Zeros are valid for a new object, which is ours. The tuple of code
    // objects keeps those.
    unsafe {
        let object = made(thread, Owned::new(c::PyType_GenericAlloc(kind, 0)))?;
        let suspension = object.as_ptr().cast::<Suspension>();
        ((*suspension).id, (*suspension).in_thread) = (id, in_thread);
        if !every_code {
            (*suspension).codes = Owned::share(thread, codes).into_raw();
        }
        Ok(object)
    }
}

/// The size of a tuple; `TypeError` for another object.
///
/// # Safety
/// `tuple` is live.
unsafe fn count_of(thread: Thread, tuple: *mut PyObject) -> Outcome<isize> {
    // SAFETY: the caller says that `tuple` is live. Only a tuple, or an instance of a class that is
    // derived from it, has a size here that is not -1.
    unsafe {
        if !is_a(tuple, &raw mut c::PyTuple_Type) {
            return Err(Raised::type_error(thread, c"a tuple of code objects is expected"));
        }
        Ok(c::PyTuple_Size(tuple))
    }
}

unsafe extern "C" fn drop_suspension(this: *mut PyObject) {
    // SAFETY: an object whose last reference is gone. The reference is its own.
    unsafe {
        c::Py_DecRef((*this.cast::<Suspension>()).codes);
        c::PyMem_RawFree((*this.cast::<Suspension>()).began_in.cast());
        deallocate(this);
    }
}

/// A block begins, or ends. The end needs no memory, and does nothing if no block of this object has begun.
///
/// # Safety
/// `this` is a `Suspension`, and live as long as the call lasts.
unsafe fn suspend(thread: Thread, this: *mut PyObject, begins: bool) -> Outcome<()> {
    let this = this.cast::<Suspension>();
    if !begins {
        // SAFETY: the caller says that `this` is live as long as the call lasts.
        unsafe {
            if let Some(number) = note_end(thread, this) {
                resume_now(thread, this, number);
            }
        }
        return Ok(());
    }
    // SAFETY: the caller says that `this` is live as long as the call lasts.
    unsafe {
        note_begin(thread, this)?;
        suspend_now(thread, this).inspect_err(|_| {
            note_end(thread, this);
        })
    }
}

/// Disables the hook.
///
/// # Safety
/// `this` is live as long as the call lasts.
unsafe fn suspend_now(thread: Thread, this: *mut Suspension) -> Outcome<()> {
    // SAFETY: the caller says that `this` is live; these fields do not change. `codes` is NULL or a
    // tuple of code objects, which keeps them alive.
    unsafe {
        let (id, in_thread, codes) = ((*this).id, (*this).in_thread, (*this).codes);
        match (codes.is_null(), in_thread) {
            (false, _) => suspend_for_codes(thread, id, codes),
            (true, true) => switch::suspend_in_thread(thread, id),
            (true, false) => switch::suspend(thread, id),
        }
    }
}

/// Undoes [`suspend_now`] in the thread with that number.
///
/// # Safety
/// As there.
unsafe fn resume_now(thread: Thread, this: *mut Suspension, number: u64) {
    // SAFETY: the caller says that `this` is live; these fields do not change, and `this` keeps
    // `codes`.
    unsafe {
        let (id, in_thread, codes) = ((*this).id, (*this).in_thread, (*this).codes);
        match (codes.is_null(), in_thread) {
            (false, _) => resume_for_codes(thread, id, codes, c::PyTuple_Size(codes)),
            (true, true) => switch::resume_in_thread(thread, id, number),
            (true, false) => switch::resume(thread, id),
        }
    }
}

/// Adds a block that begins in the calling thread.
///
/// # Safety
/// `this` is live as long as the call lasts.
unsafe fn note_begin(thread: Thread, this: *mut Suspension) -> Outcome<()> {
    let mut unused: (*mut u64, usize) = (null_mut(), 0);
    loop {
        // SAFETY: the caller says that `this` is live. *quiet*: numbers are written.
        let wanted = unsafe {
            with_world_stopped(thread, |quiet| {
                add_number(this, quiet.thread().number(), &mut unused)
            })
        };
        // SAFETY: NULL, or a block that is not used.
        unsafe { c::PyMem_RawFree(unused.0.cast()) };
        let Some(room) = wanted else { return Ok(()) };
        // SAFETY: the raw allocator takes any size at any time.
        let block = unsafe { c::PyMem_RawMalloc(room * size_of::<u64>()) }.cast::<u64>();
        if block.is_null() {
            return Err(Raised::no_memory(thread));
        }
        unused = (block, room);
    }
}

/// Adds the number of a thread, in an `unused` block of memory with room for so many if that is larger; then `unused` is
/// the one before. Otherwise returns for how many there must be room.
///
/// # Safety
/// `this` is live, and the world is stopped.
unsafe fn add_number(
    this: *mut Suspension,
    number: u64,
    unused: &mut (*mut u64, usize),
) -> Option<usize> {
    // SAFETY: live, says the caller, and no other thread writes it.
    let (count, room) = unsafe { ((*this).count, (*this).room) };
    if count == room {
        if unused.1 <= room {
            return Some(room * 2 + 2);
        }
        // SAFETY: live, says the caller, and no other thread writes it. The new block has room for the numbers of the old
        // one, which is NULL without any.
        unsafe {
            let before = core::mem::replace(&mut (*this).began_in, unused.0);
            if !before.is_null() {
                (*this).began_in.copy_from_nonoverlapping(before, count);
            }
            (*this).room = unused.1;
            *unused = (before, 0);
        }
    }
    // SAFETY: live, says the caller, and no other thread writes it. There is room for one more.
    unsafe {
        (*this).began_in.add(count).write(number);
        (*this).count = count + 1;
    }
    None
}

/// Removes a block that ends: one that began in the calling thread, if there is one, or the last one. Returns the number
/// of the thread in which it began; `None`: none has begun. Needs no memory.
///
/// # Safety
/// `this` is live as long as the call lasts.
unsafe fn note_end(thread: Thread, this: *mut Suspension) -> Option<u64> {
    // SAFETY: the caller says that `this` is live; the world is stopped, so no other thread writes it. So many numbers
    // are there, and those after the removed one are moved down.
    let remove = |_: &NotStopped| unsafe {
        let last = (*this).count.checked_sub(1)?;
        let is_own = |at: &usize| (*this).began_in.add(*at).read() == thread.number();
        let place = (*this).began_in.add((0..=last).rev().find(is_own).unwrap_or(last));
        let number = place.read();
        place.copy_from(place.add(1), (*this).began_in.add(last).offset_from(place) as usize);
        (*this).count = last;
        Some(number)
    };
    // SAFETY: *quiet*: numbers are moved.
    unsafe { with_world_stopped(thread, remove) }
}

/// Disables the hook for the code objects of a tuple: for all of them or, with an exception, for none.
///
/// # Safety
/// `codes` is a tuple of code objects, and live as long as the call lasts.
unsafe fn suspend_for_codes(thread: Thread, id: c_longlong, codes: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller says that `codes` is a tuple of code objects, live as long as the call
    // lasts; below the count.
    unsafe {
        for at in 0..c::PyTuple_Size(codes) {
            let code = Code::new(c::PyTuple_GetItem(codes, at).cast());
            switch::suspend_for_code(thread, id, code)
                .inspect_err(|_| resume_for_codes(thread, id, codes, at))?;
        }
    }
    Ok(())
}

/// Undoes that for the first `count` of them.
///
/// # Safety
/// As there; there are so many.
unsafe fn resume_for_codes(thread: Thread, id: c_longlong, codes: *mut PyObject, count: isize) {
    for at in 0..count {
        // SAFETY: the caller says that `codes` is such a tuple, with `count` items or more.
        let code = unsafe { Code::new(c::PyTuple_GetItem(codes, at).cast()) };
        switch::resume_for_code(thread, id, code);
    }
}

static METHODS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    method!(
        none "__enter__" "($self, /)",
        "Begin a block in which the hook is disabled.",
        |thread, this| suspend(thread, this, true)
    ),
    method!(
        many "__exit__" "($self, exc_type, exc, traceback, /)",
        "End such a block.",
        |thread, this, arguments| {
            exactly::<3>(thread, arguments).and_then(|_| suspend(thread, this, false))
        }
    ),
    NO_METHOD,
]);

static SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_new, new as *mut c_void),
    slot(c::Py_tp_dealloc, drop_suspension as *mut c_void),
    slot(c::Py_tp_methods, METHODS.get().cast()),
    doc(c"Suspension(id, in_thread, codes, /)\n--\n\nBlocks in which a frame hook is disabled: \
          in the calling thread only if in_thread is true, and for the code objects of a tuple \
          only unless codes is None."),
    NO_SLOT,
]);

pub static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"_framecore.Suspension",
    size_of::<Suspension>(),
    IMMUTABLE,
    SLOTS.get().cast(),
));
