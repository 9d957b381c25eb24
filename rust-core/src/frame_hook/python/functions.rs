//! The functions of `_framecore` that concern hooks.

use super::converted::{code_of, exactly, handle, truth};
use super::hook::{add, describe_all, id_of};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::{registry, settled, switch};
use crate::tables::{method, Arguments};
use crate::thread::Thread;
use core::ffi::c_longlong;
use core::ptr::null_mut;

/// # Safety
/// The arguments are a call's, as the [`Arguments`] say.
unsafe fn add_frame_hook(
    thread: Thread,
    _: *mut PyObject,
    arguments: Arguments,
) -> Outcome<c_longlong> {
    let [hook, name] = match arguments.all() {
        Some([hook]) => [hook, null_mut()],
        None => exactly(thread, arguments)?,
    };
    // SAFETY: live, as they are arguments.
    unsafe { add(thread, hook, name, null_mut()) }
}

/// # Safety
/// `hook` is live.
pub unsafe fn remove_frame_hook(
    thread: Thread,
    _: *mut PyObject,
    hook: *mut PyObject,
) -> Outcome<()> {
    // SAFETY: the caller's contract.
    registry::remove(thread, unsafe { id_of(thread, hook) }?)
}

/// What the functions that switch a hook have in common: the first of their arguments is
/// its handle, and the last says whether it is to be asked.
fn switched<const N: usize>(
    thread: Thread,
    arguments: Arguments,
    work: impl FnOnce(c_longlong, [*mut PyObject; N], bool) -> Outcome<()>,
) -> Outcome<()> {
    let all = exactly::<N>(thread, arguments)?;
    // There are two, or more.
    let [id, .., on] = all.as_slice() else { return Ok(()) };
    // SAFETY: live, as they are arguments.
    let (id, on) = unsafe { (handle(thread, *id)?, truth(thread, *on)?) };
    work(id, all, on)
}

/// # Safety
/// `code` is live.
unsafe fn never_offer(thread: Thread, _: *mut PyObject, code: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller's contract.
    let code = unsafe { code_of(thread, code) }?;
    settled::settle_for_everybody(thread, code)
        .map_err(|error| Raised::by_code_extra(thread, error))
}

/// They are entries of the module's table.
pub const METHODS: [c::PyMethodDef; 9] = [
    method!(
        many "add_frame_hook" "($module, hook, name=None, /)",
        "Install a frame hook, behind those that are there, and return its handle.",
        add_frame_hook
    ),
    method!(
        one "remove_frame_hook" "($module, hook, /)",
        "Remove a frame hook, given by itself or by its handle.",
        remove_frame_hook
    ),
    method!(
        many "enable_frame_hook" "($module, handle, on, /)",
        "Ask a hook from now on, or do not.",
        |thread, _, arguments| switched::<2>(thread, arguments, |id, _, on| {
            switch::enable(thread, id, on)
        })
    ),
    method!(
        many "enable_frame_hook_in_thread" "($module, handle, on, /)",
        "Ask a hook about frames of the calling thread from now on, or do not.",
        |thread, _, arguments| switched::<2>(thread, arguments, |id, _, on| {
            switch::enable_in_thread(thread, id, on)
        })
    ),
    method!(
        many "enable_frame_hook_for_code" "($module, handle, code, on, /)",
        "Ask a hook about a code object from now on, or do not.",
        |thread, _, arguments| switched::<3>(thread, arguments, |id, [_, code, _], on| {
            switch::enable_for_code(thread, id, code_of(thread, code)?, on)
        })
    ),
    method!(
        one "frame_hook_id" "($module, hook, /)",
        "Return the handle of a frame hook that is given by itself.",
        |thread, _, hook| id_of(thread, hook)
    ),
    method!(
        one "never_offer" "($module, code, /)",
        "Ask no hook about a code object, now and later.",
        never_offer
    ),
    method!(
        none "clear_frame_hooks" "($module, /)",
        "Remove every frame hook of the interpreter.",
        |thread, _| -> Outcome<()> {
            registry::clear(thread);
            Ok(())
        }
    ),
    method!(
        none "frame_hooks" "($module, /)",
        "Return a new list with a dict for each frame hook, in order.",
        |thread, _| describe_all(thread)
    ),
];
