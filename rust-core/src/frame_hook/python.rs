//! Python's face: functions of `_framecore` and `sys`, the view of a frame, and
//! the hook that calls a Python callable.

mod block;
pub mod module;

use super::error::{Outcome, Raised};
use super::kept::keep;
use super::registry::{self, Refusal};
use super::snapshot::{Callee, Description, ExtendedHook, Hook, Snapshot, SnapshotRef};
use super::view::View;
use super::{settled, suspended, switch};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject, PyThreadState};
use crate::object::{ForC, Owned};
use crate::thread::Thread;
use core::ffi::{c_int, c_longlong, c_void, CStr};
use core::mem::zeroed;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// Python's view of a frame that is being offered.
#[repr(C)]
struct FrameView {
    base: PyObject,
    /// `Thread::number` of the one thread that the view serves; never changes once Python has the
    /// view.
    thread: u64,
    /// The frame, or NULL once the hook has returned. That thread alone reads and writes it.
    frame: *mut _PyInterpreterFrame,
}

/// The result of a function of a module.
fn result(outcome: Outcome<Owned>) -> *mut PyObject {
    outcome.map_or(null_mut(), Owned::into_raw)
}

fn none(thread: Thread, outcome: Outcome<()>) -> *mut PyObject {
    result(outcome.map(|()| Owned::none(thread)))
}

/// `None` means that a call into CPython has failed.
fn made<T>(thread: Thread, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| Raised::by_cpython(thread))
}

/// The view behind `self`, for the thread that was given it, until its hook returns. Nothing that
/// may run Python code comes between this and the use of the result.
///
/// # Safety
/// `this` is a `FrameView`.
unsafe fn view(thread: Thread, this: *mut PyObject) -> Outcome<View> {
    let this = this.cast::<FrameView>();
    // SAFETY: live, by contract.
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
            c"this view of a frame has expired: a hook may use it until it returns, no longer",
        ));
    }
    // SAFETY: the hook has not returned, so the frame is there.
    unsafe { View::new(frame) }
}

type Getter = fn(Thread, View) -> Outcome<Owned>;

fn argument_names(thread: Thread, view: View) -> Outcome<Owned> {
    let list = made(thread, Owned::list(thread))?;
    for index in 0..view.argument_count() {
        made(thread, list.append(thread, &view.argument_name(index as isize)?))?;
    }
    // SAFETY: a list.
    made(thread, unsafe { Owned::new(c::PyList_AsTuple(list.as_ptr())) })
}

/// The getters, by the number in their table entry.
static GETTERS: [Getter; 5] = [
    |_, view| Ok(view.code_object()),
    |_, view| Ok(view.function()),
    |_, view| Ok(view.globals()),
    |_, view| Ok(view.builtins()),
    argument_names,
];

unsafe extern "C" fn get(this: *mut PyObject, which: *mut c_void) -> *mut PyObject {
    let Some(getter) = GETTERS.get(which.addr()) else { return null_mut() };
    // SAFETY: a getter of the view's type: a thread state is attached.
    unsafe {
        let thread = Thread::current();
        result(view(thread, this).and_then(|view| getter(thread, view)))
    }
}

unsafe extern "C" fn argument(this: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of the view's type, and its argument: a thread state is attached.
    result(unsafe { find_argument(Thread::current(), this, key) })
}

/// # Safety
/// `this` is a `FrameView`, and `key` is live.
unsafe fn find_argument(thread: Thread, this: *mut PyObject, key: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: live, by contract.
    unsafe {
        if c::PyIndex_Check(key) == 0 {
            return view(thread, this)?.argument_by_name(key);
        }
        // First: this may run Python code, which may outlast the hook.
        let index = c::PyNumber_AsSsize_t(key, c::PyExc_IndexError);
        if index == -1 && !c::PyErr_Occurred().is_null() {
            return Err(Raised::by_cpython(thread));
        }
        view(thread, this)?.argument(index)
    }
}

unsafe extern "C" fn arguments(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of the view's type: a thread state is attached.
    result(unsafe { all_arguments(Thread::current(), this) })
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn all_arguments(thread: Thread, this: *mut PyObject) -> Outcome<Owned> {
    let dict = made(thread, Owned::dict(thread))?;
    // SAFETY: the caller's contract. Storing under a str in a new dict runs no Python code.
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

/// Frees an object of a heap type without references.
unsafe extern "C" fn deallocate(this: *mut PyObject) {
    // SAFETY: an object whose last reference is gone; it holds one to its type.
    unsafe {
        let kind = (*this).ob_type;
        c::PyObject_Free(this.cast());
        c::Py_DecRef(kind.cast());
    }
}

unsafe extern "C" fn settled_repr(_: *mut PyObject) -> *mut PyObject {
    // SAFETY: a slot of a type: a thread state is attached.
    let thread = unsafe { Thread::current() };
    Owned::text(thread, c"framehook.SETTLED").map_or(null_mut(), Owned::into_raw)
}

/// Copies and pickles of the one object are that object, found by its name.
unsafe extern "C" fn settled_reduce(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of a type: a thread state is attached.
    let thread = unsafe { Thread::current() };
    Owned::text(thread, c"SETTLED").map_or(null_mut(), Owned::into_raw)
}

const fn getter(name: &'static CStr, which: usize, doc: &'static CStr) -> c::PyGetSetDef {
    c::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: doc.as_ptr(),
        closure: core::ptr::without_provenance_mut(which),
    }
}

static VIEW_GETTERS: ForC<[c::PyGetSetDef; 6]> = ForC::new([
    getter(c"code", 0, c"The code that is to run, as the hooks before have left it."),
    getter(c"function", 1, c"The function that was called."),
    getter(c"globals", 2, c"The frame's globals."),
    getter(c"builtins", 3, c"The frame's builtins."),
    getter(c"argument_names", 4, c"The names of the parameters, in the order of argument()."),
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

const fn one_argument(
    name: &'static CStr,
    function: unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject,
    flags: u32,
    doc: &'static CStr,
) -> c::PyMethodDef {
    c::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: Some(function),
        ml_flags: flags as c_int,
        ml_doc: doc.as_ptr(),
    }
}

static VIEW_METHODS: ForC<[c::PyMethodDef; 3]> = ForC::new([
    one_argument(
        c"argument",
        argument,
        c::METH_O,
        c"argument($self, key, /)\n--\n\nReturn the argument of that number or parameter name.",
    ),
    one_argument(
        c"arguments",
        arguments,
        c::METH_NOARGS,
        c"arguments($self, /)\n--\n\nReturn a new dict of all arguments by parameter name.",
    ),
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

const fn slot(number: u32, value: *mut c_void) -> c::PyType_Slot {
    c::PyType_Slot { slot: number as c_int, pfunc: value }
}

static VIEW_SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_getset, VIEW_GETTERS.get().cast()),
    slot(c::Py_tp_methods, VIEW_METHODS.get().cast()),
    slot(
        c::Py_tp_doc,
        c"A frame that is about to run, as a frame hook sees it.".as_ptr().cast_mut().cast(),
    ),
    slot(0, null_mut()),
]);

static SETTLED_METHODS: ForC<[c::PyMethodDef; 2]> = ForC::new([
    one_argument(
        c"__reduce__",
        settled_reduce,
        c::METH_NOARGS,
        c"__reduce__($self, /)\n--\n\nReturn the name of the one object of this type.",
    ),
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

static SETTLED_SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_repr, settled_repr as *mut c_void),
    slot(c::Py_tp_methods, SETTLED_METHODS.get().cast()),
    slot(
        c::Py_tp_doc,
        c"The answer of a frame hook that need not see a code object again."
            .as_ptr()
            .cast_mut()
            .cast(),
    ),
    slot(0, null_mut()),
]);

/// `Py_TPFLAGS_IMMUTABLETYPE`; the defaults come with any type.
const IMMUTABLE: u32 = 1 << 8;
/// With `Py_TPFLAGS_DISALLOW_INSTANTIATION`.
const TYPE_FLAGS: u32 = (1 << 7) | IMMUTABLE;

const fn specification(
    name: &'static CStr,
    size: usize,
    slots: *mut c::PyType_Slot,
) -> c::PyType_Spec {
    c::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: TYPE_FLAGS,
        slots,
    }
}

static VIEW_TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"framehook.FrameView",
    size_of::<FrameView>(),
    VIEW_SLOTS.get().cast(),
));

static SETTLED_TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"framehook.SettledType",
    size_of::<PyObject>(),
    SETTLED_SLOTS.get().cast(),
));

fn view_type(thread: Thread) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state; the specification lives for ever.
    unsafe {
        keep(thread, &raw mut (*thread.state()).view_type, || c::PyType_FromSpec(VIEW_TYPE.get()))
    }
}

fn settled(thread: Thread) -> Outcome<*mut PyObject> {
    // SAFETY: a field of the state; the specification lives for ever. The object
    // keeps its type alive.
    unsafe {
        keep(thread, &raw mut (*thread.state()).settled, || {
            let kind = c::PyType_FromSpec(SETTLED_TYPE.get());
            if kind.is_null() {
                return null_mut();
            }
            let object = c::PyType_GenericAlloc(kind.cast(), 0);
            c::Py_DecRef(kind);
            object
        })
    }
}

/// The extended hook that calls a Python callable, its `user_data`.
unsafe extern "C" fn call_python(
    frame: *mut _PyInterpreterFrame,
    callable: *mut c_void,
    replacement: *mut *mut PyCodeObject,
) -> c_int {
    // SAFETY: called by a round of hooks, with the frame that is offered.
    unsafe { ask_python(Thread::current(), frame, callable.cast(), replacement) }.unwrap_or(-1)
}

/// # Safety
/// `frame` is being offered in this thread, `callable` is live, and
/// `replacement` can be written.
unsafe fn ask_python(
    thread: Thread,
    frame: *mut _PyInterpreterFrame,
    callable: *mut PyObject,
    replacement: *mut *mut PyCodeObject,
) -> Outcome<c_int> {
    let kind = view_type(thread)?;
    let settled = settled(thread)?;
    // SAFETY: a type without special allocation; then a view, which is ours.
    let (view, answer) = unsafe {
        let view = made(thread, Owned::new(c::PyType_GenericAlloc(kind.cast(), 0)))?;
        let expiring = view.as_ptr().cast::<FrameView>();
        (*expiring).thread = thread.number();
        (*expiring).frame = frame;
        let answer = Owned::new(c::PyObject_CallOneArg(callable, view.as_ptr()));
        (*expiring).frame = null_mut();
        (view, answer)
    };
    drop(view);
    let answer = made(thread, answer)?;
    if answer.as_ptr() == &raw mut c::_Py_NoneStruct {
        return Ok(0);
    }
    if answer.as_ptr() == settled {
        return Ok(2);
    }
    // The round says what it thinks of an answer that is no code.
    // SAFETY: it can be written, by contract.
    unsafe { replacement.write(answer.into_raw().cast()) };
    Ok(1)
}

unsafe extern "C" fn drop_callable(callable: *mut c_void) {
    // SAFETY: the registry's reference, which was made in `add`.
    unsafe { c::Py_DecRef(callable.cast()) };
}

/// Adds a Python hook, for a block of `owner` if that is not NULL; its handle.
///
/// # Safety
/// `callable` is live; `name` is NULL or live.
unsafe fn add(
    thread: Thread,
    callable: *mut PyObject,
    name: *mut PyObject,
    owner: *mut PyObject,
) -> Outcome<c_longlong> {
    // SAFETY: the caller's contract, and a thread state is attached.
    unsafe {
        if c::PyCallable_Check(callable) == 0 {
            c::PyErr_Format(
                c::PyExc_TypeError,
                c"a frame hook must be callable, not %T".as_ptr(),
                callable,
            );
            return Err(Raised::by_cpython(thread));
        }
        let named = if name.is_null() || name == &raw mut c::_Py_NoneStruct {
            name_of(thread, callable)?
        } else {
            Owned::share(thread, name)
        };
        let mut bytes = 0;
        let text = c::PyUnicode_AsUTF8AndSize(named.as_ptr(), &raw mut bytes);
        if text.is_null() {
            return Err(Raised::by_cpython(thread));
        }
        let text = CStr::from_ptr(text);
        if text.count_bytes() != bytes as usize {
            return Err(Raised::value_error(thread, c"the name of a frame hook has no NUL in it"));
        }
        if owner.is_null() && find(thread, callable).is_some() {
            return Err(Refusal::Duplicate.raise(thread));
        }
        // What a round will need is made now, where an error is expected.
        view_type(thread)?;
        settled(thread)?;
        c::Py_IncRef(callable);
        let description = Description {
            callee: Callee::Extended(call_python),
            user_data: callable.cast(),
            free_user_data: Some(drop_callable),
            name: text,
            timed: true,
            owner: owner.cast(),
        };
        registry::add(thread, &description).inspect_err(|_| c::Py_DecRef(callable))
    }
}

/// What to call a callable in messages.
///
/// # Safety
/// `callable` is live, and a thread state is attached.
unsafe fn name_of(thread: Thread, callable: *mut PyObject) -> Outcome<Owned> {
    let attribute = made(thread, Owned::attribute_name(thread, c"__qualname__"))?;
    // SAFETY: live, by contract.
    unsafe {
        let mut name = null_mut();
        let found = c::PyObject_GetOptionalAttr(callable, attribute.as_ptr(), &raw mut name);
        if found < 0 {
            return Err(Raised::by_cpython(thread));
        }
        if let Some(name) = Owned::new(name) {
            if c::PyType_IsSubtype((*name.as_ptr()).ob_type, &raw mut c::PyUnicode_Type) != 0 {
                return Ok(name);
            }
        }
        made(thread, Owned::new(c::PyObject_Repr(callable)))
    }
}

/// Whether two callables are the same one. Each look at a method makes another object: such are the
/// same where function and object are.
///
/// # Safety
/// Both are live.
unsafe fn is_same(one: *mut PyObject, other: *mut PyObject) -> bool {
    // SAFETY: live, by contract. Who is of the type of methods has their layout.
    unsafe {
        let both = |kind: *mut c::PyTypeObject| (*one).ob_type == kind && (*other).ob_type == kind;
        if one == other {
            true
        } else if both(&raw mut c::PyMethod_Type) {
            let (one, other) = (one.cast::<c::PyMethodObject>(), other.cast::<c::PyMethodObject>());
            (*one).im_func == (*other).im_func && (*one).im_self == (*other).im_self
        } else if both(&raw mut c::PyCFunction_Type) {
            let (one, other) =
                (one.cast::<c::PyCFunctionObject>(), other.cast::<c::PyCFunctionObject>());
            (*one).m_ml == (*other).m_ml && (*one).m_self == (*other).m_self
        } else {
            false
        }
    }
}

/// The callable of a Python hook, borrowed.
fn callable_of(hook: &Hook) -> Option<*mut PyObject> {
    match hook.callee {
        Callee::Extended(function)
            if core::ptr::fn_addr_eq(function, call_python as ExtendedHook) =>
        {
            Some(hook.user_data.cast())
        }
        _ => None,
    }
}

/// The handle of a Python hook.
///
/// # Safety
/// `callable` is live.
unsafe fn find(thread: Thread, callable: *mut PyObject) -> Option<c_longlong> {
    // SAFETY: nothing here waits or runs Python code; a hook keeps its callable alive.
    unsafe {
        let hooks = Snapshot::borrowed(thread)?;
        let same = |hook: &&Hook| callable_of(hook).is_some_and(|own| is_same(own, callable));
        hooks.iter().find(same).map(|hook| hook.id)
    }
}

/// The handle of a Python hook that is given by itself or by its handle.
///
/// # Safety
/// `hook` is live.
unsafe fn id_of(thread: Thread, hook: *mut PyObject) -> Outcome<c_longlong> {
    // SAFETY: live, by contract.
    if let Some(id) = unsafe { find(thread, hook) } {
        return Ok(id);
    }
    // SAFETY: live, by contract.
    if unsafe { c::PyIndex_Check(hook) } != 0 {
        // SAFETY: as above.
        return unsafe { handle(thread, hook) };
    }
    Err(Refusal::Unknown.raise(thread))
}

/// # Safety
/// `object` is live.
unsafe fn handle(thread: Thread, object: *mut PyObject) -> Outcome<c_longlong> {
    // SAFETY: live, by contract.
    unsafe {
        if (*object).ob_type == &raw mut c::PyBool_Type {
            return Err(Refusal::Unknown.raise(thread));
        }
        let id = c::PyLong_AsLongLong(object);
        if id == -1 && !c::PyErr_Occurred().is_null() {
            return Err(Raised::by_cpython(thread));
        }
        Ok(id)
    }
}

fn describe_all(thread: Thread) -> Outcome<Owned> {
    let list = made(thread, Owned::list(thread))?;
    let Some(snapshot) = SnapshotRef::current(thread) else { return Ok(list) };
    for (order, hook) in snapshot.get().iter().enumerate() {
        let described = describe(thread, snapshot.get(), hook, order);
        made(thread, described.and_then(|dict| list.append(thread, &dict)))?;
    }
    Ok(list)
}

/// A new dict about a hook of a snapshot; `None` with an exception set.
fn describe(thread: Thread, hooks: &Snapshot, hook: &Hook, order: usize) -> Option<Owned> {
    let python = match callable_of(hook) {
        // SAFETY: the hook keeps it alive.
        Some(callable) => unsafe { Owned::share(thread, callable) },
        None => Owned::none(thread),
    };
    let counter = |counter: &core::sync::atomic::AtomicU64| {
        Owned::number(thread, counter.load(Ordering::Relaxed) as usize)
    };
    let dict = Owned::dict(thread)?;
    dict.set(thread, c"order", Owned::number(thread, order)?)?;
    dict.set(thread, c"id", Owned::signed(thread, hook.id)?)?;
    // SAFETY: UTF-8, as is checked where a hook is added.
    let name = unsafe { Owned::new(c::PyUnicode_FromString(hook.name())) }?;
    dict.set(thread, c"name", name)?;
    dict.set(thread, c"hook", python)?;
    dict.set(thread, c"enabled", Owned::truth(thread, hooks.enabled() & hook.bit() != 0)?)?;
    dict.set(thread, c"calls", counter(&hook.calls)?)?;
    dict.set(thread, c"replacements", counter(&hook.replacements)?)?;
    dict.set(thread, c"errors", counter(&hook.errors)?)?;
    dict.set(thread, c"nanoseconds", counter(&hook.nanoseconds)?)?;
    Some(dict)
}

/// The arguments of a function with the calling convention `METH_FASTCALL`.
///
/// # Safety
/// `arguments` points to `count` live objects.
unsafe fn exactly<const N: usize>(
    thread: Thread,
    arguments: *const *mut PyObject,
    count: isize,
) -> Outcome<[*mut PyObject; N]> {
    if count != N as isize {
        return Err(Raised::type_error(thread, c"wrong number of arguments"));
    }
    // SAFETY: so many are there.
    Ok(unsafe { *arguments.cast::<[*mut PyObject; N]>() })
}

/// # Safety
/// `object` is live, and a thread state is attached.
unsafe fn truth(thread: Thread, object: *mut PyObject) -> Outcome<bool> {
    // SAFETY: live, by contract.
    match unsafe { c::PyObject_IsTrue(object) } {
        -1 => Err(Raised::by_cpython(thread)),
        other => Ok(other != 0),
    }
}

type Arguments = *const *mut PyObject;

unsafe extern "C" fn add_frame_hook(
    _: *mut PyObject,
    arguments: Arguments,
    count: isize,
) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached, and so many
    // arguments are there.
    unsafe {
        let thread = Thread::current();
        let given = if count == 1 {
            Ok([*arguments, null_mut()])
        } else {
            exactly::<2>(thread, arguments, count)
        };
        let id = given.and_then(|[hook, name]| add(thread, hook, name, null_mut()));
        number(thread, id)
    }
}

/// A handle as the result of a function.
fn number(thread: Thread, id: Outcome<c_longlong>) -> *mut PyObject {
    result(id.and_then(|id| made(thread, Owned::signed(thread, id))))
}

unsafe extern "C" fn remove_frame_hook(_: *mut PyObject, hook: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached.
    unsafe {
        let thread = Thread::current();
        none(thread, id_of(thread, hook).and_then(|id| registry::remove(thread, id)))
    }
}

/// What the functions that switch a hook have in common: the first of their arguments is
/// its handle, and the last says whether on or off, or whether a block begins.
///
/// # Safety
/// As for [`exactly`], and a thread state is attached.
unsafe fn switch<const N: usize>(
    arguments: Arguments,
    count: isize,
    work: impl FnOnce(Thread, c_longlong, [*mut PyObject; N], bool) -> Outcome<()>,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe {
        let thread = Thread::current();
        let outcome = exactly::<N>(thread, arguments, count).and_then(|all| {
            let [id, .., on] = all.as_slice() else { return Ok(()) }; // two, or more
            work(thread, handle(thread, *id)?, all, truth(thread, *on)?)
        });
        none(thread, outcome)
    }
}

/// The code object that somebody has given.
///
/// # Safety
/// `object` is live, and stays so while the result is used.
unsafe fn code_of(thread: Thread, object: *mut PyObject) -> Outcome<Code> {
    // SAFETY: the caller's contract.
    unsafe {
        Code::from_object(object).ok_or_else(|| {
            let text = c"a code object, or a function that has one, is expected, not %T";
            c::PyErr_Format(c::PyExc_TypeError, text.as_ptr(), object);
            Raised::by_cpython(thread)
        })
    }
}

/// A function of the module that hands its arguments to `switch`.
macro_rules! switches {
    ($($name:ident<$count:literal>: $work:expr;)+) => {
        $(unsafe extern "C" fn $name(_: *mut PyObject, arguments: Arguments, count: isize) -> *mut PyObject {
            // SAFETY: a function of a module: a thread state is attached, and so many arguments are
            // there, which are live as long as the call lasts.
            unsafe { switch::<$count>(arguments, count, $work) }
        })+
    };
}

switches! {
    enable_frame_hook<2>: |thread, id, _, on| switch::enable(thread, id, on);
    enable_frame_hook_in_thread<2>: |thread, id, _, on| switch::enable_in_thread(thread, id, on);
    enable_frame_hook_for_code<3>: |thread, id, [_, code, _], on| {
        switch::enable_for_code(thread, id, code_of(thread, code)?, on)
    };
}

unsafe extern "C" fn frame_hook_id(_: *mut PyObject, hook: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached, and the argument is live.
    unsafe {
        let thread = Thread::current();
        number(thread, id_of(thread, hook))
    }
}

unsafe extern "C" fn never_offer(_: *mut PyObject, code: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached, and the argument is live.
    unsafe {
        let thread = Thread::current();
        let settled = code_of(thread, code).and_then(|code| {
            settled::settle_for_everybody(thread, code)
                .map_err(|error| Raised::by_code_extra(thread, error))
        });
        none(thread, settled)
    }
}

unsafe extern "C" fn clear_frame_hooks(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached.
    let thread = unsafe { Thread::current() };
    registry::clear(thread);
    none(thread, Ok(()))
}

unsafe extern "C" fn frame_hooks(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached.
    result(describe_all(unsafe { Thread::current() }))
}

type Fast = unsafe extern "C" fn(*mut PyObject, Arguments, isize) -> *mut PyObject;
type Plain = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

const fn fast(name: &'static CStr, function: Fast, doc: &'static CStr) -> c::PyMethodDef {
    // SAFETY: CPython casts it back, since the flags say what it is.
    let function = unsafe { core::mem::transmute::<Fast, Plain>(function) };
    one_argument(name, function, c::METH_FASTCALL, doc)
}

/// The functions of `_framecore` that concern hooks.
pub const METHODS: [c::PyMethodDef; 9] = [
    fast(
        c"add_frame_hook",
        add_frame_hook,
        c"add_frame_hook($module, hook, name=None, /)\n--\n\nInstall a frame hook, behind those that are there, and return its handle.",
    ),
    one_argument(
        c"remove_frame_hook",
        remove_frame_hook,
        c::METH_O,
        c"remove_frame_hook($module, hook, /)\n--\n\nRemove a frame hook, given by itself or by its handle.",
    ),
    fast(
        c"enable_frame_hook",
        enable_frame_hook,
        c"enable_frame_hook($module, handle, on, /)\n--\n\nAsk a hook from now on, or do not.",
    ),
    fast(
        c"enable_frame_hook_in_thread",
        enable_frame_hook_in_thread,
        c"enable_frame_hook_in_thread($module, handle, on, /)\n--\n\nAsk a hook about frames of the calling thread from now on, or do not.",
    ),
    fast(
        c"enable_frame_hook_for_code",
        enable_frame_hook_for_code,
        c"enable_frame_hook_for_code($module, handle, code, on, /)\n--\n\nAsk a hook about a code object from now on, or do not.",
    ),
    one_argument(
        c"frame_hook_id",
        frame_hook_id,
        c::METH_O,
        c"frame_hook_id($module, hook, /)\n--\n\nReturn the handle of a frame hook that is given by itself.",
    ),
    one_argument(
        c"never_offer",
        never_offer,
        c::METH_O,
        c"never_offer($module, code, /)\n--\n\nAsk no hook about a code object, now and later.",
    ),
    one_argument(
        c"clear_frame_hooks",
        clear_frame_hooks,
        c::METH_NOARGS,
        c"clear_frame_hooks($module, /)\n--\n\nRemove every frame hook of the interpreter.",
    ),
    one_argument(
        c"frame_hooks",
        frame_hooks,
        c::METH_NOARGS,
        c"frame_hooks($module, /)\n--\n\nReturn a new list with a dict for each frame hook, in order.",
    ),
];

/// `sys.add_frame_hook`.
///
/// # Safety
/// Called by CPython as a method of a module.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_SysAddFrameHook(
    _module: *mut PyObject,
    hook: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe {
        let thread = Thread::current();
        number(thread, add(thread, hook, null_mut(), null_mut()))
    }
}

/// `sys.remove_frame_hook`.
///
/// # Safety
/// Called by CPython as a method of a module.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_SysRemoveFrameHook(
    module: *mut PyObject,
    hook: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's contract.
    unsafe { remove_frame_hook(module, hook) }
}

/// Removes every hook, and refuses new ones: the interpreter ends.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_FiniFrameHooks(tstate: *mut PyThreadState) {
    // SAFETY: the caller's contract.
    unsafe {
        let thread = Thread::new(tstate);
        registry::close(thread);
        suspended::forget(thread);
        for place in [
            &raw mut (*thread.state()).settled,
            &raw mut (*thread.state()).view_type,
            &raw mut (*thread.state()).incompatible,
        ] {
            let object = place.replace(null_mut());
            if !object.is_null() {
                c::Py_DecRef(object);
            }
        }
    }
}
