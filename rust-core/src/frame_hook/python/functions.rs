//! The functions of `_framecore` that concern hooks.

use super::converted::{code_of, exactly, id_number, made, truth};
use super::hook::{add, describe_all, id_of, Manner};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame_hook::description::Position;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::{opt_out, reentrant, registry, replace, switch, unhooked};
use crate::object::Owned;
use crate::tables::{method, Arguments, NamedArguments};
use crate::thread::Thread;
use core::ffi::{c_int, c_longlong};

/// # Safety
/// The arguments are a call's, as the [`Arguments`] say.
unsafe fn add_frame_hook(
    thread: Thread,
    _: *mut PyObject,
    arguments: Arguments,
) -> Outcome<c_longlong> {
    let Some((all, count @ (1 | 2 | 6))) = arguments.some::<6>() else {
        return Err(Raised::type_error(thread, c"wrong number of arguments"));
    };
    let [hook, name, position, other, this_thread, visible] = all;
    let mut manner = Manner::ORDINARY;
    // SAFETY: live, as they are arguments.
    unsafe {
        if count == 6 {
            manner.position = position_of(thread, position, other)?;
            manner.this_thread = truth(thread, this_thread)?;
            manner.visible = truth(thread, visible)?;
        }
        add(thread, hook, name, manner)
    }
}

/// The position that a number denotes, beside the hook `other` perhaps, which is given by itself or by
/// its id.
///
/// # Safety
/// Both are live.
pub unsafe fn position_of(
    thread: Thread,
    number: *mut PyObject,
    other: *mut PyObject,
) -> Outcome<Position> {
    // SAFETY: the caller says that both are live, and keeps them while an `__index__` runs.
    let (number, other) = unsafe { (id_number(thread, number)?, id_of(thread, other)?) };
    c_int::try_from(number)
        .ok()
        .and_then(|number| Position::from_c(number, other))
        .ok_or_else(|| Raised::value_error(thread, c"unknown position for a frame hook"))
}

/// Why `other` cannot run in the place of `code`, or None.
///
/// # Safety
/// The arguments are a call's.
unsafe fn incompatibility(
    thread: Thread,
    _: *mut PyObject,
    arguments: Arguments,
) -> Outcome<Owned> {
    let [code, other] = exactly(thread, arguments)?;
    // SAFETY: live, as they are arguments.
    let (code, other) = unsafe { (code_of(thread, code)?, code_of(thread, other)?) };
    match replace::incompatibility(code, other) {
        Some(why) => made(thread, Owned::text(thread, why)),
        None => Ok(Owned::none(thread)),
    }
}

/// # Safety
/// Called by CPython, with a callable after the truth value.
unsafe fn call_unhooked(thread: Thread, _: *mut PyObject, given: NamedArguments) -> Outcome<Owned> {
    let ([callees, callable], given) = given
        .split()
        .ok_or_else(|| Raised::type_error(thread, c"a truth and a callable are expected"))?;
    // SAFETY: arguments, which live for the time of the call.
    unsafe {
        let callees = truth(thread, callees)?;
        let (first, positional, names) = given.parts();
        made(thread, unhooked::call(thread, callable, first, positional, names, callees)?)
    }
}

/// # Safety
/// Called by CPython.
unsafe fn call_reentrant(
    thread: Thread,
    _: *mut PyObject,
    given: NamedArguments,
) -> Outcome<Owned> {
    let ([callable], given) =
        given.split().ok_or_else(|| Raised::type_error(thread, c"a callable is expected"))?;
    let (first, positional, names) = given.parts();
    // SAFETY: arguments, which live for the time of the call.
    made(thread, unsafe { reentrant::call(thread, callable, first, positional, names) })
}

/// # Safety
/// `hook` is live.
pub unsafe fn remove_frame_hook(
    thread: Thread,
    _: *mut PyObject,
    hook: *mut PyObject,
) -> Outcome<()> {
    // SAFETY: the caller says that `hook` is live, and keeps it while an `__index__` runs.
    registry::remove(thread, unsafe { id_of(thread, hook) }?)
}

/// What the functions that switch a hook have in common: the first of their arguments is its id, and the
/// last is whether it is enabled.
fn switched<const N: usize>(
    thread: Thread,
    arguments: Arguments,
    work: impl FnOnce(c_longlong, [*mut PyObject; N], bool) -> Outcome<()>,
) -> Outcome<()> {
    let all = exactly::<N>(thread, arguments)?;
    // There are two, or more.
    let [id, .., on] = all.as_slice() else { return Ok(()) };
    // SAFETY: live, as they are arguments.
    let (id, on) = unsafe { (id_number(thread, *id)?, truth(thread, *on)?) };
    work(id, all, on)
}

/// # Safety
/// `code` is live.
unsafe fn never_dispatch(thread: Thread, _: *mut PyObject, code: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller says that `code` is live. It is an argument, so it stays while the result
    // is used.
    let code = unsafe { code_of(thread, code) }?;
    opt_out::disable_for_all_hooks(thread, code)
        .map_err(|error| Raised::by_code_extra(thread, error))
}

/// They are entries of the module's table.
pub const METHODS: [c::PyMethodDef; 12] = [
    method!(
        named "call_unhooked" "($module, callees, callable, /, *args, **kwargs)",
        "Call a function, and dispatch no hook for its frame; nor for its callees, if callees is true.",
        call_unhooked
    ),
    method!(
        named "call_reentrant" "($module, callable, /, *args, **kwargs)",
        "Call a callable from within a callback of a hook as if the callback did not run.",
        call_reentrant
    ),
    method!(
        many "incompatibility" "($module, code, other, /)",
        "Return why other code cannot run in the place of some code; None: it can.",
        incompatibility
    ),
    method!(
        many "add_frame_hook"
        "($module, hook, name=None, position=0, other=0, this_thread=False, visible=False, /)",
        "Install a frame hook, and return its id.",
        add_frame_hook
    ),
    method!(
        one "remove_frame_hook" "($module, hook, /)",
        "Remove a frame hook, given by itself or by its id.",
        remove_frame_hook
    ),
    method!(
        many "enable_frame_hook" "($module, id, on, /)",
        "Enable or disable a hook.",
        |thread, _, arguments| switched::<2>(thread, arguments, |id, _, on| {
            switch::enable(thread, id, on)
        })
    ),
    method!(
        many "enable_frame_hook_in_thread" "($module, id, on, /)",
        "Enable or disable a hook in the calling thread.",
        |thread, _, arguments| switched::<2>(thread, arguments, |id, _, on| {
            switch::enable_in_thread(thread, id, on)
        })
    ),
    method!(
        many "enable_frame_hook_for_code" "($module, id, code, on, /)",
        "Enable or disable a hook for a code object.",
        |thread, _, arguments| switched::<3>(thread, arguments, |id, [_, code, _], on| {
            switch::enable_for_code(thread, id, code_of(thread, code)?, on)
        })
    ),
    method!(
        one "frame_hook_id" "($module, hook, /)",
        "Return the id of a frame hook that is given by itself.",
        |thread, _, hook| id_of(thread, hook)
    ),
    method!(
        one "never_dispatch" "($module, code, /)",
        "Call no hook for a code object, now and later.",
        never_dispatch
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
