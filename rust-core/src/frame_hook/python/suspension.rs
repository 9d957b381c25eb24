//! The blocks of `with` statements in which a hook is not asked.
//!
//! Both ends are functions of Rust, for the reason that `block` gives.

use super::converted::{code_of, exactly, handle, is_a, made, truth};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{PyObject, PyTypeObject};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::switch;
use crate::frame_hook::world::locked;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::{c_longlong, c_void};
use core::ptr::null_mut;

/// Blocks in which a hook is disabled.
///
/// # Invariants
/// Nothing but `began_in` and what belongs to it changes once Python has the object. It owns a reference to `codes`, which are code
/// objects. These are not the collector's, so no cycle of references leads through here.
#[repr(C)]
struct Suspension {
    base: PyObject,
    handle: c_longlong,
    /// In the calling thread only.
    in_thread: bool,
    /// About the code objects of this tuple only; NULL: about all.
    codes: *mut PyObject,
    /// Where only the calling thread is concerned: the `Thread::number` of the threads in which blocks have begun that
    /// have not ended, the last one last. So many, in a block of memory with room for so many. They change with the
    /// world stopped.
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
    // SAFETY: the caller's contract. The tuple keeps the arguments alive, and a tuple of code
    // objects those. The new object is nobody else's yet, and zeros are valid for it.
    unsafe {
        if c::PyTuple_Size(arguments) != 3 {
            return Err(Raised::type_error(
                thread,
                c"Suspension() takes a handle, in_thread and codes",
            ));
        }
        let argument = |at| c::PyTuple_GetItem(arguments, at);
        let id = handle(thread, argument(0))?;
        let in_thread = truth(thread, argument(1))?;
        let codes = argument(2);
        let every_code = codes == &raw mut c::_Py_NoneStruct;
        if !every_code {
            for at in 0..count_of(thread, codes)? {
                code_of(thread, c::PyTuple_GetItem(codes, at))?;
            }
        }
        let object = made(thread, Owned::new(c::PyType_GenericAlloc(kind, 0)))?;
        let suspension = object.as_ptr().cast::<Suspension>();
        (*suspension).handle = id;
        (*suspension).in_thread = in_thread;
        if !every_code {
            c::Py_IncRef(codes);
            (*suspension).codes = codes;
        }
        Ok(object)
    }
}

/// The size of a tuple; `TypeError` where it is none.
///
/// # Safety
/// `tuple` is live.
unsafe fn count_of(thread: Thread, tuple: *mut PyObject) -> Outcome<isize> {
    // SAFETY: live, by contract. Only a tuple, or an instance of a class that is derived from it,
    // has a size here that is not -1.
    unsafe {
        if !is_a(tuple, &raw mut c::PyTuple_Type) {
            return Err(Raised::type_error(thread, c"a tuple of code objects is expected"));
        }
        Ok(c::PyTuple_Size(tuple))
    }
}

unsafe extern "C" fn drop_suspension(this: *mut PyObject) {
    // SAFETY: an object whose last reference is gone: nobody else has it. The reference is its own.
    unsafe {
        c::Py_DecRef((*this.cast::<Suspension>()).codes);
        c::PyMem_RawFree((*this.cast::<Suspension>()).began_in.cast());
        deallocate(this);
    }
}

/// A block begins, or ends. The end needs no memory.
///
/// # Safety
/// `this` is a `Suspension`, and live as long as the call lasts.
unsafe fn suspend(thread: Thread, this: *mut PyObject, begins: bool) -> Outcome<()> {
    let this = this.cast::<Suspension>();
    // SAFETY: live, by contract; these do not change. `codes` is NULL or a tuple of code objects, which keeps them alive.
    unsafe {
        let (id, in_thread, codes) = ((*this).handle, (*this).in_thread, (*this).codes);
        if !codes.is_null() {
            return suspend_for_codes(thread, id, codes, begins);
        }
        match (in_thread, begins) {
            (false, true) => switch::suspend(thread, id),
            (false, false) => {
                switch::resume(thread, id);
                Ok(())
            }
            (true, true) => begin_in_thread(thread, this),
            (true, false) => {
                if let Some(number) = end_in_thread(thread, this) {
                    switch::resume_in_thread(thread, id, number);
                }
                Ok(())
            }
        }
    }
}

/// A block begins that concerns the calling thread.
///
/// # Safety
/// `this` is live as long as the call lasts.
unsafe fn begin_in_thread(thread: Thread, this: *mut Suspension) -> Outcome<()> {
    let mut spare: (*mut u64, usize) = (null_mut(), 0);
    loop {
        // SAFETY: live, by contract; the world is stopped. There is room for so many numbers.
        let wanted = locked(thread, || unsafe {
            if (*this).count == (*this).room && spare.1 > (*this).room {
                let (block, room) = spare;
                block.copy_from_nonoverlapping((*this).began_in, (*this).count);
                spare = ((*this).began_in, 0);
                ((*this).began_in, (*this).room) = (block, room);
            }
            if (*this).count == (*this).room {
                return Some((*this).room * 2 + 2);
            }
            (*this).began_in.add((*this).count).write(thread.number());
            (*this).count += 1;
            None
        });
        // SAFETY: NULL, or a block that nobody uses.
        unsafe { c::PyMem_RawFree(spare.0.cast()) };
        let Some(room) = wanted else { break };
        // SAFETY: the raw allocator takes any size at any time.
        let block = unsafe { c::PyMem_RawMalloc(room * size_of::<u64>()) }.cast::<u64>();
        if block.is_null() {
            return Err(Raised::no_memory(thread));
        }
        spare = (block, room);
    }
    // SAFETY: live, by contract.
    unsafe {
        switch::suspend_in_thread(thread, (*this).handle).inspect_err(|_| {
            end_in_thread(thread, this);
        })
    }
}

/// A block ends: one that began in the calling thread, if there is one, or the last one. The number of the thread in
/// which it began; `None`: none has begun. Needs no memory.
///
/// # Safety
/// `this` is live as long as the call lasts.
unsafe fn end_in_thread(thread: Thread, this: *mut Suspension) -> Option<u64> {
    // SAFETY: live, by contract; the world is stopped. So many numbers are there, and those behind the one that goes
    // move down.
    locked(thread, || unsafe {
        let last = (*this).count.checked_sub(1)?;
        let is_own = |at: &usize| (*this).began_in.add(*at).read() == thread.number();
        let at = (0..=last).rev().find(is_own).unwrap_or(last);
        let place = (*this).began_in.add(at);
        let number = place.read();
        place.copy_from(place.add(1), last - at);
        (*this).count = last;
        Some(number)
    })
}

/// The same about the code objects of a tuple: about all of them or, with an exception, about none.
///
/// # Safety
/// `codes` is a tuple of code objects, and live as long as the call lasts.
unsafe fn suspend_for_codes(
    thread: Thread,
    id: c_longlong,
    codes: *mut PyObject,
    begins: bool,
) -> Outcome<()> {
    // SAFETY: the caller's contract.
    let count = unsafe { c::PyTuple_Size(codes) };
    // SAFETY: the caller's contract; below the count.
    let code_at = |at| unsafe { Code::new(c::PyTuple_GetItem(codes, at).cast()) };
    let resume = |count| (0..count).for_each(|at| switch::resume_for_code(thread, id, code_at(at)));
    if !begins {
        resume(count);
        return Ok(());
    }
    for at in 0..count {
        switch::suspend_for_code(thread, id, code_at(at)).inspect_err(|_| resume(at))?;
    }
    Ok(())
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
    doc(
        c"Suspension(handle, in_thread, codes, /)\n--\n\nBlocks in which a frame hook is not asked: \
          in the calling thread only if in_thread is true, and about the code objects of a tuple \
          only unless codes is None.",
    ),
    NO_SLOT,
]);

pub static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"_framecore.Suspension",
    size_of::<Suspension>(),
    IMMUTABLE,
    SLOTS.get().cast(),
));
