//! The `with` blocks that install a hook: what `framehook.hook` is made of.
//!
//! Both ends of a block are Rust, not Python. A block's end must work without memory, and Python code that runs for
//! the first time needs some, to instrument its code object. The methods are bound where the block begins.

use super::converted::{exactly, is_a, made, truth};
use super::functions::position_of;
use super::hook::{add, describe, order_of, Manner};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::registry;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

/// What `framehook.hook` is made of.
#[repr(C)]
struct HookBlock {
    base: PyObject,
    /// A number that no other object of this type ever has; 0: not assigned yet. An atomic.
    number: u64,
}

/// The number that was given out last, in whatever interpreter.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The number of a block's object.
///
/// # Safety
/// `this` is a [`HookBlock`].
unsafe fn number_of(this: *mut PyObject) -> u64 {
    // SAFETY: the caller says that `this` is a `HookBlock`, a live one. Threads write the number as
    // an atomic only.
    let number = unsafe { AtomicU64::from_ptr(&raw mut (*this.cast::<HookBlock>()).number) };
    if number.load(Ordering::Relaxed) == 0 {
        let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        // Another thread may be faster.
        let _ = number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
    }
    number.load(Ordering::Relaxed)
}

/// Python's `object.name`.
///
/// # Safety
/// `object` is live.
unsafe fn attribute(thread: Thread, object: *mut PyObject, name: &CStr) -> Outcome<Owned> {
    let name = made(thread, Owned::interned(thread, name))?;
    // SAFETY: the caller says that `object` is live, and keeps it while a `__getattr__` runs; a
    // thread state is attached.
    made(thread, unsafe { Owned::new(c::PyObject_GetAttr(object, name.as_ptr())) })
}

/// How a block installs its hook: its attribute, in the form that `add_frame_hook` takes.
///
/// # Safety
/// `this` is a [`HookBlock`].
unsafe fn manner_of(thread: Thread, this: *mut PyObject) -> Outcome<Manner> {
    // SAFETY: the caller says that `this` is a `HookBlock`, and keeps it.
    let manner = unsafe { attribute(thread, this, c"_manner") }?;
    // SAFETY: live objects; a tuple has a size.
    let is_valid = unsafe {
        is_a(manner.as_ptr(), &raw mut c::PyTuple_Type) && c::PyTuple_Size(manner.as_ptr()) == 4
    };
    if !is_valid {
        return Err(Raised::type_error(thread, c"a tuple of four is expected"));
    }
    // SAFETY: `manner` keeps the tuple and so its items, whatever a `__bool__` or `__index__` runs.
    unsafe {
        let item = |at| c::PyTuple_GetItem(manner.as_ptr(), at);
        Ok(Manner {
            owner: number_of(this),
            position: position_of(thread, item(0), item(1))?,
            this_thread: truth(thread, item(2))?,
            visible: truth(thread, item(3))?,
        })
    }
}

/// # Safety
/// `this` is a [`HookBlock`].
unsafe fn enter(thread: Thread, this: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: the caller says that `this` is a `HookBlock`, and keeps it. Its attributes
    // are kept here until the hook is added.
    unsafe {
        let callable = attribute(thread, this, c"callable")?;
        let name = attribute(thread, this, c"name")?;
        let manner = manner_of(thread, this)?;
        add(thread, callable.as_ptr(), name.as_ptr(), manner)?;
        Ok(Owned::share(thread, this))
    }
}

/// Ends a block of `this`, and stores a description of its hook there. That needs memory, the
/// end does not.
///
/// # Safety
/// `this` is a [`HookBlock`].
unsafe fn leave(thread: Thread, this: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller says that `this` is a `HookBlock`, a live one.
    let number = unsafe { number_of(this) };
    let before = registry::id_in_blocks(thread, number).and_then(|id| registry::find(thread, id));
    let (order, enabled) = before
        .as_ref()
        .map_or((0, false), |hook| (order_of(thread, hook.get().id), hook.get().is_enabled()));
    let Some(left) = registry::leave(thread, number) else { return Ok(()) };
    let description = made(thread, describe(thread, &left, order, enabled))?;
    let name = made(thread, Owned::interned(thread, c"_last"))?;
    // SAFETY: the caller says that `this` is a `HookBlock`, and keeps it while a `__setattr__`
    // runs; a thread state is attached.
    match unsafe { c::PyObject_SetAttr(this, name.as_ptr(), description.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Raised::by_cpython(thread)),
    }
}

/// The id of the hook that a block of `this` has installed, or None.
fn id_of_block(thread: Thread, this: *mut PyObject) -> Option<Owned> {
    // SAFETY: a getter of the type.
    match registry::id_in_blocks(thread, unsafe { number_of(this) }) {
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
    getter!("_id", "The id of the hook that a block has installed, or None.", id_of_block),
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
    size_of::<HookBlock>(),
    IMMUTABLE | FOR_SUBCLASSES,
    SLOTS.get().cast(),
));
