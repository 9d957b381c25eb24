//! The blocks of `with` statements: those that install a hook, and those in which it is not asked.
//!
//! Both ends of a block are functions of Rust, not of Python. The end of a block has to work
//! where there is no memory, and Python code that runs for the first time needs some: the
//! instrumentation of its code object. The methods themselves are bound where the block begins.

use super::{
    add, code_of, describe, exactly, fast, handle, made, none, one_argument, result, slot, truth,
    Arguments, IMMUTABLE,
};
use crate::cpython as c;
use crate::cpython::{PyObject, PyTypeObject};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::snapshot::SnapshotRef;
use crate::frame_hook::{registry, switch};
use crate::object::{ForC, Owned};
use crate::thread::Thread;
use core::ffi::{c_int, c_longlong, c_void, CStr};
use core::mem::zeroed;
use core::ptr::null_mut;

/// Python's `object.name`.
///
/// # Safety
/// `object` is live.
unsafe fn attribute(thread: Thread, object: *mut PyObject, name: &CStr) -> Outcome<Owned> {
    let name = made(thread, Owned::attribute_name(thread, name))?;
    // SAFETY: live, by contract; a thread state is attached.
    made(thread, unsafe { Owned::new(c::PyObject_GetAttr(object, name.as_ptr())) })
}

unsafe extern "C" fn enter_block(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of a type: a thread state is attached, and the caller keeps the object
    // alive.
    unsafe {
        let thread = Thread::current();
        let installed = attribute(thread, this, c"callable").and_then(|callable| {
            let name = attribute(thread, this, c"name")?;
            add(thread, callable.as_ptr(), name.as_ptr(), this)
        });
        result(installed.map(|_| Owned::share(thread, this)))
    }
}

unsafe extern "C" fn exit_block(
    this: *mut PyObject,
    arguments: Arguments,
    count: isize,
) -> *mut PyObject {
    // SAFETY: as for `enter_block`; so many arguments are there.
    unsafe {
        let thread = Thread::current();
        none(thread, exactly::<3>(thread, arguments, count).and_then(|_| leave(thread, this)))
    }
}

/// Ends a block of `owner`, and keeps there what is to be told of its hook. That needs memory, the
/// end does not.
///
/// # Safety
/// `owner` is live.
unsafe fn leave(thread: Thread, owner: *mut PyObject) -> Outcome<()> {
    let before = SnapshotRef::current(thread);
    let left = registry::leave(thread, owner.cast());
    let (Some(before), Some(id)) = (before, left) else { return Ok(()) };
    let hooks = before.get();
    // Not there where another thread has added it meanwhile.
    let Some((order, hook)) = hooks.iter().enumerate().find(|(_, hook)| hook.id == id) else {
        return Ok(());
    };
    let told = made(thread, describe(thread, hooks, hook, order))?;
    let name = made(thread, Owned::attribute_name(thread, c"_last"))?;
    // SAFETY: live, by contract; a thread state is attached.
    match unsafe { c::PyObject_SetAttr(owner, name.as_ptr(), told.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Raised::by_cpython(thread)),
    }
}

unsafe extern "C" fn handle_of_block(this: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: a getter of a type: a thread state is attached.
    let thread = unsafe { Thread::current() };
    let handle = registry::id_in_blocks(thread, this.cast());
    let object = handle.map_or_else(|| Some(Owned::none(thread)), |id| Owned::signed(thread, id));
    result(made(thread, object))
}

static BLOCK_METHODS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    one_argument(
        c"__enter__",
        enter_block,
        c::METH_NOARGS,
        c"__enter__($self, /)\n--\n\nInstall the hook, if no block of this object has it installed.",
    ),
    fast(
        c"__exit__",
        exit_block,
        c"__exit__($self, exc_type, exc, traceback, /)\n--\n\nRemove the hook, if this is the last block of this object.",
    ),
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

static BLOCK_GETTERS: ForC<[c::PyGetSetDef; 2]> = ForC::new([
    c::PyGetSetDef {
        name: c"_handle".as_ptr(),
        get: Some(handle_of_block),
        set: None,
        doc: c"The handle of the hook that a block has installed, or None.".as_ptr(),
        closure: null_mut(),
    },
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

static BLOCK_SLOTS: ForC<[c::PyType_Slot; 4]> = ForC::new([
    slot(c::Py_tp_methods, BLOCK_METHODS.get().cast()),
    slot(c::Py_tp_getset, BLOCK_GETTERS.get().cast()),
    slot(
        c::Py_tp_doc,
        c"What framehook.hook is made of: blocks that install self.callable, with the name self.name."
            .as_ptr()
            .cast_mut()
            .cast(),
    ),
    slot(0, null_mut()),
]);

/// `Py_TPFLAGS_BASETYPE`.
const SUBCLASSES: u32 = 1 << 10;

static BLOCK_TYPE: ForC<c::PyType_Spec> = ForC::new(c::PyType_Spec {
    name: c"_framecore.HookBlock".as_ptr(),
    basicsize: size_of::<PyObject>() as c_int,
    itemsize: 0,
    flags: IMMUTABLE | SUBCLASSES,
    slots: BLOCK_SLOTS.get().cast(),
});

/// Blocks in which a hook is not asked.
///
/// # Invariants
/// Nothing changes once Python has the object, and it owns a reference to `codes`. Code objects are
/// not the collector's, so no cycle of references leads through here.
#[repr(C)]
struct Suspension {
    base: PyObject,
    handle: c_longlong,
    /// In the calling thread only.
    in_thread: bool,
    /// About the code objects of this tuple only; NULL: about all.
    codes: *mut PyObject,
}

unsafe extern "C" fn new_suspension(
    kind: *mut PyTypeObject,
    arguments: *mut PyObject,
    _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the maker of a type: a thread state is attached, and the arguments are a tuple.
    result(unsafe { make_suspension(Thread::current(), kind, arguments) })
}

/// # Safety
/// `kind` is the type of [`Suspension`], and `arguments` is a tuple.
unsafe fn make_suspension(
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
        if c::PyType_IsSubtype((*tuple).ob_type, &raw mut c::PyTuple_Type) == 0 {
            return Err(Raised::type_error(thread, c"a tuple of code objects is expected"));
        }
        Ok(c::PyTuple_Size(tuple))
    }
}

unsafe extern "C" fn drop_suspension(this: *mut PyObject) {
    // SAFETY: an object whose last reference is gone: nobody else has it. The reference is its own.
    unsafe {
        c::Py_DecRef((*this.cast::<Suspension>()).codes);
        super::deallocate(this);
    }
}

/// A block begins, or ends. The end needs no memory.
///
/// # Safety
/// `this` is a `Suspension`, and live as long as the call lasts.
unsafe fn suspend(thread: Thread, this: *mut PyObject, begins: bool) -> Outcome<()> {
    // SAFETY: live, by contract; it does not change.
    let Suspension { handle, in_thread, codes, .. } = unsafe { &*this.cast::<Suspension>() };
    if codes.is_null() {
        let suspend = if *in_thread { switch::suspend_in_thread } else { switch::suspend };
        return suspend(thread, *handle, begins);
    }
    // SAFETY: a tuple of code objects, which keeps them alive.
    unsafe { suspend_for_codes(thread, *handle, *codes, begins) }
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
    let (count, code_at) =
        unsafe { (c::PyTuple_Size(codes), |at| code_of(thread, c::PyTuple_GetItem(codes, at))) };
    let resume = |count| {
        for code in (0..count).filter_map(|at| code_at(at).ok()) {
            switch::resume_for_code(thread, id, code);
        }
    };
    if !begins {
        resume(count);
        return Ok(());
    }
    for at in 0..count {
        let begun = code_at(at).and_then(|code| switch::suspend_for_code(thread, id, code));
        if begun.is_err() {
            resume(at);
            return begun;
        }
    }
    Ok(())
}

unsafe extern "C" fn enter_suspension(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of the type: a thread state is attached, and the caller keeps the object
    // alive.
    unsafe {
        let thread = Thread::current();
        none(thread, suspend(thread, this, true))
    }
}

unsafe extern "C" fn exit_suspension(
    this: *mut PyObject,
    arguments: Arguments,
    count: isize,
) -> *mut PyObject {
    // SAFETY: as for `enter_suspension`; so many arguments are there.
    unsafe {
        let thread = Thread::current();
        let ended =
            exactly::<3>(thread, arguments, count).and_then(|_| suspend(thread, this, false));
        none(thread, ended)
    }
}

static SUSPENSION_METHODS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    one_argument(
        c"__enter__",
        enter_suspension,
        c::METH_NOARGS,
        c"__enter__($self, /)\n--\n\nBegin a block in which the hook is not asked.",
    ),
    fast(
        c"__exit__",
        exit_suspension,
        c"__exit__($self, exc_type, exc, traceback, /)\n--\n\nEnd such a block.",
    ),
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

static SUSPENSION_SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_new, new_suspension as *mut c_void),
    slot(c::Py_tp_dealloc, drop_suspension as *mut c_void),
    slot(c::Py_tp_methods, SUSPENSION_METHODS.get().cast()),
    slot(
        c::Py_tp_doc,
        c"Suspension(handle, in_thread, codes, /)\n--\n\nBlocks in which a frame hook is not asked: in the calling thread only if in_thread is true, and about the code objects of a tuple only unless codes is None."
            .as_ptr()
            .cast_mut()
            .cast(),
    ),
    slot(0, null_mut()),
]);

static SUSPENSION_TYPE: ForC<c::PyType_Spec> = ForC::new(c::PyType_Spec {
    name: c"_framecore.Suspension".as_ptr(),
    basicsize: size_of::<Suspension>() as c_int,
    itemsize: 0,
    flags: IMMUTABLE,
    slots: SUSPENSION_SLOTS.get().cast(),
});

/// The two types, new ones for each module object, with their names there.
pub fn types(thread: Thread) -> Outcome<[(&'static CStr, Owned); 2]> {
    // SAFETY: the specifications live for ever, and a thread state is attached.
    let new = |spec: &'static ForC<c::PyType_Spec>| unsafe {
        made(thread, Owned::new(c::PyType_FromSpec(spec.get())))
    };
    Ok([(c"HookBlock", new(&BLOCK_TYPE)?), (c"Suspension", new(&SUSPENSION_TYPE)?)])
}
