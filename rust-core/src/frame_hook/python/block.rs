//! The blocks of `with` statements that install a hook: what `framehook.hook` is made of.
//!
//! Both ends of a block are functions of Rust, not of Python. The end of a block has to work
//! where there is no memory, and Python code that runs for the first time needs some: the
//! instrumentation of its code object. The methods themselves are bound where the block begins.

use super::converted::{exactly, made};
use super::hook::{add, describe, Manner};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::registry;
use crate::frame_hook::snapshot::SnapshotRef;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::CStr;

/// Python's `object.name`.
///
/// # Safety
/// `object` is live.
unsafe fn attribute(thread: Thread, object: *mut PyObject, name: &CStr) -> Outcome<Owned> {
    let name = made(thread, Owned::interned(thread, name))?;
    // SAFETY: live, by contract; a thread state is attached.
    made(thread, unsafe { Owned::new(c::PyObject_GetAttr(object, name.as_ptr())) })
}

/// # Safety
/// `this` is live.
unsafe fn enter(thread: Thread, this: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: live, by contract.
    unsafe {
        let callable = attribute(thread, this, c"callable")?;
        let name = attribute(thread, this, c"name")?;
        let manner = Manner { owner: this, ..Manner::ORDINARY };
        add(thread, callable.as_ptr(), name.as_ptr(), manner)?;
        Ok(Owned::share(thread, this))
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
    let name = made(thread, Owned::interned(thread, c"_last"))?;
    // SAFETY: live, by contract; a thread state is attached.
    match unsafe { c::PyObject_SetAttr(owner, name.as_ptr(), told.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Raised::by_cpython(thread)),
    }
}

/// The handle of the hook that a block of `this` has installed, or None.
fn handle_in_block(thread: Thread, this: *mut PyObject) -> Option<Owned> {
    match registry::id_in_blocks(thread, this.cast()) {
        Some(id) => Owned::signed(thread, id),
        None => Some(Owned::none(thread)),
    }
}

static METHODS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    method!(
        none "__enter__" "($self, /)",
        "Install the hook, if no block of this object has it installed.",
        enter
    ),
    method!(
        many "__exit__" "($self, exc_type, exc, traceback, /)",
        "Remove the hook, if this is the last block of this object.",
        |thread, this, arguments| exactly::<3>(thread, arguments).and_then(|_| leave(thread, this))
    ),
    NO_METHOD,
]);

static GETTERS: ForC<[c::PyGetSetDef; 2]> = ForC::new([
    getter!(
        "_handle",
        "The handle of the hook that a block has installed, or None.",
        handle_in_block
    ),
    NO_GETTER,
]);

static SLOTS: ForC<[c::PyType_Slot; 4]> = ForC::new([
    slot(c::Py_tp_methods, METHODS.get().cast()),
    slot(c::Py_tp_getset, GETTERS.get().cast()),
    doc(c"What framehook.hook is made of: blocks that install self.callable, with the name \
          self.name."),
    NO_SLOT,
]);

pub static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"_framecore.HookBlock",
    size_of::<PyObject>(),
    IMMUTABLE | FOR_SUBCLASSES,
    SLOTS.get().cast(),
));
