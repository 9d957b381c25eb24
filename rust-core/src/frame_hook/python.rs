//! Python's face: functions of `_framecore` and `sys`, the view of a frame, and
//! the hook that calls a Python callable.

use super::c_api::enable_for_code;
use super::error::{Outcome, Raised};
use super::registry::{self, Callee, Description, SnapshotRef};
use super::view::View;
use super::Thread;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject, PyThreadState};
use crate::object::{ForC, Owned};
use core::ffi::{c_int, c_longlong, c_void, CStr};
use core::mem::zeroed;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// Python's view of a frame that is being offered.
#[repr(C)]
struct FrameView {
    base: PyObject,
    /// The frame, or NULL once the hook has returned.
    frame: *mut _PyInterpreterFrame,
}

/// The result of a function of a module.
fn result(outcome: Outcome<Owned>) -> *mut PyObject {
    outcome.map_or(null_mut(), Owned::into_raw)
}

fn none(outcome: Outcome<()>) -> *mut PyObject {
    result(outcome.map(|()| Owned::none()))
}

/// `None` means that a call into CPython has failed.
fn made<T>(thread: Thread, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| Raised::by_cpython(thread))
}

/// The view behind `self`, if its hook has not returned.
///
/// # Safety
/// `this` is a `FrameView`, and a thread state is attached.
unsafe fn view(this: *mut PyObject) -> Outcome<View> {
    // SAFETY: the caller's contract.
    let frame = unsafe { (*this.cast::<FrameView>()).frame };
    if frame.is_null() {
        // SAFETY: a thread state is attached.
        return Err(Raised::runtime_error(
            unsafe { Thread::current() },
            c"this view of a frame has expired: a hook may use it until it returns, no longer",
        ));
    }
    // SAFETY: the hook has not returned, so the frame is there.
    unsafe { View::new(frame) }
}

type Getter = fn(View) -> Outcome<Owned>;

fn argument_names(view: View) -> Outcome<Owned> {
    // SAFETY: called with a thread state attached.
    let thread = unsafe { Thread::current() };
    let list = made(thread, Owned::list())?;
    for index in 0..view.argument_count() {
        made(thread, list.append(&view.argument_name(index as isize)?))?;
    }
    // SAFETY: a list.
    made(thread, unsafe { Owned::new(c::PyList_AsTuple(list.as_ptr())) })
}

/// The getters, by the number in their table entry.
static GETTERS: [Getter; 5] = [
    |view| Ok(view.code_object()),
    |view| Ok(view.function()),
    |view| Ok(view.globals()),
    |view| Ok(view.builtins()),
    argument_names,
];

unsafe extern "C" fn get(this: *mut PyObject, which: *mut c_void) -> *mut PyObject {
    let Some(getter) = GETTERS.get(which.addr()) else { return null_mut() };
    // SAFETY: a getter of the view's type.
    result(unsafe { view(this) }.and_then(getter))
}

unsafe extern "C" fn argument(this: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of the view's type, and its argument.
    unsafe {
        result(view(this).and_then(|view| {
            if c::PyIndex_Check(key) == 0 {
                return view.argument_by_name(key);
            }
            let index = c::PyNumber_AsSsize_t(key, c::PyExc_IndexError);
            if index == -1 && !c::PyErr_Occurred().is_null() {
                return Err(Raised::by_cpython(Thread::current()));
            }
            view.argument(index)
        }))
    }
}

unsafe extern "C" fn arguments(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a method of the view's type.
    let outcome = unsafe { view(this) }.and_then(|view| {
        // SAFETY: called with a thread state attached.
        let thread = unsafe { Thread::current() };
        let dict = made(thread, Owned::dict())?;
        for index in 0..view.argument_count() as isize {
            let (name, value) = (view.argument_name(index)?, view.argument(index)?);
            // SAFETY: a dict and two live objects.
            if unsafe { c::PyDict_SetItem(dict.as_ptr(), name.as_ptr(), value.as_ptr()) } != 0 {
                return Err(Raised::by_cpython(thread));
            }
        }
        Ok(dict)
    });
    result(outcome)
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
    Owned::text(c"framehook.SETTLED").map_or(null_mut(), Owned::into_raw)
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

static SETTLED_SLOTS: ForC<[c::PyType_Slot; 4]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_repr, settled_repr as *mut c_void),
    slot(
        c::Py_tp_doc,
        c"The answer of a frame hook that need not see a code object again."
            .as_ptr()
            .cast_mut()
            .cast(),
    ),
    slot(0, null_mut()),
]);

/// `Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE`; the defaults
/// come with any type.
const TYPE_FLAGS: u32 = (1 << 7) | (1 << 8);

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
    c"_framecore.FrameView",
    size_of::<FrameView>(),
    VIEW_SLOTS.get().cast(),
));

static SETTLED_TYPE: ForC<c::PyType_Spec> = ForC::new(specification(
    c"_framecore.SettledType",
    size_of::<PyObject>(),
    SETTLED_SLOTS.get().cast(),
));

/// Keeps in `place` what `make` makes, unless something is kept there already.
///
/// # Safety
/// `place` is a field of the interpreter's state, and `make` returns NULL with an
/// exception or a new reference.
unsafe fn keep(
    thread: Thread,
    place: *mut *mut PyObject,
    make: impl FnOnce() -> *mut PyObject,
) -> Outcome<*mut PyObject> {
    // SAFETY: the caller's contract. Another thread may have been faster, on a
    // free-threaded build: then what it made stays.
    unsafe {
        let place = core::sync::atomic::AtomicPtr::from_ptr(place);
        let kept = place.load(Ordering::Acquire);
        if !kept.is_null() {
            return Ok(kept);
        }
        let new = make();
        if new.is_null() {
            return Err(Raised::by_cpython(thread));
        }
        match place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(new),
            Err(faster) => {
                c::Py_DecRef(new);
                Ok(faster)
            }
        }
    }
}

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

/// The class of the error for code that cannot stand in; `None` with an exception
/// set. A borrowed reference.
pub fn incompatible_code_error(thread: Thread) -> Option<*mut PyObject> {
    // SAFETY: a field of the state; strings that live for ever, and a class.
    let class = unsafe {
        keep(thread, &raw mut (*thread.state()).incompatible, || {
            c::PyErr_NewExceptionWithDoc(
                c"framehook.IncompatibleCodeError".as_ptr(),
                c"A frame hook chose code that cannot stand in for the frame's own.".as_ptr(),
                c::PyExc_ValueError,
                null_mut(),
            )
        })
    };
    class.ok()
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
    // SAFETY: live objects; the class of code cannot be subclassed.
    unsafe {
        if (*answer.as_ptr()).ob_type == &raw mut c::PyCode_Type {
            replacement.write(answer.into_raw().cast());
            return Ok(1);
        }
        c::PyErr_Format(
            c::PyExc_TypeError,
            c"a frame hook returns None, framehook.SETTLED or a code object, not %T".as_ptr(),
            answer.as_ptr(),
        );
    }
    Err(Raised::by_cpython(thread))
}

unsafe extern "C" fn drop_callable(callable: *mut c_void) {
    // SAFETY: the registry's reference, which was made in `add`.
    unsafe { c::Py_DecRef(callable.cast()) };
}

/// Adds a Python hook; its handle.
///
/// # Safety
/// `callable` is live; `name` is NULL or live.
unsafe fn add(callable: *mut PyObject, name: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: the caller's contract, and a thread state is attached.
    unsafe {
        let thread = Thread::current();
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
            Owned::share(name)
        };
        let text = c::PyUnicode_AsUTF8(named.as_ptr());
        if text.is_null() {
            return Err(Raised::by_cpython(thread));
        }
        // What a round will need is made now, where an error is expected.
        view_type(thread)?;
        settled(thread)?;
        c::Py_IncRef(callable);
        let description = Description {
            callee: Callee::Extended(call_python),
            user_data: callable.cast(),
            free_user_data: Some(drop_callable),
            name: CStr::from_ptr(text),
            timed: true,
        };
        match registry::add(thread, &description) {
            Ok(id) => made(thread, Owned::signed(id)),
            Err(raised) => {
                c::Py_DecRef(callable);
                Err(raised)
            }
        }
    }
}

/// What to call a callable in messages.
///
/// # Safety
/// `callable` is live, and a thread state is attached.
unsafe fn name_of(thread: Thread, callable: *mut PyObject) -> Outcome<Owned> {
    // SAFETY: live, by contract.
    unsafe {
        let mut name = null_mut();
        let found =
            c::PyObject_GetOptionalAttrString(callable, c"__qualname__".as_ptr(), &raw mut name);
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

/// The handle of a Python hook that is given by itself or by its handle.
///
/// # Safety
/// `hook` is live, and a thread state is attached.
unsafe fn id_of(thread: Thread, hook: *mut PyObject) -> Outcome<c_longlong> {
    let snapshot = SnapshotRef::current(thread);
    let found = snapshot
        .as_ref()
        .and_then(|hooks| hooks.get().find_extended(call_python, hook.cast()))
        .map(|hook| hook.id);
    if let Some(id) = found {
        return Ok(id);
    }
    // SAFETY: live, by contract.
    unsafe {
        if c::PyIndex_Check(hook) != 0 {
            return handle(thread, hook);
        }
    }
    Err(Raised::value_error(thread, c"this frame hook is not installed"))
}

/// # Safety
/// `object` is live, and a thread state is attached.
unsafe fn handle(thread: Thread, object: *mut PyObject) -> Outcome<c_longlong> {
    // SAFETY: live, by contract.
    unsafe {
        let id = c::PyLong_AsLongLong(object);
        if id == -1 && !c::PyErr_Occurred().is_null() {
            return Err(Raised::by_cpython(thread));
        }
        Ok(id)
    }
}

fn describe(thread: Thread) -> Outcome<Owned> {
    let list = made(thread, Owned::list())?;
    let Some(snapshot) = SnapshotRef::current(thread) else { return Ok(list) };
    let hooks = snapshot.get();
    for hook in hooks.iter() {
        let python = match hook.callee {
            Callee::Extended(function)
                if core::ptr::fn_addr_eq(function, call_python as registry::ExtendedHook) =>
            {
                // SAFETY: a Python hook's data is its callable, which it keeps alive.
                unsafe { Owned::share(hook.user_data.cast()) }
            }
            _ => Owned::none(),
        };
        let counter = |counter: &core::sync::atomic::AtomicU64| {
            Owned::number(counter.load(Ordering::Relaxed) as usize)
        };
        let filled = (|| {
            let dict = Owned::dict()?;
            dict.set(c"id", Owned::signed(hook.id)?)?;
            // SAFETY: UTF-8, as whoever added the hook gave it.
            dict.set(c"name", unsafe { Owned::new(c::PyUnicode_FromString(hook.name())) }?)?;
            dict.set(c"hook", python)?;
            dict.set(c"enabled", Owned::truth(hooks.enabled() & hook.bit() != 0)?)?;
            dict.set(c"calls", counter(&hook.calls)?)?;
            dict.set(c"replacements", counter(&hook.replacements)?)?;
            dict.set(c"errors", counter(&hook.errors)?)?;
            dict.set(c"nanoseconds", counter(&hook.nanoseconds)?)?;
            list.append(&dict)
        })();
        made(thread, filled)?;
    }
    Ok(list)
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
        if count == 1 {
            return result(add(*arguments, null_mut()));
        }
        result(
            exactly::<2>(Thread::current(), arguments, count)
                .and_then(|[hook, name]| add(hook, name)),
        )
    }
}

unsafe extern "C" fn remove_frame_hook(_: *mut PyObject, hook: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached.
    unsafe {
        let thread = Thread::current();
        none(id_of(thread, hook).and_then(|id| registry::remove(thread, id)))
    }
}

/// What the functions that switch a hook have in common: the first of their arguments is
/// its handle, and the last says whether on or off.
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
        none(exactly::<N>(thread, arguments, count).and_then(|all| {
            let [id, .., on] = all.as_slice() else { return Ok(()) }; // two, or more
            work(thread, handle(thread, *id)?, all, truth(thread, *on)?)
        }))
    }
}

unsafe extern "C" fn enable_frame_hook(
    _: *mut PyObject,
    arguments: Arguments,
    count: isize,
) -> *mut PyObject {
    // SAFETY: as for `add_frame_hook`.
    unsafe { switch::<2>(arguments, count, |thread, id, _, on| registry::enable(thread, id, on)) }
}

unsafe extern "C" fn enable_frame_hook_in_thread(
    _: *mut PyObject,
    arguments: Arguments,
    count: isize,
) -> *mut PyObject {
    // SAFETY: as for `add_frame_hook`.
    unsafe {
        switch::<2>(arguments, count, |thread, id, _, on| {
            registry::enable_in_thread(thread, id, on)
        })
    }
}

unsafe extern "C" fn enable_frame_hook_for_code(
    _: *mut PyObject,
    arguments: Arguments,
    count: isize,
) -> *mut PyObject {
    // SAFETY: as for `add_frame_hook`; the code is one of the arguments.
    unsafe {
        switch::<3>(arguments, count, |thread, id, [_, code, _], on| {
            enable_for_code(thread, id, code, on)
        })
    }
}

unsafe extern "C" fn clear_frame_hooks(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached.
    none(registry::clear(unsafe { Thread::current() }))
}

unsafe extern "C" fn frame_hooks(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: a function of a module: a thread state is attached.
    result(describe(unsafe { Thread::current() }))
}

type Fast = unsafe extern "C" fn(*mut PyObject, Arguments, isize) -> *mut PyObject;
type Plain = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

const fn fast(name: &'static CStr, function: Fast, doc: &'static CStr) -> c::PyMethodDef {
    // SAFETY: CPython casts it back, since the flags say what it is.
    let function = unsafe { core::mem::transmute::<Fast, Plain>(function) };
    one_argument(name, function, c::METH_FASTCALL, doc)
}

/// The functions of `_framecore` that concern hooks.
pub const METHODS: [c::PyMethodDef; 7] = [
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

/// Adds the constants to `_framecore`.
pub unsafe extern "C" fn fill_module(module: *mut PyObject) -> c_int {
    // SAFETY: called by the import system: a thread state is attached.
    let thread = unsafe { Thread::current() };
    let filled = (|| -> Outcome<()> {
        let class = incompatible_code_error(thread).ok_or_else(|| Raised::by_cpython(thread))?;
        for (name, object) in [
            (c"SETTLED", settled(thread)?),
            (c"FrameView", view_type(thread)?),
            (c"IncompatibleCodeError", class),
        ] {
            // SAFETY: a module, a string and a live object.
            if unsafe { c::PyModule_AddObjectRef(module, name.as_ptr(), object) } != 0 {
                return Err(Raised::by_cpython(thread));
            }
        }
        Ok(())
    })();
    filled.map_or(-1, |()| 0)
}

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
    result(unsafe { add(hook, null_mut()) })
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
        (*thread.state()).closed = true;
        if registry::clear(thread).is_err() {
            c::PyErr_Clear();
        }
        registry::forget(thread);
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
