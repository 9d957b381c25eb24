//! Hooks that are Python callables: how they are called, and found again.

use super::converted::{id_number, is_a, made};
use super::event::{event_type, free_data, on_event, traverse_data};
use super::singleton::{disable, is_disable};
use super::view::{call_with_view, view_type};
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::frame_hook::c_types::FrameHookAnswer;
use crate::frame_hook::c_types::FrameHookEntryFunction;
use crate::frame_hook::description::{Description, Position};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::generator_watch::watched_type;
use crate::frame_hook::hook::list::Installed;
use crate::frame_hook::hook::references::HookInUse;
use crate::frame_hook::hook::Hook;
use crate::frame_hook::registry::{self, Refusal};
use crate::frame_hook::verdict::Verdict;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, c_longlong, c_void, CStr};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

/// The entry callback of hooks in Python; the callable is the user data.
unsafe extern "C" fn on_entry(
    frame: *mut _PyInterpreterFrame,
    callable: *mut c_void,
    answer: *mut FrameHookAnswer,
) -> c_int {
    // SAFETY: called by a dispatch for this frame, with an answer that can be written.
    unsafe {
        let verdict = call_hook(Thread::current(), frame, callable.cast(), &mut *answer);
        verdict.unwrap_or(Verdict::Error) as c_int
    }
}

/// Calls the callable. Whether an object is a code object is unvalidated; the dispatch validates.
///
/// # Safety
/// `frame` is being dispatched in this thread, and `callable` is live.
unsafe fn call_hook(
    thread: Thread,
    frame: *mut _PyInterpreterFrame,
    callable: *mut PyObject,
    answer: &mut FrameHookAnswer,
) -> Outcome<Verdict> {
    // SAFETY: the caller says that `frame` is being dispatched in this thread, and that `callable`
    // is live. The hook, which is in use, keeps it, even if it is removed meanwhile.
    let returned = unsafe { call_with_view(thread, callable, frame, answer) }?;
    Ok(if is_disable(thread, &returned) {
        Verdict::Disable
    } else if returned.as_ptr() != &raw mut c::_Py_NoneStruct {
        // SAFETY: NULL, or a reference that is the answer's: code takes precedence over a result.
        drop(unsafe { Owned::new(answer.object) });
        answer.object = code_of_function(thread, returned).into_raw();
        Verdict::Replace
    } else if !answer.object.is_null() {
        Verdict::Result
    } else {
        Verdict::Pass
    })
}

/// The code object of a function or a bound method; other objects as they are.
fn code_of_function(thread: Thread, object: Owned) -> Owned {
    let mut function = object.as_ptr();
    // SAFETY: live, and an object of the type of methods or functions has its layout.
    unsafe {
        if (*function).ob_type == &raw mut c::PyMethod_Type {
            function = (*function.cast::<c::PyMethodObject>()).im_func;
        }
        if (*function).ob_type != &raw mut c::PyFunction_Type {
            return object;
        }
        Owned::share(thread, (*function.cast::<c::PyFunctionObject>()).func_code)
    }
}

unsafe extern "C" fn drop_callable(callable: *mut c_void) {
    // SAFETY: the registry's reference, which was made in `add`.
    unsafe { c::Py_DecRef(callable.cast()) };
}

/// How a Python hook is to be installed.
pub struct Manner {
    /// The owner of the block that installs it; 0: none.
    pub owner: u64,
    pub position: Position,
    pub this_thread: bool,
    pub visible: bool,
}

impl Manner {
    /// After all others, in all threads, and not visible.
    pub const ORDINARY: Self =
        Manner { owner: 0, position: Position::Last, this_thread: false, visible: false };
}

/// Installs a Python hook, and returns its id.
///
/// # Safety
/// `callable` is live; `name` is NULL or live.
pub unsafe fn add(
    thread: Thread,
    callable: *mut PyObject,
    name: *mut PyObject,
    manner: Manner,
) -> Outcome<c_longlong> {
    // SAFETY: the caller says that `callable` is live. No Python code runs here.
    if unsafe { c::PyCallable_Check(callable) } == 0 {
        let text = c"a frame hook must be callable, not %T";
        // SAFETY: a class, and a format that takes an object.
        unsafe { c::PyErr_Format(c::PyExc_TypeError, text.as_ptr(), callable) };
        return Err(Raised::by_cpython(thread));
    }
    // SAFETY: the caller says that `callable` is live, and `name` NULL or live, and keeps both, as Python code may run.
    let named = unsafe {
        if name.is_null() || name == &raw mut c::_Py_NoneStruct {
            name_of(thread, callable)?
        } else {
            Owned::share(thread, name)
        }
    };
    let text = utf8(thread, &named)?;
    // SAFETY: the caller says that `callable` is live.
    if manner.owner == 0 && unsafe { find(thread, callable) }.is_some() {
        return Err(Refusal::Duplicate.raise(thread));
    }
    // What a dispatch needs is allocated now, where an error is expected.
    view_type(thread)?;
    disable(thread)?;
    watched_type(thread)?;
    event_type(thread)?;
    let description = Description {
        free_user_data: Some(drop_callable),
        timed: true,
        owner: manner.owner,
        on_event: Some(on_event),
        free_data: Some(free_data),
        traverse_data: Some(traverse_data),
        visible: manner.visible,
        only_in: manner.this_thread.then(|| thread.number()),
        position: manner.position,
        ..Description::new(on_entry, callable.cast(), text)
    };
    // SAFETY: the caller says that `callable` is live. The reference is the hook's, unless it is not installed.
    unsafe {
        c::Py_IncRef(callable);
        registry::add(thread, &description).inspect_err(|_| c::Py_DecRef(callable))
    }
}

/// The text of a name, without a NUL in it.
fn utf8(thread: Thread, name: &Owned) -> Outcome<&CStr> {
    let mut bytes = 0;
    // SAFETY: a live object. The text is NULL, or lives as long as that.
    let text = unsafe { c::PyUnicode_AsUTF8AndSize(name.as_ptr(), &raw mut bytes) };
    if text.is_null() {
        return Err(Raised::by_cpython(thread));
    }
    // SAFETY: CPython ends it with a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    if text.count_bytes() != bytes as usize {
        return Err(Raised::value_error(thread, c"the name of a frame hook has no NUL in it"));
    }
    Ok(text)
}

/// The name of a callable for messages.
///
/// # Safety
/// `callable` is live, and a thread state is attached.
unsafe fn name_of(thread: Thread, callable: *mut PyObject) -> Outcome<Owned> {
    let attribute = made(thread, Owned::interned(thread, c"__qualname__"))?;
    let mut name = null_mut();
    // SAFETY: the caller says that `callable` is live, and keeps it while a `__getattr__` runs.
    let name = unsafe {
        match c::PyObject_GetOptionalAttr(callable, attribute.as_ptr(), &raw mut name) {
            -1 => return Err(Raised::by_cpython(thread)),
            _ => Owned::new(name).filter(|name| is_a(name.as_ptr(), &raw mut c::PyUnicode_Type)),
        }
    };
    // SAFETY: the caller says that `callable` is live, and keeps it while a `__repr__` runs.
    name.map_or_else(|| made(thread, unsafe { Owned::new(c::PyObject_Repr(callable)) }), Ok)
}

/// Whether two callables are the same one. Each access to a method makes another object: two such objects are the same
/// callable if their function and their object are the same.
///
/// # Safety
/// Both are live.
unsafe fn is_same(one: *mut PyObject, other: *mut PyObject) -> bool {
    if one == other {
        return true;
    }
    // SAFETY: the caller says that both are live. An object of one of these types has its layout.
    unsafe {
        let both = |kind: *mut c::PyTypeObject| (*one).ob_type == kind && (*other).ob_type == kind;
        if both(&raw mut c::PyMethod_Type) {
            let parts = |it: *mut c::PyMethodObject| ((*it).im_func, (*it).im_self);
            return parts(one.cast()) == parts(other.cast());
        }
        let parts = |it: *mut c::PyCFunctionObject| ((*it).m_ml, (*it).m_self);
        both(&raw mut c::PyCFunction_Type) && parts(one.cast()) == parts(other.cast())
    }
}

/// The callable of a Python hook, borrowed.
fn callable_of(hook: &Hook) -> Option<*mut PyObject> {
    let is_python = core::ptr::fn_addr_eq(hook.on_entry, on_entry as FrameHookEntryFunction);
    is_python.then_some(hook.user_data.cast())
}

/// The id of a Python hook.
///
/// # Safety
/// `callable` is live.
unsafe fn find(thread: Thread, callable: *mut PyObject) -> Option<c_longlong> {
    // SAFETY: *quiet*: fields are read; a hook keeps its callable alive.
    unsafe {
        let same = |hook: &Installed| callable_of(hook).is_some_and(|own| is_same(own, callable));
        thread.not_stopped().hooks().find(same).map(|hook| hook.id)
    }
}

/// The id of a Python hook that is given by itself or by its id.
///
/// # Safety
/// `hook` is live.
pub unsafe fn id_of(thread: Thread, hook: *mut PyObject) -> Outcome<c_longlong> {
    // SAFETY: the caller says that `hook` is live. No Python code runs here.
    if let Some(id) = unsafe { find(thread, hook) } {
        return Ok(id);
    }
    // SAFETY: the caller says that `hook` is live. No Python code has run since.
    if unsafe { c::PyIndex_Check(hook) } != 0 {
        // SAFETY: the caller says that `hook` is live, and keeps it while an `__index__` runs.
        return unsafe { id_number(thread, hook) };
    }
    Err(Refusal::Unknown.raise(thread))
}

/// A new list with a dict for each hook, in order.
pub fn describe_all(thread: Thread) -> Outcome<Owned> {
    let list = made(thread, Owned::list(thread))?;
    let (mut at, epoch) = registry::first(thread);
    let mut order = 0;
    while let Some(hook) = at {
        let described = describe(thread, &hook, order, hook.get().is_enabled());
        made(thread, described.and_then(|dict| list.append(thread, &dict)))?;
        order += 1;
        at = hook.into_next(epoch);
    }
    Ok(list)
}

/// How many hooks come before this one.
pub fn order_of(thread: Thread, id: c_longlong) -> usize {
    // SAFETY: *quiet*: fields are read.
    unsafe { thread.not_stopped() }.hooks().take_while(|hook| hook.id != id).count()
}

/// A new dict about a hook; `None` with an exception set.
pub fn describe(thread: Thread, in_use: &HookInUse, order: usize, enabled: bool) -> Option<Owned> {
    let hook = in_use.get();
    let python = match callable_of(hook) {
        // SAFETY: the hook keeps it alive.
        Some(callable) => unsafe { Owned::share(thread, callable) },
        None => Owned::none(thread),
    };
    let counter =
        |counter: &AtomicU64| Owned::number(thread, counter.load(Ordering::Relaxed) as usize);
    let dict = Owned::dict(thread)?;
    dict.set(thread, c"order", Owned::number(thread, order)?)?;
    dict.set(thread, c"id", Owned::signed(thread, hook.id)?)?;
    // SAFETY: UTF-8, as is checked when a hook is added.
    let name = unsafe { Owned::new(c::PyUnicode_FromString(hook.name())) }?;
    dict.set(thread, c"name", name)?;
    dict.set(thread, c"hook", python)?;
    dict.set(thread, c"enabled", Owned::truth(thread, enabled)?)?;
    dict.set(thread, c"calls", counter(&hook.calls)?)?;
    dict.set(thread, c"replacements", counter(&hook.replacements)?)?;
    dict.set(thread, c"errors", counter(&hook.errors)?)?;
    dict.set(thread, c"nanoseconds", counter(&hook.nanoseconds)?)?;
    Some(dict)
}
