//! The view of a frame that a Python hook is called with.

use super::converted::{made, truth};
use super::event::watch_data;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::exception::drop_aside;
use crate::frame_hook::c_types::{
    FrameHookAnswer, FRAMEHOOK_EXCLUDE_CALLEES, FRAMEHOOK_ONLY_CALLEES,
    FRAMEHOOK_ONLY_CALLEES_EVERYWHERE, FRAMEHOOK_ON_EXIT, FRAMEHOOK_ON_RESUME, FRAMEHOOK_ON_YIELD,
};
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::once_cell::keep;
use crate::frame_hook::view::View;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::{c_uint, c_void};
use core::ptr::null_mut;

/// Python's view of a frame that is being dispatched.
#[repr(C)]
struct FrameView {
    base: PyObject,
    /// `Thread::number` of the one thread that the view serves; never changes once Python has the
    /// view.
    thread: u64,
    /// The frame, or NULL once the callback has returned. That thread alone reads and writes it.
    frame: *mut _PyInterpreterFrame,
    /// The answer beside the verdict, until the callback has returned. As above. It does not lie on
    /// the C stack: while the callback waits in a greenlet, other greenlets may add to it, and use that memory for
    /// their own stack.
    answer: FrameHookAnswer,
}

/// Calls `callable` with a view of `frame` that expires when that returns. `answer` then has the request that was
/// made through the view; nothing, if the call has failed.
///
/// # Safety
/// `frame` is being dispatched in this thread, and `callable` is live.
pub unsafe fn call_with_view(
    thread: Thread,
    callable: *mut PyObject,
    frame: *mut _PyInterpreterFrame,
    answer: &mut FrameHookAnswer,
) -> Outcome<Owned> {
    let kind = view_type(thread)?;
    // SAFETY: a type without special allocation.
    let view = made(thread, unsafe { Owned::new(c::PyType_GenericAlloc(kind.cast(), 0)) })?;
    let expiring = view.as_ptr().cast::<FrameView>();
    // SAFETY: a new view, which is ours.
    unsafe {
        (*expiring).thread = thread.number();
        (*expiring).frame = frame;
        (*expiring).answer = FrameHookAnswer::EMPTY;
    }
    // SAFETY: the caller says that `callable` is live; `view` keeps the other one, whose fields are this thread's.
    let returned = unsafe {
        let returned = Owned::new(c::PyObject_CallOneArg(callable, view.as_ptr()));
        (*expiring).frame = null_mut();
        *answer = core::mem::replace(&mut (*expiring).answer, FrameHookAnswer::EMPTY);
        returned
    };
    let returned = made(thread, returned);
    if returned.is_err() {
        // SAFETY: NULL, or references that are the answer's.
        let references = unsafe { (Owned::new(answer.object), Owned::new(answer.data.cast())) };
        *answer = FrameHookAnswer::EMPTY;
        // SAFETY: attached, and without a lock.
        unsafe { drop_aside(references) };
    }
    returned
}

/// The answer of the hook whose view this is. It is written before any other code runs.
///
/// # Safety
/// `this` is a `FrameView`.
unsafe fn answer<'a>(thread: Thread, this: *mut PyObject) -> Outcome<&'a mut FrameHookAnswer> {
    // SAFETY: the caller says that `this` is a `FrameView`. The answer is a part of the view, and
    // like that this thread's alone.
    unsafe {
        view(thread, this)?;
        Ok(&mut (*this.cast::<FrameView>()).answer)
    }
}

/// # Safety
/// `this` is a `FrameView`, and `value` is live.
unsafe fn result(thread: Thread, this: *mut PyObject, value: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller says that `this` is a `FrameView`, and that `value` is live. No Python
    // code runs here.
    unsafe {
        let answer = answer(thread, this)?;
        if !answer.object.is_null() {
            return Err(Raised::runtime_error(thread, c"this hook has set a result already"));
        }
        answer.object = Owned::share(thread, value).into_raw();
    }
    Ok(())
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn watch(thread: Thread, this: *mut PyObject, given: NamedArguments) -> Outcome<()> {
    let parameters = [c"callback", c"data", c"yields", c"resumes", c"arguments", c"caller"];
    let expected =
        c"watch() takes a callback, data, and the keywords yields, resumes, arguments and caller";
    let [callback, data, yields, resumes, with_arguments, with_caller] =
        given.bind(parameters, 2).ok_or_else(|| Raised::type_error(thread, expected))?;
    let or_none =
        |object: *mut PyObject| if object.is_null() { &raw mut c::_Py_NoneStruct } else { object };
    // SAFETY: an argument, or NULL. No Python code runs here.
    if callback.is_null() || unsafe { c::PyCallable_Check(callback) } == 0 {
        return Err(Raised::type_error(thread, c"the callback of watch() must be callable"));
    }
    // SAFETY: the arguments are NULL or live; the call keeps them.
    let events = unsafe {
        FRAMEHOOK_ON_EXIT
            | if flag(thread, yields)? { FRAMEHOOK_ON_YIELD } else { 0 }
            | if flag(thread, resumes)? { FRAMEHOOK_ON_RESUME } else { 0 }
    };
    let (mut kept, mut calls) = (None, None);
    // SAFETY: the caller says that `this` is a `FrameView`. The arguments are NULL or live; the call keeps them.
    unsafe {
        if flag(thread, with_arguments)? {
            kept = Some(arguments(thread, this)?);
        }
        if flag(thread, with_caller)? {
            calls = Some(caller(thread, view(thread, this)?)?);
        }
    }
    let of = |object: &Option<Owned>| or_none(object.as_ref().map_or(null_mut(), Owned::as_ptr));
    // SAFETY: the call keeps the callback and its data, and `kept` and `calls` are ours.
    let data = unsafe { watch_data(thread, [callback, or_none(data), of(&kept), of(&calls)]) }?;
    // SAFETY: the caller says that `this` is a `FrameView`. It is used before any Python code can run.
    let answer = unsafe { answer(thread, this) }?;
    if answer.events != 0 {
        let text = c"this hook watches the frame already: watch() is called once";
        return Err(Raised::runtime_error(thread, text));
    }
    answer.events = events;
    answer.data = data.into_raw().cast();
    Ok(())
}

/// An argument that may be missing, as a truth value.
///
/// # Safety
/// NULL or live.
unsafe fn flag(thread: Thread, object: *mut PyObject) -> Outcome<bool> {
    // SAFETY: the caller says that `object` is live unless NULL.
    Ok(!object.is_null() && unsafe { truth(thread, object) }?)
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn set_scope(thread: Thread, this: *mut PyObject, scope: c_uint) -> Outcome<()> {
    // SAFETY: the caller says that `this` is a `FrameView`; nothing runs before the last use.
    let answer = unsafe { answer(thread, this) }?;
    if answer.scope != 0 {
        return Err(Raised::runtime_error(
            thread,
            c"this hook has given the frame a scope already: exclude_callees() or only_callees() is called once",
        ));
    }
    answer.scope = scope;
    Ok(())
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn only_callees(thread: Thread, this: *mut PyObject, given: NamedArguments) -> Outcome<()> {
    let [everywhere] = given.bind([c"everywhere"], 0).ok_or_else(|| {
        Raised::type_error(thread, c"only_callees() takes the keyword everywhere")
    })?;
    // SAFETY: NULL, or an argument, which the call keeps; then `this`, as the caller says.
    unsafe {
        let scope = match flag(thread, everywhere)? {
            true => FRAMEHOOK_ONLY_CALLEES_EVERYWHERE,
            false => FRAMEHOOK_ONLY_CALLEES,
        };
        set_scope(thread, this, scope)
    }
}

/// The code object and the line of the calling frame, as a tuple.
fn caller(thread: Thread, view: View) -> Outcome<Owned> {
    let (code, line) = view.caller()?;
    let line = made(thread, Owned::signed(thread, i64::from(line)))?;
    // SAFETY: two live objects.
    made(thread, unsafe { Owned::new(c::PyTuple_Pack(2, code.as_ptr(), line.as_ptr())) })
}

/// The view of `self`, for its own thread, until the callback returns. No Python code runs between this and the use
/// of the result.
///
/// # Safety
/// `this` is a `FrameView`.
unsafe fn view<'a>(thread: Thread, this: *mut PyObject) -> Outcome<View<'a>> {
    let this = this.cast::<FrameView>();
    // SAFETY: the caller says that `this` is a `FrameView`, a live one. Any thread may read the
    // number, which never changes.
    if unsafe { (*this).thread } != thread.number() {
        return Err(Raised::runtime_error(
            thread,
            c"this view of a frame belongs to another thread: the one whose hook was given it",
        ));
    }
    // SAFETY: live, and this thread's.
    let frame = unsafe { (*this).frame };
    if frame.is_null() {
        return Err(Raised::runtime_error(
            thread,
            c"this view of a frame has expired: it can be used until the hook returns",
        ));
    }
    // SAFETY: the callback has not returned, so the frame is there.
    unsafe { View::new(frame) }
}

fn names(thread: Thread, view: View) -> Outcome<Owned> {
    let list = made(thread, Owned::list(thread))?;
    for index in 0..view.argument_count() {
        made(thread, list.append(thread, &view.argument_name(index as isize)?))?;
    }
    // SAFETY: a list.
    made(thread, unsafe { Owned::new(c::PyList_AsTuple(list.as_ptr())) })
}

/// # Safety
/// `this` is a `FrameView`, and `key` is live.
unsafe fn argument(thread: Thread, this: *mut PyObject, key: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: the caller says that `this` is a `FrameView` and `key` live. No Python code runs here.
    unsafe {
        if c::PyIndex_Check(key) == 0 {
            return view(thread, this)?.argument_by_name(key);
        }
    }
    // First: this may run Python code, and the callback may return meanwhile.
    // SAFETY: the caller says that `key` is live; the call keeps it while an `__index__` runs.
    let index = unsafe { c::PyNumber_AsSsize_t(key, c::PyExc_IndexError) };
    if index == -1 && thread.has_exception() {
        return Err(Raised::by_cpython(thread));
    }
    // SAFETY: a `FrameView`, which the call keeps.
    unsafe { view(thread, this) }?.argument(index)
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn arguments(thread: Thread, this: *mut PyObject) -> Outcome<Owned> {
    let dict = made(thread, Owned::dict(thread))?;
    // SAFETY: the caller says that `this` is a `FrameView`. Storing under a str in a new dict runs
    // no Python code.
    let view = unsafe { view(thread, this) }?;
    for index in 0..view.argument_count() as isize {
        let Some(value) = view.argument_if_any(index)? else { continue };
        let name = view.argument_name(index)?;
        // SAFETY: a dict and two live objects.
        if unsafe { c::PyDict_SetItem(dict.as_ptr(), name.as_ptr(), value.as_ptr()) } != 0 {
            return Err(Raised::by_cpython(thread));
        }
    }
    Ok(dict)
}

static GETTERS: ForC<[c::PyGetSetDef; 9]> = ForC::new([
    getter!(
        "code",
        "The code object that is to run, as the hooks before this one have left it.",
        |thread, this| view(thread, this).map(View::code_object)
    ),
    getter!("function", "The function that was called.", |thread, this| {
        view(thread, this).map(View::function)
    }),
    getter!("globals", "The frame's globals.", |thread, this| {
        view(thread, this).map(View::globals)
    }),
    getter!("builtins", "The frame's builtins.", |thread, this| {
        view(thread, this).map(View::builtins)
    }),
    getter!(
        "argument_names",
        "The names of the parameters, in the order of argument().",
        |thread, this| view(thread, this).and_then(|view| names(thread, view))
    ),
    getter!(
        "free_variables",
        "A new dict of the free variables by name, without those that are unset.",
        |thread, this| view(thread, this).and_then(View::free_variables)
    ),
    getter!(
        "locals",
        "The mapping with the locals of a module, a class body or exec(); otherwise None.",
        |thread, this| view(thread, this).map(View::locals)
    ),
    getter!(
        "caller",
        "Code object and line of the calling frame; (None, -1) if no Python code has called.",
        |thread, this| view(thread, this).and_then(|view| caller(thread, view))
    ),
    NO_GETTER,
]);

static METHODS: ForC<[c::PyMethodDef; 7]> = ForC::new([
    method!(
        one "argument" "($self, key, /)",
        "Return the argument of that number or parameter name.",
        argument
    ),
    method!(
        none "arguments" "($self, /)",
        "Return a new dict of all arguments by parameter name.",
        arguments
    ),
    method!(
        named "watch"
        "($self, /, callback, data=None, *, yields=False, resumes=False, arguments=False, caller=False)",
        "Have callback(event) called when the frame returns, raises or is dropped; with yields and\n\
         resumes also when it is suspended and resumed. event.data is data. With arguments,\n\
         event.arguments is a dict of the arguments as they are now; with caller, event.caller is\n\
         self.caller.",
        watch
    ),
    method!(
        one "result" "($self, value, /)",
        "Have the call return value; nothing of it runs. For `return view.result(value)`.",
        result
    ),
    method!(
        none "exclude_callees" "($self, /)",
        "Do not call the hook for callees of this frame on this stack, until it is left.",
        |thread, this| set_scope(thread, this, FRAMEHOOK_EXCLUDE_CALLEES)
    ),
    method!(
        named "only_callees" "($self, /, *, everywhere=False)",
        "Call the hook for callees of this frame, until it is left, even if a scope around it\n\
         excludes them. With everywhere, and in no other thread or greenlet.",
        only_callees
    ),
    NO_METHOD,
]);

static SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_getset, GETTERS.get().cast()),
    slot(c::Py_tp_methods, METHODS.get().cast()),
    doc(c"A frame before its first instruction. It can be used until the hook returns."),
    NO_SLOT,
]);

static TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"framehook.FrameView",
    size_of::<FrameView>(),
    IMMUTABLE | NOT_TO_BE_MADE,
    SLOTS.get().cast(),
));

/// The type of views. A borrowed reference.
pub fn view_type(thread: Thread) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state; the specification lives for ever.
    unsafe { keep(thread, &raw mut (*thread.state()).view_type, || c::PyType_FromSpec(TYPE.get())) }
}
