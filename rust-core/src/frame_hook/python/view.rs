//! The view of a frame that a hook in Python gets.

use super::converted::{made, truth};
use super::event::word;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::exception::drop_aside;
use crate::frame_hook::error::{Outcome, Raised};
use crate::frame_hook::kept::keep;
use crate::frame_hook::verdict::{
    HookAnswer, FRAMEHOOK_NOT_BELOW, FRAMEHOOK_ONLY_BELOW, FRAMEHOOK_ONLY_BELOW_EVERYWHERE,
    FRAMEHOOK_TELL_LEAVE, FRAMEHOOK_TELL_RESUME, FRAMEHOOK_TELL_YIELD,
};
use crate::frame_hook::view::View;
use crate::object::{ForC, Owned};
use crate::tables::*;
use crate::thread::Thread;
use core::ffi::{c_int, c_uint, c_void, CStr};
use core::ptr::null_mut;

/// Python's view of a frame that is being offered.
#[repr(C)]
struct FrameView {
    base: PyObject,
    /// `Thread::number` of the one thread that the view serves; never changes once Python has the
    /// view.
    thread: u64,
    /// The frame, or NULL once the hook has returned. That thread alone reads and writes it.
    frame: *mut _PyInterpreterFrame,
    /// What the hook answers beside its verdict, until it has returned. As above. It does not lie on
    /// the C stack: while the hook waits in a greenlet, others may add to it, and they have other
    /// things in that memory.
    answer: HookAnswer,
}

/// Calls `callable` with a view of `frame` that expires when that returns. What it says through the
/// view is in `answer` then; nothing, if it has failed.
///
/// # Safety
/// `frame` is being offered in this thread, and `callable` is live.
pub unsafe fn call_with_view(
    thread: Thread,
    callable: *mut PyObject,
    frame: *mut _PyInterpreterFrame,
    answer: &mut HookAnswer,
) -> Outcome<Owned> {
    let kind = view_type(thread)?;
    // SAFETY: a type without special allocation; then a view, which is ours.
    let said = unsafe {
        let view = made(thread, Owned::new(c::PyType_GenericAlloc(kind.cast(), 0)))?;
        let expiring = view.as_ptr().cast::<FrameView>();
        (*expiring).thread = thread.number();
        (*expiring).frame = frame;
        (*expiring).answer = HookAnswer::EMPTY;
        let said = Owned::new(c::PyObject_CallOneArg(callable, view.as_ptr()));
        (*expiring).frame = null_mut();
        *answer = core::mem::replace(&mut (*expiring).answer, HookAnswer::EMPTY);
        said
    };
    let said = made(thread, said);
    if said.is_err() {
        // SAFETY: NULL, or references that are the answer's.
        let given = unsafe { (Owned::new(answer.object), Owned::new(answer.word.cast())) };
        *answer = HookAnswer::EMPTY;
        // SAFETY: attached, and without a lock.
        unsafe { drop_aside(given) };
    }
    said
}

/// The answer of the hook whose view this is, to be added to. What is put there is done so before
/// anything else runs.
///
/// # Safety
/// `this` is a `FrameView`.
unsafe fn answer<'a>(thread: Thread, this: *mut PyObject) -> Outcome<&'a mut HookAnswer> {
    // SAFETY: the caller's contract. It is a part of the view, and like that this thread's alone.
    unsafe {
        view(thread, this)?;
        Ok(&mut (*this.cast::<FrameView>()).answer)
    }
}

/// # Safety
/// `this` is a `FrameView`, and `value` is live.
unsafe fn result(thread: Thread, this: *mut PyObject, value: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller's contract.
    unsafe {
        let answer = answer(thread, this)?;
        if !answer.object.is_null() {
            return Err(Raised::runtime_error(
                thread,
                c"this hook has given the call a result already",
            ));
        }
        answer.object = Owned::share(thread, value).into_raw();
    }
    Ok(())
}

/// `watch(callback, word, yields, resumes)`.
///
/// # Safety
/// `this` is a `FrameView`; the arguments are a call's.
unsafe fn watch(thread: Thread, this: *mut PyObject, arguments: Arguments) -> Outcome<()> {
    let none = &raw mut c::_Py_NoneStruct;
    let (given, count) = arguments.some::<4>().ok_or_else(|| {
        Raised::type_error(thread, c"watch() takes a callback, a word, and two truths at most")
    })?;
    let [callback, own, yields, resumes] = given;
    // SAFETY: live, as they are arguments.
    unsafe {
        if count == 0 || c::PyCallable_Check(callback) == 0 {
            return Err(Raised::type_error(thread, c"who is told of a frame must be callable"));
        }
        let yields = count > 2 && truth(thread, yields)?;
        let resumes = count > 3 && truth(thread, resumes)?;
        let word = word(thread, callback, if count > 1 { own } else { none })?;
        let answer = answer(thread, this)?;
        if answer.tell != 0 {
            return Err(Raised::runtime_error(
                thread,
                c"this hook watches the frame already: it can do so once",
            ));
        }
        answer.tell = FRAMEHOOK_TELL_LEAVE
            | if yields { FRAMEHOOK_TELL_YIELD } else { 0 }
            | if resumes { FRAMEHOOK_TELL_RESUME } else { 0 };
        answer.word = word.into_raw().cast();
    }
    Ok(())
}

/// # Safety
/// `this` is a `FrameView`.
unsafe fn limit(thread: Thread, this: *mut PyObject, extent: c_uint) -> Outcome<()> {
    // SAFETY: the caller's contract.
    let answer = unsafe { answer(thread, this) }?;
    if answer.extent != 0 {
        return Err(Raised::runtime_error(
            thread,
            c"this hook has given the frame a scope already: not_below() or only_below() can be called once",
        ));
    }
    answer.extent = extent;
    Ok(())
}

/// `only_below(*, everywhere=False)`.
unsafe extern "C" fn only_below(
    this: *mut PyObject,
    first: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called as the table says, so all of it is live, and a thread state is attached.
    unsafe {
        let thread = Thread::current();
        let everywhere = keyword(thread, first, count, names, c"everywhere");
        let everywhere = everywhere.and_then(|given| match given {
            Some(given) => truth(thread, given),
            None => Ok(false),
        });
        let extent = everywhere.map(|everywhere| {
            if everywhere {
                FRAMEHOOK_ONLY_BELOW_EVERYWHERE
            } else {
                FRAMEHOOK_ONLY_BELOW
            }
        });
        extent.and_then(|extent| limit(thread, this, extent)).for_python(thread)
    }
}

/// The one argument of a call, which is given by this keyword; `None`: it is not given.
///
/// # Safety
/// The arguments are a call's.
unsafe fn keyword(
    thread: Thread,
    first: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
    name: &CStr,
) -> Outcome<Option<*mut PyObject>> {
    // SAFETY: by contract, `names` is NULL or a tuple of str, each with an argument.
    unsafe {
        let named = if names.is_null() { 0 } else { c::PyTuple_Size(names) };
        if count == 0 && named == 0 {
            return Ok(None);
        }
        let wanted = made(thread, Owned::interned(thread, name))?;
        if count == 0
            && named == 1
            && c::PyUnicode_Compare(c::PyTuple_GetItem(names, 0), wanted.as_ptr()) == 0
        {
            return Ok(Some(first.read()));
        }
        let text = c"the one argument is %U, given by keyword";
        c::PyErr_Format(c::PyExc_TypeError, text.as_ptr(), wanted.as_ptr());
        Err(Raised::by_cpython(thread))
    }
}

/// The code and the line of who has called, as a tuple.
fn caller(thread: Thread, view: View) -> Outcome<Owned> {
    let (code, line) = view.caller()?;
    let line = made(thread, Owned::signed(thread, i64::from(line)))?;
    // SAFETY: two live objects.
    made(thread, unsafe { Owned::new(c::PyTuple_Pack(2, code.as_ptr(), line.as_ptr())) })
}

/// The view behind `self`, for the thread that was given it, until its hook returns. Nothing that
/// may run Python code comes between this and the use of the result.
///
/// # Safety
/// `this` is a `FrameView`.
unsafe fn view<'a>(thread: Thread, this: *mut PyObject) -> Outcome<View<'a>> {
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

/// # Safety
/// `this` is a `FrameView`.
unsafe fn arguments(thread: Thread, this: *mut PyObject) -> Outcome<Owned> {
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

static GETTERS: ForC<[c::PyGetSetDef; 9]> = ForC::new([
    getter!(
        "code",
        "The code that is to run, as the hooks before have left it.",
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
        "A new dict of the free variables by name, without those that have no value.",
        |thread, this| view(thread, this).and_then(View::free_variables)
    ),
    getter!(
        "locals",
        "The mapping of the locals of a module, a class body or exec(); else None.",
        |thread, this| view(thread, this).map(View::locals)
    ),
    getter!(
        "caller",
        "The code and the line of the frame that has called; (None, -1): no Python code has.",
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
        many "watch" "($self, callback, word=None, yields=False, resumes=False, /)",
        "Have callback(event) called when the frame is left, and when it yields and goes on.",
        watch
    ),
    method!(
        one "result" "($self, value, /)",
        "Give the call this value; nothing of it runs. For `return view.result(value)`.",
        result
    ),
    method!(
        none "not_below" "($self, /)",
        "Do not call the hook for the callees of this frame on this stack, until it is left.",
        |thread, this| limit(thread, this, FRAMEHOOK_NOT_BELOW)
    ),
    c::PyMethodDef {
        ml_name: c"only_below".as_ptr(),
        ml_meth: Some(plain_of_named(only_below)),
        ml_flags: (c::METH_FASTCALL | c::METH_KEYWORDS) as c_int,
        ml_doc: c"only_below($self, /, *, everywhere=False)\n--\n\n\
                  Call the hook for the callees of this frame, until it is left, though a scope around it\n\
                  excludes them. With everywhere, for nothing else in any other thread or greenlet."
            .as_ptr(),
    },
    NO_METHOD,
]);

static SLOTS: ForC<[c::PyType_Slot; 5]> = ForC::new([
    slot(c::Py_tp_dealloc, deallocate as *mut c_void),
    slot(c::Py_tp_getset, GETTERS.get().cast()),
    slot(c::Py_tp_methods, METHODS.get().cast()),
    doc(c"A frame that is about to run, as a frame hook sees it."),
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
